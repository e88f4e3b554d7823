"""Strategy for schedules in which operators may run again and values may wait on hosts.

A plan without either is valid here as well. A search for such a plan starts from the best schedule
for unlimited memory and mostly moves work to where memory is left. Then it considers
recomputation and offloading: schedules for more memory than there is are made to fit
(:mod:`milp_plan.kinds.schedule.planners.memory`). These decisions stay fixed while another search
places everything again, with second runs and journeys to hosts as operators of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import count

from milp_plan.core import Objective, OperatorRun, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import interpreted
from milp_plan.models.registry import shipped
from milp_plan.run.ledger import BOUND_SHARE, Ledger
from milp_plan.run.model import FormulationSolver, LazySolver
from milp_plan.run.settings import UNUSED_REASONS, Incumbent, Settings
from milp_plan.run.strategy import Step, Strategy

from ..bounds.catalogue import infeasibility
from ..loops import SEARCH
from ..planners.late import put_off
from ..planners.memory import Unrolled, balanced, fit, merged_plan
from ..planners.portfolio import OWN, best_plan
from ..planners.search.parallel import ParallelAnnealing
from .small_memory import is_small, offer_orders
from .two_stages import BASELINE_SHARE, TwoStages, offer_baselines

FREE_SHARE = 0.25
"""Part of the time left for schedules without a memory limit, and again for fitting the best."""

PLAIN_SHARE = 0.4
"""Part of the time left then for plans without recomputation and offloading."""

MOVES = 1500
"""Moves of each search in a repeatable run."""

SCALES = (None, (3, 2), (5, 4), (11, 10))
"""Memory of the schedules to start from, as a fraction of the real memory; ``None``: no limit."""

PYTHON_SHARE = 0.1
"""Part of the time limit for constructions by loops that are not compiled yet."""

CONSTRUCT_SHARE = 0.06
"""Part of a search's time for the constructions of each amount of memory."""

BALANCED_SHARE = 0.2
"""Part of the time left for stages that fill all devices to the same share, and for rearranging
each of those that nearly fit."""

TWO_STAGE_SETTINGS = ("rounds", "target")
"""Settings that have an effect only with ``two_stage``."""

MERGED_PARTS = (0.6, 0.8, 0.45)
"""Parts of the total memory with which recomputation is decided as if there were one device."""

MERGED_SHARE = 0.4
"""Part of the time left for each of :data:`MERGED_PARTS`."""

MODEL_SHARE = 0.3
"""Part of the time left for the exact model, where there is one."""

TURNS = 4
"""Number of turns among which the time is divided; a repeatable run ends after as many."""

SEED_STRIDE = 1_000_003
"""Difference between the seeds of two turns."""

PLACE_SHARE = 0.25
"""Part of a turn's time for the schedule that is then made to fit."""

DECIDE_SHARE = 0.5
"""Part of the time for each of :data:`MERGED_PARTS` that deciding what runs again may take."""


class MemoryStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for problems with recomputable operators or hosts."""

    name = "memory"
    uses = Strategy.uses | {"two_stage", *TWO_STAGE_SETTINGS}

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
        """Return why settings have no effect; some have one only with ``two_stage``."""
        why = super().unused(problem, settings, solver)
        if settings.two_stage:
            return why
        return why | {name: UNUSED_REASONS[name] for name in TWO_STAGE_SETTINGS}

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Return the model of slots on one device; with more devices or slots there is none."""
        return "memory_slots"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Return why the strategy does not apply: each operator runs once, on devices."""
        return None if problem.allows_memory_saving else "nothing may run again or wait on a host"

    def steps(self) -> Iterable[Step]:
        """Return the steps: proofs, plans without memory saving, then plans made to fit."""
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
            Step("bounds", self.find_bounds, run_after_time_limit=True),
            Step("every order", lambda: offer_orders(self.ledger), lambda: is_small(self.ledger)),
            Step("baselines", self.find_baselines, run_after_time_limit=True),
            *self.steps_while_compiling(),
            Step("model", self.ask_model, lambda: self.models),
            self.search_step("free", self.search_free, lambda: self.may_be_plain),
            Step("fit free", self.fit_free, lambda: self.free is not None),
            self.search_step("plain", self.search_plain, lambda: self.may_be_plain),
            self.search_step("balanced", self.fit_balanced, lambda: self.unplanned),
            Step(
                "fit baselines",
                self.fit_baselines,
                lambda: self.unplanned,
                run_after_time_limit=True,
            ),
            self.search_step("merged", self.decide_merged, lambda: self.unplanned),
            self.search_step("free, late", self.search_free, lambda: not self.may_be_plain),
            self.search_step("turns", self.take_turns),
        )

    def search_step(
        self, name: str, run: Callable[[], None], is_useful: Callable[[], bool] = lambda: True
    ) -> Step:
        """Return a step of compiled searches; other objectives have none and wait for no loop."""
        loops = SEARCH if self.searches else ()
        return Step(name, run, lambda: self.searches and is_useful(), loops=loops)

    def steps_while_compiling(self) -> Iterable[Step]:
        """Return steps that run only while the loops of searches are compiled: they need none."""
        return (
            Step(
                "constructions, while loops compile",
                self.construct,
                lambda: self.is_compiling(SEARCH) and self.may_be_plain,
            ),
            Step(
                "fit baselines, while loops compile",
                self.fit_baselines,
                lambda: self.is_compiling(SEARCH) and self.unplanned,
            ),
        )

    def find_bounds(self) -> None:
        """Prove bounds, without loops as long as those of searches are compiled."""
        if self.is_compiling(SEARCH):
            interpreted()(self.ledger.find_bounds)()
        else:
            self.ledger.find_bounds()

    @interpreted()
    def construct(self) -> None:
        """Offer constructions without recomputation and offloading, by loops that run as Python."""
        with self.budget.phase("construct"):
            part = self.budget.part("construct", PYTHON_SHARE)
            self.new_annealing(self.plain).construct(part, on_better=self.offer_plain)

    @property
    def unplanned(self) -> bool:
        """True while no plan is known."""
        return self.ledger.plan is None

    @cached_property
    def may_be_plain(self) -> bool:
        """Whether there may be plans without recomputation and offloading."""
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
        """Offer the plans of every heuristic, without recomputation and offloading."""
        offer_baselines(self.ledger)

    def ledger_without(self) -> Ledger[PlanningProblem, Plan]:
        """Return a ledger of the problem without recomputation and hosts; its plans go to ours."""
        ledger = self.ledger

        def offer(incumbent: Incumbent) -> None:
            plan = replace(incumbent.plan, fingerprint=None, parent=None)
            ledger.offer(plan, incumbent.planner, "plain", must_be_valid=False)

        plain_ledger = Ledger(
            *(ledger.kind, self.plain, ledger.settings, self.budget),
            solver=LazySolver(shipped(OWN), ledger.settings.solver),
            on_incumbent=offer,
        )
        plain_ledger.details = ledger.details
        plain_ledger.defects = ledger.defects
        return plain_ledger

    def fit_balanced(self) -> None:
        """Offer stages that fill devices alike: the fastest that fits; else rearrange the best."""
        part = self.budget.part("balanced", BALANCED_SHARE, of_limit=False)
        with self.budget.phase("balanced"):
            candidates = balanced(self.problem, part)
        self.ledger.details["balanced"] = [(one.excess, one.makespan) for one in candidates]
        if candidates and not candidates[0].excess:
            self.ledger.offer(candidates[0].plan, "balanced stages", "balanced")
        for candidate in candidates:
            if self.ledger.done or self.budget.over:
                return
            with self.budget.phase("rearrange"):
                part = self.budget.part("balanced", BALANCED_SHARE, of_limit=False)
                self.rearrange(candidate.plan, part)
            if not self.unplanned:
                return

    def fit_baselines(self) -> None:
        """Make the best heuristic's plan for each amount of memory fit."""
        with self.budget.phase("fit"):
            for name, roomy in roomier(self.plain):
                budget = self.budget.part("fit", BASELINE_SHARE, of_limit=False)
                plan, _ = best_plan(roomy, seed=self.ledger.settings.seed, budget=budget)
                if plan is not None:
                    self.offer_fitted(plan, name, budget)

    @property
    def models(self) -> bool:
        """Whether there is a model, and a known value if its horizon needs one."""
        again = any(operator.recomputable for operator in self.problem.graph.operators)
        if self.ledger.settings.two_stage is False:
            return False
        return self.ledger.formulation is not None and (self.ledger.plan is not None or not again)

    def ask_model(self) -> None:
        """Solve the exact model for plans better than the best one, which needs few slots."""
        self.solve_within_share("model", MODEL_SHARE, better=True)

    def search_free(self) -> None:
        """Search for schedules without a memory limit."""
        part = self.budget.part("free", FREE_SHARE, of_limit=False)
        with self.budget.phase("roomy"):
            annealing = self.new_annealing(dict(roomier(self.plain))["no limit"])
            annealing.construct(part.part("construct", 0.5))
            self.free = self.anneal(annealing, part)

    def fit_free(self) -> None:
        """Make the best schedule without a memory limit fit."""
        assert self.free is not None
        with self.budget.phase("fit"):
            part = self.budget.part("fit", FREE_SHARE, of_limit=False)
            self.offer_fitted(self.free, "no limit", part)

    def search_plain(self) -> None:
        """Search for plans without recomputation and offloading."""
        part = self.budget.part("plain", PLAIN_SHARE, of_limit=False)
        with self.budget.phase("plain"):
            self.search(self.plain, part)

    def search(self, problem: PlanningProblem, budget: Budget) -> Plan | None:
        """Search a problem without memory saving from the best plans; offer plans that fit."""
        annealing = self.new_annealing(problem)
        if not annealing.starts:
            annealing.construct(budget.part("construct", 0.5))
        return self.anneal(annealing, budget, self.offer_plain)

    def offer_plain(self, plan: Plan) -> None:
        """Offer a plan without recomputation and offloading."""
        self.ledger.offer(put_off(self.plain, plan), "search", "plain", must_be_valid=False)

    def new_annealing(self, problem: PlanningProblem) -> ParallelAnnealing:
        """Return a search of a problem without memory saving that starts from the best plans."""
        annealing = ParallelAnnealing(problem, self.seed, self.ledger.threads)
        for plan in (self.free, self.ledger.plan):
            if plan is not None:
                annealing.add(first_runs(plan))
        return annealing

    def anneal(
        self,
        annealing: ParallelAnnealing,
        budget: Budget,
        on_better: Callable[[Plan], object] = lambda _plan: None,
    ) -> Plan | None:
        """Return the best plan of a search; call ``on_better`` with each better plan."""
        best: list[Plan] = []

        def collect(plan: Plan) -> None:
            best.append(plan)
            on_better(plan)

        annealing.run(budget, self.moves(budget), collect)
        return best[-1] if best else None

    def take_turns(self) -> None:
        """Alternate between plans without memory saving and schedules that are made to fit."""
        amounts = list(roomier(self.plain))
        if self.may_be_plain:
            amounts.insert(1, ("memory", self.plain))
        each = self.budget.left_s / TURNS
        for number in range(TURNS) if self.moves(self.budget) else count():
            if self.ledger.done:
                return
            self.seed = self.ledger.settings.seed + number * SEED_STRIDE
            name, problem = amounts[number % len(amounts)]
            self.take_turn(name, problem, self.budget.at_most("turn", each))

    def take_turn(self, name: str, problem: PlanningProblem, budget: Budget) -> None:
        """Search with an amount of memory, make the schedule fit, and rearrange it.

        If there is no schedule that fits, the best known plan is rearranged.
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
                fitted = self.offer_fitted(plan, name, budget)
        decisions = fitted or self.ledger.plan
        if decisions is not None:
            with self.budget.phase("rearrange"):
                self.rearrange(decisions, budget)

    def decide_merged(self) -> None:
        """Decide what runs again as if one device had all memory, then place everything."""
        for part in MERGED_PARTS:
            if self.ledger.done:
                return
            with self.budget.phase("merged"):
                self.decide(part, self.budget.part("merged", MERGED_SHARE, of_limit=False))

    def decide(self, part: float, budget: Budget) -> None:
        """Decide what runs again within a part of the total memory, and place everything."""
        plan = merged_plan(self.problem, part, budget.part("decide", DECIDE_SHARE), self.seed)
        if plan is not None:
            self.rearrange(plan, budget)

    def rearrange(self, plan: Plan, budget: Budget) -> None:
        """Search for better places and orders of a plan whose memory decisions stay.

        Second runs and journeys to hosts are operators of their own. The search starts from the
        plan if all its devices exist, otherwise from constructions.
        """
        unrolled = Unrolled(self.problem, plan)
        if unrolled.problem is None:
            return
        annealing = ParallelAnnealing(unrolled.problem, self.seed, self.ledger.threads)
        if {name for run in plan.runs for name in run.devices} <= set(
            self.problem.cluster.device_names
        ):
            annealing.add(unrolled.start())
        else:
            for _, relaxed in roomier(unrolled.problem):
                annealing.construct(budget.part("construct", CONSTRUCT_SHARE), relaxed)
        fits = self.ledger.kind.verify(self.problem, plan).ok  # the first plan may not fit either

        def offer(better: Plan) -> None:
            self.ledger.offer(
                unrolled.restored(better), "rearranged", "rearrange", must_be_valid=fits
            )

        annealing.run(budget, self.moves(budget), offer)

    def moves(self, budget: Budget) -> int | None:
        """Return the moves of a search that is repeatable or has no time limit, else ``None``."""
        endless = self.ledger.repeatable or budget.limit_s == float("inf")
        return MOVES if endless else None

    def offer_fitted(self, plan: Plan, name: str, budget: Budget) -> Plan | None:
        """Make a plan fit, offer it and return it; ``None`` where it does not fit."""
        if self.ledger.value is not None and plan.stop_ticks >= self.ledger.value:
            return None
        fitting = fit(self.problem, plan, budget, self.seed)
        if fitting is None:
            return None
        best = self.fitted.get(name, fitting.makespan)
        self.fitted[name] = min(fitting.makespan, best)
        self.ledger.details["fitted"] = dict(self.fitted)
        fitted = fitting.plan()
        self.ledger.offer(fitted, "fitted", "fit")
        return fitted


def first_runs(plan: Plan) -> Plan:
    """Return a plan's first run of each operator, without transfers."""
    first: dict[str, OperatorRun] = {}
    for run in sorted(plan.runs, key=lambda run: run.start_ticks or 0):
        first.setdefault(run.operator, run)
    return Plan(plan.problem, tuple(first.values()))


def does_without(problem: PlanningProblem, plan: Plan) -> bool:
    """Return whether each operator of a plan runs once and nothing passes through a host."""
    hosts = problem.cluster.hosts
    away = any(hosts & {*trip.source, *trip.target} for trip in plan.transfers)
    return len(plan.runs) == len(problem.graph.operators) and not away


def roomier(problem: PlanningProblem) -> Iterator[tuple[str, PlanningProblem]]:
    """Yield variants of the problem with more memory, each with its name."""
    for scale in SCALES:
        if scale is None:
            unlimited = dict.fromkeys(problem.cluster.device_names)
            yield "no limit", problem.variant(cluster=problem.cluster.with_memory(unlimited))
        else:
            yield f"memory x {scale[0]}/{scale[1]}", problem.with_memory_scale(*scale)
