"""A first search: a few constructions, then annealing beside steps that use one core."""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.core import Plan, PlanningProblem
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger

from ..planners.search.parallel import ParallelAnnealing
from ..planners.search.states import State

FIRST_SCHEDULES = 40
"""Constructions before other plans."""

Take = Callable[[Plan], object]


class EarlySearch:
    """One search of a run, before and beside the others.

    Parameters
    ----------
    ledger
        Of the run.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger = ledger
        # No search over sequences: its loops would be loaded in a thread beside others.
        self._crew = ParallelAnnealing(ledger.problem, ledger.settings.seed + 1, orders=False)
        self._thread: BackgroundThread | None = None
        self._ended = False

    def construct(self, take: Take, share: float) -> None:
        """Schedule a few constructions in a part of the time, and hand over each that is better."""
        budget = self.ledger.budget
        with budget.phase("first constructions"):
            part = budget.part("first constructions", share)
            self._crew.construct(part, on_better=take, most=FIRST_SCHEDULES)

    @property
    def begun(self) -> bool:
        """Whether there is a plan to start from."""
        return bool(self._crew.starts)

    def begin(self, take: Take) -> None:
        """Anneal in a thread of its own until :meth:`end`; hand over better plans there."""
        self._crew.load()
        self._thread = BackgroundThread(lambda: self._search(take))
        self._thread.start()

    def _search(self, take: Take) -> None:
        """One cooling after the other, each from the best state."""
        cooling_s = self._crew.round_s
        while not self._ended and not self.ledger.done:
            cooling = self.ledger.budget.at_most("early search", cooling_s)
            self._crew.run(cooling, on_better=take)
            self._crew.begin_at(self._crew.best)

    def end(self) -> State | None:
        """End the search and return its best state, if it began; raise its error."""
        if self._thread is None:
            return None
        self._ended = True
        self._crew.stop()
        self._thread.join()
        self._thread.check()
        return self._crew.best
