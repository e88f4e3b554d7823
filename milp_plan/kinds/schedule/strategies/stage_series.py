"""Both stages on coarse problems of growing size: clusters, exact model, small models, expansion.

Each coarse problem starts from the best of its own list schedules and of the projected plan of the
stage before. The exact model takes the first sizes, which HiGHS can solve or improve; small models
near the coarse plan take all of them. What comes back is expanded, tightened and checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil, floor, inf, log
from typing import Any, NamedTuple

from milp_plan.backends import TracePoint
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget, now
from milp_plan.models.protocol import Guide
from milp_plan.run.ledger import Ledger
from milp_plan.run.restart import make_start

from ..coarsen.reduction import Coarsening
from ..coarsen.stage import coarsen
from ..loops import LEARNING
from ..planners.indexed import indexed
from ..planners.portfolio import LISTS, best_plan, list_start
from ..stages import Stage
from ..window_search.search import search_windows
from .compaction import compact
from .small_schedule import SmallSearch

FIRST, GROWTH, LARGEST = 36, 5 / 3, 0.7
"""Clusters of the first coarse problem, the factor to the next, and the most as a part of the
original's operators: the next larger problem is the original."""

MODELLED = 100
"""Clusters up to which the whole coarse problem is one model."""

PROMISING, HOPELESS = 1.15, 1.5
"""Value of a coarse problem's start, as a multiple of that of the best plan: above the former no
small models follow the model, above the latter it is not asked either."""

BUILD_SHARE = 0.6
"""Part of a model's time that building it may take."""

BUILD_S, BUILD_S_BOUND = 3e-5, 3e-4
"""Seconds of building a model, by the product of its values and the placements of all operators;
and where memory binds or operators run on several devices. Once a model is built, what it took
counts."""

COARSEN_SHARE = 0.3
"""Part of a stage's time after which no further coarse problem is made for it."""

COARSEN_S = 1.6e-6
"""Seconds of making one, by the square of the number of operators."""

MODEL_SHARE = 0.5
"""Part of a stage's time for its model, half as much after each that did not improve its start;
small models near its plan take the rest."""

LEARN_SHARE = 0.3
"""Part of a stage's time for the search that learns clauses, which comes before the model."""

LIST_SHARE = 0.1
"""Part of a stage's time for list schedules of each of its coarse problems."""

IN_VAIN = 12
"""Small models in vain, one after the other, until the next size comes."""

LEAST_S, STAGE_S = 1.0, 3.0
"""Seconds without which no stage is begun, and those of a stage where there are few: sizes between
are left out."""


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


