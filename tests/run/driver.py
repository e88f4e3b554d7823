"""The command with weak heuristics and bounds, and with Ctrl-C pressed where a test says.

``python -m tests.run.driver PHASE ARGUMENT...``; PHASE is ``anneal``, ``model``, ``polish`` or
``none``; ``strong`` is the command as it is.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from milp_plan.backends import highs
from milp_plan.cli.main import main
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing

from .cases import weaken

DRIVER = "tests.run.driver"


def press(*_: object) -> None:
    """Press Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def press_in_annealing(patch: pytest.MonkeyPatch) -> None:
    """When the search tells of its first plan."""
    tell = ParallelAnnealing._report

    def pressed(*given: Any) -> None:
        tell(*given)
        press()

    patch.setattr(ParallelAnnealing, "_report", pressed)


def press_in_model(patch: pytest.MonkeyPatch, number: int) -> None:
    """When the solver reports for the first time in the model of this number."""
    solve = highs.solve
    models: list[Any] = []

    def pressed(*given: Any, **named: Any) -> Any:
        models.append(given)
        if len(models) == number:
            named["on_progress"] = press
        return solve(*given, **named)

    patch.setattr(highs, "solve", pressed)


def press_near(patch: pytest.MonkeyPatch) -> None:
    """When the third small model is to be solved."""
    solve = highs.Session.solve
    models: list[Any] = []

    def pressed(*given: Any, **named: Any) -> Any:
        models.append(given)
        if len(models) == 3:
            press()
        return solve(*given, **named)

    patch.setattr(highs.Session, "solve", pressed)


def run(phase: str, arguments: list[str]) -> None:
    """Run the command."""
    patch = pytest.MonkeyPatch()
    if phase != "strong":
        weaken(patch)
    if phase == "anneal":
        press_in_annealing(patch)
    elif phase == "model":
        press_in_model(patch, 1)
    elif phase == "polish":
        press_near(patch)
    main(arguments)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
