"""The product without a piece of the search for schedules: ``without.py PIECE ARGUMENTS``.

The arguments are those of ``milp-plan``. The pieces are the keys of :data:`PIECES`; each is left
out by replacing the function that begins it. :mod:`ablation` runs this program for variants that
name a piece.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from milp_plan.cli.program import run
from milp_plan.kinds.schedule.planners.constructions import gates, portfolio
from milp_plan.kinds.schedule.planners.search import annealing, parallel
from milp_plan.kinds.schedule.strategies import (
    coarse_series,
    schedule,
    small_schedule,
)
from milp_plan.kinds.schedule.window_search import search


def nothing(*_given: Any, **_options: Any) -> None:
    """Do nothing."""


def no(*_given: Any, **_options: Any) -> bool:
    """Say that a piece does not apply."""
    return False


def without_windows() -> None:
    """No small models near a plan, neither of the problem nor of coarse ones: annealing goes on."""
    schedule.ANNEALING_SHARE = 1.0
    search.search_windows = coarse_series.search_windows = nothing


def without_family(name: str) -> None:
    """No constructions of one family."""
    every = portfolio.families

    def fewer(*given: Any) -> list[Any]:
        return [family for family in every(*given) if type(family).__name__ != name]

    portfolio.families = fewer


def without_constructions() -> None:
    """No constructions: searches begin at list schedules."""
    portfolio.families = lambda *_given: []
    gates.best_gated = nothing


def only_report(
    self: parallel.ParallelAnnealing, _budget: Any, _moves: Any = None, on_better: Any = nothing
) -> None:
    """Report the best start of the searches."""
    if self.starts:
        self._report(self.starts[0], on_better)


def without_learning() -> None:
    """No clause learning."""
    small_schedule.ClauseLearning.suits = classmethod(no)


def without_enumeration() -> None:
    """No enumeration of placements and orders, nor of every plan."""
    small_schedule.is_small = no


def replaced(owner: Any, name: str, by: Any) -> None:
    """Replace a member of a class or a module."""
    setattr(owner, name, by)


def hard_annealing() -> None:
    """No rounds that count memory as a penalty."""
    begin = annealing.Annealing.begin

    def hard(self: Any, state: Any, **_soft: bool) -> bool:
        return begin(self, state)

    annealing.Annealing.begin = hard


Piece = Callable[[], None]
PIECES: dict[str, Piece] = {
    "constructions": without_constructions,
    "gated constructions": partial(replaced, gates, "best_gated", nothing),
    "annealing": partial(replaced, parallel.ParallelAnnealing, "run", only_report),
    "soft memory": hard_annealing,
    "window search": without_windows,
    "clause learning": without_learning,
    "enumeration": without_enumeration,
    "every plan": partial(replaced, schedule, "is_tiny", no),
}


if __name__ == "__main__":
    PIECES[sys.argv.pop(1)]()
    run()
