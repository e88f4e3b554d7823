"""The two stages put together, and the record of each run.

Names are loaded when they are first used: a process that only runs a heuristic needs no solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline import solve
    from .record import record_files, versions, write_record
    from .settings import Outcome, Progress, Settings

_HOMES = {
    "solve": "pipeline",
    "record_files": "record",
    "versions": "record",
    "write_record": "record",
    "Outcome": "settings",
    "Progress": "settings",
    "Settings": "settings",
}

__all__ = ["Outcome", "Progress", "Settings", "record_files", "solve", "versions", "write_record"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
