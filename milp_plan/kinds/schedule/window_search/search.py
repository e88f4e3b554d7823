"""Large-neighbourhood search from the best schedule, in all threads of the run.

Each round frees the operators that run around a critical task (:mod:`.windows`) and solves their
model for a better plan, which is timed in exact ticks and offered. HiGHS runs in a process per
thread, so threads share only the best plan, the size of windows and statistics.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from milp_plan.backends import Limits, Stop
from milp_plan.backends.highs import Session
from milp_plan.core import Plan, PlanningProblem, ceil_div
from milp_plan.core.amounts import time_text
from milp_plan.core.budget import Budget
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger

from ..planners.dispatch import dispatch_order
from ..planners.indexed import Indexed, indexed
from .model import Model
from .reading import read
from .scope import Scope
from .timeline import Timeline
from .windows import random_window

ROUND_S = 1.0
"""Most seconds of a model: many small models find more than few large ones."""

LEAST_S = 0.3
"""Seconds that must be left to begin a round."""

GRACE_S, LAST_GRACE_S = 5.0, 0.5
"""Seconds by which a solver may exceed its own limit, as it may have to start, and the run's."""

SMALLEST, FIRST, LARGEST = 4.0, 12.0, 80.0
"""Number of operators that a window frees: least, first and largest."""

GROWTH, SHRINKAGE = 1.1, 0.85
"""Factors on the size of windows after a model without a better plan, and after one that ran into
its limit."""

MAX_PROPOSALS = 20
"""Most windows proposed in a round until one may contain an improvement."""

MIN_IMPROVEMENT = 5e-4
"""Improvement that a round must reach, as a part of the value; at least a tick, but at most half
of the difference to the bound."""

PATIENCE = 10
"""Rounds without improvement after which the required improvement is halved."""

AMBITIOUS_SHARE = 0.3
"""Part of the rounds that require a larger improvement, which makes their models smaller."""

ROUNDS_WITH_NODE_LIMIT = 40
"""Rounds of a repeatable run whose settings name no number."""

MAX_FAILED_ROUNDS = 300
"""Consecutive rounds without improvement after which the search ends if windows cannot grow."""

MOST_FAILURES = 3
"""Consecutive crashes of the solver after which the search ends."""

HIGHS_OPTIONS: dict[str, bool | int | float | str] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""HiGHS's own heuristics solve models of the same size; diving in the tree finds as much."""

MIP_GAP = 1e-4
"""Relative gap at which HiGHS stops."""

CLAIM_TOLERANCE = 1e-5
"""Part of the horizon by which a plan may take longer than its model says: HiGHS's tolerances."""

LARGEST_SUM = 2**50
"""Largest sum of the durations of all operators and transfers, in units of a plan's arrays."""

PLANNER_NAME = "window search"
"""Planner of the plans, and phase of the run."""


