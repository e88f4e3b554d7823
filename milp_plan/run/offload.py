"""Planning a pipeline with offload lanes: what stays first, then what may leave.

The stages, each with the same formulation (``pipeline_offload``):

1. *stay*: nothing travels; from a list schedule under the memory limit;
2. *rule*: the expert schedule with selective offload (PipeOffload);
3. *backbone*: the order of steps is given, only what travels and when is decided. Orders are those
   of list schedules with more in flight than memory allows, and any the caller knows;
4. *near*: neighbourhoods of the best plan are searched;
5. *whole*: the whole model, from the best plan, for its bound.

The best plan never falls behind the one in which everything stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from milp_plan.api import Guide, Neighbourhood, OffloadShop, Plan, PlanningProblem, read_offload
from milp_plan.backends import Limits, Stop
from milp_plan.bounds import best_bound
from milp_plan.check import verify
from milp_plan.core import UnsupportedProblemError
from milp_plan.formulation.registry import get
from milp_plan.pipeline import Precedence, residence_bound
from milp_plan.planners.experts.offload import expert_plan, list_schedules

from .model import ModelAnswer, Solver
from .polish import Search
from .settings import Clock, Settings

FORMULATION = "pipeline_offload"
BACKBONE_S = 6.0
"""Seconds for one given order."""


@dataclass(frozen=True)
class Side:
    """What was found with, or without, journeys.

    Parameters
    ----------
    plan, value
        Best plan that passes the check, and its value; ``None`` if there is none.
    bound
        Proven lower bound.
    infeasible
        Proved that there is no plan.
    """

    plan: Plan | None
    value: int | None
    bound: int
    infeasible: bool = False

    @property
    def proved(self) -> bool:
        """Whether the plan is optimal."""
        return self.value is not None and self.value <= self.bound


@dataclass(frozen=True)
class OffloadAnswer:
    """Both sides of one problem.

    Parameters
    ----------
    stay
        Nothing travels.
    travel
        Activations may travel.
    rule
        Value of the expert schedule, ``None`` where it found none.
    found_by
        Stage that found the plan of ``travel``.
    seconds
        For everything.
    """

    stay: Side
    travel: Side
    rule: int | None
    found_by: str
    seconds: float


@dataclass
class _Run:
    """State of one run."""

    problem: PlanningProblem
    shop: OffloadShop
    clock: Clock
    settings: Settings
    solver: Solver
    bound: int
    plan: Plan | None = None
    value: int | None = None
    found_by: str = ""
    seen: set[tuple[str, ...]] = field(default_factory=set)

    def offer(self, plan: Plan | None, stage: str) -> int | None:
        """Take a plan that passes the check and is better; return its value."""
        verdict = None if plan is None else verify(self.problem, plan)
        if verdict is None or not verdict.ok or verdict.value is None:
            return None
        if self.value is None or verdict.value < self.value:
            self.plan, self.value, self.found_by = plan, verdict.value, stage
        return verdict.value

    @property
    def done(self) -> bool:
        """The best plan meets the bound, or the time is up."""
        return self.clock.left_s < 1 or (self.value is not None and self.value <= self.bound)

    def solve(
        self, solver: Solver, guide: Guide, seconds: float, start: Plan | None
    ) -> ModelAnswer:
        limits = Limits(
            time_s=max(0.5, min(seconds, self.clock.left_s)),
            seed=self.settings.seed,
            threads=self.settings.threads,
        )
        return solver.run(self.problem, guide, limits, self.clock, start=start)

    def backbone(self, starts: Plan) -> None:
        """Decide what travels for the order of a plan, if the plan's order is a new one."""
        order = tuple(run.operator for run in sorted(starts.runs, key=lambda r: r.start_ns or 0))
        wanted = set(self.shop.steps) | {hold.name for hold in self.shop.holds}
        if self.done or order in self.seen or set(order) != wanted:
            return
        self.seen.add(order)
        free = frozenset(hold.name for hold in self.shop.holds)
        cutoff = None if self.value is None else self.value - 1
        guide = Guide(cutoff, self.bound, Neighbourhood(starts, free))
        answer = self.solve(self.solver, guide, BACKBONE_S, None)
        self.offer(answer.plan, "backbone")


