"""A first search: a few constructions, then annealing in the background of one-core steps."""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.core import Plan, PlanningProblem
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger

from ..planners.search.parallel import ParallelAnnealing
from ..planners.search.states import State

FIRST_SCHEDULES = 40
"""Most schedules of the first constructions."""

OnBetter = Callable[[Plan], object]


class EarlySearch:
    """Constructions at the start of a run, then annealing in a background thread.

    Parameters
    ----------
    ledger
        The run's ledger.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger = ledger
        self._annealing = ParallelAnnealing(ledger.problem, ledger.settings.seed + 1)
        self._thread: BackgroundThread | None = None
        self._ended = False

    def construct(self, on_better: OnBetter, share: float) -> None:
        """Schedule a few constructions in a part of the time; pass on each better plan."""
        budget = self.ledger.budget
        with budget.phase("first constructions"):
            part = budget.part("first constructions", share)
            self._annealing.construct(part, on_better=on_better, most=FIRST_SCHEDULES)

    @property
    def has_start(self) -> bool:
        """Whether there is a plan to start from."""
        return bool(self._annealing.starts)

    def begin(self, on_better: OnBetter) -> None:
        """Anneal in a background thread until :meth:`end`; it passes on better plans."""
        self._annealing.load()
        self._thread = BackgroundThread(lambda: self._search(on_better))
        self._thread.start()

    def _search(self, on_better: OnBetter) -> None:
        """Anneal in rounds, each from the best state."""
        round_s = self._annealing.round_s
        while not self._ended and not self.ledger.done:
            budget = self.ledger.budget.at_most("early search", round_s)
            self._annealing.run(budget, on_better=on_better)
            self._annealing.begin_at(self._annealing.best)

    def end(self) -> State | None:
        """End the search and return its best state if it has begun; raise its error."""
        if self._thread is None:
            return None
        self._ended = True
        self._annealing.stop()
        self._thread.join()
        self._thread.check()
        return self._annealing.best
