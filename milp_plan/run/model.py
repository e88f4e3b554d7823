"""One model, from formulation to checked plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from milp_plan.backends import Limits, SolverReport, Stop, TracePoint
from milp_plan.core import (
    FormulationError,
    FormulationFailureError,
    PlanningProblem,
    Verdict,
)
from milp_plan.core.budget import Budget, undisturbed
from milp_plan.models.failure import step
from milp_plan.models.options import typed
from milp_plan.models.protocol import CompiledModel, Formulation, Guide, Scale
from milp_plan.models.registry import Found, get

from .kinds import kind_of
from .model_answer import SAFETY, ModelAnswer

RELATIVE_TOLERANCE = 1e-4
"""Relative difference of a solver's value and the exact one that is allowed where a unit of the
model is more than a grain of the problem; a model that counts in grains must agree exactly."""

LEAST_S = 1.0
"""Seconds that building, and solving, may take at least."""

REFUSED = "the checker refuses the plan that decode made"
"""First words of a dispute about a plan that breaks a law."""

UNREAD = "decode refuses the solution"
"""First words of a dispute about a solution that stands for no plan."""

REFUTED = "the formulation's claim is refuted by"
"""First words of a dispute that is a defect of a formulation, or of its solver."""


@dataclass(frozen=True)
class FormulationSolver:
    """How models are solved: a formulation that loaded, its options, and the backend.

    Parameters
    ----------
    guided
        Whether models are built for a guide; ``False`` where the model is given.

    Raises
    ------
    InputError
        An option is not one of its own.
    """

    found: Found
    options: Any = None
    name: str = "highs"
    guided: bool = True

    def with_options(self, given: Mapping[str, Any]) -> FormulationSolver:
        """Return the same formulation with other options."""
        return FormulationSolver(self.loaded, make_options(self.loaded, given), self.name)

    @property
    def loaded(self) -> Found:
        """The formulation with its code."""
        return self.found

    @property
    def formulation(self) -> Formulation[Any, Any]:
        """The formulation."""
        assert self.loaded.formulation is not None
        return self.loaded.formulation

    @property
    def proves(self) -> bool:
        """Whether bounds of its whole model hold for the problem."""
        card = self.formulation.card
        return (card.exact or card.relaxes) and not self.formulation.restricts(self.options)

    @property
    def isolated(self) -> bool:
        """Whether the formulation runs in a process of its own."""
        from milp_plan.models.isolated import Isolated

        return isinstance(self.formulation, Isolated)

    def unsupported(self, problem: Any, limit_s: float | None = None) -> str | None:
        """Return why the formulation does not support a problem, or ``None``.

        Parameters
        ----------
        problem
            Of any kind.
        limit_s
            Seconds that a formulation that is not ours may take to answer.

        Raises
        ------
        FormulationFailureError
            Its code failed.
        """
        handled: Any = self.formulation.handles
        if not isinstance(problem, handled):
            return f"it is for a {handled.__name__}, this is a {type(problem).__name__}"
        ways = isinstance(problem, PlanningProblem) and problem.allows_memory_saving
        if ways and not self.formulation.card.memory_saving:
            return "its operators run once, on devices alone: no runs again, no hosts"
        from milp_plan.models.isolated import STEP_S, within

        formulation = within(self.formulation, STEP_S if limit_s is None else limit_s)
        with step(formulation.card.name, "unsupported"):
            formulation.restricts(self.options)  # known from now on
            return formulation.unsupported(problem, self.options)

    def refined(
        self, problem: Any, guide: Guide, answer: ModelAnswer, limit_s: float
    ) -> Guide | None:
        """Return what to ask next of a formulation with lazy rows: those that a plan breaks.

        ``None`` where the answer has no plan, one that keeps every law, or nothing more is known.

        Raises
        ------
        FormulationFailureError
            Its code failed.
        """
        from milp_plan.models.isolated import within

        if answer.plan is None or answer.value is not None or not self.formulation.card.relaxes:
            return None
        refined = getattr(within(self.formulation, limit_s), "refined", None)
        if refined is None:
            return None
        with step(self.formulation.card.name, "refined"):
            found: Guide | None = refined(problem, self.options, guide, answer.plan)
            return found

    def failed(self, error: FormulationFailureError) -> ModelAnswer:
        """Return the answer of a formulation whose code failed: no plan, no proof."""
        report = SolverReport(Stop(error.kind), message=str(error))
        name = self.formulation.card.name
        return ModelAnswer(report, None, None, None, None, "", "", 0, 0, name, False, failed=True)

    def run(
        self,
        problem: Any,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        *,
        start: Any = None,
        on_progress: Callable[[TracePoint], None] | None = None,
        confirm: bool = True,
    ) -> ModelAnswer:
        """Build, solve, decode and check a model; solve again to confirm what it proves.

        Whatever the formulation's code does wrong is the answer's ``report.stop``, with a sentence
        in ``report.message``; such an answer has no plan and proves nothing.

        Parameters
        ----------
        on_progress
            Called with each point of the solver's trace, in ticks or bytes.
        confirm
            ``False`` where no proof of it will count.

        Raises
        ------
        BackendUnavailableError
            The solver is not installed.
        """
        from .confirmation import Confirmation

        def again(guide: Guide, limits: Limits) -> ModelAnswer:
            return self._ask(problem, guide, limits, budget)

        confirmation = Confirmation(again, guide, limits, budget)
        answer = self._ask(problem, guide, limits, budget, start=start, on_progress=on_progress)
        return confirmation.confirm(answer) if confirm else answer

    def _ask(
        self,
        problem: Any,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        *,
        start: Any = None,
        on_progress: Callable[[TracePoint], None] | None = None,
    ) -> ModelAnswer:
        """Solve once; a failure of the formulation is an answer."""
        try:
            return self._answer(problem, guide, limits, budget, (start, on_progress))
        except FormulationFailureError as error:
            return self.failed(error)

    def _answer(
        self,
        problem: Any,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        given: tuple[Any, Callable[[TracePoint], None] | None],
    ) -> ModelAnswer:
        """Answer like :meth:`run`; raises ``FormulationFailureError``."""
        from milp_plan.models import validated
        from milp_plan.models.isolated import within
        from milp_plan.models.validated import uncollected

        start, on_progress = given
        options = self.options
        guide = guide if self.guided else Guide()
        formulation = within(self.formulation, max(LEAST_S, budget.left_s))
        with budget.phase("build"), uncollected():
            source = validated.built(formulation, problem, options, guide)
        with budget.phase("compile"), uncollected():
            model = validated.compiled(formulation, source)
            vector, startless = None, ""
            if start is not None:
                asked = (formulation, problem, options, source, model, start)
                vector, startless = validated.start_of(*asked)
        scale = validated.scale_of(formulation, problem, options, guide)
        exact = dataclasses.replace(
            _resolvable(limits, scale, guide.cutoff),
            time_s=min(limits.time_s, max(LEAST_S, budget.left_s)),
        )
        told = _in_ticks(on_progress, scale.unit)
        with budget.phase("solve"):
            report = backend(self.name)(model, exact, vector, on_progress=told)
        report = _explained(report, model)
        budget.add("solve", -report.handover_s)
        budget.add("hand over", report.handover_s)
        seconds = max(limits.grace_s, min(limits.time_s, budget.left_s))
        reader = within(self.formulation, seconds)
        answer = self._read(
            problem, guide, model, report, scale=scale, budget=budget, reader=reader
        )
        return dataclasses.replace(answer, startless=startless)

    def _read(
        self,
        problem: Any,
        guide: Guide,
        model: CompiledModel,
        report: SolverReport,
        *,
        scale: Scale,
        budget: Budget,
        reader: Formulation[Any, Any],
    ) -> ModelAnswer:
        from milp_plan.lp.ranges import doubt_of
        from milp_plan.models import validated

        plan, verdict, value, claim, disputed = None, None, None, None, ""
        surrogate, relaxes = self.formulation.card.surrogate, self.formulation.card.relaxes
        if report.solution is not None:
            with budget.phase("decode"):
                values = model.name_values(report.solution)
                try:
                    plan = validated.plan_of(reader, problem, self.options, guide, values)
                except FormulationFailureError:
                    raise
                except FormulationError as error:
                    disputed = f"{UNREAD}: {error}"
            if plan is not None:
                with budget.phase("check"):
                    verdict = kind_of(problem).verify(problem, plan)
                value = verdict.value if verdict.ok else None
                # without some of the rows a plan may rightly fail the check
                if guide.memory and not (relaxes and not verdict.ok):
                    unit = _unit_text(problem, scale)
                    disputed = _dispute(
                        verdict, report, None if surrogate else scale, unit, relaxes
                    )
            if relaxes and report.objective is not None:
                claim = round(report.objective * scale.unit / scale.grain) * scale.grain
        doubt = doubt_of(model)
        if disputed and verdict is not None and _hardly_broken(verdict, scale):
            doubt = f"the model's tolerances hide that its plan breaks a law: {disputed}"
        return ModelAnswer(
            report=report,
            plan=plan,
            verdict=verdict,
            value=value,
            bound=None if doubt or surrogate else _round_up(report.bound, scale),
            disputed="" if doubt else disputed,
            model_hash=model.content_hash,
            columns=model.num_columns,
            rows=model.num_rows,
            by=self.formulation.card.name,
            proves=self.proves,
            doubt=doubt,
            model=model if disputed and not doubt else None,
            root_bound=None if doubt else _round_up(report.root_bound, scale),
            claim=claim,
        )


def _explained(report: SolverReport, model: CompiledModel) -> SolverReport:
    """Return a report that names a column, if there is one, with which the objective falls."""
    unbounded = report.stop is Stop.ERROR and "unbounded" in report.message.lower()
    for place in model.falling[:1] if unbounded else ():
        side = "lower" if model.cost[place] > 0 else "upper"
        why = f"the objective falls with {model.column_text(place)}, which has no {side} bound"
        return dataclasses.replace(report, message=f"{report.message}: {why}")
    return report


def _in_ticks(
    tell: Callable[[TracePoint], None] | None, unit: float
) -> Callable[[TracePoint], None] | None:
    """Return a callback for points in units of the model that calls one for ticks or bytes."""
    if tell is None:
        return None

    def told(point: TracePoint) -> None:
        found, bound = (
            None if amount is None else amount * unit for amount in (point.incumbent, point.bound)
        )
        tell(dataclasses.replace(point, incumbent=found, bound=bound))

    return told


def backend(name: str) -> Callable[..., SolverReport]:
    """Return the solver of a name.

    Raises
    ------
    BackendUnavailableError
        It is not installed.
    """
    if name == "highs":
        return _highs
    from milp_plan.backends.pyomo_solver import solve_with

    solve: Callable[..., SolverReport] = solve_with(name)
    return solve


def _highs(*given: Any, **named: Any) -> SolverReport:
    """Solve by HiGHS, which is loaded when a model is there to be solved."""
    from milp_plan.backends import highs

    return highs.solve(*given, **named)


def _dispute(
    verdict: Verdict, report: SolverReport, scale: Scale | None, unit: str, relaxes: bool = False
) -> str:
    """Return why the checker does not accept what the solver claims; empty if it does.

    Without a scale the plan alone is looked at: its value is not what the model minimises. Where
    the model relaxes the problem, a plan may be worse than it claims, but never better. ``unit`` is
    a unit of the model in words.
    """
    if not verdict.ok:
        broken = "; ".join(str(violation) for violation in verdict.violations[:3])
        return f"{REFUSED}: {broken}"
    if scale is None:
        return ""
    assert verdict.value is not None
    assert report.objective is not None
    value, claim = verdict.value / scale.unit, report.objective
    counts = scale.unit <= scale.grain  # whole grains: exact up to rounding
    tolerance = 0.5 if counts else RELATIVE_TOLERANCE * max(1.0, abs(claim))
    if value > claim + tolerance and not relaxes:
        return (
            f"the plan's value is {value:.6g} units of the model, the solver claims {claim:.6g}; "
            f"by `scale` a unit is {unit}"
        )
    if report.bound is not None and value < report.bound - scale.slack - tolerance:
        return (
            f"{REFUTED} its own plan: its value {value:.6g} is below the solver's bound "
            f"{report.bound:.6g}"
        )
    return ""


def _unit_text(problem: Any, scale: Scale) -> str:
    """Return a unit of a model in words."""
    measure = kind_of(problem).measure(problem)
    whole = scale.unit == int(scale.unit)
    return measure.text(int(scale.unit)) if whole else f"{scale.unit:g} {measure.grain}"


def _hardly_broken(verdict: Verdict, scale: Scale) -> bool:
    """Whether all violations are below the tolerance of a model whose unit is more than a grain."""
    if scale.grain >= scale.unit or verdict.ok:
        return False
    amounts = [(entry.needed, entry.available) for entry in verdict.violations]
    return all(
        needed is not None and available is not None and needed <= available * (1 + SAFETY)
        for needed, available in amounts
    )


def _resolvable(limits: Limits, scale: Scale, cutoff: int | None) -> Limits:
    """Return limits with gaps that a bound, once made safe, can close.

    Where the model counts in grains, a gap of less than one of them is none; else its bounds are
    only good to :data:`SAFETY`. A gap that was asked for is reached after that loss.
    """
    most = max(1.0, (cutoff or 0) / scale.unit)
    lost = scale.slack + 2 * SAFETY * most
    gap = max(0.0, limits.gap - lost / most)
    if scale.grain < scale.unit:
        return dataclasses.replace(limits, gap=max(gap, SAFETY / 2), gap_abs=1e-9)
    fits = max(1e-9, 0.999 * (scale.grain / scale.unit - lost))
    return dataclasses.replace(limits, gap=gap, gap_abs=fits)


def _round_up(bound: float | None, scale: Scale) -> int | None:
    """Return a bound in ticks or bytes: lowered by tolerances, then rounded up to the grain."""
    if bound is None or not math.isfinite(bound):
        return None
    safe = bound - scale.slack - SAFETY * max(1.0, abs(bound))
    grains = safe * scale.unit / scale.grain
    return max(0, math.ceil(grains) * scale.grain) if math.isfinite(grains) else None


class LazySolver(FormulationSolver):
    """A solver with a shipped formulation, which loads on first use.

    Loading takes longer than planning a small problem.

    Parameters
    ----------
    found
        Not loaded.
    name
        Of the backend.
    """

    def __init__(self, found: Found, name: str) -> None:
        object.__setattr__(self, "found", found)
        object.__setattr__(self, "name", name)

    @cached_property
    def options(self) -> Any:
        """The default options."""
        return make_options(self.loaded, {})

    @property
    def loaded(self) -> Found:
        """Load the formulation, unless it is loaded."""
        with undisturbed():
            return get(self.found.name)


def make_options(found: Found, given: Any) -> Any:
    """Build a formulation's options.

    Raises
    ------
    InputError
        A name that is not one of its options, or a value that is not of its type.
    """
    assert found.formulation is not None
    kind = found.formulation.Options
    if found.error is not None:  # it did not load: nobody knows its options
        return kind()
    return kind(**typed(kind, given, found.name))
