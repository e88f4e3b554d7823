"""Both stages on coarse problems of growing size: clusters, exact model, small models, expansion.

Each coarse problem starts from the best of its own list schedules and of the projected plan of the
stage before. The exact model takes the first sizes, which HiGHS can solve or improve; small models
near the coarse plan take all of them. What comes back is expanded, tightened and checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor, log
from typing import Any, NamedTuple

from milp_plan.backends import TracePoint
from milp_plan.coarsen import Coarsening, coarsen
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget, now
from milp_plan.core.compiled import kept
from milp_plan.models.protocol import Guide
from milp_plan.planners import PLANNERS, best_plan

from ..compiling import LAST, LEARNING
from ..ledger import Ledger
from ..near import search_near
from ..polish import polish, polishes
from ..restart import started
from ..stages import Stage
from .compaction import compact
from .small_schedule import SmallSearch

FIRST, GROWTH, LARGEST = 36, 5 / 3, 0.7
"""Clusters of the first coarse problem, the factor to the next, and the most as a part of the
original's operators: the next larger problem is the original."""

MODELLED = 64
"""Clusters up to which the whole coarse problem is one model; HiGHS improves no start of larger
ones in the time of a stage."""

MODEL_SHARE = 0.5
"""Part of a stage's time for its model, half as much after each that did not improve its start;
small models near its plan take the rest."""

LEARN_SHARE = 0.3
"""Part of a stage's time for the search that learns clauses, which comes before the model."""

LIST_SHARE = 0.05
"""Part of a stage's time for list schedules of each of its coarse problems."""

IN_VAIN = 12
"""Small models in vain, one after the other, until the next size comes."""

LEAST_S, STAGE_S = 1.0, 3.0
"""Seconds without which no stage is begun, and those of a stage where there are few: sizes between
are left out."""

QUICK = frozenset({"single_device", "list_critical_path", "heft", "etf_memory", "dfs_release"})
"""List schedules whose best plan is the start of a model that is asked alone."""

LISTS = {name: planner for name, planner in PLANNERS.items() if name != "iterated_greedy"}
"""List schedules: what makes a plan in one pass, without a search."""


class Chosen(NamedTuple):
    """A coarse problem, how its clusters were made, and the plan to start from, with its value."""

    how: str
    coarsening: Coarsening
    start: Plan | None = None
    value: int | None = None

    @property
    def rank(self) -> tuple[bool, int]:
        """Sorts by the value of the start; those without one come last."""
        return self.value is None, self.value or 0


def search_nearby(
    ledger: Ledger[PlanningProblem, Plan],
    budget: Budget | None = None,
    most_in_vain: int | None = None,
) -> None:
    """Search near the best plan with small models: of the formulation itself, or of our own."""
    if polishes(ledger.problem, ledger.formulation):
        polish(ledger, budget)
    elif ledger.problem.objective is Objective.MAKESPAN:
        search_near(ledger, budget, most_in_vain)


def list_start(problem: PlanningProblem) -> tuple[Plan, int] | None:
    """Return the best plan of the list schedules, and its value: the start of a model alone."""
    lists = {name: planner for name, planner in PLANNERS.items() if name in QUICK}
    plan, values = best_plan(problem, lists, on_defect=lambda _said: None)
    reached = [value for value in values.values() if value is not None]
    return None if plan is None else (plan, min(reached))


