"""Problems under the serial law, read for planners, bounds and formulations."""

from .graph import Net, SerialGraph, read_serial

__all__ = ["Net", "SerialGraph", "read_serial"]
