"""How commands show progress."""

from __future__ import annotations

from typing import Any

from milp_plan.face.progress import Display, chosen

from .output import note


def display(problem: Any, *, quiet: bool) -> Display:
    """Choose how progress is shown: not at all, on the terminal, or as a log."""
    return chosen(problem, not quiet, note)
