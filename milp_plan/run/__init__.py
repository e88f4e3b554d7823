"""Runs: a problem of any kind planned by the strategy that applies, and the record of it.

Names are loaded when they are first used: a process that only runs a heuristic needs no solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bounding import Bounds, find_bounds
    from .kind import Kind
    from .kinds import kind_of, kinds, read
    from .outcome import Outcome
    from .record import record_files, write_record
    from .settings import Incumbent, Progress, Settings
    from .solving import solve

_HOMES = {
    "Bounds": "bounding",
    "find_bounds": "bounding",
    "Incumbent": "settings",
    "Kind": "kind",
    "Outcome": "outcome",
    "Progress": "settings",
    "Settings": "settings",
    "kind_of": "kinds",
    "kinds": "kinds",
    "read": "kinds",
    "record_files": "record",
    "solve": "solving",
    "write_record": "record",
}

__all__ = [
    "Bounds",
    "Incumbent",
    "Kind",
    "Outcome",
    "Progress",
    "Settings",
    "find_bounds",
    "kind_of",
    "kinds",
    "read",
    "record_files",
    "solve",
    "write_record",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
