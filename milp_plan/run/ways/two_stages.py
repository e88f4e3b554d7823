"""Both stages for a schedule: a coarse problem, its plan by the exact model, the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from milp_plan.backends import Limits, TracePoint
from milp_plan.coarsen import Coarsening, coarsen
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.models.protocol import Guide
from milp_plan.planners import PLANNERS, best_plan

from ..ledger import Ledger
from ..polish import polishes
from .compaction import compact

BASELINE_SHARE = 0.1
"""Part of the time limit that baselines may take."""

COARSE_LIST_SHARE = 0.03
"""Part of the time limit for heuristics on one of several coarse problems."""

EXACT_SHARE, COARSE_SHARE = 0.7, 0.3
"""Parts of the time left that the model may take: on a problem with the original's optimum, whose
bound counts, and on a heuristically coarsened one, after which the search goes on."""

LISTS = frozenset({"single_device", "list_critical_path", "heft", "etf_memory", "dfs_release"})
"""Planners whose best plan is the start of a model that is asked alone."""

TARGET = 25
"""Operators that stage one aims at, unless the settings say otherwise."""

MOST_EXACT = 1.8
"""Heuristic coarsening starts where exact steps leave more than this many times the target."""


def heuristics(
    ledger: Ledger[PlanningProblem, Plan],
    problem: PlanningProblem,
    share: float = BASELINE_SHARE,
    on_plan: Callable[[Plan], object] = lambda _plan: None,
) -> tuple[Plan | None, dict[str, int | None]]:
    """Return the best plan of all heuristics, and what each of them reached."""
    part = ledger.budget.part("baselines", share)
    with ledger.budget.phase("baselines"):
        return best_plan(
            problem,
            seed=ledger.settings.seed,
            budget=part,
            on_plan=on_plan,
            on_defect=ledger.fail,
        )


def list_start(problem: PlanningProblem) -> tuple[Plan, int] | None:
    """Return the best plan of the list schedules, and its value: the start of a model alone."""
    lists = {name: planner for name, planner in PLANNERS.items() if name in LISTS}
    plan, values = best_plan(problem, lists, on_defect=lambda _said: None)
    reached = [value for value in values.values() if value is not None]
    return None if plan is None else (plan, min(reached))


class TwoStages:
    """The two stages of a run.

    Parameters
    ----------
    ledger
        Of the run.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger, self.problem = ledger, ledger.problem
        self.settings, self.budget = ledger.settings, ledger.budget
        self.coarsening = Coarsening(ledger.problem)
        self.clusters = False

    def choose_coarsening(self) -> None:
        """Exact steps alone if they suffice; else the exact stage clusters as well."""
        if self.problem.needs_schedule:
            self.coarsen(exact_only=True)
            left = len(self.coarsening.problem.graph.operators)
            self.clusters = left > MOST_EXACT * self.target
        self.describe_coarsening()

    def coarsen(self, **how: Any) -> None:
        """Make the problem of the exact stage."""
        with self.budget.phase("coarsen"):
            self.coarsening = coarsen(self.problem, self.target, **how)
        self.describe_coarsening()

    @property
    def target(self) -> int:
        """Operators that stage one aims at."""
        return self.settings.target or TARGET

    def describe_coarsening(self) -> None:
        """For the record."""
        self.ledger.details |= {
            "coarse_operators": len(self.coarsening.problem.graph.operators),
            "coarsening": [row._asdict() for row in self.coarsening.table()],
            "coarsening_exact": self.coarsening.exact,
        }

    def plan(self) -> None:
        """Plan the coarse problem by the model, expand."""
        ledger = self.ledger
        start = self.choose_clusters() if self.clusters else self.coarse_start()
        coarse = self.coarsening.problem
        ledger.say("model", f"{len(coarse.graph.operators)} operators")
        cutoff = None if start is None else start[1]
        guide = Guide(cutoff, ledger.lower)
        answer = ledger.solver.run(
            coarse,
            guide,
            self.model_limits(),
            self.budget,
            start=None if start is None else start[0],
            on_progress=self.model_progress,
            confirm=self.coarsening.exact,
        )
        name = ledger.solver.found.name
        if not self.coarsening.exact:
            name += " + coarsening"
        expanded: list[Plan] = []

        def undo(plan: Plan) -> Plan:
            with self.budget.phase("expand"):
                expanded.append(self.coarsening.undo(plan))
            return expanded[0]

        try:
            ledger.believe(
                answer, cutoff, whole=self.coarsening.exact, by=name, phase="expand", undo=undo
            )
            if ledger.plan is None and not self.coarsening.exact:
                ledger.say("model", "no plan of the coarse problem: none of the whole follows")
        finally:
            ledger.details |= answer.described()
            for plan in expanded:
                self.offer_compact(plan, name)

    def choose_clusters(self) -> tuple[Plan, int] | None:
        """Make the coarse problem whose heuristic plan is best; return that plan and its value.

        Stages suit pipelines, pairwise clusters graphs with many branches, and clusters along the
        best plan known keep its parallelism.
        """
        found: list[tuple[int, int, Coarsening, tuple[Plan, int]]] = []
        for how in ({"stages": True}, {}, {"guide": self.ledger.plan}):
            self.coarsen(**how)
            start = self.coarse_start(COARSE_LIST_SHARE)
            if start is not None:
                found.append((start[1], len(found), self.coarsening, start))
            elif self.settings.only:
                return None  # no heuristic tells them apart
        if not found:
            return None
        _, _, self.coarsening, best = min(found)
        self.describe_coarsening()
        return best

    @property
    def polishes(self) -> bool:
        """Whether the formulation itself searches near the plan."""
        return polishes(self.problem, self.ledger.formulation)

    def offer_compact(self, plan: Plan, name: str) -> None:
        """The expanded plan with every task as early as its order allows."""
        if self.problem.needs_schedule:
            with self.budget.phase("expand"):
                tight = compact(self.problem, plan)
            self.ledger.offer(tight, name, "compact")

    def coarse_start(self, share: float = BASELINE_SHARE) -> tuple[Plan, int] | None:
        """Best heuristic plan of the coarse problem, offered to the original as well."""
        coarse = self.coarsening.problem
        if coarse is self.problem and self.ledger.plan is not None:
            assert self.ledger.value is not None
            return self.ledger.plan, self.ledger.value
        if self.settings.only:
            return list_start(coarse)
        if coarse is self.problem:
            return None
        found, values = heuristics(self.ledger, coarse, share)
        if found is None:
            return None
        expanded = self.coarsening.undo(found)
        self.ledger.offer(expanded, "coarse heuristics", "baselines", sure=False)
        self.offer_compact(expanded, "coarse heuristics")
        return found, min(value for value in values.values() if value is not None)

    def model_limits(self) -> Limits:
        """Part of the time left, or nodes, for the model."""
        share = EXACT_SHARE if self.coarsening.exact else COARSE_SHARE
        if not self.polishes and self.problem.objective is not Objective.MAKESPAN:
            share = 1.0  # nothing follows
        if self.settings.only:
            share = 1.0
        part = self.budget.part("model", share, of_limit=False)
        return replace(self.ledger.limits(part.limit_s), threads=self.settings.threads or 1)

    def model_progress(self, point: TracePoint) -> None:
        """Tell of the solver's progress."""
        found = "none" if point.incumbent is None else f"{point.incumbent:.6g}"
        bound = "none" if point.bound is None else f"{point.bound:.6g}"
        self.ledger.say("model", f"model {found}, its bound {bound}, nodes {point.nodes}")
