"""One model of what reductions have left of a sharding problem, from formulation to labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from milp_plan.backends import Limits, SolverReport, TracePoint
from milp_plan.core import FormulationError, FormulationFailureError
from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.lp.ranges import doubt_of
from milp_plan.models import handed
from milp_plan.models.isolated import within
from milp_plan.models.protocol import Guide, Scale
from milp_plan.run.confirmation import Confirmation
from milp_plan.run.model import REFUTED, RELATIVE_TOLERANCE, FormulationSolver, backend
from milp_plan.run.model_answer import ModelAnswer

from .covers import broken_covers, with_covers
from .labelling import Integers, Labelling
from .reading import read_labelling

MARGIN = 1e-7
"""Part of the range of costs by which a solver's bound is lowered: it was found in floats."""

TOLERANCE = 1e-5
"""Part of a capacity that a model may not notice: its leeway and a solver's tolerance."""

MOST_ROUNDS = 50
"""Times that a solver is asked again because of that."""

Given = tuple[Any, Callable[[TracePoint], None] | None]
"""Labels to start from, and who hears of progress."""


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
    """Build, hand over, solve, decode, and recompute in exact integers.

    Where the plan overflows by less than floats can tell, the solver gets rows that say so
    (:mod:`milp_plan.kinds.sharding.covers`) and is asked again.

    Parameters
    ----------
    problem
        What reductions have left, or a whole problem.
    limits
        Building counts towards the time.
    budget
        Of the run; phases are told to it.
    start
        Labels to start from.

    Returns
    -------
    ModelAnswer
        Its plan is a choice for ``problem``; its bound is lowered by :data:`MARGIN`. What it
        proves is confirmed.
    """

    def ask(guide: Guide, limits: Limits, given: Given = (None, None)) -> ModelAnswer:
        try:
            return _answer(problem, solver, guide, limits, budget, given)
        except FormulationFailureError as error:
            return solver.failed(error)

    confirmation = Confirmation(ask, guide, limits, budget)
    return confirmation.confirm(ask(guide, limits, (start, on_progress)))


def _answer(  # noqa: PLR0917 (as above)
    problem: ShardingProblem | Labelling,
    solver: FormulationSolver,
    guide: Guide,
    limits: Limits,
    budget: Budget,
    given: Given,
) -> ModelAnswer:
    """Answer once like :func:`solve_labelling`; raises ``FormulationFailureError``."""
    start, on_progress = given
    options = solver.options
    formulation = within(solver.formulation, limits.time_s)
    end = Budget(limits.time_s)
    subject: Any = problem
    with budget.phase("build"):
        source = handed.built(formulation, subject, options, guide)
        model = handed.compiled(formulation, source)
        scale = handed.scale_of(formulation, subject, options, guide)
        vector = None
        if start is not None:
            plan: Any = ShardingPlan("", tuple(int(label) for label in start))
            vector = handed.start_of(formulation, subject, options, source, model, plan)
    labelling = read_labelling(problem, fewer_rows=False)
    assert isinstance(labelling, Labelling), labelling
    limits = replace(limits, gap_abs=0.5 if scale.unit <= 1.0 else 1e-9)  # half a cost is no gap
    seconds, labels, disputed = 0.0, None, ""
    for _ in range(MOST_ROUNDS):
        left = replace(limits, time_s=end.left_s)
        with budget.phase("solve"):
            report = backend(solver.name)(model, left, vector, on_progress=on_progress)
        seconds += report.seconds
        labels, disputed = None, ""
        if report.solution is None:
            break
        reader = within(formulation, max(limits.grace_s, end.left_s))
        try:
            values = model.name_values(report.solution)
            decoded: Any = handed.plan_of(reader, subject, options, guide, values)
        except FormulationFailureError:
            raise
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
        bound = f"below the solver's bound {report.bound:.6g}"
        return value, f"{REFUTED} its own plan: it costs {exact:.6g} units, {bound}"
    return value, ""


def _safe(bound: float | None, offset: float, scale: Scale) -> int | None:
    """Bound in costs: lowered by what floats may have cost, and rounded up."""
    if bound is None or not math.isfinite(bound):
        return None
    margin = MARGIN * max(1.0, abs(bound - offset)) + 1e-14 * abs(bound)
    return math.ceil((bound - margin) * scale.unit)
