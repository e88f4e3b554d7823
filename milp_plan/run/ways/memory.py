"""Schedules in which operators may run again and values may wait on hosts.

A plan of the problem without either is a plan here as well, so a part of the time goes there. The
others begin as schedules for more memory than there is, or for any amount of it, and are made to
fit by runs again and journeys to the host (:mod:`milp_plan.planners.memory`). What was decided that
way is then kept while a search places it anew: runs again and journeys as operators of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.models.protocol import Guide
from milp_plan.planners import Crew, best_plan, put_off
from milp_plan.planners.memflow import Chain
from milp_plan.planners.memory import Unrolled, fit, merged_plan

from ..ledger import Ledger
from ..way import Step, Way

BASELINE_SHARE = 0.1
"""Part of the time limit that baselines may take."""

PLAIN_SHARE = 0.3
"""Part of the time left for plans that do without."""

CHAIN_SHARE = 0.15
"""Part of the time left for a chain over options and runs again."""

MOVES = 1500
"""Moves of each search where a run must be repeatable."""

SCALES = (None, (3, 2), (5, 4), (11, 10))
"""Memory of the schedules to begin from, as a multiple of what there is; ``None``: no limit."""

CONSTRUCT_SHARE = 0.06
"""Part of a search's time for the constructions of each amount of memory."""

PARTS = (0.6, 0.8, 0.45)
"""Of the memory of all devices: in so much of it runs again are decided as for one device."""

MERGED_SHARE, MERGED_KNOWN_SHARE = 0.4, 0.15
"""Part of the time left for each of these, while no plan is known, and once one is."""

MODEL_SHARE = 0.3
"""Part of the time left for the exact model, where there is one."""

KNOWN_SHARE = 0.03
"""Part of the time left for fitting each baseline once a plan is known."""

REARRANGE_SHARE = 0.4
"""Part of the time left behind plans that do without, for the best plan's decisions placed anew."""

FIT_SHARE = 0.5
"""Part of what is left of a schedule's time for fitting it."""