def report_progress(ledger: Ledger[PlanningProblem, Plan], point: TracePoint) -> None:
    """Report a solver's progress in the run's messages."""
    found = "none" if point.incumbent is None else f"{point.incumbent:.6g}"
    bound = "none" if point.bound is None else f"{point.bound:.6g}"
    ledger.say("model", f"model {found}, its bound {bound}, nodes {point.nodes}")


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
        self.build_rate = 0.0  # seconds of the last model, by its size
        self.stages: list[Stage] = []

    def run(self, budget: Budget, most: int | None = None, *, patient: bool = True) -> None:
        """Plan one coarse problem after the other, until the budget ends or the last one.

        Parameters
        ----------
        budget
            Of the run, or a part.
        most
            Clusters to aim at in the last one; by default the sizes grow up to the original.
        patient
            Whether to go on where a stage brought no better plan of the original, and to begin
            where making a coarse problem takes most of the budget.
        """
        if not patient and COARSEN_S * len(self.problem.graph.operators) ** 2 > budget.left_s / 2:
            self.ledger.say("stage", "no coarse problem: making one would take too long")
            return
        sizes = self.sizes(budget, most)
        for number, size in enumerate(sizes):
            in_vain = not patient and self.stages and not self.stages[-1].paid
            if self.ledger.done or budget.left_s < LEAST_S or in_vain:
                return
            self.plan(size, budget.at_most("stage", budget.left_s / (len(sizes) - number)))

    def sizes(self, budget: Budget, most: int | None = None) -> list[int]:
        """Return clusters to aim at, one size after the other, as many as there is time for.

        The one that was asked for, if one was.
        """
        if self.ledger.settings.target is not None:
            return [self.ledger.settings.target]
        largest = min(LARGEST * len(self.problem.graph.operators), most or inf)
        number = max(1, floor(log(max(1.0, largest / FIRST), GROWTH) + 1e-9) + 1)
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
        row = stage.as_row()  # in the record whatever ends the stage
        ledger.details.setdefault("coarse_stages", []).append(row)
        below = self.below(coarse, budget)
        try:
            if chosen.start is not None:
                below.offer(chosen.start, "start", "start")
            asked = ledger.settings.target is not None
            if asked or (stage.clusters <= MODELLED and self.behind(below) <= HOPELESS):
                self.learn(below, budget)
                self.ask(below, stage, budget)
            near = below.plan is not None and (asked or self.behind(below) <= PROMISING)
            if near and self.problem.objective is Objective.MAKESPAN and not ledger.settings.only:
                search_windows(below, budget, IN_VAIN)
                stage.windows = below.value
        finally:
            ledger.dispute(below.disputed, below.disputed_model)
            for defect in below.defects:
                ledger.fail(defect)
            stage.after, stage.seconds = ledger.value, now() - began
            row.update(stage.as_row())
            self.expand(chosen, below)
            stage.after, stage.seconds = ledger.value, now() - began
            self.stages.append(stage)
            row.update(stage.as_row())

    def behind(self, below: Ledger[PlanningProblem, Plan]) -> float:
        """Return the value of a coarse problem's plan as a multiple of the best plan's value."""
        if below.value is None or not self.ledger.value:
            return 1.0
        return below.value / self.ledger.value

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
            if budget.left_s < (1 - COARSEN_SHARE) * budget.limit_s and not budget.repeatable:
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
                    trial.offer(make_start(ledger.kind, coarse, rough).plan, "projection", "start")
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

    def learn(self, below: Ledger[PlanningProblem, Plan], budget: Budget) -> None:
        """Search the coarse problem by what learns from conflicts, where its loops are compiled."""
        small = SmallSearch(below)
        if small.learns and not self.ledger.settings.only and LEARNING.on_disk:
            small.learn(budget.part("learn", LEARN_SHARE, of_limit=False))

    def ask(self, below: Ledger[PlanningProblem, Plan], stage: Stage, budget: Budget) -> None:
        """Ask the exact model of a coarse problem, with its own plan as start and cutoff."""
        ledger = self.ledger
        if below.formulation is None or below.settled:
            return
        share = 1.0 if ledger.settings.only else self.model_share
        part = budget.part("model", share, of_limit=False)
        asked = budget.repeatable or ledger.settings.target is not None
        if not (asked or self.light(below.problem, part.limit_s)):
            ledger.say("model", "none of this coarse problem: building it would take too long")
            return
        limits = replace(below.limits(part.limit_s), threads=ledger.settings.threads or 1)
        stage.start = cutoff = below.value
        built_s = self.build_s
        answer = below.solver.run(
            below.problem,
            Guide(cutoff),
            limits,
            budget,
            start=below.plan,
            on_progress=partial(report_progress, ledger),
            confirm=False,
        )
        self.build_rate = (self.build_s - built_s) / _size(below.problem)
        ledger.asked = True
        stage.answered(answer)
        ledger.details |= answer.described()
        improved = cutoff is None or (stage.model is not None and stage.model < cutoff)
        if not (improved or answer.described()["model"]["bound"] == cutoff):
            self.model_share /= 2
        below.accept_answer(answer, cutoff)

    @property
    def build_s(self) -> float:
        """Seconds that models took to build so far."""
        phases = self.ledger.budget.phases
        return phases.get("build", 0.0) + phases.get("compile", 0.0)

    def light(self, coarse: PlanningProblem, seconds: float) -> bool:
        """Return whether the model of a coarse problem is built in a part of some seconds."""
        view = indexed(coarse)
        heavy = view.memory_binds or any(len(s.devices) > 1 for spots in view.spots for s in spots)
        rate = self.build_rate or (BUILD_S_BOUND if heavy else BUILD_S)
        return rate * _size(coarse) <= BUILD_SHARE * seconds

    def expand(self, chosen: Chosen, below: Ledger[PlanningProblem, Plan]) -> None:
        """Offer the coarse problem's plan to the run, as it is and with every task early."""
        if below.plan is None:
            return
        by = "coarse start" if below.planner == "start" else f"{below.planner} + coarsening"
        with self.ledger.budget.phase("expand"):
            expanded = chosen.coarsening.undo(below.plan)
            tight = compact(self.problem, expanded)
        self.ledger.offer(expanded, by, "expand", must_be_valid=False)
        self.ledger.offer(tight, by, "compact")


def _size(problem: PlanningProblem) -> int:
    """Return the product of values and placements, with which the rows of a model grow."""
    return max(1, len(problem.graph.values)) * sum(map(len, indexed(problem).spots))
