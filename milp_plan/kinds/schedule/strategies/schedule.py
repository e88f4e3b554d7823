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
from milp_plan.run.loop_parts import LoopPart
from milp_plan.run.model import FormulationSolver
from milp_plan.run.settings import Settings
from milp_plan.run.strategy import Step, Strategy

from ..loops import LIST_SCHEDULES, MOVES, NEAR, RUNS, SEQUENCES
from ..planners.baselines import PLANNERS
from ..planners.portfolio import OWN, list_start
from .small_schedule import SmallSearch, is_tiny, offer_best_of_all
from .two_stages import TwoStages, offer_baselines

if TYPE_CHECKING:
    from ..planners.search.parallel import ParallelAnnealing
    from ..team import Team
    from .early_search import EarlySearch

BOUND_SHARE, BOUND_SHARE_BESIDE = 0.2, 0.35
"""Part of the time limit that bounds may take, and where plans are searched beside them: the best
of a graph of 2,000 operators come last. Arrays over all pairs are made in it."""

ANNEALING_SHARE, ANNEALING_SHARE_EXACT = 0.7, 0.1
"""Parts of the time left for annealing: where the model is heuristic, and where it is exact."""

ANNEALING_S_EACH = 0.04
"""Seconds of annealing for each operator, at most, where a model that proves follows."""

NEAR_SHARE, NEAR_FAILED_ROUNDS = 0.15, 8
"""Part of the time left for windows before a model that proves, and rounds in vain until it."""

CONSTRUCTION_SHARE = 0.1
"""Part of the time left that constructions may take."""

ANNEALING_MOVES, ANNEALING_TASKS = 3000, 600_000
"""Moves of annealing where a run must be repeatable: so many, or more of them where there are few
operators to be scheduled by each."""

FIRST_SHARE = 0.1
"""Part of the time limit that constructions may take before other plans."""

FEW = 40
"""Operators up to which constructions wait."""

LOADING_S = 1.5
"""Seconds that loading a formulation takes: with less left, no model is begun before the search."""

SEARCHED = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK)
"""Objectives that the compiled decoder can search."""

FIRST = ("single_device", "round_robin_blocks", "list_topological")
"""Baselines that run before anything else, until one has a plan."""

STRATEGIES = "sharding_first"
"""Runs before them, so that a run is never worse than strategies first."""

ANNEALING = "annealing"
"""Planner whose plans are states that searches start from."""


class ScheduleStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for every schedule problem."""

    name = "schedule"
    uses = Strategy.uses | {"rounds", "target", "dask", "two_stage"}

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.problem, self.settings, self.budget = ledger.problem, ledger.settings, ledger.budget
        self.stages = TwoStages(ledger)
        self.team: Team | None = None
        self.crew: ParallelAnnealing | None = None
        self.early: EarlySearch | None = None
        self.small = SmallSearch(ledger)
        self.bound_share = BOUND_SHARE
        self.constructed: int | None = None
        ledger.cores = os.cpu_count()

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """The general formulation; loads alone where plans have no schedule."""
        return OWN if problem.needs_schedule else "resource_load"

    @classmethod
    def formulation_always_applies(cls, problem: PlanningProblem) -> bool:
        """The general formulation takes every problem whose operators run once, on devices."""
        return problem.needs_schedule and not problem.allows_memory_saving

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Every problem but those under the serial law."""
        return None if problem.serial is None else "transfers are work of the devices"

    @classmethod
    def unused(
        cls,
        problem: PlanningProblem,
        settings: Settings,
        solver: FormulationSolver | None,
    ) -> dict[str, str]:
        """Return why settings have no effect, by objective and formulation as well."""
        why = super().unused(problem, settings, solver)
        searched = problem.needs_schedule and problem.objective in SEARCHED
        if settings.node_limit is not None:
            why["dask"] = "a search on a cluster depends on the clock, a run with node_limit not"
        elif not searched and "dask" not in why:
            why["dask"] = "only plans with times are searched there, for makespan, span, bottleneck"
        if solver is None or not problem.needs_schedule:
            why["target"] = "stage one makes a coarse model only of a schedule that a model plans"
        elif settings.only:
            why.pop("target", None)
        if settings.two_stage:
            why["dask"] = "both stages by themselves plan on this machine alone"
            if solver is None:
                why["two_stage"] = "no formulation is solved, so there is no second stage"
        if problem.objective is not Objective.MAKESPAN and settings.rounds is not None:
            why["rounds"] = "there is no search near a plan for this objective"
        return why

    def steps(self) -> Iterable[Step]:
        """Both stages; with a cluster, its workers search beside what is done here."""
        if self.settings.two_stage:
            return self.stages.steps()
        uses_model, alone = self.uses_model, self.local_only
        near = self.problem.objective is Objective.MAKESPAN
        return (
            Step("cluster", self.join_cluster, lambda: not alone),
            Step("strategies first", self.choose_strategies, lambda: self.meshed),
            Step(
                "first constructions",
                self.construct_initial,
                lambda: alone and self.constructions_worthwhile,
            ),
            Step("search beside", self.search_beside, lambda: self.early is not None),
            Step(
                "first plan", self.find_first, lambda: self.no_plan_yet, run_after_time_limit=True
            ),
            Step("obstacle", self.ledger.prove_infeasible, lambda: self.no_plan_yet),
            *(self.uncompiled_steps() if self.uncompiled else self.compiled_steps()),
            Step(
                "near, first",
                self.search_near_first,
                lambda: alone and near and uses_model and not self.searched,
                loops=(NEAR,),
            ),
            Step(
                "model",
                self.stages.plan,
                lambda: uses_model and not (self.searched or self.model_leads),
            ),
            Step("near", self.search_windows, lambda: alone and near, loops=(NEAR,)),
            Step("cluster's search", self.await_cluster, lambda: not alone),
        )

    def compiled_steps(self) -> Iterable[Step]:
        """From bounds to annealing, with compiled loops on disk."""
        small, lists = self.small, Step("baselines", self.find_baselines, run_after_time_limit=True)
        leading = (lists, Step("enumeration", small.begin, lambda: small.ready))
        yield from leading if small.leads else ()
        yield Step("bounds", self.find_bounds, run_after_time_limit=True)
        construct, local = self.construct_first, self.local_only
        yield Step("constructions", construct, lambda: local and self.constructions_worthwhile)
        yield from () if small.leads else (lists,)
        yield self.enumeration_step()
        yield self.every_step()
        yield Step("exact coarsening", self.stages.choose_coarsening)
        yield Step(
            "stages",
            self.stages.plan_for_a_moment,
            lambda: self.uses_model and self.searched and not self.ledger.repeatable,
            loops=(NEAR,),
        )
        yield self.annealing_step()

    def uncompiled_steps(self) -> Iterable[Step]:
        """The same, where loops are compiled beside: at first by what needs none of them."""
        lists = Step("baselines", self.find_baselines, run_after_time_limit=True)
        find_bounds = interpreted()(self.ledger.find_bounds)
        bounds = Step("bounds, first", find_bounds, run_after_time_limit=True)
        begin = interpreted()(self.small.begin)
        enumeration = Step("enumeration, first", begin, lambda: self.small.suits)
        if self.few:
            yield from (lists, bounds, self.every_step(), enumeration)
            yield from self.model_first() if self.model_leads else ()
            yield self.enumeration_step()
        else:
            construct = interpreted()(self.construct_first)
            yield Step("constructions", construct, lambda: self.local_only and self.anneals)
            yield from (bounds, lists, enumeration)
            free = self.local_only and self.settings.rounds is None
            if self.problem.objective is Objective.MAKESPAN and free:
                yield Step(
                    "near, loops compiled beside",
                    self.search_near_beside,
                    lambda: self.compiles_search,
                    loops=(NEAR,),
                )
        yield Step("exact coarsening", self.stages.choose_coarsening)
        yield self.annealing_step()
        if not self.few:
            yield Step("bounds", self.find_bounds, loops=(RUNS,))
            yield self.enumeration_step()

    def enumeration_step(self) -> Step:
        """Placements and orders of few operators."""
        small = self.small
        return Step("enumeration", small.go, lambda: small.suits, loops=small.loops)

    def every_step(self) -> Step:
        """Every plan of a tiny problem."""
        best = partial(offer_best_of_all, self.ledger)
        return Step("every plan", best, partial(is_tiny, self.ledger))

    def annealing_step(self) -> Step:
        """Constructions and annealing."""
        loops = (LIST_SCHEDULES, MOVES) if self.anneals else ()
        return Step("annealing", self.anneal, lambda: self.local_only and self.anneals, loops=loops)

    def find_bounds(self) -> None:
        """Every bound of the kind."""
        self.ledger.find_bounds(self.bound_share)

    @property
    def uses_model(self) -> bool:
        """Whether stage two is enabled and has a formulation."""
        return self.ledger.formulation is not None and self.settings.two_stage is not False

    @property
    def local_only(self) -> bool:
        """Whether this machine searches, not a cluster."""
        return self.settings.dask is None

    @property
    def compile_at_low_priority(self) -> bool:
        """Whether compiling waits for the model, which proves most problems of few operators."""
        return self.model_leads

    @cached_property
    def uncompiled(self) -> bool:
        """Whether loops of its search are not on disk; repeatable runs do not look."""
        searched = self.problem.needs_schedule and not self.ledger.repeatable
        needed = [LIST_SCHEDULES, *self.background_loops, *self.small.loops]
        if self.background_loops:
            needed.append(RUNS)
        return searched and not all(part.on_disk for part in needed)

    @property
    def background_loops(self) -> tuple[LoopPart, ...]:
        """The search over orders, with which annealing goes on once its loops are compiled."""
        makespan = self.problem.objective is Objective.MAKESPAN and self.problem.needs_schedule
        return (SEQUENCES,) if makespan and not self.few else ()

    @property
    def few(self) -> bool:
        """Whether bounds and models prove most of such problems at once."""
        return len(self.problem.graph.operators) <= FEW

    @property
    def model_leads(self) -> bool:
        """Whether the model comes before all searches: few operators, loops not compiled yet."""
        return self.uncompiled and self.few and self.uses_model

    def model_first(self) -> Iterable[Step]:
        """The model of all operators, which has nothing to compile; it may take all of the time."""
        return (
            Step("exact coarsening, first", self.stages.choose_coarsening),
            Step("model, first", self.stages.plan, lambda: self.budget.left_s >= LOADING_S),
        )

    def model_only_steps(self) -> Iterable[Step]:
        """The model; where a size is asked for, of the problem that stage one makes."""
        if self.settings.target is None:
            return super().model_only_steps()
        return Step("coarsening", self.stages.choose_coarsening), Step("model", self.stages.plan)

    def start_alone(self) -> tuple[Plan | None, int | None]:
        """Return the user's plan and its value, or those of a list schedule."""
        if self.ledger.plan is None and self.problem.needs_schedule:
            return list_start(self.problem) or (None, None)
        return super().start_alone()

    def run_steps(self) -> None:
        """Take the steps, then end searches beside them."""
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
            self.ledger.stop = Stop.TIME_LIMIT  # the last seconds are kept back for answers
        if self.team.deserted:
            self.ledger.say("cluster", f"{self.team.deserted}; the search goes on here")
            self.search()

    def search(self, *, construct: bool = True) -> None:
        """The search of one machine, for the time left: no bounds, no model of the whole."""
        self.stages.clusters = True
        self.anneal(construct=construct)
        if self.problem.objective is Objective.MAKESPAN:
            self.search_windows()

    @property
    def no_plan_yet(self) -> bool:
        """True while no plan is known."""
        return self.ledger.plan is None

    def construct_initial(self) -> None:
        """Offer a few constructions: a good plan within a second or two."""
        from .early_search import EarlySearch

        self.early = EarlySearch(self.ledger)
        self.early.construct(self.offer_constructed, FIRST_SHARE)

    def search_beside(self) -> None:
        """Anneal from them in a thread while bounds and lists take one core."""
        if self.early is not None and self.early.begun and self.ledger.threads > 1:
            self.early.begin(self.take)
            self.bound_share = BOUND_SHARE_BESIDE

    def offer_constructed(self, plan: Plan) -> None:
        """Offer a construction."""
        from .compaction import tight

        self.ledger.offer(tight(self.problem, plan), "construction", "construct")

    def find_first(self) -> None:
        """Offer a plan of a heuristic without compiled loops: compiling may take long."""
        with self.budget.phase("first plan"):
            next(filter(self.offer_baseline, FIRST), None)

    @property
    def meshed(self) -> bool:
        """Whether an operator may run on several devices at once."""
        return any(one.gang > 1 for entry in self.problem.graph.operators for one in entry.options)

    def choose_strategies(self) -> None:
        """Cheapest strategies of meshes, and a schedule of them."""
        with self.budget.phase("first plan"):
            self.offer_baseline(STRATEGIES)

    def offer_baseline(self, name: str) -> bool:
        """Offer the plan of a baseline; whether it has one."""
        plan = PLANNERS[name](self.problem)
        if plan is None:
            return False
        self.ledger.offer(replace(plan, planner=name), name, "first plan")
        self.ledger.baselines[name] = self.ledger.reached.get(name)
        return True

    @property
    def constructions_worthwhile(self) -> bool:
        """Whether constructions are worth it before lists: no loop has to be compiled for them.

        Not for few operators, of which bounds and models prove at once what is best. Not where a
        run must be repeatable: it does the same whatever lies on disk.
        """
        free = not self.few and self.anneals and not self.ledger.repeatable
        return free and not self.uncompiled

    def construct_first(self) -> None:
        """Constructions before lists: a machine under load may have time for nothing else."""
        self.crew = self.new_crew()
        with self.budget.phase("construct"):
            part = self.budget.part("construct first", FIRST_SHARE)
            self.crew.construct(part, on_better=self.offer_constructed)
        if self.crew.starts and self.ledger.planner == "construction":
            self.constructed = self.ledger.value

    def new_crew(self) -> ParallelAnnealing:
        """Searches of this run, as many as it has threads."""
        from ..planners.search.parallel import ParallelAnnealing

        return ParallelAnnealing(self.problem, self.settings.seed, self.ledger.threads)

    def find_baselines(self) -> None:
        """Offer the plans of every heuristic."""
        offer_baselines(self.ledger)

    @property
    def anneals(self) -> bool:
        """Whether the compiled decoder evaluates the objective."""
        return self.problem.needs_schedule and self.problem.objective in SEARCHED

    def anneal(self, *, construct: bool = True) -> None:
        """Constructions, then local search over places, options and priorities."""
        ledger = self.ledger
        if not self.anneals:
            return
        crew, begun = self.crew or self.new_crew(), self.crew is not None
        if construct or ledger.plan is None:
            with self.budget.phase("construct"):
                if not begun:
                    part = self.budget.part("construct", CONSTRUCTION_SHARE, of_limit=False)
                    crew.construct(part)
                self.construct_gated()
        if self.early is not None and (state := self.early.end()) is not None:
            crew.begin_later(state)
        self.early = None
        if self.uncompiled:
            crew.orders = crew.orders and SEQUENCES.on_disk
        known = ledger.value == self.constructed or ledger.planner == ANNEALING  # starts already
        if ledger.plan is not None and not known:
            crew.add(ledger.plan)
        share = ANNEALING_SHARE if self.stages.clusters else self.exact_annealing_share
        part = self.budget.part("anneal", share, of_limit=False)
        endless = ledger.repeatable or part.limit_s == float("inf")
        with self.budget.phase("anneal"):
            crew.run(part, self.annealing_moves if endless else None, self.take)
        ledger.details["annealing"] = {"starts": len(crew.starts), "schedules": crew.scheduled}
        ledger.say("anneal", f"{crew.scheduled} schedules")

    @property
    def annealing_moves(self) -> int:
        """Moves where the clock does not count."""
        return max(ANNEALING_MOVES, ANNEALING_TASKS // len(self.problem.graph.operators))

    @property
    def exact_annealing_share(self) -> float:
        """Before a model that proves: enough for a good start, little on small problems."""
        most = ANNEALING_S_EACH * len(self.problem.graph.operators)
        return min(ANNEALING_SHARE_EXACT, most / max(most, self.budget.left_s))

    def construct_gated(self) -> None:
        """Where memory binds: constructions that keep fewer micro-batches at once."""
        from ..planners.constructions.gates import best_gated, memory_binds

        if memory_binds(self.problem):
            part = self.budget.part("construct gated", CONSTRUCTION_SHARE, of_limit=False)
            gated = best_gated(self.problem, part)
            if gated is not None:
                self.ledger.offer(gated.plan, "construction", "construct")

    def take(self, plan: Plan) -> None:
        """Offer a plan of the search."""
        from .compaction import tight

        self.ledger.offer(tight(self.problem, plan), ANNEALING, "anneal")

    @property
    def searched(self) -> bool:
        """Whether annealing replaces a model of clusters that the settings do not ask for."""
        found = self.ledger.formulation
        asked = self.settings.target is not None or found is None or found.found.name != OWN
        return self.stages.clusters and self.anneals and not asked

    def search_windows(self) -> None:
        """Small models around the best plan."""
        from ..window_search.search import search_windows

        search_windows(self.ledger)

    @property
    def compiles_search(self) -> bool:
        """Whether loops of annealing are being compiled beside."""
        beside = self.compiling
        return beside is not None and beside.at_work((LIST_SCHEDULES, MOVES))

    def search_near_beside(self) -> None:
        """Small models around the best plan while the loops of the search are compiled."""
        from ..window_search.search import search_windows

        search_windows(self.ledger, until=lambda: not self.compiles_search)

    def search_near_first(self) -> None:
        """A few small models before the one of everything: they find more in the same time.

        Not where rounds or nodes are counted: those are of the search behind the model.
        """
        counted = self.settings.rounds is not None or self.ledger.repeatable
        if self.stages.coarsening.exact and not counted:
            from ..window_search.search import search_windows

            part = self.budget.part("near, first", NEAR_SHARE, of_limit=False)
            search_windows(self.ledger, part, NEAR_FAILED_ROUNDS)
