"""The strategy for schedules: bounds, heuristics, coarse problems, annealing, model, windows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from milp_plan.backends import Stop
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.compiled import interpreted
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver
from milp_plan.run.settings import Settings
from milp_plan.run.strategy import Step, Strategy

from ..loops import LIST_SCHEDULES, RUNS, SEARCH, WINDOWS
from ..planners.baselines import PLANNERS
from ..planners.portfolio import OWN, list_start
from .small_schedule import SmallSearch, is_tiny, offer_best_of_all
from .two_stages import TwoStages, offer_baselines, offer_gated

if TYPE_CHECKING:
    from ..planners.search.parallel import ParallelAnnealing
    from ..team import Team
    from .early_search import EarlySearch

BOUND_SHARE, BOUND_SHARE_WITH_SEARCH = 0.2, 0.35
"""Parts of the time limit that bounds may take: alone, and while a background thread searches for
plans. It includes the arrays over all pairs of operators; the best bounds of a graph of 2,000
operators come last."""

ANNEALING_SHARE, ANNEALING_SHARE_EXACT = 0.7, 0.1
"""Parts of the time left for annealing: where the model is heuristic, and where it is exact."""

ANNEALING_S_EACH = 0.04
"""Most seconds of annealing per operator where an exact model follows."""

FIRST_WINDOWS_SHARE, FIRST_WINDOWS_MAX_FAILED_ROUNDS = 0.15, 8
"""Limits of the window search that runs before an exact model: its part of the time left, and
consecutive rounds without improvement after which it ends."""

CONSTRUCTION_SHARE = 0.1
"""Part of the time left that constructions may take."""

ANNEALING_MOVES, ANNEALING_TASKS = 3000, 600_000
"""Moves of annealing in a repeatable run: the first number, or as many as schedule the second
number of operators if that is more."""

FIRST_CONSTRUCTION_SHARE = 0.1
"""Part of the time limit for constructions that run before bounds and list schedules."""

SMALL = 40
"""Most operators of a small problem: bounds and models come before constructions, and the model
before all searches where loops are not compiled yet."""

LOADING_S = 1.5
"""Seconds that loading a formulation takes: with less left, the model does not come first."""

DECODER_OBJECTIVES = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK)
"""Objectives that the compiled decoder evaluates."""

FIRST_BASELINES = ("single_device", "round_robin_blocks", "list_topological")
"""Baselines that run before everything else, until one returns a plan."""

SHARDING_FIRST = "sharding_first"
"""Baseline that chooses the cheapest sharding of each operator, then schedules. It runs first
where operators may run on several devices, so that no run is worse than it."""

ANNEALING = "annealing"
"""Planner whose plans are states that searches start from."""


class ScheduleStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for every schedule problem."""

    name = "schedule"
    uses = Strategy.uses | {"rounds", "target", "dask", "two_stage"}

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.problem, self.settings, self.budget = ledger.problem, ledger.settings, ledger.budget
        self.two_stages = TwoStages(ledger)
        self.team: Team | None = None
        self.annealing: ParallelAnnealing | None = None
        self.early: EarlySearch | None = None
        self.small = SmallSearch(ledger)
        self.bound_share = BOUND_SHARE
        self.constructed_value: int | None = None
        ledger.cores = os.cpu_count()

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Return the general formulation, or that of loads where plans have no schedule."""
        return OWN if problem.needs_schedule else "resource_load"

    @classmethod
    def formulation_always_applies(cls, problem: PlanningProblem) -> bool:
        """Return whether operators run once, on devices: the general formulation then applies."""
        return problem.needs_schedule and not problem.allows_memory_saving

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Return why the strategy does not apply: only problems under the serial law are left."""
        return None if problem.serial is None else "transfers are work of the devices"

    @classmethod
    def unused(
        cls,
        problem: PlanningProblem,
        settings: Settings,
        solver: FormulationSolver | None,
    ) -> dict[str, str]:
        """Return why settings have no effect, also because of the objective or formulation."""
        why = super().unused(problem, settings, solver)
        searched = problem.needs_schedule and problem.objective in DECODER_OBJECTIVES
        if settings.node_limit is not None:
            why["dask"] = "a search on a cluster depends on the clock; node_limit excludes that"
        elif not searched and "dask" not in why:
            why["dask"] = "only plans with times are searched there, for makespan, span, bottleneck"
        if solver is None or not problem.needs_schedule:
            why["target"] = "stage one makes a coarse model only of a schedule that a model plans"
        elif settings.only:
            why.pop("target", None)
        if settings.two_stage:
            why["dask"] = "with two_stage, this machine alone plans"
            if solver is None:
                why["two_stage"] = "no formulation is used, so there is no second stage"
        if problem.objective is not Objective.MAKESPAN and settings.rounds is not None:
            why["rounds"] = "there is no search near a plan for this objective"
        return why

    def steps(self) -> Iterable[Step]:
        """Return the steps; with a cluster, its workers search while this machine runs them."""
        if self.settings.two_stage:
            return self.two_stages.steps()
        uses_model, alone = self.uses_model, self.local_only
        has_windows = self.problem.objective is Objective.MAKESPAN
        return (
            Step("cluster", self.join_cluster, lambda: not alone),
            Step("sharding first", self.plan_sharding_first, lambda: self.uses_groups),
            Step(
                "first constructions",
                self.begin_early_search,
                lambda: alone and self.constructions_worthwhile,
            ),
            Step("background search", self.search_in_background, lambda: self.early is not None),
            Step(
                "first plan", self.find_first, lambda: self.no_plan_yet, run_after_time_limit=True
            ),
            Step("obstacle", self.ledger.prove_infeasible, lambda: self.no_plan_yet),
            *(self.uncompiled_steps() if self.uncompiled else self.compiled_steps()),
            Step(
                "windows, first",
                self.search_windows_first,
                lambda: alone and has_windows and uses_model and not self.annealing_replaces_model,
                loops=(WINDOWS,),
            ),
            Step(
                "model",
                self.two_stages.plan,
                lambda: uses_model and not (self.annealing_replaces_model or self.model_leads),
            ),
            Step("windows", self.search_windows, lambda: alone and has_windows, loops=(WINDOWS,)),
            Step("cluster's search", self.await_cluster, lambda: not alone),
        )

    def compiled_steps(self) -> Iterable[Step]:
        """Return the steps from bounds to annealing where compiled loops are on disk."""
        small, lists = self.small, Step("baselines", self.find_baselines, run_after_time_limit=True)
        leading = (lists, Step("enumeration", small.begin, lambda: small.ready))
        yield from leading if small.leads else ()
        yield Step("bounds", self.find_bounds, run_after_time_limit=True)
        local = self.local_only
        yield Step("constructions", self.construct, lambda: local and self.constructions_worthwhile)
        yield from () if small.leads else (lists,)
        yield self.enumeration_step()
        yield self.every_step()
        yield Step("exact coarsening", self.two_stages.choose_coarsening)
        yield Step(
            "coarse problems",
            self.two_stages.plan_briefly,
            lambda: (
                self.uses_model and self.annealing_replaces_model and not self.ledger.repeatable
            ),
            loops=(WINDOWS,),
        )
        yield self.annealing_step()

    def uncompiled_steps(self) -> Iterable[Step]:
        """Return the same steps where loops are compiled meanwhile: those without loops first."""
        lists = Step("baselines", self.find_baselines, run_after_time_limit=True)
        find_bounds = interpreted()(self.ledger.find_bounds)
        bounds = Step("bounds, first", find_bounds, run_after_time_limit=True)
        small = self.small
        enumeration = Step("enumeration, first", small.begin_interpreted, lambda: small.suits)
        if self.is_small:
            yield from (lists, bounds, self.every_step(), enumeration)
            yield from self.model_first() if self.model_leads else ()
            yield self.enumeration_step()
        else:
            construct = interpreted()(self.construct)
            yield Step("constructions", construct, lambda: self.local_only and self.anneals)
            yield from (bounds, lists, enumeration)
            free = self.local_only and self.settings.rounds is None
            if self.problem.objective is Objective.MAKESPAN and free:
                yield Step(
                    "windows, while loops compile",
                    self.search_windows_while_compiling,
                    lambda: self.search_is_compiling,
                    loops=(WINDOWS,),
                )
        yield Step("exact coarsening", self.two_stages.choose_coarsening)
        yield self.annealing_step()
        if not self.is_small:
            yield Step("bounds", self.find_bounds, loops=(RUNS,))
            yield self.enumeration_step()

    def enumeration_step(self) -> Step:
        """Return the step that enumerates placements and orders of few operators."""
        small = self.small
        return Step("enumeration", small.go, lambda: small.suits, loops=small.loops)

    def every_step(self) -> Step:
        """Return the step that enumerates every plan of a tiny problem."""
        best = partial(offer_best_of_all, self.ledger)
        return Step("every plan", best, partial(is_tiny, self.ledger))

    def annealing_step(self) -> Step:
        """Return the step of constructions and annealing."""
        loops = SEARCH if self.anneals else ()
        return Step("annealing", self.anneal, lambda: self.local_only and self.anneals, loops=loops)

    def find_bounds(self) -> None:
        """Prove every bound of the kind."""
        self.ledger.find_bounds(self.bound_share)

    @property
    def uses_model(self) -> bool:
        """Whether stage two is enabled and has a formulation."""
        return self.ledger.formulation is not None and self.settings.two_stage is not False

    @property
    def local_only(self) -> bool:
        """Whether this machine alone searches, without a cluster."""
        return self.settings.dask is None

    @property
    def compile_at_low_priority(self) -> bool:
        """Whether compiling waits for the model, which proves most problems of few operators."""
        return self.model_leads

    @cached_property
    def uncompiled(self) -> bool:
        """Whether compiled loops of the search are not on disk; repeatable runs do not look."""
        checked = self.problem.needs_schedule and not self.ledger.repeatable
        needed = [LIST_SCHEDULES, *self.small.loops]
        if self.problem.objective is Objective.MAKESPAN and not self.is_small:
            needed.append(RUNS)
        return checked and not all(part.on_disk for part in needed)

    @property
    def is_small(self) -> bool:
        """Whether bounds and models are likely to prove the optimum at once (:data:`SMALL`)."""
        return len(self.problem.graph.operators) <= SMALL

    @property
    def model_leads(self) -> bool:
        """Whether the model comes before all searches: few operators, loops not compiled yet."""
        return self.uncompiled and self.is_small and self.uses_model

    def model_first(self) -> Iterable[Step]:
        """Return the steps of the whole model, which needs no loops; it may take all the time."""
        return (
            Step("exact coarsening, first", self.two_stages.choose_coarsening),
            Step("model, first", self.two_stages.plan, lambda: self.budget.left_s >= LOADING_S),
        )

    def model_only_steps(self) -> Iterable[Step]:
        """Return the steps of the model alone; with ``target``, it plans the coarse problem."""
        if self.settings.target is None:
            return super().model_only_steps()
        return Step("coarsening", self.two_stages.choose_coarsening), Step(
            "model", self.two_stages.plan
        )

    def start_alone(self) -> tuple[Plan | None, int | None]:
        """Return the user's plan and its value, or those of a list schedule."""
        if self.ledger.plan is None and self.problem.needs_schedule:
            return list_start(self.problem) or (None, None)
        return super().start_alone()

    def run_steps(self) -> None:
        """Run the steps, then end the searches in the background."""
        try:
            super().run_steps()
        finally:
            if self.early is not None:
                self.early.end()
            if self.team is not None:
                self.team.close()

    def join_cluster(self) -> None:
        """Start the search on the workers of a cluster."""
        from ..team import Team

        self.team = Team(self.ledger, self.ledger.cluster)

    def await_cluster(self) -> None:
        """Wait for the workers; search here when none is left."""
        assert self.team is not None
        with self.budget.phase("cluster"):
            self.team.wait()
        if not self.team.deserted and not self.ledger.done:
            self.ledger.stop = Stop.TIME_LIMIT  # the last seconds are reserved for answers
        if self.team.deserted:
            self.ledger.say("cluster", f"{self.team.deserted}; the search goes on here")
            self.search()

    def search(self, *, construct: bool = True) -> None:
        """Search on this machine for the time left, without bounds and without a whole model."""
        self.two_stages.clusters = True
        self.anneal(construct=construct)
        if self.problem.objective is Objective.MAKESPAN:
            self.search_windows()

    @property
    def no_plan_yet(self) -> bool:
        """True while no plan is known."""
        return self.ledger.plan is None

    def begin_early_search(self) -> None:
        """Offer a few constructions: a good plan within a second or two."""
        from .early_search import EarlySearch

        self.early = EarlySearch(self.ledger)
        self.early.construct(self.offer_constructed, FIRST_CONSTRUCTION_SHARE)

    def search_in_background(self) -> None:
        """Anneal from these constructions in a thread while bounds and lists take one core."""
        if self.early is not None and self.early.has_start and self.ledger.threads > 1:
            self.early.begin(self.offer_annealed)
            self.bound_share = BOUND_SHARE_WITH_SEARCH

    def offer_constructed(self, plan: Plan) -> None:
        """Offer the plan of a construction."""
        from .compaction import tight

        self.ledger.offer(tight(self.problem, plan), "construction", "construct")

    def find_first(self) -> None:
        """Offer the plan of a heuristic without compiled loops, because compiling may take long."""
        with self.budget.phase("first plan"):
            next(filter(self.offer_baseline, FIRST_BASELINES), None)

    @property
    def uses_groups(self) -> bool:
        """Whether an operator may run on several devices at once."""
        return any(
            option.gang > 1
            for operator in self.problem.graph.operators
            for option in operator.options
        )

    def plan_sharding_first(self) -> None:
        """Offer a schedule of the cheapest sharding of each operator."""
        with self.budget.phase("first plan"):
            self.offer_baseline(SHARDING_FIRST)

    def offer_baseline(self, name: str) -> bool:
        """Offer the plan of a baseline and return whether it has one."""
        plan = PLANNERS[name](self.problem)
        if plan is None:
            return False
        self.ledger.offer(replace(plan, planner=name), name, "first plan")
        self.ledger.baselines[name] = self.ledger.reached.get(name)
        return True

    @property
    def constructions_worthwhile(self) -> bool:
        """Whether constructions come before list schedules.

        They do where their loops are compiled, but not for small problems, which bounds and
        models mostly solve at once, nor in repeatable runs, which must not depend on what is on
        disk.
        """
        useful = not self.is_small and self.anneals and not self.ledger.repeatable
        return useful and not self.uncompiled

    def construct(self) -> None:
        """Offer constructions before lists: a machine under load may have time for nothing else."""
        self.annealing = self.new_annealing()
        with self.budget.phase("construct"):
            part = self.budget.part("construct first", FIRST_CONSTRUCTION_SHARE)
            self.annealing.construct(part, on_better=self.offer_constructed)
        if self.annealing.starts and self.ledger.planner == "construction":
            self.constructed_value = self.ledger.value

    def new_annealing(self) -> ParallelAnnealing:
        """Return a search with as many threads as the run has."""
        from ..planners.search.parallel import ParallelAnnealing

        return ParallelAnnealing(self.problem, self.settings.seed, self.ledger.threads)

    def find_baselines(self) -> None:
        """Offer the plans of every heuristic."""
        offer_baselines(self.ledger)

    @property
    def anneals(self) -> bool:
        """Whether the compiled decoder evaluates the objective."""
        return self.problem.needs_schedule and self.problem.objective in DECODER_OBJECTIVES

    def anneal(self, *, construct: bool = True) -> None:
        """Construct plans, then search over places, options and priorities by annealing."""
        ledger = self.ledger
        if not self.anneals:
            return
        annealing = self.annealing or self.new_annealing()
        constructed = self.annealing is not None
        if construct or ledger.plan is None:
            with self.budget.phase("construct"):
                if not constructed:
                    part = self.budget.part("construct", CONSTRUCTION_SHARE, of_limit=False)
                    annealing.construct(part)
                offer_gated(ledger, CONSTRUCTION_SHARE)
        if self.early is not None and (state := self.early.end()) is not None:
            annealing.begin_later(state)
        self.early = None
        is_start = ledger.value == self.constructed_value or ledger.planner == ANNEALING
        if ledger.plan is not None and not is_start:
            annealing.add(ledger.plan)
        share = ANNEALING_SHARE if self.two_stages.clusters else self.exact_annealing_share
        part = self.budget.part("anneal", share, of_limit=False)
        endless = ledger.repeatable or part.limit_s == float("inf")
        with self.budget.phase("anneal"):
            moves = self.annealing_moves if endless else None
            annealing.run(part, moves, self.offer_annealed)
        schedules = annealing.scheduled
        ledger.details["annealing"] = {"starts": len(annealing.starts), "schedules": schedules}
        ledger.say("anneal", f"{schedules} schedules")

    @property
    def annealing_moves(self) -> int:
        """Moves of a search that no clock limits."""
        return max(ANNEALING_MOVES, ANNEALING_TASKS // len(self.problem.graph.operators))

    @property
    def exact_annealing_share(self) -> float:
        """Part of the time left for annealing before an exact model: little on small problems."""
        most = ANNEALING_S_EACH * len(self.problem.graph.operators)
        return min(ANNEALING_SHARE_EXACT, most / max(most, self.budget.left_s))

    def offer_annealed(self, plan: Plan) -> None:
        """Offer a plan of the annealing."""
        from .compaction import tight

        self.ledger.offer(tight(self.problem, plan), ANNEALING, "anneal")

    @property
    def annealing_replaces_model(self) -> bool:
        """Whether annealing replaces the model of a heuristically coarsened problem.

        It does unless the settings ask for that model: by a target, or by another formulation.
        """
        solver = self.ledger.formulation
        requested = self.settings.target is not None or solver is None or solver.found.name != OWN
        return self.two_stages.clusters and self.anneals and not requested

    def search_windows(self) -> None:
        """Solve small models around the best plan."""
        from ..window_search.search import search_windows

        search_windows(self.ledger)

    @property
    def search_is_compiling(self) -> bool:
        """Whether loops of annealing are being compiled in the background."""
        return self.is_compiling(SEARCH)

    def search_windows_while_compiling(self) -> None:
        """Solve small models around the best plan while the loops of annealing are compiled."""
        from ..window_search.search import search_windows

        search_windows(self.ledger, until=lambda: not self.search_is_compiling)

    def search_windows_first(self) -> None:
        """Solve a few small models before the whole one: they find more in the same time.

        Not where rounds or nodes are limited: the search after the model uses those.
        """
        counted = self.settings.rounds is not None or self.ledger.repeatable
        if self.two_stages.coarsening.exact and not counted:
            from ..window_search.search import search_windows

            part = self.budget.part("windows, first", FIRST_WINDOWS_SHARE, of_limit=False)
            search_windows(self.ledger, part, FIRST_WINDOWS_MAX_FAILED_ROUNDS)
