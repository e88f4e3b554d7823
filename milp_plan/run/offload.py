"""Planning a pipeline with offload lanes: what stays first, then what may leave.

The stages, each with the same formulation (``pipeline_offload``):

1. *stay*: nothing travels; from a list schedule under the memory limit;
2. *rule*: the expert schedule with selective offload (PipeOffload);
3. *backbone*: the order of steps is given, only what travels and when is decided. Orders are those
   of list schedules with more in flight than memory allows, and any the caller knows;
4. *near*: neighbourhoods of the best plan are searched;
5. *whole*: the whole model, from the best plan, for its bound; small ones come before 4.

The best plan never falls behind the one in which everything stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from milp_plan.api import Guide, Neighbourhood, Objective, Plan, PlanningProblem, read_offload
from milp_plan.backends import Limits, Stop
from milp_plan.bounds import Bound, best_bound
from milp_plan.check import verify
from milp_plan.core import UnsupportedProblemError
from milp_plan.core.budget import Budget
from milp_plan.models.registry import get
from milp_plan.pipeline import Precedence, residence_bound
from milp_plan.planners.experts.offload import expert_plan, list_schedules

from .choice import HOSTS
from .host import Host
from .ledger import Ledger
from .model import ModelAnswer, Solver, make_options
from .settings import Outcome, Settings

BACKBONE_S = 6.0
"""Seconds for one given order."""

FLOOR_S = 5.0
"""Seconds for the bounds that any problem has."""

STAY_SHARE, WHOLE_SHARE = 0.3, 0.2
"""Parts of the time limit for stages 1 and 5."""


@dataclass(frozen=True)
class Side:
    """What was found without journeys.

    Parameters
    ----------
    plan, value
        Best plan that passes the check, and its value; ``None`` if there is none.
    bound
        Proven lower bound on plans in which nothing travels.
    infeasible
        Proved that there is no such plan.
    """

    plan: Plan | None = None
    value: int | None = None
    bound: int = 0
    infeasible: bool = False

    @property
    def proved(self) -> bool:
        """Whether the plan is optimal."""
        return self.value is not None and self.value <= self.bound


SMALL = 48
"""Steps up to which the whole model comes before neighbourhoods."""

SMALL_SHARE = 0.5
"""Part of the time left for it."""


class OffloadRun:
    """One run on a pipeline with hosts.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    orders
        Plans of the same pipeline, under any memory limit and speed of lanes: taken where they
        are valid, and their orders are tried.

    Attributes
    ----------
    stay
        What was found without journeys.
    rule
        Value of the expert schedule, ``None`` where it found none.
    found_by
        Stage that found the best plan.

    Raises
    ------
    UnsupportedProblemError
        The problem has another form; says why.
    """

    def __init__(self, host: Host, orders: Sequence[Plan] = ()) -> None:
        shop = read_offload(host.problem)
        if isinstance(shop, str):
            raise UnsupportedProblemError(f"{host.problem.name}: {shop}")
        self.host, self.shop, self.orders = host, shop, orders
        self.stay = Side()
        self.rule: int | None = None
        self.found_by = ""
        self.seen: set[tuple[str, ...]] = set()

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        host = self.host
        with host.clock.phase("bounds"):
            host.raise_bound(best_bound(host.problem, Budget(self.seconds(FLOOR_S))))
            residence = self.residence(travel=True)
        host.raise_bound(Bound("residence", residence, "memory times how long it is held"))
        if host.settings.start is not None:
            host.check_start(host.settings.start)
        relaxed = self.list_schedules()
        if not host.solver.options.offload:
            self.all_stay(1 - WHOLE_SHARE)
            if not self.stay.proved:
                self.near(0.0)
            return
        self.all_stay(STAY_SHARE)
        self.ask_expert()
        self.backbones(relaxed)
        small = len(self.shop.steps) <= SMALL
        if small:
            self.whole(SMALL_SHARE * host.clock.left_s)
        self.near(0.0 if small else WHOLE_SHARE)
        if not small:
            self.whole(host.clock.left_s)

    # -- what is known -----------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """The best plan meets the bound, or the time is up."""
        return self.host.proved or self.host.clock.left_s < 1

    def seconds(self, most: float) -> float:
        """Seconds for a stage."""
        return max(0.5, min(most, self.host.clock.left_s))

    def offer(self, plan: Plan | None, stage: str) -> bool:
        """Take a plan that passes the check and is better."""
        better = self.host.offer(plan, f"{HOSTS}: {stage}", stage)
        if better:
            self.found_by = stage
        return better

    def solve(
        self, solver: Solver, guide: Guide, seconds: float, start: Plan | None = None
    ) -> ModelAnswer:
        """One model; a disputed answer is noted, and has neither plan nor bound."""
        host, settings = self.host, self.host.settings
        limits = Limits(self.seconds(seconds), seed=settings.seed, threads=settings.threads)
        answer = solver.run(host.problem, guide, limits, host.clock, start=start)
        if answer.report.stop is Stop.INTERRUPTED:
            self.offer(answer.plan, "interrupted")
            raise KeyboardInterrupt
        if answer.disputed:
            host.dispute(answer.disputed)
            return replace(answer, plan=None, value=None, bound=None)
        return answer

    # -- stages ------------------------------------------------------------------------------

    def list_schedules(self) -> list[Plan]:
        """List schedules with more and more in flight, of which memory was ignored."""
        with self.host.clock.phase("baselines"):
            plans = [self.shop.plan(starts, {}, "list") for starts in list_schedules(self.shop)]
        for plan in plans:
            self.keep(plan)
        return plans

    def keep(self, plan: Plan | None) -> None:
        """Take a plan in which nothing travels."""
        value = self.value_of(plan)
        if value is None or (self.stay.value is not None and self.stay.value <= value):
            return
        self.stay = replace(self.stay, plan=plan, value=value)
        self.offer(plan, "stay")

    def value_of(self, plan: Plan | None) -> int | None:
        """Value of a plan that passes the check."""
        verdict = None if plan is None else verify(self.host.problem, plan)
        return verdict.value if verdict is not None and verdict.ok else None

    def all_stay(self, share: float) -> None:
        """Stage 1: the best plan in which nothing travels."""
        host, known = self.host, self.stay.value
        solver = replace(host.solver, options=replace(host.solver.options, offload=False))
        floor = max(self.residence(travel=False), host.bound.value if host.bound else 0)
        limit_s = share * host.settings.time_limit_s
        host.say("stay")
        answer = self.solve(solver, Guide(known, floor), limit_s, self.stay.plan)
        self.keep(answer.plan)
        value, bound, infeasible = self.stay.value, floor, False
        if not host.solver.options.in_order:
            infeasible = answer.report.stop is Stop.INFEASIBLE and known is None
            bound = max(floor, answer.bound or 0)
        bound = bound if value is None else min(bound, value)
        self.stay = replace(self.stay, bound=bound, infeasible=infeasible)
        host.baselines["nothing travels"] = value

    def residence(self, *, travel: bool) -> int:
        """Bound by what activations take of memory for how long; it is one on makespans alone."""
        if self.host.problem.objective is not Objective.MAKESPAN:
            return 0
        return residence_bound(self.shop, Precedence(self.shop, []), travel=travel)

    def ask_expert(self) -> None:
        """Stage 2."""
        with self.host.clock.phase("baselines"):
            plan = expert_plan(self.shop)
        self.rule = self.host.baselines["offload"] = self.value_of(plan)
        self.offer(plan, "rule")

    def backbones(self, relaxed: Sequence[Plan]) -> None:
        """Stage 3: orders the caller knows, then those of list schedules."""
        problem = self.host.problem
        for plan in self.orders:
            named = replace(plan, problem=problem.name, fingerprint=problem.fingerprint)
            self.offer(named, "given")
            self.backbone(named)
        if self.host.settings.start is not None:
            self.backbone(self.host.settings.start)
        half = self.host.clock.left_s / 2
        for plan in relaxed:
            if self.host.clock.left_s > half:
                self.backbone(plan)

    def backbone(self, starts: Plan) -> None:
        """Decide what travels for the order of a plan, if the plan's order is a new one."""
        order = tuple(run.operator for run in sorted(starts.runs, key=lambda r: r.start_ns or 0))
        wanted = set(self.shop.steps) | {hold.name for hold in self.shop.holds}
        if self.done or order in self.seen or set(order) != wanted:
            return
        self.seen.add(order)
        host = self.host
        free = frozenset(hold.name for hold in self.shop.holds)
        cutoff = None if host.value is None else host.value - 1
        bound = host.bound.value if host.bound else None
        guide = Guide(cutoff, bound, Neighbourhood(starts, free))
        answer = self.solve(host.solver, guide, BACKBONE_S)
        self.offer(answer.plan, "backbone")

    def near(self, rest: float) -> None:
        """Stage 4, until only some part of the time limit is left."""
        host = self.host
        if not self.done:
            host.polish(host.clock.left_s - rest * host.settings.time_limit_s)

    def whole(self, limit_s: float) -> None:
        """Stage 5: the whole model, asked for the best plan and a better bound."""
        host = self.host
        if self.done or host.infeasible_because is not None:
            return
        host.say("model", f"{len(self.shop.steps)} steps, {len(self.shop.holds)} holds")
        guide = Guide(host.value, host.bound.value if host.bound else None)
        answer = self.solve(host.solver, guide, limit_s, host.plan)
        host.use_answer(answer, None if host.value is None else host.value - 1)


def plan_offload(
    problem: PlanningProblem, settings: Settings, orders: Sequence[Plan] = ()
) -> tuple[OffloadRun, Outcome]:
    """Plan a problem for which orders are known; what was found without journeys, and with them.

    Parameters
    ----------
    problem
        As :func:`~milp_plan.pipeline.offload.offload_problem` makes them.
    settings
        Time limit, seed, number of threads, a plan to start from.
    orders
        See :class:`OffloadRun`.

    Raises
    ------
    UnsupportedProblemError
        The problem has another form; says why.
    """
    found = get(HOSTS)
    assert found.formulation is not None
    options = make_options(found, settings.options)
    ledger = Ledger(problem, settings, found, Solver(found.formulation, options, settings.solver))
    run = OffloadRun(ledger, orders)
    try:
        run.stages()
        ledger.close()
    except KeyboardInterrupt:
        ledger.stop = Stop.INTERRUPTED
    return run, ledger.outcome()
