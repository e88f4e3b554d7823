"""Sharding problems by a formulation: reduce, search for a start, solve the exact model, check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from milp_plan.api import CompiledModel, Guide, Scale
from milp_plan.backends import Limits, SolverReport, Stop, TracePoint
from milp_plan.check.sharding import verify_sharding
from milp_plan.coarsen.sharding import Reduction
from milp_plan.coarsen.sharding.projection import projected
from milp_plan.core import Finding, FormulationError, InputError, UnsupportedProblemError
from milp_plan.core.budget import now
from milp_plan.core.labelling import Integers, Labelling
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.models.covers import broken_covers, with_covers
from milp_plan.models.labelling import read_labelling
from milp_plan.models.protocol import Formulation
from milp_plan.models.registry import get
from milp_plan.planners.sharding.anytime import Board, Sighting

from .model import RELATIVE_TOLERANCE, backend, compile_source, make_options
from .settings import ProgressHook
from .sharding import ShardingOutcome, ShardingRun, ShardingSettings

SEARCH_SHARE, SEARCH_S = 0.15, 20.0
"""Part of the time left, and seconds at most, that the search for a start takes."""

MARGIN = 1e-7
"""Part of the range of costs by which a solver's bound is lowered: it was found in floats."""

TOLERANCE = 1e-5
"""Part of a capacity that a model may not notice: its leeway and a solver's tolerance."""

MOST_ROUNDS = 50
"""Times that a solver is asked again because of that."""

GRACE_S = 2.0
"""Seconds that a solver may overrun before it is ended."""


@dataclass(frozen=True)
class ModelSettings(ShardingSettings):
    """How to solve with a formulation.

    Parameters
    ----------
    formulation
        Name, or path to a ``.py`` file.
    options
        Its switches.
    start
        A plan to start from.
    node_limit
        Branch-and-bound nodes. With it, nothing depends on the clock before the time limit is
        reached: no search for a start takes place.
    solver
        ``"highs"``, or the name of a solver Pyomo knows.
    """

    formulation: str = "sharding"
    options: Mapping[str, Any] = field(default_factory=dict)
    start: ShardingPlan | None = None
    node_limit: int | None = None
    solver: str = "highs"


@dataclass(frozen=True)
class LabellingAnswer:
    """What one model of a labelling gave.

    Parameters
    ----------
    report
        The solver's own answer.
    labels
        Decoded choice that fits masks and rows; ``None`` without one.
    value, bound
        Exact cost of the choice; proven bound, lowered by :data:`MARGIN` and rounded up.
    disputed
        Why choice and claim do not agree; empty if they do.
    columns, rows, model_hash
        Of the model.
    """

    report: SolverReport
    labels: Any
    value: int | None
    bound: int | None
    disputed: str
    columns: int
    rows: int
    model_hash: str


def solve_sharding_model(
    problem: ShardingProblem,
    settings: ModelSettings | None = None,
    on_progress: ProgressHook | None = None,
) -> ShardingOutcome:
    """Plan a sharding problem with a formulation.

    Raises
    ------
    UnsupportedProblemError
        The formulation is not for it, or sums of its numbers may exceed 64 bits.
    InputError
        The start is not a plan of the problem, or an option is not one of the formulation's.
    FormulationError
        There is no such formulation, or it does not load.
    """
    settings = settings or ModelSettings()
    run = _ModelRun(problem, settings, on_progress or (lambda _: None))
    run.prepare()
    outcome = run.outcome()
    outcome.record.update(
        formulation=settings.formulation,
        options=dict(settings.options),
        node_limit=settings.node_limit,
        model=run.model,
    )
    return outcome


def require_sharding(formulation: Formulation, problem: ShardingProblem) -> None:
    """Refuse formulations of other problems: they would not know what to make of this one.

    Raises
    ------
    UnsupportedProblemError
        It handles other problems.
    """
    card = formulation.card
    if not isinstance(problem, formulation.handles):
        goals = ", ".join(card.objectives)
        raise UnsupportedProblemError(
            f"{problem.name}: formulation {card.name!r} is not for sharding problems; its "
            f"objectives are: {goals}; use 'sharding'"
        )


