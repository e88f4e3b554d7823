"""Solves one model of a reduced sharding problem, from formulation to labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from milp_plan.backends import Limits, SolverReport, TracePoint
from milp_plan.core import FormulationError, FormulationFailureError
from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.lp.ranges import doubt_of
from milp_plan.models import validated
from milp_plan.models.isolated import within
from milp_plan.models.protocol import Guide, Scale
from milp_plan.run.confirmation import Confirmation
from milp_plan.run.model import REFUTED, RELATIVE_TOLERANCE, FormulationSolver, backend
from milp_plan.run.model_answer import ModelAnswer

from .covers import broken_covers, with_covers
from .labelling import Integers, Labelling
from .reading import read_labelling

MARGIN = 1e-7
"""Share of the range of costs by which a solver's bound is lowered, as it is a float."""

TOLERANCE = 1e-5
"""Share of a capacity within a model's leeway and a solver's tolerance."""

MAX_ROUNDS = 50
"""Largest number of solves with more and more covers."""


class SolveStart(NamedTuple):
    """Labels to start from, and the receiver of progress."""

    labels: Any = None
    on_progress: Callable[[TracePoint], None] | None = None


NO_START = SolveStart()


def solve_labelling(
    problem: ShardingProblem | Labelling,
    solver: FormulationSolver,
    guide: Guide,
    limits: Limits,
    budget: Budget,
    *,
    start: Any = None,
    on_progress: Callable[[TracePoint], None] | None = None,
) -> ModelAnswer:
    """Build, solve, decode, and recompute in exact integers.

    Where the plan overflows by less than floats can tell, the solver gets rows that state it
    (:mod:`milp_plan.kinds.sharding.covers`) and runs again.

    Parameters
    ----------
    problem
        The reduced or the whole problem.
    limits
        Limits of the solve; building counts towards the time.
    budget
        Budget of the run, which records the phases.
    start
        Labels to start from.

    Returns
    -------
    ModelAnswer
        Its plan is a choice for ``problem``; its bound is lowered by :data:`MARGIN`. Its proofs
        are confirmed.
    """

    def ask(guide: Guide, limits: Limits, begin: SolveStart = NO_START) -> ModelAnswer:
        try:
            return _answer(problem, solver, guide, limits, budget, begin)
        except FormulationFailureError as error:
            return solver.failed(error)

    confirmation = Confirmation(ask, guide, limits, budget)
    return confirmation.confirm(ask(guide, limits, SolveStart(start, on_progress)))


def _answer(  # noqa: PLR0917 (as above)
    problem: ShardingProblem | Labelling,
    solver: FormulationSolver,
    guide: Guide,
    limits: Limits,
    budget: Budget,
    begin: SolveStart,
) -> ModelAnswer:
    """Answer once like :func:`solve_labelling`; raises ``FormulationFailureError``."""
    options = solver.options
    formulation = within(solver.formulation, limits.time_s)
    end = Budget(limits.time_s)
    subject: Any = problem
    with budget.phase("build"):
        source = validated.built(formulation, subject, options, guide)
        model = validated.compiled(formulation, source)
        scale = validated.scale_of(formulation, subject, options, guide)
        vector, startless = None, ""
        if begin.labels is not None:
            plan: Any = ShardingPlan("", tuple(int(label) for label in begin.labels))
            asked = (formulation, subject, options, source, model, plan)
            vector, startless = validated.start_of(*asked)
    labelling = read_labelling(problem, fewer_rows=False)
    assert isinstance(labelling, Labelling), labelling
    limits = replace(limits, gap_abs=0.5 if scale.unit <= 1.0 else 1e-9)  # half a cost is no gap
    seconds, labels, disputed = 0.0, None, ""
    for _ in range(MAX_ROUNDS):
        left = replace(limits, time_s=end.left_s)
        with budget.phase("solve"):
            report = backend(solver.name)(model, left, vector, on_progress=begin.on_progress)
        seconds += report.seconds
        labels, disputed = None, ""
        if report.solution is None:
            break
        reader = within(formulation, max(limits.grace_s, end.left_s))
        try:
            values = model.name_values(report.solution)
            decoded: Any = validated.plan_of(reader, subject, options, guide, values)
        except FormulationFailureError:
            raise
        except FormulationError as error:
            disputed = str(error)
            break
        if decoded is None:
            break
        labels = np.array(decoded.chosen, dtype=np.int64)
        if not _overflows_a_little(labelling, labels):
            break
        model = with_covers(model, broken_covers(labelling, labels))
        labels, disputed = None, ""  # until the next round
    value = None
    if labels is not None:
        value, disputed = _recomputed(labelling, labels, report, scale)
    chosen = None if value is None or labels is None else tuple(labels.tolist())
    doubt = doubt_of(model)
    return ModelAnswer(
        report=replace(report, seconds=seconds),
        plan=None if chosen is None else ShardingPlan("", chosen),
        verdict=None,
        value=value,
        bound=None if doubt else _safe(report.bound, model.offset, scale),
        disputed="" if doubt else disputed,
        model_hash=model.content_hash,
        columns=model.num_columns,
        rows=model.num_rows,
        by=formulation.card.name,
        proves=solver.proves,
        doubt=doubt,
        model=model if disputed and not doubt else None,
        startless=startless,
    )


def _overflows_a_little(labelling: Labelling, labels: Integers) -> bool:
    """Return whether the only violation is an overflow below a solver's tolerance."""
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
        bound = f"below the solver's bound {report.bound:.6g}"
        return value, f"{REFUTED} its own plan: it costs {exact:.6g} units, {bound}"
    return value, ""


def _safe(bound: float | None, offset: float, scale: Scale) -> int | None:
    """Return the bound in costs: lowered by a margin for floats, and rounded up."""
    if bound is None or not math.isfinite(bound):
        return None
    margin = MARGIN * max(1.0, abs(bound - offset)) + 1e-14 * abs(bound)
    return math.ceil((bound - margin) * scale.unit)
