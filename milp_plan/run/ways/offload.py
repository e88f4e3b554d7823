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

from collections.abc import Iterable
from dataclasses import replace

from milp_plan.bounds import Bound, all_bounds
from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.models.protocol import Guide, Neighbourhood
from milp_plan.pipeline import Precedence, read_offload, residence_bound
from milp_plan.planners.experts.offload import expert_plan, list_schedules

from ..ledger import Ledger
from ..model import Solver
from ..model_answer import ModelAnswer
from ..polish import polish
from ..way import Step, Way

HOSTS = "pipeline_offload"
"""The formulation."""

BACKBONE_S = 6.0
"""Seconds for one given order."""

FLOOR_S = 5.0
"""Seconds for the bounds that any problem has."""

STAY_SHARE, WHOLE_SHARE = 0.3, 0.2
"""Parts of the time limit for stages 1 and 5."""


SMALL = 48
"""Steps up to which the whole model comes before neighbourhoods."""

SMALL_SHARE = 0.5
"""Part of the time left for it."""


class OffloadWay(Way[PlanningProblem, Plan]):
    """The way for pipelines whose activations may leave to hosts.

    Attributes
    ----------
    stay
        Books of the plans without journeys.
    rule
        Value of the expert schedule, ``None`` where it found none.
    found_by
        Stage that found the best plan.
    """

    name = "offload"
    own_formulation = True
    uses = Way.uses | {"rounds", "hints"}

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        shop = read_offload(ledger.problem)
        assert not isinstance(shop, str), shop
        self.shop = shop
        self.stay = Ledger(ledger.kind, ledger.problem, ledger.settings, ledger.budget)
        self.rule: int | None = None
        self.found_by = ""
        self.seen: set[tuple[str, ...]] = set()
        self.relaxed: list[Plan] = []
        self.small = len(shop.steps) <= SMALL

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Orders, journeys and memory of a pipeline with hosts."""
        return HOSTS

    @classmethod
    def unsuited(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """What is no such pipeline, or one of which nothing may leave.

        That has the same form, without any choice of place; that alone makes no pipeline.
        """
        if repeatable:
            return "its stages end by the clock"
        found = read_offload(problem)
        if isinstance(found, str):
            return found
        return None if found.holds else "nothing may leave"

    def steps(self) -> Iterable[Step]:
        """The stages of the module's list."""
        travels = bool(self.ledger.solver.options.offload)
        return (
            Step("bounds", self.find_bounds, always=True),
            Step("list schedules", self.list_schedules, always=True),
            Step("stay", self.all_stay),
            Step("rule", self.ask_expert, lambda: travels),
            Step("backbones", self.backbones, lambda: travels),
            Step("whole, small", self.whole_small, lambda: travels and self.small),
            Step("near", self.near, lambda: travels or not self.stay.proved),
            Step("whole", self.whole, lambda: travels and not self.small),
        )

    def find_bounds(self) -> None:
        """Bounds that any problem has, and memory times how long it is held."""
        ledger = self.ledger
        with ledger.budget.phase("bounds"):
            part = ledger.budget.at_most("floor", FLOOR_S)
            for bound in all_bounds(ledger.problem, part):
                ledger.prove(bound)
            residence = self.residence(travel=True)
        ledger.prove(Bound("residence", residence, "memory times how long it is held"))
        for bound in ledger.bounds:  # on all plans, so on these as well
            self.stay.prove(bound)
        text = "memory times how long it is held where nothing travels"
        self.stay.prove(Bound("residence", self.residence(travel=False), text))

    # -- what is known -----------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """The best plan meets the bound, or the time is up."""
        return self.ledger.settled or self.ledger.budget.left_s < 1

    def seconds(self, most: float) -> float:
        """Seconds for a stage."""
        return max(0.5, min(most, self.ledger.budget.left_s))

    def offer(self, plan: Plan | None, stage: str) -> None:
        """Take a plan that passes the check and is better."""
        if self.ledger.offer(plan, f"{HOSTS}: {stage}", stage, sure=False):
            self.found_by = stage

    def believe(self, answer: ModelAnswer, stage: str, cutoff: int | None, *, whole: bool) -> None:
        """Take what a model found."""
        name = f"{HOSTS}: {stage}"
        if self.ledger.believe(answer, cutoff, whole=whole, by=name, phase=stage).better:
            self.found_by = stage

    def solve(
        self, solver: Solver, guide: Guide, seconds: float, start: Plan | None = None
    ) -> ModelAnswer:
        """One model."""
        ledger = self.ledger
        limits = ledger.limits(self.seconds(seconds), 1e-6)
        return solver.run(ledger.problem, guide, limits, ledger.budget, start=start)

    # -- stages ------------------------------------------------------------------------------

    def list_schedules(self) -> None:
        """List schedules with more and more in flight, of which memory was ignored."""
        with self.ledger.budget.phase("baselines"):
            self.relaxed = [
                self.shop.plan(starts, {}, "list") for starts in list_schedules(self.shop)
            ]
        for plan in self.relaxed:
            self.keep(plan)

    def keep(self, plan: Plan | None) -> None:
        """Take a plan in which nothing travels."""
        if self.stay.offer(plan, "stay", "stay", sure=False):
            self.offer(plan, "stay")

    def value_of(self, plan: Plan | None) -> int | None:
        """Value of a plan that passes the check."""
        verdict = None if plan is None else verify(self.ledger.problem, plan)
        return verdict.value if verdict is not None and verdict.ok else None

    def all_stay(self) -> None:
        """Stage 1: the best plan in which nothing travels."""
        ledger, known = self.ledger, self.stay.value
        solver = replace(ledger.solver, options=replace(ledger.solver.options, offload=False))
        share = STAY_SHARE if ledger.solver.options.offload else 1 - WHOLE_SHARE
        part = ledger.budget.part("stay", share)
        ledger.say("stay")
        guide = Guide(known, self.stay.lower)
        answer = self.solve(solver, guide, part.left_s, self.stay.plan)
        self.believe(answer, "stay", known, whole=False)
        # without journeys the model is whole: what it leaves out travels
        whole = replace(answer, proves=not solver.options.in_order)
        self.stay.believe(whole, known, by="stay", phase="stay")
        self.offer(self.stay.plan, "stay")
        ledger.baselines["nothing travels"] = self.stay.value
        self.describe()

    def describe(self) -> None:
        """For the record."""
        stay = self.stay
        self.ledger.details["offload"] = {
            "stay": stay.value,
            "stay_bound": stay.lower,
            "stay_infeasible": stay.infeasible_because is not None,
            "rule": self.rule,
            "found_by": self.found_by,
        }

    def residence(self, *, travel: bool) -> int:
        """Bound by what activations take of memory for how long; it is one on makespans alone."""
        if self.ledger.problem.objective is not Objective.MAKESPAN:
            return 0
        return residence_bound(self.shop, Precedence(self.shop, []), travel=travel)

    def ask_expert(self) -> None:
        """Stage 2."""
        with self.ledger.budget.phase("baselines"):
            plan = expert_plan(self.shop)
        self.rule = self.ledger.baselines["offload"] = self.value_of(plan)
        self.offer(plan, "rule")

    def backbones(self) -> None:
        """Stage 3: orders the caller knows, then those of list schedules."""
        problem = self.ledger.problem
        for plan in self.ledger.settings.hints:
            named = replace(plan, problem=problem.name, fingerprint=problem.fingerprint)
            self.offer(named, "given")
            self.backbone(named)
        if self.ledger.start is not None:
            self.backbone(self.ledger.start)
        half = self.ledger.budget.left_s / 2
        for plan in self.relaxed:
            if self.ledger.budget.left_s > half:
                self.backbone(plan)

    def backbone(self, starts: Plan) -> None:
        """Decide what travels for the order of a plan, if the plan's order is a new one."""
        order = tuple(run.operator for run in sorted(starts.runs, key=lambda r: r.start_ns or 0))
        wanted = set(self.shop.steps) | {hold.name for hold in self.shop.holds}
        if self.done or order in self.seen or set(order) != wanted:
            return
        self.seen.add(order)
        ledger = self.ledger
        free = frozenset(hold.name for hold in self.shop.holds)
        cutoff = None if ledger.value is None else ledger.value - 1
        guide = Guide(cutoff, ledger.lower, Neighbourhood(starts, free))
        answer = self.solve(ledger.solver, guide, BACKBONE_S)
        self.believe(answer, "backbone", cutoff, whole=False)

    def near(self) -> None:
        """Stage 4, until only some part of the time limit is left."""
        ledger = self.ledger
        rest = 0.0 if self.small or not ledger.solver.options.offload else WHOLE_SHARE
        if not self.done:
            seconds = ledger.budget.left_s - rest * ledger.budget.limit_s
            polish(ledger, ledger.budget.at_most("near", seconds))

    def whole_small(self) -> None:
        """The whole model of a small problem, before neighbourhoods."""
        self.whole(SMALL_SHARE)

    def whole(self, share: float = 1.0) -> None:
        """Stage 5: the whole model, asked for the best plan and a better bound."""
        ledger = self.ledger
        if self.done or ledger.infeasible_because is not None:
            return
        part = ledger.budget.part("whole", share, of_limit=False)
        ledger.say("model", f"{len(self.shop.steps)} steps, {len(self.shop.holds)} holds")
        guide = Guide(ledger.value, ledger.lower)
        answer = self.solve(ledger.solver, guide, part.left_s, ledger.plan)
        self.believe(answer, "model", ledger.value, whole=True)
        self.describe()
