"""The independent checker: the laws of docs/laws.md, one module per rule."""

from .chain import Link, critical_chain
from .explain import explain
from .replay import DeviceMemory, Holding, Replay
from .verify import Checker, replay, verify

__all__ = [
    "Checker",
    "DeviceMemory",
    "Holding",
    "Link",
    "Replay",
    "critical_chain",
    "explain",
    "replay",
    "verify",
]