class StageSeries:
    """Coarse problems of one problem, from few clusters to many.

    Parameters
    ----------
    ledger
        Of the run; its problem is coarsened.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger, self.problem = ledger, ledger.problem
        self.model_share = MODEL_SHARE
        self.stages: list[Stage] = []

    def run(self, budget: Budget) -> None:
        """Plan one coarse problem after the other, until the budget ends or the last one."""
        sizes = self.sizes(budget)
        for number, size in enumerate(sizes):
            if self.ledger.done or budget.left_s < LEAST_S:
                return
            self.plan(size, budget.at_most("stage", budget.left_s / (len(sizes) - number)))

    def sizes(self, budget: Budget) -> list[int]:
        """Return clusters to aim at, one size after the other, as many as there is time for.

        The one that was asked for, if one was.
        """
        if self.ledger.settings.target is not None:
            return [self.ledger.settings.target]
        most = LARGEST * len(self.problem.graph.operators)
        number = max(1, floor(log(max(1.0, most / FIRST), GROWTH)) + 1)
        sizes = [ceil(FIRST * GROWTH**step) for step in range(number)]
        if budget.repeatable or budget.left_s >= STAGE_S * number:
            return sizes
        few = max(1, int(budget.left_s / STAGE_S))
        return [sizes[(step + 1) * number // few - 1] for step in range(few)]

    def plan(self, size: int, budget: Budget) -> None:
        """Make a coarse problem, plan it, and expand its plan."""
        began, ledger = now(), self.ledger
        chosen = self.choose(size, budget)
        if chosen is None:
            return
        coarse = chosen.coarsening.problem
        stage = Stage(chosen.how, len(coarse.graph.operators), before=ledger.value)
        ledger.details["coarse_operators"] = stage.clusters
        ledger.details["coarsening"] = [row._asdict() for row in chosen.coarsening.table()]
        ledger.details["coarsening_exact"] = chosen.coarsening.exact
        ledger.say("stage", f"{stage.clusters} clusters, {chosen.how}")
        below = self.below(coarse, budget)
        try:
            if chosen.start is not None:
                below.offer(chosen.start, "start", "start")
            small = SmallSearch(below)
            if small.learns and kept(LAST[LEARNING]):
                small.learn(budget.part("learn", LEARN_SHARE, of_limit=False))
            if stage.clusters <= MODELLED or ledger.settings.target is not None:
                self.ask(below, stage, budget)
            if below.plan is not None and not ledger.settings.only:
                search_nearby(below, budget, IN_VAIN)
                stage.windows = below.value
        finally:
            self.expand(chosen, below)
            stage.after, stage.seconds = ledger.value, now() - began
            self.stages.append(stage)
            ledger.details.setdefault("coarse_stages", []).append(stage.as_row())

    def below(self, coarse: PlanningProblem, budget: Budget) -> Ledger[PlanningProblem, Plan]:
        """Return a ledger for a coarse problem."""
        settings = replace(self.ledger.settings, start=None, hints=(), dask=None)
        made = Ledger(self.ledger.kind, coarse, settings, budget, solver=self.ledger.formulation)
        made.cores = self.ledger.cores
        return made

    def choose(self, size: int, budget: Budget) -> Chosen | None:
        """Return the coarse problem that starts from the best plan."""
        best: Chosen | None = None
        for how, coarsening in self.coarsenings(size):
            clusters = len(coarsening.problem.graph.operators)
            if self.stages and clusters <= self.stages[-1].clusters:
                continue
            chosen = Chosen(how, coarsening, *self.start(coarsening, budget))
            if best is None or chosen.rank < best.rank:
                best = chosen
            if budget.over:
                break
        return best

    def coarsenings(self, size: int) -> Iterator[tuple[str, Coarsening]]:
        """Yield coarse problems of about a size, each with how it was made."""
        ways: dict[str, dict[str, Any]] = {"stages": {"stages": True}, "pairs": {}}
        if self.ledger.plan is not None and self.ledger.plan.has_schedule:
            ways["along the plan"] = {"guide": self.ledger.plan}
        for how, settings in ways.items():
            with self.ledger.budget.phase("coarsen"):
                coarsening = coarsen(self.problem, size, **settings)
            yield how, coarsening

    def start(self, coarsening: Coarsening, budget: Budget) -> tuple[Plan | None, int | None]:
        """Return the best of the projected plan and list schedules of a coarse problem."""
        ledger, coarse = self.ledger, coarsening.problem
        if ledger.settings.only:
            return list_start(coarse) or (None, None)
        trial = Ledger(ledger.kind, coarse, ledger.settings, budget)
        if ledger.plan is not None:
            with ledger.budget.phase("project"):
                rough = coarsening.project(ledger.plan)
                if rough is not None:
                    trial.offer(started(ledger.kind, coarse, rough).plan, "projection", "start")
        with ledger.budget.phase("baselines"):
            best_plan(
                coarse,
                LISTS,
                seed=ledger.settings.seed,
                budget=budget.part("lists", LIST_SHARE),
                on_plan=lambda plan: trial.offer(plan, plan.planner, "start"),
                on_defect=ledger.fail,
            )
        return trial.plan, trial.value

    def ask(self, below: Ledger[PlanningProblem, Plan], stage: Stage, budget: Budget) -> None:
        """Ask the exact model of a coarse problem, with its own plan as start and cutoff."""
        ledger = self.ledger
        if below.formulation is None or below.settled:
            return
        share = 1.0 if ledger.settings.only else self.model_share
        part = budget.part("model", share, of_limit=False)
        limits = replace(below.limits(part.limit_s), threads=ledger.settings.threads or 1)
        stage.start = cutoff = below.value
        answer = below.solver.run(
            below.problem,
            Guide(cutoff),
            limits,
            budget,
            start=below.plan,
            on_progress=self.progress,
            confirm=False,
        )
        ledger.asked = True
        stage.answered(answer)
        ledger.details |= answer.described()
        if cutoff is not None and (stage.model is None or stage.model >= cutoff):
            self.model_share /= 2
        try:
            below.believe(answer, cutoff)
        finally:
            ledger.dispute(below.disputed, below.disputed_model)
            for defect in below.defects:
                ledger.fail(defect)

    def progress(self, point: TracePoint) -> None:
        """Tell of the solver's progress."""
        found = "none" if point.incumbent is None else f"{point.incumbent:.6g}"
        bound = "none" if point.bound is None else f"{point.bound:.6g}"
        self.ledger.say("model", f"model {found}, its bound {bound}, nodes {point.nodes}")

    def expand(self, chosen: Chosen, below: Ledger[PlanningProblem, Plan]) -> None:
        """Offer the coarse problem's plan to the run, as it is and with every task early."""
        if below.plan is None:
            return
        by = "coarse start" if below.planner == "start" else f"{below.planner} + coarsening"
        with self.ledger.budget.phase("expand"):
            expanded = chosen.coarsening.undo(below.plan)
            tight = compact(self.problem, expanded)
        self.ledger.offer(expanded, by, "expand", sure=False)
        self.ledger.offer(tight, by, "compact")
