"""The independent checker: the laws of docs/laws.md, one module per rule."""

from .replay import DeviceMemory, Holding, Replay
from .serial import Load, Timeline
from .verify import Checker, replay, serial_loads, serial_timeline, verify

__all__ = [
    "Checker",
    "DeviceMemory",
    "Holding",
    "Load",
    "Replay",
    "Timeline",
    "replay",
    "serial_loads",
    "serial_timeline",
    "verify",
]
