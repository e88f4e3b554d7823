"""Problems under the serial law, read for planners, bounds and formulations."""

from .graph import Net, SerialGraph, read_serial
from .operators import HOST, Made, OperatorTables, operator_tables
from .places import Place, PlaceTables, read_places

__all__ = [
    "HOST",
    "Made",
    "Net",
    "OperatorTables",
    "Place",
    "PlaceTables",
    "SerialGraph",
    "operator_tables",
    "read_places",
    "read_serial",
]