class _ModelRun(ShardingRun):
    settings: ModelSettings
    model: dict[str, Any] | None = None
    start_value: int | None = None

    def prepare(self) -> None:
        """Load the formulation and hold the start against the problem."""
        found = get(self.settings.formulation)
        assert found.formulation is not None
        self.formulation, self.options = (
            found.formulation,
            make_options(found, self.settings.options),
        )
        require_sharding(found.formulation, self.problem)
        start = self.settings.start
        if start is None:
            return
        verdict = verify_sharding(self.problem, start)
        if not verdict.ok:
            raise InputError(
                Finding(f"start plan, {v.rule}", v.message, "a valid plan", "run check on it")
                for v in verdict.violations
            )
        self.start_value = verdict.value

    def search(self, reduction: Reduction, left_s: float) -> tuple[Board, Stop]:
        """Look for a start, then hand the model to the solver."""
        left: Any = reduction.labelling
        reason = self.formulation.unsupported(left, self.options)
        if reason is not None:
            raise UnsupportedProblemError(f"{self.problem.name}: {reason}")
        end = self.elapsed_s + left_s
        board, stop = self._begin(reduction, left_s)
        if self.settings.start is not None:
            board.offer(projected(reduction, np.array(self.settings.start.chosen)))
        if stop is Stop.INTERRUPTED or board.proved:
            return board, stop
        began = now()
        try:
            answer = self._solve(left, board, max(0.05, end - self.elapsed_s))
        except KeyboardInterrupt:  # while the model was built; the solver's own is a report
            return board, Stop.INTERRUPTED
        building = now() - began - answer.report.seconds
        self.model = _described(answer) | {"build_s": round(building, 3)}
        return board, self._take(answer, board)

    def _begin(self, reduction: Reduction, left_s: float) -> tuple[Board, Stop]:
        """Search for a start; an empty problem is answered at once."""
        if self.settings.node_limit is None or not len(reduction.labelling):
            return super().search(reduction, min(SEARCH_S, SEARCH_SHARE * left_s))
        return Board(reduction.labelling, left_s, self.settings.gap), Stop.NODE_LIMIT

    def _known(self, board: Board) -> int | None:
        """Cost of the best plan so far, the start included."""
        return min(
            (value for value in (board.value, self.start_value) if value is not None), default=None
        )

    def _plan(self, reduction: Reduction | None, board: Board | None) -> ShardingPlan | None:
        """Return the best plan; a start that reductions have lost is one as well."""
        plan, start = super()._plan(reduction, board), self.settings.start
        if start is None or self.start_value is None:
            return plan
        if plan is not None and plan.value is not None and plan.value <= self.start_value:
            return plan
        self.planner = start.planner or "start"
        return replace(start, fingerprint=self.problem.fingerprint, value=self.start_value)

    def _solve(self, left: Labelling, board: Board, left_s: float) -> LabellingAnswer:
        settings = self.settings
        limits = Limits(
            time_s=left_s,
            nodes=settings.node_limit,
            gap=0.5 * settings.gap,
            seed=settings.seed,
            threads=settings.workers or 1,
            grace_s=GRACE_S,
        )

        def tell(point: TracePoint) -> None:
            seen = board.sighting()
            self.tell(
                Sighting(seen.value, seen.bound, point.seconds, f"model, {point.nodes} nodes")
            )

        return solve_labelling(
            left,
            self.formulation,
            self.options,
            Guide(self._known(board), board.bound),
            limits,
            start=board.best(),
            solver=settings.solver,
            on_progress=tell,
        )

    def _take(self, answer: LabellingAnswer, board: Board) -> Stop:
        """Offer what the solver found to the board; it is checked there and again when undone."""
        report, known, best = answer.report, board.sighting(), self._known(board)
        name = self.formulation.card.name
        self.disputed_because = answer.disputed
        proves = not self.formulation.restricts(self.options)
        if report.stop is Stop.INFEASIBLE and proves:
            if best is None:
                self.infeasible_because = f"the model {name!r} has no solution"
                return Stop.INFEASIBLE
            self.disputed_because = f"the solver finds no plan as good as the known {best}"
            return Stop.ERROR
        if answer.labels is not None:
            board.offer(answer.labels)
            if board.value != known.value:
                self.planner = name
        if answer.bound is not None and not answer.disputed and proves:
            board.prove(answer.bound)
            if board.bound != known.bound:
                self.bound_name = name
        done = report.stop in (Stop.PROVED, Stop.INFEASIBLE)
        return Stop.TIME_LIMIT if done and not proves else report.stop


