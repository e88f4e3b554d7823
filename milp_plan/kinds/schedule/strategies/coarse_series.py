"""Coarse problems of growing size: each is planned by model and windows, and its plan expanded.

Each coarse problem starts from the best of its own list schedules and the projected plan of the
run so far. The exact model is solved for the smaller ones, which HiGHS can solve or improve;
small models near the coarse plan follow for all of them. The plan is expanded, compacted and
checked.
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

from ..coarse_problem import CoarseProblemRow
from ..coarsen.reduction import Coarsening
from ..coarsen.steps import coarsen
from ..loops import LEARNING
from ..planners.indexed import indexed
from ..planners.portfolio import LISTS, OWN, best_plan, list_start
from ..window_search.search import search_windows
from .compaction import compact
from .small_schedule import SmallSearch

FIRST_CLUSTERS, GROWTH, LARGEST_SHARE = 36, 5 / 3, 0.7
"""Clusters of the first coarse problem, the factor from one size to the next, and the most
clusters as a part of the original's operators: the next larger problem is the original."""

MAX_MODEL_CLUSTERS = 100
"""Most clusters for which the model of the whole coarse problem is solved."""

WINDOWS_RATIO, MODEL_RATIO = 1.15, 1.5
"""Largest ratios of a coarse plan's value to the best plan's value: above the first, small models
near the coarse plan are left out; above the second, the model as well."""

BUILD_SHARE = 0.6
"""Part of a model's time that building it may take."""

BUILD_S, BUILD_S_BOUND = 3e-5, 3e-4
"""Estimated seconds of building a model, per value and placement (their product); the second
where memory binds or operators run on several devices. After the first model, the measured rate
is used."""

COARSEN_SHARE = 0.3
"""Part of a size's time after which no further coarse problem of that size is made."""

COARSEN_S = 1.6e-6
"""Estimated seconds of making a coarse problem, per square of the number of operators."""

MODEL_SHARE = 0.5
"""Part of a size's time for its model, halved after each model that did not improve its start;
small models near its plan take the rest."""

LEARN_SHARE = 0.3
"""Part of a size's time for clause learning, which comes before the model."""

LIST_SHARE = 0.1
"""Part of a size's time for list schedules of each of its coarse problems."""

MAX_FAILED_ROUNDS = 12
"""Consecutive small models without improvement after which the next size comes."""

LEAST_S, SIZE_S = 1.0, 3.0
"""Seconds that must be left to begin another size, and seconds planned for each where time is
short: some sizes are then left out."""


class Candidate(NamedTuple):
    """A coarse problem, how its clusters were made, and the plan to start from, with its value."""

    how: str
    coarsening: Coarsening
    start: Plan | None = None
    value: int | None = None

    @property
    def rank(self) -> tuple[bool, int]:
        """Sort key: the value of the start; candidates without a start come last."""
        return self.value is None, self.value or 0


def report_progress(ledger: Ledger[PlanningProblem, Plan], point: TracePoint) -> None:
    """Report a solver's progress in the run's messages."""
    text = ledger.kind.measure(ledger.problem).text
    value, bound = (
        text(None if amount is None else round(amount)) for amount in (point.incumbent, point.bound)
    )
    ledger.say("model", f"model {value}, its bound {bound}, nodes {point.nodes}")


