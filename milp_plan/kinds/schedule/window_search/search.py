"""Large-neighbourhood search near a schedule, in as many threads as the run may use.

Each round frees a few operators around a critical moment, asks their model for something better,
times what it says in exact ticks and offers it. HiGHS runs in a process per thread, so threads
share nothing but the best plan and the credit of the kinds of neighbourhoods.
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
from .tape import Tape

ROUND_S = 1.0
"""Seconds of a model at most: many small ones find more than few large ones."""

LEAST_S = 0.3
"""Seconds without which no round is begun."""

GRACE_S, LAST_GRACE_S = 5.0, 0.5
"""Seconds that a solver may overrun its limit (it may have to start first), and the run's."""

MAX_PROPOSALS = 20
"""Neighbourhoods proposed until one may contain an improvement."""

MIN_IMPROVEMENT = 5e-4
"""Part of the value by which a round has to improve it, in ticks at least one, but by no more than
half of what is above the bound: nothing is below that."""

PATIENCE = 10
"""Rounds without success after which the required improvement is halved."""

AMBITIOUS_SHARE = 0.3
"""Part of the rounds that ask for more than a step: their models are smaller."""

ROUNDS_WITH_NODE_LIMIT = 40
MAX_FAILED_ROUNDS = 300
"""Rounds one after the other that find nothing while no neighbourhood can grow."""

MOST_FAILURES = 3
"""Solves one after the other that may fail."""

HIGHS_OPTIONS: dict[str, bool | int | float | str] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""HiGHS's own heuristics are models of the same size again; diving in the tree finds as much."""

MIP_GAP = 1e-4

LARGEST_SUM = 2**50
"""What all operators and transfers of a plan may last together, in units of its arrays."""

