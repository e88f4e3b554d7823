"""Both stages for a schedule: a coarse problem, its plan by the exact model, the way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from milp_plan.backends import Limits
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import now
from milp_plan.models.protocol import Guide
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step

from ..coarsen.reduction import Coarsening
from ..loops import NEAR
from ..planners.planner import Planner
from ..planners.portfolio import LISTS, best_plan, list_start

BASELINE_SHARE = 0.1
"""Part of the time limit that baselines may take."""

EXACT_SHARE, COARSE_SHARE = 0.7, 0.3
"""Parts of the time left that the model may take: on a problem with the original's optimum, whose
bound counts, and on a heuristically coarsened one, after which the search goes on."""

SERIES_SHARE = 0.5
"""Part of the time left for coarse problems where both stages plan alone; small models near the
plan of the original problem take the rest."""

MOMENT_SHARE, MOMENT_CLUSTERS = 0.05, 60
"""Part of the time left for coarse problems before a search that takes the rest, and their size."""

TARGET = 25
"""Operators that stage one aims at, unless the settings say otherwise."""

MOST_EXACT = 1.8
"""Heuristic coarsening starts where exact steps leave more than this many times the target."""


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
            from ..coarsen.stage import coarsen

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

    def steps(self) -> Iterable[Step]:
        """The method by itself: list schedules, coarse problems, small models near the plan."""
        from ..window_search.search import search_windows

        lists = partial(offer_baselines, self.ledger, LISTS)
        windows = partial(search_windows, self.ledger)
        near = self.problem.objective is Objective.MAKESPAN
        return (
            Step("exact coarsening", self.choose_coarsening),
            Step("list schedules", lists, run_after_time_limit=True),
            Step("obstacle", self.ledger.prove_infeasible, lambda: self.ledger.plan is None),
            Step("model", self.plan_exactly, lambda: not (self.clusters or self.ledger.done)),
            Step("stages", partial(self.plan, SERIES_SHARE), lambda: self.clusters, loops=(NEAR,)),
            Step("windows", windows, lambda: near, loops=(NEAR,)),
        )

    def plan(self, share: float = COARSE_SHARE) -> None:
        """Plan coarse problems that lose the optimum, or the one that keeps it.

        Parameters
        ----------
        share
            Part of the time left for the former.
        """
        from .stage_series import StageSeries

        if self.clusters:
            share = 1.0 if self.settings.only else share
            StageSeries(self.ledger).run(self.budget.part("stages", share, of_limit=False))
        else:
            self.plan_exactly()

    def plan_for_a_moment(self) -> None:
        """Plan a few coarse problems small enough for one model, while it takes little time.

        Before the annealing, for which their plan is one more start.
        """
        from .stage_series import StageSeries

        part = self.budget.part("stages", MOMENT_SHARE, of_limit=False)
        StageSeries(self.ledger).run(part, MOMENT_CLUSTERS, patient=False)

    def plan_exactly(self) -> None:
        """Plan the problem that exact steps leave by the model, whose bound counts; expand."""
        from ..stages import Stage
        from .stage_series import report_progress

        ledger, began = self.ledger, now()
        start = self.coarse_start()
        coarse = self.coarsening.problem
        stage = Stage("exact steps", len(coarse.graph.operators), before=ledger.value)
        ledger.say("model", f"{stage.clusters} operators")
        cutoff = None if start is None else start[1]
        stage.start = cutoff
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
            stage.answered(answer)
            stage.after, stage.seconds = ledger.value, now() - began
            ledger.details.setdefault("coarse_stages", []).append(stage.as_row())

    def offer_compact(self, plan: Plan, name: str) -> None:
        """The expanded plan with every task as early as its order allows."""
        if self.problem.needs_schedule:
            from .compaction import compact

            with self.budget.phase("expand"):
                tight = compact(self.problem, plan)
            self.ledger.offer(tight, name, "compact")

    def coarse_start(self) -> tuple[Plan, int] | None:
        """Return the best plan known of the problem that exact steps leave, with its value."""
        from .stage_series import StageSeries

        coarse = self.coarsening.problem
        if coarse is self.problem and self.ledger.plan is not None:
            assert self.ledger.value is not None
            return self.ledger.plan, self.ledger.value
        if self.settings.only:
            return list_start(coarse)
        if coarse is self.problem:
            return None
        part = self.budget.part("lists", BASELINE_SHARE)
        plan, value = StageSeries(self.ledger).start(self.coarsening, part)
        if plan is None or value is None:
            return None
        expanded = self.coarsening.undo(plan)
        self.ledger.offer(expanded, "coarse heuristics", "baselines", must_be_valid=False)
        self.offer_compact(expanded, "coarse heuristics")
        return plan, value

    def model_limits(self) -> Limits:
        """Part of the time left, or nodes, for the model."""
        followed = self.problem.objective is Objective.MAKESPAN and not self.settings.only
        share = EXACT_SHARE if followed else 1.0
        part = self.budget.part("model", share, of_limit=False)
        return replace(self.ledger.limits(part.limit_s), threads=self.settings.threads or 1)
