"""Problems under the serial law, read for planners, bounds and formulations."""

from .atoms import merged_tables
from .colocation import colocated
from .graph import Net, SerialGraph, read_serial
from .operators import HOST, Made, OperatorTables, operator_tables
from .order import chain_graph
from .places import Place, PlaceTables, read_places
from .windows import most_within

__all__ = [
    "HOST",
    "Made",
    "Net",
    "OperatorTables",
    "Place",
    "PlaceTables",
    "SerialGraph",
    "chain_graph",
    "colocated",
    "merged_tables",
    "most_within",
    "operator_tables",
    "read_places",
    "read_serial",
]
