"""One model, from formulation to checked plan."""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from milp_plan.api import CompiledModel, Guide, Plan, PlanningProblem, Scale
from milp_plan.backends import Limits, SolverReport, Stop, TracePoint
from milp_plan.check import verify
from milp_plan.core import Finding, FormulationError, InputError, Verdict
from milp_plan.core.budget import Budget
from milp_plan.lp.ranges import doubt_of
from milp_plan.models.protocol import Formulation
from milp_plan.models.registry import Found

from .confirmation import Confirmation

RELATIVE_TOLERANCE = 1e-4
"""How far a solver's floating-point value may lie from the exact one, where a unit of the model is
more than a grain of the problem; a model that counts in grains must agree exactly."""

SAFETY = 1e-6
"""Relative amount by which a solver's bound is lowered before anyone quotes it."""


@dataclass(frozen=True)
class ModelAnswer:
    """What one solve gave.

    Parameters
    ----------
    report
        The solver's own answer.
    plan, verdict
        Decoded plan and what the checker says; ``None`` without a solution.
    value
        Exact value of a plan that passes.
    bound
        Proven bound on the model, rounded up to the grain, ticks or bytes.
    disputed
        Why the plan and the solver's claim do not agree; empty if they do.
    model_hash, columns, rows
        Of the compiled model.
    by
        Name of the formulation.
    proves
        Whether bound and infeasibility hold for the problem: the formulation is exact, and its
        switches leave out no plan.
    doubt
        Why a claim of the solver does not count, in words; empty if all of them do.
    """

    report: SolverReport
    plan: Any
    verdict: Verdict | None
    value: int | None
    bound: int | None
    disputed: str
    model_hash: str
    columns: int
    rows: int
    by: str
    proves: bool
    doubt: str = ""

    def doubted(self, doubt: str, bound: int | None = None) -> ModelAnswer:
        """Return the answer with another bound, or none, and why."""
        return dataclasses.replace(self, bound=bound, doubt=doubt)

    def described(self) -> dict[str, Any]:
        """Plain data for the record."""
        report = self.report
        return {
            "model_hash": self.model_hash,
            "model": {
                "columns": self.columns,
                "rows": self.rows,
                "stop": str(report.stop),
                "message": report.message,
                "value": self.value,
                "bound": self.bound,
                "nodes": report.nodes,
                "gap": report.gap,
                "start_accepted": report.start_accepted,
                "doubt": self.doubt,
            },
        }