def solve_labelling(
    problem: ShardingProblem | Labelling,
    formulation: Formulation,
    options: Any,
    guide: Guide,
    limits: Limits,
    *,
    start: Any = None,
    solver: str = "highs",
    on_progress: Any = None,
) -> LabellingAnswer:
    """Build, hand over, solve, decode, and recompute in exact integers.

    Where the plan overflows by less than floats can tell, the solver gets rows that say so
    (:mod:`milp_plan.models.covers`) and is asked again.

    Parameters
    ----------
    problem
        What reductions have left, or a whole problem.
    limits
        Building counts towards the time.
    start
        Labels to start from.
    """
    end = now() + limits.time_s
    subject: Any = problem
    source = formulation.build(subject, options, guide)
    model: CompiledModel = compile_source(source)
    scale = formulation.scale(subject, options, guide)
    vector = None
    if start is not None:
        plan: Any = ShardingPlan("", tuple(int(label) for label in start))
        values = formulation.encode(subject, options, source, plan)
        vector = None if values is None else model.vector(values)
    labelling = read_labelling(problem, fewer_rows=False)
    assert isinstance(labelling, Labelling), labelling
    limits = replace(limits, gap_abs=0.5 if scale.unit <= 1.0 else 1e-9)  # half a cost is no gap
    seconds, labels, disputed = 0.0, None, ""
    for _ in range(MOST_ROUNDS):
        left = replace(limits, time_s=max(0.0, end - now()))
        report = backend(solver)(model, left, vector, on_progress=on_progress)
        seconds += report.seconds
        labels, disputed = None, ""
        if report.solution is None:
            break
        try:
            decoded: Any = formulation.decode(
                subject, options, guide, model.name_values(report.solution)
            )
        except FormulationError as error:
            disputed = str(error)
            break
        labels = np.array(decoded.chosen, dtype=np.int64)
        if not _overflows_a_little(labelling, labels):
            break
        model = with_covers(model, broken_covers(labelling, labels))
        labels, disputed = None, ""  # until the next round says something
    value = None
    if labels is not None:
        value, disputed = _recomputed(labelling, labels, report, scale)
    return LabellingAnswer(
        replace(report, seconds=seconds),
        None if value is None else labels,
        value,
        _safe(report.bound, model.offset, scale),
        disputed,
        model.num_columns,
        model.num_rows,
        model.content_hash,
    )


def _overflows_a_little(labelling: Labelling, labels: Integers) -> bool:
    """Whether all that is wrong is that rows overflow by less than a solver's tolerance."""
    over = labelling.load(labels) - labelling.capacity
    within = over <= TOLERANCE * labelling.capacity
    return bool((over > 0).any() and within.all() and labelling.value(labels) is not None)


def _recomputed(
    labelling: Labelling, labels: Integers, report: SolverReport, scale: Scale
) -> tuple[int | None, str]:
    """Return the exact cost of a valid choice, and why it is disputed."""
    value = labelling.value(labels)
    if value is None:
        return None, "the solver's plan takes a pair that is not allowed"
    if (labelling.load(labels) > labelling.capacity).any():
        return None, "the solver's plan takes more memory than there is"
    assert report.objective is not None
    exact, claim = value / scale.unit, report.objective
    tolerance = 0.5 if scale.unit <= 1.0 else RELATIVE_TOLERANCE * max(1.0, abs(claim))
    if exact > claim + tolerance:
        return value, f"the plan costs {exact:.6g} units, the solver claims {claim:.6g}"
    if report.bound is not None and exact < report.bound - tolerance:
        return value, f"the plan costs {exact:.6g} units, below the solver's bound"
    return value, ""


def _safe(bound: float | None, offset: float, scale: Scale) -> int | None:
    """Bound in costs: lowered by what floats may have cost, and rounded up."""
    if bound is None or not math.isfinite(bound):
        return None
    margin = MARGIN * max(1.0, abs(bound - offset)) + 1e-14 * abs(bound)
    return math.ceil((bound - margin) * scale.unit)


def _described(answer: LabellingAnswer) -> dict[str, Any]:
    report = answer.report
    return {
        "columns": answer.columns,
        "rows": answer.rows,
        "hash": answer.model_hash,
        "stop": str(report.stop),
        "nodes": report.nodes,
        "seconds": round(report.seconds, 3),
        "start_accepted": report.start_accepted,
        "objective_units": report.objective,
        "message": report.message,
    }
