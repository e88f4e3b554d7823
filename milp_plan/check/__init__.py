"""The independent checker: the laws of docs/laws.md, one module per rule."""

from .chain import Link, critical_chain
from .explain import explain
from .replay import DeviceMemory, Holding, Replay
from .serial import Load, Timeline
from .verify import Checker, replay, serial_loads, serial_timeline, verify

__all__ = [
    "Checker",
    "DeviceMemory",
    "Holding",
    "Link",
    "Load",
    "Replay",
    "Timeline",
    "critical_chain",
    "explain",
    "replay",
    "serial_loads",
    "serial_timeline",
    "verify",
]