def search_windows(
    ledger: Ledger[PlanningProblem, Plan],
    budget: Budget | None = None,
    max_failed_rounds: int | None = None,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Search near the best plan, until the budget ends or nothing is left to try.

    Parameters
    ----------
    ledger
        The run's ledger.
    budget
        A part of the run's budget; by default all that is left.
    max_failed_rounds
        Consecutive rounds without improvement after which the search ends, whether or not windows
        can grow.
    until
        Called before each round; returns whether to end the search.

    Raises
    ------
    KeyboardInterrupt
        The run was interrupted.
    """
    budget = budget or ledger.budget
    if ledger.plan is None or ledger.settings.rounds == 0 or budget.left_s < LEAST_S:
        return
    search = WindowSearch(ledger, budget, max_failed_rounds, until)
    with ledger.budget.phase(PLANNER_NAME):
        search.run(ledger.threads)


class WindowSearch:
    """The state that the threads of a search share."""

    def __init__(
        self,
        ledger: Ledger[PlanningProblem, Plan],
        budget: Budget,
        max_failed_rounds: int | None = None,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ledger, self.budget, self.max_failed_rounds = ledger, budget, max_failed_rounds
        self.until = until
        self.view = self._view()
        self.size = FIRST
        self.lock = RLock()
        self.stopped = False
        self.rounds = self.failed_rounds = self.failed = 0
        self.max_rounds = ledger.settings.rounds
        if self.max_rounds is None and ledger.repeatable:
            self.max_rounds = ROUNDS_WITH_NODE_LIMIT
        self._timeline: Timeline | None = None
        self.stats = ledger.details.setdefault(  # those of an earlier search in this run go on
            "window_search", {"rounds": 0, "models": 0, "improvements": 0}
        )

    def _view(self) -> Indexed:
        """Return the problem in units of time whose sums fit into arrays."""
        problem, plan = self.ledger.problem, self.ledger.plan
        assert plan is not None
        view = indexed(problem)
        most = sum(max(spot.duration for spot in spots) for spots in view.spots)
        most += sum((t.stop_ticks or 0) - (t.start_ticks or 0) for t in plan.transfers)
        return view if most <= LARGEST_SUM else Indexed(problem, ceil_div(most, LARGEST_SUM))

    def run(self, threads: int) -> None:
        """Search in this thread and in further ones."""
        threads = 1 if self.ledger.repeatable else max(1, threads)
        workers = [WindowThread(self, number) for number in range(threads)]
        others = [BackgroundThread(worker.run) for worker in workers[1:]]
        for thread in others:
            thread.start()
        try:
            workers[0].run()
        finally:
            self.stopped = True
            for worker in workers[1:]:
                worker.session.interrupt()
            for thread in others:
                thread.join(LAST_GRACE_S)
        for thread in others:
            thread.check()

    def finished(self) -> bool:
        """Return whether to end the search."""
        if self.stopped or self.ledger.settled or self.budget.left_s < LEAST_S or self.until():
            return True
        if self.failed >= MOST_FAILURES:
            return True
        if self.failed_rounds >= MAX_FAILED_ROUNDS and self.size >= LARGEST:
            return True
        if self.max_failed_rounds is not None and self.failed_rounds >= self.max_failed_rounds:
            return True
        return self.max_rounds is not None and self.rounds >= self.max_rounds

    def timeline(self) -> Timeline:
        """Return the best plan as arrays, which the first thread that needs them makes."""
        with self.lock:
            plan = self.ledger.plan
            assert plan is not None
            if self._timeline is None or self._timeline.plan is not plan:
                self._timeline = Timeline(self.view, plan)
            return self._timeline

    def begin_round(self) -> None:
        """Count a round."""
        with self.lock:
            self.rounds += 1
            self.stats["rounds"] += 1

    def end_round(self, better: bool) -> None:
        """Count an improvement, or a failed round."""
        with self.lock:
            self.stats["improvements"] += better
            self.failed_rounds = 0 if better else self.failed_rounds + 1

    def resize(self, factor: float) -> None:
        """Let windows free more or fewer operators."""
        with self.lock:
            self.size = min(LARGEST, max(SMALLEST, self.size * factor))


class WindowThread:
    """One thread of a search, with its own random choices and its own HiGHS process."""

    def __init__(self, search: WindowSearch, number: int) -> None:
        self.search, self.ledger = search, search.ledger
        self.seed = self.ledger.settings.seed + number
        self.rng = random.Random(f"{PLANNER_NAME} {self.seed}")
        self.session = Session()

    def run(self) -> None:
        """Run rounds until the search is over."""
        with self.session:
            while not self.search.finished():
                self.search.begin_round()
                self.search.end_round(self.round())

    def round(self) -> bool:
        """Solve one window and return whether it improved the best plan."""
        timeline = self.search.timeline()
        scope = self._scope(timeline)
        model = None if scope is None else Model(scope)
        if model is None or model.impossible:
            self.search.resize(GROWTH)
            return False
        ledger = self.ledger
        left = self.search.budget.left_s
        limit_s = left if ledger.repeatable else min(ROUND_S, left)
        limits = Limits(
            time_s=limit_s,
            nodes=ledger.settings.node_limit,
            gap=MIP_GAP,
            seed=self.seed,
            grace_s=min(GRACE_S, left - limit_s + LAST_GRACE_S),
        )
        report = self.session.solve(model.compiled(), limits, options=HIGHS_OPTIONS)
        if report.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        with self.search.lock:
            self.search.stats["models"] += 1
            self._count_failure(report.stop)
        if report.solution is not None:
            return self._offer_solution(model, report.solution)
        self.search.resize(GROWTH if report.stop is Stop.INFEASIBLE else SHRINKAGE)
        return False

    def _count_failure(self, stop: Stop) -> None:
        """Count consecutive crashes of the solver; another stop resets the count."""
        if stop in (Stop.KILLED, Stop.ERROR) and not self.search.stopped:
            self.search.failed += 1
            self.ledger.fail("the solver process was ended from outside or crashed")
        else:
            self.search.failed = 0

    def _scope(self, timeline: Timeline) -> Scope | None:
        """Return a window that may contain an improvement; ``None`` if none is found."""
        value = timeline.makespan
        bound = (self.ledger.lower or 0) // self.search.view.tick
        horizon = target_makespan(value, bound, self.search.failed_rounds)
        for _ in range(MAX_PROPOSALS):
            free, sites = random_window(timeline, self.rng, int(self.search.size))
            scope = Scope(timeline, free, horizon, sites=sites)
            if not scope.open:
                continue
            if self.rng.random() < AMBITIOUS_SHARE:
                earlier = horizon - int((horizon - scope.least) * self.rng.random() / 2)
                ambitious = Scope(timeline, free, earlier, sites=sites)
                scope = ambitious if ambitious.open else scope
            return scope
        return None

    def _offer_solution(self, model: Model, solution: NDArray[np.float64]) -> bool:
        """Offer a solution's plan, or the same placement in another order if memory is exceeded.

        Returns whether the plan is the best one.
        """
        window_plan = read(model, solution)
        plan, ledger = window_plan.plan, self.ledger
        if plan is None:
            return False
        tolerance = 1 + CLAIM_TOLERANCE * model.scope.horizon * model.view.tick
        if plan.stop_ticks > window_plan.claimed + tolerance:
            text = partial(time_text, ledger.problem.units)
            taken, claimed = text(plan.stop_ticks), text(round(window_plan.claimed))
            ledger.dispute(f"{PLANNER_NAME}: a plan of {taken} was claimed to take {claimed}")
        binds = model.view.memory_binds
        if ledger.offer(plan, PLANNER_NAME, PLANNER_NAME, must_be_valid=not binds):
            return True
        if not binds:
            return False
        runs = sorted(plan.runs, key=lambda r: (r.start_ticks or 0, r.stop_ticks or 0))
        position = model.view.position
        runs.sort(
            key=lambda r: (r.start_ticks, r.stop_ticks, position[model.view.index[r.operator]])
        )
        placements = {run.operator: run.placement for run in runs}
        packed = dispatch_order(ledger.problem, placements, [run.operator for run in runs])
        return ledger.offer(packed, PLANNER_NAME, PLANNER_NAME)


def target_makespan(value: int, bound: int, failed_rounds: int) -> int:
    """Return the makespan that a round must reach, from the best value and the bound.

    It grows after rounds without improvement, since the next improvement may be small.
    """
    step = MIN_IMPROVEMENT / 2 ** min(failed_rounds // PATIENCE, 60)
    return value - max(1, min(int(value * step), (value - bound) // 2))
