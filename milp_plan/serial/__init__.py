"""Problems under the serial law, read for planners, bounds and formulations."""

from .graph import Net, SerialGraph, read_serial
from .operators import HOST, Made, OperatorTables, operator_tables

__all__ = [
    "HOST",
    "Made",
    "Net",
    "OperatorTables",
    "SerialGraph",
    "operator_tables",
    "read_serial",
]