@dataclass(frozen=True)
class Solver:
    """How models are solved: a formulation that loaded, its options, and the backend.

    Raises
    ------
    InputError
        An option is not one of its switches.
    """

    found: Found
    options: Any = None
    name: str = "highs"

    def with_options(self, given: Mapping[str, Any]) -> Solver:
        """Return the same formulation with other switches."""
        return Solver(self.found, make_options(self.found, given), self.name)

    @property
    def formulation(self) -> Formulation:
        """The formulation."""
        assert self.found.formulation is not None
        return self.found.formulation

    @property
    def proves(self) -> bool:
        """Whether a solution of its whole model proves anything about the problem."""
        return self.formulation.card.exact and not self.formulation.restricts(self.options)

    def unsupported(self, problem: Any) -> str | None:
        """Return a reason in words why a problem is not for the formulation, or ``None``."""
        handled: Any = self.formulation.handles
        if not isinstance(problem, handled):
            return f"it is for a {handled.__name__}, this is a {type(problem).__name__}"
        asked: Any = problem
        return self.formulation.unsupported(asked, self.options)

    def run(
        self,
        problem: PlanningProblem,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        *,
        start: Plan | None = None,
        on_progress: Callable[[TracePoint], None] | None = None,
        confirm: bool = True,
    ) -> ModelAnswer:
        """Build, hand over, solve, decode, check; ask again about what it proves.

        Parameters
        ----------
        confirm
            ``False`` where nothing that it proves will count.

        Raises
        ------
        FormulationError
            The formulation's answer cannot be read as a plan.
        BackendUnavailableError
            The solver is not installed.
        """

        def again(guide: Guide, limits: Limits) -> ModelAnswer:
            return self._ask(problem, guide, limits, budget)

        confirmation = Confirmation(again, guide, limits, budget)
        answer = self._ask(problem, guide, limits, budget, start=start, on_progress=on_progress)
        return confirmation.of(answer) if confirm else answer

    def _ask(
        self,
        problem: PlanningProblem,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        *,
        start: Plan | None = None,
        on_progress: Callable[[TracePoint], None] | None = None,
    ) -> ModelAnswer:
        """Ask once."""
        formulation, options = self.formulation, self.options
        with budget.phase("build"), _uncollected():
            source = formulation.build(problem, options, guide)
        with budget.phase("compile"), _uncollected():
            model = compile_source(source)
            vector = None
            if start is not None:
                values = formulation.encode(problem, options, source, start)
                vector = None if values is None else model.vector(values)
        scale = formulation.scale(problem, options, guide)
        exact = _resolvable(limits, scale, guide.cutoff)
        with budget.phase("solve"):
            report = backend(self.name)(model, exact, vector, on_progress=on_progress)
        budget.add("solve", -report.handover_s)
        budget.add("hand over", report.handover_s)
        return self._read(problem, guide, model, report, scale=scale, budget=budget)

    def _read(
        self,
        problem: PlanningProblem,
        guide: Guide,
        model: CompiledModel,
        report: SolverReport,
        *,
        scale: Scale,
        budget: Budget,
    ) -> ModelAnswer:
        plan, verdict, value, disputed = None, None, None, ""
        if report.solution is not None:
            with budget.phase("decode"):
                values = model.name_values(report.solution)
                try:
                    plan = self.formulation.decode(problem, self.options, guide, values)
                except FormulationError as error:
                    disputed = str(error)
            if plan is not None:
                with budget.phase("check"):
                    verdict = verify(problem, plan)
                value = verdict.value if verdict.ok else None
                if guide.memory:  # without memory rows a plan may rightly fail the check
                    disputed = _dispute(verdict, report, scale)
        doubt = doubt_of(model)
        if doubt and report.stop is Stop.INFEASIBLE:
            report = dataclasses.replace(report, stop=Stop.ERROR, message=doubt)
        return ModelAnswer(
            report=report,
            plan=plan,
            verdict=verdict,
            value=value,
            bound=None if doubt else _round_up(report.bound, scale),
            disputed=disputed,
            model_hash=model.content_hash,
            columns=model.num_columns,
            rows=model.num_rows,
            by=self.formulation.card.name,
            proves=self.proves,
            doubt=doubt,
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause cyclic garbage collection: it would walk a growing model again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def compile_source(source: Any) -> CompiledModel:
    """Return what a formulation has built as a matrix."""
    if isinstance(source, CompiledModel):
        return source
    from milp_plan.lp.from_pyomo import compile_pyomo

    return compile_pyomo(source)


def backend(name: str) -> Callable[..., SolverReport]:
    """Return the solver of a name.

    Raises
    ------
    BackendUnavailableError
        It is not installed.
    """
    if name == "highs":
        from milp_plan.backends import highs

        return highs.solve
    from milp_plan.backends.pyomo_solver import solve_with

    solve: Callable[..., SolverReport] = solve_with(name)
    return solve


def _dispute(verdict: Verdict, report: SolverReport, scale: Scale) -> str:
    """Why the checker does not accept what the solver claims; empty if it does."""
    if not verdict.ok:
        return "; ".join(str(violation) for violation in verdict.violations[:3])
    assert verdict.value is not None
    assert report.objective is not None
    value, claim = verdict.value / scale.unit, report.objective
    counts = scale.unit <= scale.grain  # whole grains: exact up to rounding
    tolerance = 0.5 if counts else RELATIVE_TOLERANCE * max(1.0, abs(claim))
    if value > claim + tolerance:
        return f"the plan's value is {value:.6g} units, the solver claims {claim:.6g}"
    if report.bound is not None and value < report.bound - scale.slack - tolerance:
        return f"the plan's value {value:.6g} is below the solver's bound {report.bound:.6g}"
    return ""


def _resolvable(limits: Limits, scale: Scale, cutoff: int | None) -> Limits:
    """Limits whose gaps are none that a bound, once made safe, could not close.

    Where the model counts in grains, a gap of less than one of them is none; else its bounds are
    only good to :data:`SAFETY`.
    """
    if scale.grain < scale.unit:
        return dataclasses.replace(limits, gap=max(limits.gap, SAFETY / 2), gap_abs=1e-9)
    lost = scale.slack + 2 * SAFETY * max(1.0, (cutoff or 0) / scale.unit)
    return dataclasses.replace(limits, gap_abs=max(1e-9, 0.999 * (scale.grain / scale.unit - lost)))


def _round_up(bound: float | None, scale: Scale) -> int | None:
    """Bound in ticks or bytes: made safe against tolerances and margins, up to the grain."""
    if bound is None or not math.isfinite(bound):
        return None
    safe = bound - scale.slack - SAFETY * max(1.0, abs(bound))
    return max(0, math.ceil(safe * scale.unit / scale.grain) * scale.grain)


def make_options(found: Found, given: Any) -> Any:
    """Build a formulation's options.

    Raises
    ------
    InputError
        A name that is not one of its switches.
    """
    assert found.formulation is not None
    kind = found.formulation.Options
    known = [entry.name for entry in dataclasses.fields(kind)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(
            Finding(
                f"option {n!r}", "no such switch", f"one of {known}", f"see {found.name}'s page"
            )
            for n in unknown
        )
    return kind(**given)
