"""Large-neighbourhood search from the best schedule, in all threads of the run.

Each round frees a few operators around a critical moment and solves their model for a better plan,
which is timed in exact ticks and offered. HiGHS runs in a process per thread, so threads share only
the best plan and the statistics of the kinds of neighbourhoods.
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
from milp_plan.core.budget import Budget, now
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger

from ..planners.dispatch import dispatch_order
from ..planners.indexed import Indexed, indexed
from .arms import Arm, Arms
from .choosers import CHOOSERS
from .model import Model
from .reading import read
from .scope import Scope
from .timeline import Timeline

ROUND_S = 1.0
"""Most seconds of a model: many small models find more than few large ones."""

LEAST_S = 0.3
"""Seconds that must be left to begin a round."""

GRACE_S, LAST_GRACE_S = 5.0, 0.5
"""Seconds by which a solver may exceed its own limit, as it may have to start, and the run's."""

MAX_PROPOSALS = 20
"""Most neighbourhoods proposed in a round until one may contain an improvement."""

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
"""Consecutive rounds without improvement after which the search ends if no neighbourhood can
grow."""

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
"""Planner of the plans."""


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
        Consecutive rounds without improvement after which the search ends, whether or not
        neighbourhoods can grow.
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
    with ledger.budget.phase("near"):
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
        self.arms = Arms(CHOOSERS)
        self.lock = RLock()
        self.stopped = False
        self.rounds = self.failed_rounds = self.failed = 0
        self.max_rounds = ledger.settings.rounds
        if self.max_rounds is None and ledger.repeatable:
            self.max_rounds = ROUNDS_WITH_NODE_LIMIT
        self._timeline: Timeline | None = None
        earlier = ledger.details.get("window_search")  # statistics of an earlier search in this run
        self.previous_stats = earlier or {"rounds": 0, "improvements": {}, "models": {}}
        self.stats = ledger.details["window_search"] = {**self.previous_stats}

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
        if self.failed_rounds >= MAX_FAILED_ROUNDS and self.arms.all_largest:
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

    def begin_round(self, rng: random.Random) -> Arm:
        """Count a round and return its kind of neighbourhood."""
        with self.lock:
            self.rounds += 1
            self.stats["rounds"] = self.previous_stats["rounds"] + self.rounds
            return self.arms.choose(rng)

    def end_round(self, arm: Arm, gain: float, seconds: float) -> None:
        """Update the statistics after a round; in a repeatable run all rounds cost the same."""
        with self.lock:
            self.arms.update(arm, gain, 1.0 if self.ledger.repeatable else seconds)
            self.failed_rounds = 0 if gain else self.failed_rounds + 1
            arms = self.arms.arms.values()
            models = {arm.name: arm.rounds for arm in arms if arm.rounds}
            improvements = {arm.name: arm.better for arm in arms if arm.better}
            previous = self.previous_stats
            self.stats["models"] = _add_counts(previous["models"], models)
            self.stats["improvements"] = _add_counts(previous["improvements"], improvements)


class WindowThread:
    """One thread of a search, with its own random choices and its own HiGHS process."""

    def __init__(self, search: WindowSearch, number: int) -> None:
        self.search, self.ledger = search, search.ledger
        self.seed = self.ledger.settings.seed + number
        self.rng = random.Random(f"near {self.seed}")
        self.session = Session()

    def run(self) -> None:
        """Run rounds until the search is over."""
        with self.session:
            while not self.search.finished():
                arm = self.search.begin_round(self.rng)
                began, value = now(), self.ledger.value
                assert value is not None
                better = self.round(arm)
                gain = (value - (self.ledger.value or value)) / max(1, value) if better else 0.0
                self.search.end_round(arm, gain, now() - began)

    def round(self, arm: Arm) -> bool:
        """Solve one neighbourhood and return whether it improved the best plan."""
        timeline = self.search.timeline()
        scope = self._scope(timeline, arm)
        model = None if scope is None else Model(scope)
        if model is None or model.impossible:
            arm.grow()
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
            arm.rounds += 1
            self._count_failure(report.stop)
        if report.solution is not None:
            return self._offer_solution(model, report.solution, arm)
        if report.stop is Stop.INFEASIBLE:
            arm.grow()
        else:
            arm.shrink()
        return False

    def _count_failure(self, stop: Stop) -> None:
        """Count consecutive crashes of the solver; another stop resets the count."""
        if stop in (Stop.KILLED, Stop.ERROR) and not self.search.stopped:
            self.search.failed += 1
            self.ledger.fail("the solver process was ended from outside or crashed")
        else:
            self.search.failed = 0

    def _scope(self, timeline: Timeline, arm: Arm) -> Scope | None:
        """Return a neighbourhood that may contain an improvement; ``None`` if none is found."""
        value = timeline.makespan
        bound = (self.ledger.lower or 0) // self.search.view.tick
        horizon = target_makespan(value, bound, self.search.failed_rounds)
        for _ in range(MAX_PROPOSALS):
            choice = CHOOSERS[arm.name](timeline, self.rng, int(arm.size))
            free, sites, order_only = choice
            scope = Scope(timeline, free, horizon, sites=sites, order_only=order_only)
            if not scope.open:
                continue
            if self.rng.random() < AMBITIOUS_SHARE:
                earlier = horizon - int((horizon - scope.least) * self.rng.random() / 2)
                ambitious = Scope(timeline, free, earlier, sites=sites, order_only=order_only)
                scope = ambitious if ambitious.open else scope
            return scope
        return None

    def _offer_solution(self, model: Model, solution: NDArray[np.float64], arm: Arm) -> bool:
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
            ledger.dispute(f"{PLANNER_NAME}: a plan of {taken} was said to take {claimed}")
        phase = f"near: {arm.name}"
        binds = model.view.memory_binds
        if ledger.offer(plan, PLANNER_NAME, phase, must_be_valid=not binds):
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
        return ledger.offer(packed, PLANNER_NAME, phase)


def target_makespan(value: int, bound: int, failed_rounds: int) -> int:
    """Return the makespan that a round must reach, from the best value and the bound.

    It grows after rounds without improvement, since the next improvement may be small.
    """
    step = MIN_IMPROVEMENT / 2 ** min(failed_rounds // PATIENCE, 60)
    return value - max(1, min(int(value * step), (value - bound) // 2))


def _add_counts(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Return the sums of two tables of counts."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