class CoarseSeries:
    """Coarse problems of one problem, from few clusters to many.

    Parameters
    ----------
    ledger
        The run's ledger; its problem is coarsened.
    """

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        self.ledger, self.problem = ledger, ledger.problem
        self.model_share = MODEL_SHARE
        self.build_rate = 0.0  # seconds of building the last model, per unit of its size
        self.rows: list[CoarseProblemRow] = []

    def run(self, budget: Budget, most: int | None = None, *, patient: bool = True) -> None:
        """Plan coarse problems of growing size until the budget ends or the last one is planned.

        Parameters
        ----------
        budget
            The run's budget or a part of it.
        most
            Clusters to aim at in the last one; by default the sizes grow up to the original.
        patient
            Whether to continue after a size that did not improve the plan of the original, and
            to begin where making a coarse problem takes most of the budget.
        """
        if not patient and COARSEN_S * len(self.problem.graph.operators) ** 2 > budget.left_s / 2:
            self.ledger.say("stage", "no coarse problem: making one would take too long")
            return
        sizes = self.sizes(budget, most)
        for number, size in enumerate(sizes):
            failed = not patient and self.rows and not self.rows[-1].improved
            if self.ledger.done or budget.left_s < LEAST_S or failed:
                return
            self.plan(size, budget.at_most("stage", budget.left_s / (len(sizes) - number)))

    def sizes(self, budget: Budget, most: int | None = None) -> list[int]:
        """Return numbers of clusters to aim at, growing, as many as there is time for.

        If the settings name a target, it is the only one.
        """
        if self.ledger.settings.target is not None:
            return [self.ledger.settings.target]
        largest = min(LARGEST_SHARE * len(self.problem.graph.operators), most or inf)
        number = max(1, floor(log(max(1.0, largest / FIRST_CLUSTERS), GROWTH) + 1e-9) + 1)
        sizes = [ceil(FIRST_CLUSTERS * GROWTH**step) for step in range(number)]
        if budget.repeatable or budget.left_s >= SIZE_S * number:
            return sizes
        few = max(1, int(budget.left_s / SIZE_S))
        return [sizes[(step + 1) * number // few - 1] for step in range(few)]

    def plan(self, size: int, budget: Budget) -> None:
        """Make a coarse problem, plan it, and expand its plan."""
        began, ledger = now(), self.ledger
        candidate = self.choose(size, budget)
        if candidate is None:
            return
        problem = candidate.coarsening.problem
        row = CoarseProblemRow(candidate.how, len(problem.graph.operators), before=ledger.value)
        ledger.details["coarse_operators"] = row.clusters
        ledger.details["coarsening"] = [step._asdict() for step in candidate.coarsening.table()]
        ledger.details["coarsening_exact"] = candidate.coarsening.exact
        ledger.say("stage", f"{row.clusters} clusters, {candidate.how}")
        recorded = row.as_row()  # in the record even if an interrupt ends the search
        ledger.details.setdefault("coarse_stages", []).append(recorded)
        coarse = self.coarse_ledger(problem, budget)
        try:
            if candidate.start is not None:
                coarse.offer(candidate.start, "start", "start")
            requested = ledger.settings.target is not None
            small = row.clusters <= MAX_MODEL_CLUSTERS
            if requested or (small and self.value_ratio(coarse) <= MODEL_RATIO):
                self.learn(coarse, budget)
                self.solve_model(coarse, row, budget)
            near = coarse.plan is not None
            near = near and (requested or self.value_ratio(coarse) <= WINDOWS_RATIO)
            if near and self.problem.objective is Objective.MAKESPAN and not ledger.settings.only:
                search_windows(coarse, budget, MAX_FAILED_ROUNDS)
                row.windows = coarse.value
        finally:
            ledger.dispute(coarse.disputed, coarse.disputed_model)
            for defect in coarse.defects:
                ledger.fail(defect)
            row.after, row.seconds = ledger.value, now() - began
            recorded.update(row.as_row())
            self.expand(candidate, coarse)
            row.after, row.seconds = ledger.value, now() - began
            self.rows.append(row)
            recorded.update(row.as_row())

    def value_ratio(self, coarse: Ledger[PlanningProblem, Plan]) -> float:
        """Return the value of a coarse problem's plan as a multiple of the best plan's value."""
        if coarse.value is None or not self.ledger.value:
            return 1.0
        return coarse.value / self.ledger.value

    def coarse_ledger(
        self, problem: PlanningProblem, budget: Budget
    ) -> Ledger[PlanningProblem, Plan]:
        """Return a ledger for a coarse problem."""
        settings = replace(self.ledger.settings, start=None, hints=(), dask=None)
        solver = self.ledger.formulation
        coarse = Ledger(self.ledger.kind, problem, settings, budget, solver=solver)
        coarse.cores = self.ledger.cores
        return coarse

    def choose(self, size: int, budget: Budget) -> Candidate | None:
        """Return the coarse problem of a size that starts from the best plan."""
        best: Candidate | None = None
        for how, coarsening in self.coarsenings(size):
            clusters = len(coarsening.problem.graph.operators)
            if self.rows and clusters <= self.rows[-1].clusters:
                continue
            candidate = Candidate(how, coarsening, *self.start(coarsening, budget))
            if best is None or candidate.rank < best.rank:
                best = candidate
            if budget.left_s < (1 - COARSEN_SHARE) * budget.limit_s and not budget.repeatable:
                break
        return best

    def coarsenings(self, size: int) -> Iterator[tuple[str, Coarsening]]:
        """Yield coarse problems of about a size, each with the name of its method."""
        methods: dict[str, dict[str, Any]] = {"stages": {"stages": True}, "pairs": {}}
        if self.ledger.plan is not None and self.ledger.plan.has_schedule:
            methods["along the plan"] = {"guide": self.ledger.plan}
        for how, settings in methods.items():
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
                projected = coarsening.project(ledger.plan)
                if projected is not None:
                    repaired = make_start(ledger.kind, coarse, projected).plan
                    trial.offer(repaired, "projection", "start")
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

    def learn(self, coarse: Ledger[PlanningProblem, Plan], budget: Budget) -> None:
        """Search the coarse problem by clause learning, where its loops are compiled."""
        small = SmallSearch(coarse)
        if small.learns and not self.ledger.settings.only and LEARNING.on_disk:
            small.learn(budget.part("learn", LEARN_SHARE, of_limit=False))

    def solve_model(
        self, coarse: Ledger[PlanningProblem, Plan], row: CoarseProblemRow, budget: Budget
    ) -> None:
        """Solve the exact model of a coarse problem, with its plan as start and cutoff."""
        ledger = self.ledger
        if coarse.formulation is None or coarse.settled:
            return
        share = 1.0 if ledger.settings.only else self.model_share
        part = budget.part("model", share, of_limit=False)
        named = ledger.solver.found.name != OWN  # the rates are those of ours
        requested = budget.repeatable or named or ledger.settings.target is not None
        if not (requested or self.builds_quickly(coarse.problem, part.limit_s)):
            ledger.say("model", "no model of this coarse problem: building it takes too long")
            return
        threads = ledger.settings.threads or 1
        limits = replace(coarse.limits(part.limit_s), gap=0.0, threads=threads)
        row.start = cutoff = coarse.value
        built_s = self.build_s
        answer = coarse.solver.run(
            coarse.problem,
            Guide(cutoff),
            limits,
            budget,
            start=coarse.plan,
            on_progress=partial(report_progress, ledger),
            confirm=False,
        )
        self.build_rate = (self.build_s - built_s) / _size(coarse.problem)
        ledger.asked = True
        row.set_model(answer)
        ledger.details |= answer.described()
        improved = cutoff is None or (row.model is not None and row.model < cutoff)
        if not (improved or answer.described()["model"]["bound"] == cutoff):
            self.model_share /= 2
        coarse.accept_answer(answer, cutoff)

    @property
    def build_s(self) -> float:
        """Seconds spent on building models so far."""
        phases = self.ledger.budget.phases
        return phases.get("build", 0.0) + phases.get("compile", 0.0)

    def builds_quickly(self, problem: PlanningProblem, seconds: float) -> bool:
        """Return whether building a problem's model leaves enough of some seconds to solve it."""
        view = indexed(problem)
        heavy = view.memory_binds or any(len(s.devices) > 1 for spots in view.spots for s in spots)
        rate = self.build_rate or (BUILD_S_BOUND if heavy else BUILD_S)
        return rate * _size(problem) <= BUILD_SHARE * seconds

    def expand(self, candidate: Candidate, coarse: Ledger[PlanningProblem, Plan]) -> None:
        """Offer the coarse problem's plan to the run, as it is and compacted."""
        if coarse.plan is None:
            return
        by = "coarse start" if coarse.planner == "start" else f"{coarse.planner} + coarsening"
        with self.ledger.budget.phase("expand"):
            expanded = candidate.coarsening.undo(coarse.plan)
            tight = compact(self.problem, expanded)
        self.ledger.offer(expanded, by, "expand", must_be_valid=False)
        self.ledger.offer(tight, by, "compact")


def _size(problem: PlanningProblem) -> int:
    """Return the product of values and placements, with which the rows of a model grow."""
    return max(1, len(problem.graph.values)) * sum(map(len, indexed(problem).spots))
