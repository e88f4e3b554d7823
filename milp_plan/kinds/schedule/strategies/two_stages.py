"""The two-stage method for schedules: coarsen, plan the coarse problem, expand its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from milp_plan.backends import Limits
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import now
from milp_plan.models.protocol import Guide
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step

from ..coarsen.reduction import Coarsening
from ..loops import WINDOWS
from ..planners.planner import Planner
from ..planners.portfolio import LISTS, best_plan, list_start

BASELINE_SHARE = 0.1
"""Part of the time limit that baselines may take."""

EXACT_SHARE, COARSE_SHARE = 0.7, 0.3
"""Parts of the time left that the model may take: of a problem with the original's optimum, whose
bound counts, and of a heuristically coarsened one, after which the search goes on."""

SERIES_SHARE = 0.5
"""Part of the time left for coarse problems with ``two_stage``; small models near the plan of the
original problem take the rest."""

BRIEF_SHARE, BRIEF_CLUSTERS = 0.05, 60
"""Part of the time left for coarse problems before the annealing, and their most clusters."""

TARGET = 25
"""Operators that coarsening aims at, unless the settings name a target."""

MOST_EXACT = 1.8
"""Heuristic coarsening starts where exact steps leave more than this multiple of the target."""


def offer_baselines(
    ledger: Ledger[PlanningProblem, Plan], planners: Mapping[str, Planner] | None = None
) -> None:
    """Offer the plans of list schedules, by default of every heuristic; record their values."""
    with ledger.budget.phase("baselines"):
        _, ledger.baselines = best_plan(
            ledger.problem,
            planners,
            seed=ledger.settings.seed,
            budget=ledger.budget.part("baselines", BASELINE_SHARE),
            on_plan=lambda plan: ledger.offer(plan, plan.planner, "baselines"),
            on_defect=ledger.fail,
        )


def offer_gated(ledger: Ledger[PlanningProblem, Plan], share: float) -> None:
    """Offer constructions that keep fewer micro-batches in memory at once, if memory binds."""
    from ..planners.constructions.gates import best_gated, memory_binds

    if memory_binds(ledger.problem):
        part = ledger.budget.part("construct gated", share, of_limit=False)
        gated = best_gated(ledger.problem, part)
        if gated is not None:
            ledger.offer(gated.plan, "construction", "construct")


class TwoStages:
    """Coarsening as stage one, and the exact model or a series of coarse problems as stage two.

    Parameters
    ----------
    ledger
        The run's ledger.

    Attributes
    ----------
    coarsening
        What exact steps leave of the problem.
    clusters
        Whether that is still too large for one model, so that heuristic clusters are needed.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger, self.problem = ledger, ledger.problem
        self.settings, self.budget = ledger.settings, ledger.budget
        self.coarsening = Coarsening(ledger.problem)
        self.clusters = False

    def choose_coarsening(self) -> None:
        """Take the exact steps of coarsening, and decide whether heuristic ones are needed."""
        if self.problem.needs_schedule:
            with self.budget.phase("coarsen"):
                from ..coarsen.steps import coarsen

                self.coarsening = coarsen(self.problem, self.target, exact_only=True)
            remaining = len(self.coarsening.problem.graph.operators)
            self.clusters = remaining > MOST_EXACT * self.target
        self.record_coarsening()

    @property
    def target(self) -> int:
        """Operators that coarsening aims at."""
        return self.settings.target or TARGET

    def record_coarsening(self) -> None:
        """Enter the coarsening into the record."""
        self.ledger.details |= {
            "coarse_operators": len(self.coarsening.problem.graph.operators),
            "coarsening": [row._asdict() for row in self.coarsening.table()],
            "coarsening_exact": self.coarsening.exact,
        }

    def steps(self) -> Iterable[Step]:
        """Return the steps of ``two_stage``: list schedules, coarse problems, windows."""
        from ..window_search.search import search_windows

        lists = partial(offer_baselines, self.ledger, LISTS)
        windows = partial(search_windows, self.ledger)
        near = self.problem.objective is Objective.MAKESPAN
        return (
            Step("exact coarsening", self.choose_coarsening),
            Step("list schedules", lists, run_after_time_limit=True),
            Step("obstacle", self.ledger.prove_infeasible, lambda: self.ledger.plan is None),
            Step("model", self.plan_exactly, lambda: not (self.clusters or self.ledger.done)),
            Step(
                "coarse problems",
                partial(self.plan, SERIES_SHARE),
                lambda: self.clusters,
                loops=(WINDOWS,),
            ),
            Step("windows", windows, lambda: near, loops=(WINDOWS,)),
        )

    def plan(self, share: float = COARSE_SHARE) -> None:
        """Plan a series of heuristic coarse problems, or the exact one if it is small enough.

        Parameters
        ----------
        share
            Part of the time left for the series.
        """
        from .coarse_series import CoarseSeries

        if self.clusters:
            share = 1.0 if self.settings.only else share
            CoarseSeries(self.ledger).run(self.budget.part("stages", share, of_limit=False))
        else:
            self.plan_exactly()

    def plan_briefly(self) -> None:
        """Plan a few small coarse problems in little time: one more start for the annealing."""
        from .coarse_series import CoarseSeries

        part = self.budget.part("stages", BRIEF_SHARE, of_limit=False)
        CoarseSeries(self.ledger).run(part, BRIEF_CLUSTERS, patient=False)

    def plan_exactly(self) -> None:
        """Solve the model of what exact steps leave, whose bound counts, and expand its plan."""
        from ..coarse_problem import CoarseProblemRow
        from .coarse_series import report_progress

        ledger, began = self.ledger, now()
        start = self.coarse_start()
        coarse = self.coarsening.problem
        row = CoarseProblemRow("exact steps", len(coarse.graph.operators), before=ledger.value)
        ledger.say("model", f"{row.clusters} operators")
        cutoff = None if start is None else start[1]
        row.start = cutoff
        answer = ledger.solver.run(
            coarse,
            Guide(cutoff, ledger.lower),
            self.model_limits(),
            self.budget,
            start=None if start is None else start[0],
            on_progress=partial(report_progress, ledger),
        )
        name = ledger.solver.found.name
        expanded: list[Plan] = []

        def undo(plan: Plan) -> Plan:
            with self.budget.phase("expand"):
                expanded.append(self.coarsening.undo(plan))
            return expanded[0]

        try:
            ledger.accept_answer(answer, cutoff, by=name, phase="expand", expand=undo)
        finally:
            for plan in expanded:
                self.offer_compact(plan, name)
            row.set_model(answer)
            row.after, row.seconds = ledger.value, now() - began
            ledger.details.setdefault("coarse_stages", []).append(row.as_row())

    def offer_compact(self, plan: Plan, name: str) -> None:
        """Offer the expanded plan with every task as early as its order allows."""
        if self.problem.needs_schedule:
            from .compaction import compact

            with self.budget.phase("expand"):
                tight = compact(self.problem, plan)
            self.ledger.offer(tight, name, "compact")

    def coarse_start(self) -> tuple[Plan, int] | None:
        """Return the best known plan of the problem that exact steps leave, with its value."""
        from .coarse_series import CoarseSeries

        coarse = self.coarsening.problem
        if coarse is self.problem and self.ledger.plan is not None:
            assert self.ledger.value is not None
            return self.ledger.plan, self.ledger.value
        if self.settings.only:
            return list_start(coarse)
        if coarse is self.problem:
            return None
        part = self.budget.part("lists", BASELINE_SHARE)
        plan, value = CoarseSeries(self.ledger).start(self.coarsening, part)
        if plan is None or value is None:
            return None
        expanded = self.coarsening.undo(plan)
        self.ledger.offer(expanded, "coarse heuristics", "baselines", must_be_valid=False)
        self.offer_compact(expanded, "coarse heuristics")
        return plan, value

    def model_limits(self) -> Limits:
        """Return the limits of the model: a part of the time left, or nodes."""
        followed = self.problem.objective is Objective.MAKESPAN and not self.settings.only
        share = EXACT_SHARE if followed else 1.0
        part = self.budget.part("model", share, of_limit=False)
        return replace(self.ledger.limits(part.limit_s), threads=self.settings.threads or 1)