class MemoryWay(Way[PlanningProblem, Plan]):
    """The way for problems with recomputable operators or hosts."""

    name = "memory"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.problem, self.budget = ledger.problem, ledger.budget
        self.plain = ledger.problem.without_memory_ways
        self.fitted: dict[str, int] = {}

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Slots of one device; where they are too many, or more devices, there is no model."""
        return "memory_slots"

    @classmethod
    def unsuited(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Every problem in which each operator runs once, on devices alone."""
        return None if problem.has_memory_ways else "nothing may run again or wait on a host"

    def steps(self) -> Iterable[Step]:
        """Proofs, plans that do without, then plans made to fit."""
        return (
            Step("obstacle", self.ledger.look_for_obstacle),
            Step("bounds", self.ledger.find_bounds, always=True),
            Step("baselines", self.find_baselines, always=True),
            Step("fit baselines", self.fit_baselines, always=True),
            Step("model", self.ask_model, lambda: self.models),
            Step("merged", self.decide_merged, lambda: self.searches),
            Step("chain", self.run_chain, lambda: self.chains),
            Step("plain", self.search_plain, lambda: self.searches),
            Step("fit", self.fit_searched, lambda: self.searches),
            Step("rearrange", self.rearrange_best, lambda: self.searches),
        )

    @property
    def searches(self) -> bool:
        """Whether there is a search for schedules with this objective."""
        times = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK)
        return self.problem.objective in times

    def find_baselines(self) -> None:
        """Every heuristic, on the problem without memory ways."""
        with self.budget.phase("baselines"):
            _, self.ledger.baselines = best_plan(
                self.problem,
                seed=self.ledger.settings.seed,
                budget=self.budget.part("baselines", BASELINE_SHARE),
                on_plan=lambda plan: self.ledger.offer(plan, plan.planner, "baselines"),
                on_defect=self.ledger.fail,
            )

    def fit_baselines(self) -> None:
        """The best heuristic's plan for each amount of memory."""
        with self.budget.phase("fit"):
            for name, roomy in roomier(self.plain):
                share = BASELINE_SHARE if self.ledger.plan is None else KNOWN_SHARE
                budget = self.budget.part("fit", share, of_limit=False)
                plan, _ = best_plan(roomy, seed=self.ledger.settings.seed, budget=budget)
                if plan is not None:
                    self.take(plan, name, budget)

    @property
    def models(self) -> bool:
        """Whether there is a model, and a known value or none needed for its horizon."""
        again = any(operator.recomputable for operator in self.problem.graph.operators)
        return self.ledger.formulation is not None and (self.ledger.plan is not None or not again)

    def ask_model(self) -> None:
        """Ask the exact model for anything better than the best plan: its slots are then few."""
        ledger = self.ledger
        better = None if ledger.value is None else ledger.value - 1
        with self.budget.phase("model"):
            budget = self.budget.part("model", MODEL_SHARE, of_limit=False)
            ledger.say("model", ledger.solver.formulation.card.name)
            guide = Guide(better, ledger.lower)
            limits = ledger.limits(budget.left_s)
            answer = ledger.solver.run(self.problem, guide, limits, budget)
            ledger.believe(answer, better)

    @property
    def chains(self) -> bool:
        """Whether a chain over options and runs again can begin somewhere."""
        again = any(operator.recomputable for operator in self.problem.graph.operators)
        return again and self.problem.objective is Objective.MAKESPAN

    def run_chain(self) -> None:
        """MemFlow's search, from the best plan so far or from one that exceeds memory."""
        with self.budget.phase("chain"):
            start = self.ledger.plan
            if start is None:
                start, _ = best_plan(dict(roomier(self.plain))["no limit"])
            if start is None:
                return
            chain = Chain(self.problem, start, seed=self.ledger.settings.seed)
            budget = self.budget.part("chain", CHAIN_SHARE, of_limit=False)
            found = chain.run(
                self.moves(budget),
                budget,
                on_better=lambda plan, _: self.ledger.offer(plan, "memflow", "chain"),
            )
            self.ledger.details["proposals"] = found.proposals

    def search_plain(self) -> None:
        """A search for plans that do without."""
        part = self.budget.part("plain", PLAIN_SHARE, of_limit=False)
        with self.budget.phase("plain"):
            self.search(self.plain, part, lambda plan: self.ledger.offer(plan, "search", "plain"))

    def fit_searched(self) -> None:
        """A search for schedules with more memory, made to fit."""
        todo = list(roomier(self.plain))
        budget = self.budget.part("fits", 1 - REARRANGE_SHARE, of_limit=False)
        for number, (name, roomy) in enumerate(todo):
            if self.ledger.done:
                return
            whole = budget.part("roomy", 1 / (len(todo) - number), of_limit=False)
            found: list[Plan] = []
            with self.budget.phase("roomy"):
                self.search(roomy, whole.part("search", FIT_SHARE), found.append)
            with self.budget.phase("fit"):
                if found:
                    self.take(found[-1], name, whole)

    def decide_merged(self) -> None:
        """What runs again decided for one device with all memory, then placed."""
        for part in PARTS:
            if self.ledger.done:
                return
            share = MERGED_SHARE if self.ledger.plan is None else MERGED_KNOWN_SHARE
            with self.budget.phase("merged"):
                self.decide(part, self.budget.part("merged", share, of_limit=False))

    def decide(self, part: float, budget: Budget) -> None:
        """The same in a part of that memory."""
        seed = self.ledger.settings.seed
        plan = merged_plan(self.problem, part, budget.part("decide", FIT_SHARE), seed)
        if plan is not None:
            self.rearrange(plan, budget)

    def rearrange_best(self) -> None:
        """The best plan's decisions, placed anew."""
        plan = self.ledger.plan
        if plan is not None and not self.ledger.done:
            budget = self.budget.part("rearrange", of_limit=False)
            with self.budget.phase("rearrange"):
                self.rearrange(plan, budget)

    def rearrange(self, plan: Plan, budget: Budget) -> None:
        """Search with decisions as operators: from their plan, or from constructions."""
        unrolled = Unrolled(self.problem, plan)
        if unrolled.problem is None:
            return
        crew = Crew(unrolled.problem, self.ledger.settings.seed, self.ledger.threads)
        if {name for run in plan.runs for name in run.devices} <= set(
            self.problem.cluster.device_names
        ):
            crew.add(unrolled.start())
        else:
            for _, roomy in roomier(unrolled.problem):
                crew.construct(budget.part("construct", CONSTRUCT_SHARE), roomy)
        crew.run(
            budget,
            self.moves(budget),
            lambda found: self.ledger.offer(unrolled.restored(found), "rearranged", "rearrange"),
        )

    def moves(self, budget: Budget) -> int | None:
        """Moves of a search where it must be repeatable or has no limit."""
        endless = self.ledger.repeatable or budget.limit_s == float("inf")
        return MOVES if endless else None

    def search(
        self, problem: PlanningProblem, budget: Budget, take: Callable[[Plan], object]
    ) -> None:
        """Search a problem without memory ways."""
        crew = Crew(problem, self.ledger.settings.seed, self.ledger.threads)
        crew.construct(budget.part("construct", 0.5))
        crew.run(budget, self.moves(budget), lambda plan: take(put_off(problem, plan)))

    def take(self, plan: Plan, name: str, budget: Budget) -> None:
        """Make a plan fit and offer it."""
        if self.ledger.value is not None and plan.stop_ns >= self.ledger.value:
            return
        fitting = fit(self.problem, plan, budget, self.ledger.settings.seed)
        if fitting is not None:
            self.fitted[name] = fitting.makespan
            self.ledger.offer(fitting.plan(), "fitted", "fit")
        self.ledger.details["fitted"] = dict(self.fitted)


def roomier(problem: PlanningProblem) -> Iterator[tuple[str, PlanningProblem]]:
    """A problem with more memory, by name."""
    for scale in SCALES:
        if scale is None:
            free = dict.fromkeys(problem.cluster.device_names)
            yield "no limit", problem.variant(cluster=problem.cluster.with_memory(free))
        else:
            yield f"memory x {scale[0]}/{scale[1]}", problem.with_memory_scale(*scale)