def plan_offload(
    problem: PlanningProblem,
    settings: Settings,
    *,
    orders: Iterable[Plan] = (),
    stay_share: float = 0.3,
    whole_share: float = 0.2,
) -> OffloadAnswer:
    """Plan a problem with offload lanes.

    Parameters
    ----------
    problem
        As :func:`~milp_plan.pipeline.offload.offload_problem` makes them.
    settings
        Time limit, seed and threads count.
    orders
        Plans of the same pipeline, under any memory limit and speed of lanes: taken where they
        are valid, and their orders are tried.
    stay_share, whole_share
        Parts of the time for stages 1 and 5.

    Raises
    ------
    UnsupportedProblemError
        The problem has another form; says why.
    """
    shop = read_offload(problem)
    if isinstance(shop, str):
        raise UnsupportedProblemError(f"{problem.name}: {shop}")
    clock = Clock(settings.time_limit_s)
    formulation = get(FORMULATION).formulation
    assert formulation is not None
    solver = Solver(formulation, formulation.Options())
    order = Precedence(shop, [])
    floor = max(best_bound(problem, time_limit_s=5).value, residence_bound(shop, order))
    run = _Run(problem, shop, clock, settings, solver, floor)
    relaxed = _list_schedules(shop)
    for plan in relaxed:
        run.offer(plan, "stay")
    stay = _stay(run, stay_share * settings.time_limit_s)
    rule = run.offer(expert_plan(shop), "rule")
    for plan in orders:
        named = replace(plan, problem=problem.name, fingerprint=problem.fingerprint)
        run.offer(named, "given")
        run.backbone(named)
    half = clock.left_s / 2
    for plan in relaxed:
        if clock.left_s > half:
            run.backbone(plan)
    infeasible = _near_and_whole(run, whole_share * settings.time_limit_s)
    travel = Side(run.plan, run.value, run.bound, infeasible)
    return OffloadAnswer(stay, travel, rule, run.found_by, clock.elapsed_s)


def _list_schedules(shop: OffloadShop) -> list[Plan]:
    """List schedules with more and more in flight; memory is ignored."""
    return [shop.plan(starts, {}, "list") for starts in list_schedules(shop)]


def _stay(run: _Run, seconds: float) -> Side:
    """Stage 1: the best plan in which nothing travels."""
    start, floor = run.plan, run.bound
    known = run.value
    formulation = run.solver.formulation
    solver = Solver(formulation, formulation.Options(offload=False))
    order = Precedence(run.shop, [])
    floor = max(floor, residence_bound(run.shop, order, travel=False))
    answer = run.solve(solver, Guide(known, floor), seconds, start)
    value = run.offer(answer.plan, "stay")
    if value is None or (known is not None and known < value):
        value, plan = known, start
    else:
        plan = answer.plan
    stop = answer.report.stop
    infeasible = stop is Stop.INFEASIBLE and known is None
    bound = max(floor, answer.bound or 0) if not infeasible else floor
    return Side(plan, value, bound if value is None else min(bound, value), infeasible)


def _near_and_whole(run: _Run, whole_s: float) -> bool:
    """Stages 4 and 5; whether it was proved that there is no plan."""
    if run.plan is not None and run.value is not None and not run.done:
        budget = Clock(max(0.0, run.clock.left_s - whole_s))
        search = Search(run.problem, run.solver, run.settings, run.plan, run.value, run.bound)
        search.run(budget, lambda _: None)
        run.offer(search.plan, "near")
    if run.done:
        return False
    guide = Guide(run.value, run.bound)
    answer = run.solve(run.solver, guide, run.clock.left_s, run.plan)
    run.offer(answer.plan, "whole")
    if answer.report.stop is Stop.INFEASIBLE and run.value is None:
        return True
    run.bound = max(run.bound, answer.bound or 0)
    if run.value is not None:
        run.bound = min(run.bound, run.value)
    return False
