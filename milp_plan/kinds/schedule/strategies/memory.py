"""Schedules in which operators may run again and values may wait on hosts.

A plan of the problem without either is a plan here as well. A search for one that begins with the
best schedule for any amount of memory gives up little of it: mostly it moves work to where memory
is left. Only then is it worth while to have something run again or wait on a host: schedules for
more memory than there is are made to fit (:mod:`.memory`), and what was decided
that way is kept while a search places it anew, runs again and journeys as operators of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import count

from milp_plan.core import Objective, OperatorRun, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.models.registry import shipped
from milp_plan.run.ledger import BOUND_SHARE, Ledger
from milp_plan.run.model import FormulationSolver, LazySolver
from milp_plan.run.settings import UNUSED_REASONS, Incumbent, Settings
from milp_plan.run.strategy import Step, Strategy

from ..bounds.catalogue import infeasibility
from ..planners.late import put_off
from ..planners.memory import Unrolled, balanced, fit, merged_plan
from ..planners.portfolio import OWN, best_plan
from ..planners.search.parallel import ParallelAnnealing
from .small_memory import is_small, offer_orders
from .two_stages import BASELINE_SHARE, TwoStages, offer_baselines

FREE_SHARE = 0.25
"""Part of the time left for schedules for any amount of memory, and then for fitting the best."""

PLAIN_SHARE = 0.4
"""Part of the time left then for plans that do without."""

MOVES = 1500
"""Moves of each search where a run must be repeatable."""

SCALES = (None, (3, 2), (5, 4), (11, 10))
"""Memory of the schedules to begin from, as a multiple of what there is; ``None``: no limit."""

CONSTRUCT_SHARE = 0.06
"""Part of a search's time for the constructions of each amount of memory."""

BALANCED_SHARE = 0.2
"""Part of the time left for stages that fill devices alike, and for placing the nearest anew."""

OF_TWO_STAGES = ("rounds", "target")
"""Settings that count where both stages plan by themselves."""

PARTS = (0.6, 0.8, 0.45)
"""Of the memory of all devices: in so much of it runs again are decided as for one device."""

MERGED_SHARE = 0.4
"""Part of the time left for each of these."""

MODEL_SHARE = 0.3
"""Part of the time left for the exact model, where there is one."""

TURNS = 4
"""Each turn has this part of the time; where a run must be repeatable there are so many."""

STRIDE = 1_000_003
"""Between the seeds of two turns."""

PLACE_SHARE = 0.25
"""Part of a turn for placing what is to fit."""

FIT_SHARE = 0.5
"""Part of the time of a device in the place of all for deciding what runs again."""


class MemoryStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for problems with recomputable operators or hosts."""

    name = "memory"
    uses = Strategy.uses | {"two_stage", *OF_TWO_STAGES}

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.problem, self.budget = ledger.problem, ledger.budget
        self.plain = ledger.problem.without_memory_saving
        self.fitted: dict[str, int] = {}
        self.free: Plan | None = None
        self.seed = ledger.settings.seed

    @classmethod
    def unused(
        cls, problem: PlanningProblem, settings: Settings, solver: FormulationSolver | None
    ) -> dict[str, str]:
        """Also what both stages alone use, where they do not plan by themselves."""
        why = super().unused(problem, settings, solver)
        if settings.two_stage:
            return why
        return why | {name: UNUSED_REASONS[name] for name in OF_TWO_STAGES}

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Slots of one device; where they are too many, or more devices, there is no model."""
        return "memory_slots"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Every problem in which each operator runs once, on devices alone."""
        return None if problem.allows_memory_saving else "nothing may run again or wait on a host"

    def steps(self) -> Iterable[Step]:
        """Proofs, plans that do without, then plans made to fit."""
        if self.ledger.settings.two_stage:
            return (
                *TwoStages(self.ledger_without()).steps(),
                Step(
                    "fit baselines",
                    self.fit_baselines,
                    lambda: self.unplanned,
                    run_after_time_limit=True,
                ),
            )
        return (
            Step("obstacle", self.ledger.prove_infeasible),
            Step("bounds", self.ledger.find_bounds, run_after_time_limit=True),
            Step("every order", lambda: offer_orders(self.ledger), lambda: is_small(self.ledger)),
            Step("baselines", self.find_baselines, run_after_time_limit=True),
            Step("model", self.ask_model, lambda: self.models),
            Step("free", self.search_free, lambda: self.searches and self.plainly),
            Step("fit free", self.fit_free, lambda: self.free is not None),
            Step("plain", self.search_plain, lambda: self.searches and self.plainly),
            Step("balanced", self.fit_balanced, lambda: self.searches and self.unplanned),
            Step(
                "fit baselines",
                self.fit_baselines,
                lambda: self.unplanned,
                run_after_time_limit=True,
            ),
            Step("merged", self.decide_merged, lambda: self.searches and self.unplanned),
            Step("free, late", self.search_free, lambda: self.searches and not self.plainly),
            Step("turns", self.take_turns, lambda: self.searches),
        )

    @property
    def unplanned(self) -> bool:
        """True while no plan is known."""
        return self.ledger.plan is None

    @cached_property
    def plainly(self) -> bool:
        """Whether there may be plans that do without."""
        if self.ledger.plan is not None and does_without(self.problem, self.ledger.plan):
            return True
        with self.budget.phase("bounds"):
            budget = self.budget.part("obstacle", BOUND_SHARE)
            return infeasibility(self.plain, budget) is None

    @property
    def searches(self) -> bool:
        """Whether there is a search for schedules with this objective."""
        times = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK)
        return self.problem.objective in times

    def find_baselines(self) -> None:
        """Offer the plans of every heuristic, on the problem without memory ways."""
        offer_baselines(self.ledger)

    def ledger_without(self) -> Ledger[PlanningProblem, Plan]:
        """Return a ledger of the problem without runs again and hosts: its plans are plans here."""
        ledger = self.ledger

        def take(found: Incumbent) -> None:
            plan = replace(found.plan, fingerprint=None, parent=None)
            ledger.offer(plan, found.planner, "plain", must_be_valid=False)

        made = Ledger(
            *(ledger.kind, self.plain, ledger.settings, self.budget),
            solver=LazySolver(shipped(OWN), ledger.settings.solver),
            on_incumbent=take,
        )
        made.details = ledger.details
        made.defects = ledger.defects
        return made

    def fit_balanced(self) -> None:
        """Stages that fill devices alike: the fastest that fits, or else those that nearly do."""
        share = self.budget.part("balanced", BALANCED_SHARE, of_limit=False)
        with self.budget.phase("balanced"):
            near = balanced(self.problem, share)
        self.ledger.details["balanced"] = [(one.excess, one.makespan) for one in near]
        if near and not near[0].excess:
            self.ledger.offer(near[0].plan, "balanced stages", "balanced")
        for one in near:
            if self.ledger.done or self.budget.over:
                return
            with self.budget.phase("rearrange"):
                share = self.budget.part("balanced", BALANCED_SHARE, of_limit=False)
                self.rearrange(one.plan, share)
            if not self.unplanned:
                return

    def fit_baselines(self) -> None:
        """The best heuristic's plan for each amount of memory."""
        with self.budget.phase("fit"):
            for name, roomy in roomier(self.plain):
                budget = self.budget.part("fit", BASELINE_SHARE, of_limit=False)
                plan, _ = best_plan(roomy, seed=self.ledger.settings.seed, budget=budget)
                if plan is not None:
                    self.take(plan, name, budget)

    @property
    def models(self) -> bool:
        """Whether there is a model, and a known value or none needed for its horizon."""
        again = any(operator.recomputable for operator in self.problem.graph.operators)
        if self.ledger.settings.two_stage is False:
            return False
        return self.ledger.formulation is not None and (self.ledger.plan is not None or not again)

    def ask_model(self) -> None:
        """Ask the exact model for anything better than the best plan: its slots are then few."""
        self.solve_within_share("model", MODEL_SHARE, better=True)

    def search_free(self) -> None:
        """A search for schedules for any amount of memory."""
        part = self.budget.part("free", FREE_SHARE, of_limit=False)
        with self.budget.phase("roomy"):
            crew = self.crew(dict(roomier(self.plain))["no limit"])
            crew.construct(part.part("construct", 0.5))
            self.free = self.searched(crew, part)

    def fit_free(self) -> None:
        """What was found for any amount of memory, made to fit where it is."""
        assert self.free is not None
        with self.budget.phase("fit"):
            part = self.budget.part("fit", FREE_SHARE, of_limit=False)
            self.take(self.free, "no limit", part)

    def search_plain(self) -> None:
        """A search for plans that do without."""
        part = self.budget.part("plain", PLAIN_SHARE, of_limit=False)
        with self.budget.phase("plain"):
            self.search(self.plain, part)

    def search(self, problem: PlanningProblem, budget: Budget) -> Plan | None:
        """Search a problem without memory ways from what is known; offer what keeps its limits."""
        crew = self.crew(problem)
        if not crew.starts:
            crew.construct(budget.part("construct", 0.5))
        return self.searched(crew, budget, self.offer_plain)

    def offer_plain(self, plan: Plan) -> None:
        """Offer a plan that does without."""
        self.ledger.offer(put_off(self.plain, plan), "search", "plain", must_be_valid=False)

    def crew(self, problem: PlanningProblem) -> ParallelAnnealing:
        """Searches on a problem without memory ways, from the best plans so far."""
        crew = ParallelAnnealing(problem, self.seed, self.ledger.threads)
        for plan in (self.free, self.ledger.plan):
            if plan is not None:
                crew.add(first_runs(plan))
        return crew

    def searched(
        self,
        crew: ParallelAnnealing,
        budget: Budget,
        take: Callable[[Plan], object] = lambda _plan: None,
    ) -> Plan | None:
        """Return the best plan of the searches; pass each better one to ``take``."""
        found: list[Plan] = []

        def hear(plan: Plan) -> None:
            found.append(plan)
            take(plan)

        crew.run(budget, self.moves(budget), hear)
        return found[-1] if found else None

    def take_turns(self) -> None:
        """Alternate between plans without either and schedules for more memory, made to fit."""
        amounts = list(roomier(self.plain))
        if self.plainly:
            amounts.insert(1, ("memory", self.plain))
        each = self.budget.left_s / TURNS
        for number in range(TURNS) if self.moves(self.budget) else count():
            if self.ledger.done:
                return
            self.seed = self.ledger.settings.seed + number * STRIDE
            name, problem = amounts[number % len(amounts)]
            self.take_turn(name, problem, self.budget.at_most("turn", each))

    def take_turn(self, name: str, problem: PlanningProblem, budget: Budget) -> None:
        """Search with an amount of memory, make it fit, place the decisions anew.

        Where that gave no plan, those of the best one.
        """
        if problem is self.plain:
            with self.budget.phase("plain"):
                self.search(problem, budget)
            return
        with self.budget.phase("roomy"):
            plan = self.search(problem, budget.part("place", PLACE_SHARE))
        fitted = None
        if plan is not None:
            with self.budget.phase("fit"):
                fitted = self.take(plan, name, budget)
        decided = fitted or self.ledger.plan
        if decided is not None:
            with self.budget.phase("rearrange"):
                self.rearrange(decided, budget)

    def decide_merged(self) -> None:
        """What runs again decided for one device with all memory, then placed."""
        for part in PARTS:
            if self.ledger.done:
                return
            with self.budget.phase("merged"):
                self.decide(part, self.budget.part("merged", MERGED_SHARE, of_limit=False))

    def decide(self, part: float, budget: Budget) -> None:
        """Decide and place in a part of that memory."""
        plan = merged_plan(self.problem, part, budget.part("decide", FIT_SHARE), self.seed)
        if plan is not None:
            self.rearrange(plan, budget)

    def rearrange(self, plan: Plan, budget: Budget) -> None:
        """Search with decisions as operators: from their plan, or from constructions."""
        unrolled = Unrolled(self.problem, plan)
        if unrolled.problem is None:
            return
        crew = ParallelAnnealing(unrolled.problem, self.seed, self.ledger.threads)
        if {name for run in plan.runs for name in run.devices} <= set(
            self.problem.cluster.device_names
        ):
            crew.add(unrolled.start())
        else:
            for _, roomy in roomier(unrolled.problem):
                crew.construct(budget.part("construct", CONSTRUCT_SHARE), roomy)
        fits = self.ledger.kind.verify(self.problem, plan).ok  # the first plan may not fit either

        def hear(found: Plan) -> None:
            self.ledger.offer(
                unrolled.restored(found), "rearranged", "rearrange", must_be_valid=fits
            )

        crew.run(budget, self.moves(budget), hear)

    def moves(self, budget: Budget) -> int | None:
        """Moves of a search where it must be repeatable or has no limit."""
        endless = self.ledger.repeatable or budget.limit_s == float("inf")
        return MOVES if endless else None

    def take(self, plan: Plan, name: str, budget: Budget) -> Plan | None:
        """Make a plan fit and offer it."""
        if self.ledger.value is not None and plan.stop_ticks >= self.ledger.value:
            return None
        fitting = fit(self.problem, plan, budget, self.seed)
        if fitting is None:
            return None
        self.fitted[name] = min(fitting.makespan, self.fitted.get(name, fitting.makespan))
        self.ledger.details["fitted"] = dict(self.fitted)
        fitted = fitting.plan()
        self.ledger.offer(fitted, "fitted", "fit")
        return fitted


def first_runs(plan: Plan) -> Plan:
    """Return the first run of each operator of a plan, without what is sent."""
    first: dict[str, OperatorRun] = {}
    for run in sorted(plan.runs, key=lambda run: run.start_ticks or 0):
        first.setdefault(run.operator, run)
    return Plan(plan.problem, tuple(first.values()))


def does_without(problem: PlanningProblem, plan: Plan) -> bool:
    """Whether each operator of a plan runs once and nothing goes by way of a host."""
    hosts = problem.cluster.hosts
    away = any(hosts & {*trip.source, *trip.target} for trip in plan.transfers)
    return len(plan.runs) == len(problem.graph.operators) and not away


def roomier(problem: PlanningProblem) -> Iterator[tuple[str, PlanningProblem]]:
    """Yield the problem with more memory, by name."""
    for scale in SCALES:
        if scale is None:
            free = dict.fromkeys(problem.cluster.device_names)
            yield "no limit", problem.variant(cluster=problem.cluster.with_memory(free))
        else:
            yield f"memory x {scale[0]}/{scale[1]}", problem.with_memory_scale(*scale)