PLANNER_NAME = "window search"
"""Who made the plans."""


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
        Of the run.
    budget
        A part of the run's, if the search may not take all that is left.
    max_failed_rounds
        Rounds one after the other that may find nothing, whether or not neighbourhoods can grow.
    until
        Asked before each round: whether to end the search.

    Raises
    ------
    KeyboardInterrupt
        So is the run.
    """
    budget = budget or ledger.budget
    if ledger.plan is None or ledger.settings.rounds == 0 or budget.left_s < LEAST_S:
        return
    search = WindowSearch(ledger, budget, max_failed_rounds, until)
    with ledger.budget.phase("near"):
        search.run(ledger.threads)


class WindowSearch:
    """What the threads of a search share."""

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
        self.most = ledger.settings.rounds
        if self.most is None and ledger.repeatable:
            self.most = ROUNDS_WITH_NODE_LIMIT
        self._tape: Tape | None = None
        known = ledger.details.get("window_search")  # of an earlier search in this run
        self.before = known or {"rounds": 0, "improvements": {}, "models": {}}
        self.figures = ledger.details["window_search"] = {**self.before}

    def _view(self) -> Indexed:
        """The problem in units of time of which sums fit into arrays."""
        problem, plan = self.ledger.problem, self.ledger.plan
        assert plan is not None
        view = indexed(problem)
        most = sum(max(spot.duration for spot in spots) for spots in view.spots)
        most += sum((t.stop_ticks or 0) - (t.start_ticks or 0) for t in plan.transfers)
        return view if most <= LARGEST_SUM else Indexed(problem, ceil_div(most, LARGEST_SUM))

    def run(self, threads: int) -> None:
        """Search in this thread and in others beside it."""
        threads = 1 if self.ledger.repeatable else max(1, threads)
        workers = [Worker(self, number) for number in range(threads)]
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
        """Whether to stop."""
        if self.stopped or self.ledger.settled or self.budget.left_s < LEAST_S or self.until():
            return True
        if self.failed >= MOST_FAILURES:
            return True
        if self.failed_rounds >= MAX_FAILED_ROUNDS and self.arms.all_largest:
            return True
        if self.max_failed_rounds is not None and self.failed_rounds >= self.max_failed_rounds:
            return True
        return self.most is not None and self.rounds >= self.most

    def tape(self) -> Tape:
        """The best plan, read once by whoever sees it first."""
        with self.lock:
            plan = self.ledger.plan
            assert plan is not None
            if self._tape is None or self._tape.plan is not plan:
                self._tape = Tape(self.view, plan)
            return self._tape

    def choose(self, rng: random.Random) -> Arm:
        """Begin a round."""
        with self.lock:
            self.rounds += 1
            self.figures["rounds"] = self.before["rounds"] + self.rounds
            return self.arms.choose(rng)

    def end_round(self, arm: Arm, gain: float, seconds: float) -> None:
        """End a round; where runs are repeatable every round costs the same."""
        with self.lock:
            self.arms.settle(arm, gain, 1.0 if self.ledger.repeatable else seconds)
            self.failed_rounds = 0 if gain else self.failed_rounds + 1
            arms = self.arms.arms.values()
            models = {arm.name: arm.rounds for arm in arms if arm.rounds}
            made = {arm.name: arm.better for arm in arms if arm.better}
            self.figures["models"] = _sum(self.before["models"], models)
            self.figures["improvements"] = _sum(self.before["improvements"], made)


class Worker:
    """One thread of a search, with its own random choices and its own process of HiGHS."""

    def __init__(self, search: WindowSearch, number: int) -> None:
        self.search, self.ledger = search, search.ledger
        self.seed = self.ledger.settings.seed + number
        self.rng = random.Random(f"near {self.seed}")
        self.session = Session()

    def run(self) -> None:
        """Rounds until the search is over."""
        with self.session:
            while not self.search.finished():
                arm = self.search.choose(self.rng)
                began, value = now(), self.ledger.value
                assert value is not None
                better = self.round(arm)
                gain = (value - (self.ledger.value or value)) / max(1, value) if better else 0.0
                self.search.end_round(arm, gain, now() - began)

    def round(self, arm: Arm) -> bool:
        """Solve one neighbourhood; say whether it led to the best plan."""
        tape = self.search.tape()
        scope = self._scope(tape, arm)
        model = None if scope is None else Model(scope)
        if model is None or model.impossible:
            arm.grow()
            return False
        ledger = self.ledger
        left = self.search.budget.left_s
        most = left if ledger.repeatable else min(ROUND_S, left)
        limits = Limits(
            time_s=most,
            nodes=ledger.settings.node_limit,
            gap=MIP_GAP,
            seed=self.seed,
            grace_s=min(GRACE_S, left - most + LAST_GRACE_S),
        )
        report = self.session.solve(model.compiled(), limits, options=HIGHS_OPTIONS)
        if report.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        with self.search.lock:
            arm.rounds += 1
            self._account(report.stop)
        if report.solution is not None:
            return self._take(model, report.solution, arm)
        if report.stop is Stop.INFEASIBLE:
            arm.grow()
        else:
            arm.shrink()
        return False

    def _account(self, stop: Stop) -> None:
        if stop in (Stop.KILLED, Stop.ERROR) and not self.search.stopped:
            self.search.failed += 1
            self.ledger.fail("the solver process was ended from outside or crashed")
        else:
            self.search.failed = 0

    def _scope(self, tape: Tape, arm: Arm) -> Scope | None:
        """A neighbourhood with room for an improvement; ``None`` where none is found soon."""
        value = tape.makespan
        bound = (self.ledger.lower or 0) // self.search.view.tick
        horizon = target_makespan(value, bound, self.search.failed_rounds)
        for _ in range(MAX_PROPOSALS):
            choice = CHOOSERS[arm.name](tape, self.rng, int(arm.size))
            free, sites, order_only = choice
            scope = Scope(tape, free, horizon, sites=sites, order_only=order_only)
            if not scope.open:
                continue
            if self.rng.random() < AMBITIOUS_SHARE:
                asked = horizon - int((horizon - scope.least) * self.rng.random() / 2)
                bold = Scope(tape, free, asked, sites=sites, order_only=order_only)
                scope = bold if bold.open else scope
            return scope
        return None

    def _take(self, model: Model, solution: NDArray[np.float64], arm: Arm) -> bool:
        """Offer what a solution says; where memory does not admit it, in another order."""
        found = read(model, solution)
        plan, ledger = found.plan, self.ledger
        if plan is None:
            return False
        if plan.stop_ticks > found.claimed + 1 + 1e-5 * model.scope.horizon * model.view.tick:
            text = partial(time_text, ledger.problem.units)
            taken, claimed = text(plan.stop_ticks), text(round(found.claimed))
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
    """When a round has to end its plan, beside a plan of some value and a bound below it.

    Later after rounds in vain: what is left to find may be less than a step.
    """
    step = MIN_IMPROVEMENT / 2 ** min(failed_rounds // PATIENCE, 60)
    return value - max(1, min(int(value * step), (value - bound) // 2))


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Counts by name, added."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
