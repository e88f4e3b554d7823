"""Other solvers, through Pyomo's interfaces: gurobi, scip, cbc, appsi_highs, ...

The solver runs under Pyomo, so what Pyomo's interface lacks is lacking here: no trace, no stop
from outside, and an incumbent is rescued only where the solver hands it over when it stops. A
valid start is never lost: it is the answer when the solver has none that is better.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.common.log import LoggingIntercept
from pyomo.core.expr.numeric_expr import LinearExpression
from pyomo.opt import TerminationCondition

from milp_plan.core import BackendUnavailableError
from milp_plan.core.budget import now
from milp_plan.lp import CompiledModel

from .outcome import Limits, SolverReport, Stop, TracePoint

INTERFACES = {"gurobi": ("gurobi_direct", "gurobi"), "scip": ("scip",), "cbc": ("cbc",)}
"""Solver -> its Pyomo interfaces, best first; other names are names of interfaces."""

SWITCHES = {
    "gurobi": {
        "time_s": "TimeLimit",
        "nodes": "NodeLimit",
        "gap": "MIPGap",
        "gap_abs": "MIPGapAbs",
        "seed": "Seed",
        "threads": "Threads",
    },
    "scip": {
        "time_s": "limits/time",
        "nodes": "limits/nodes",
        "gap": "limits/gap",
        "gap_abs": "limits/absgap",
        "seed": "randomization/randomseedshift",
    },
    "cbc": {
        "time_s": "seconds",
        "nodes": "maxNodes",
        "gap": "ratioGap",
        "gap_abs": "allowableGap",
        "seed": "randomCbcSeed",
        "threads": "threads",
    },
    "highs": {
        "time_s": "time_limit",
        "nodes": "mip_max_nodes",
        "gap": "mip_rel_gap",
        "gap_abs": "mip_abs_gap",
        "seed": "random_seed",
        "threads": "threads",
    },
}
"""Family of solvers -> field of :class:`.Limits` -> the solver's option."""

STOPS = {
    TerminationCondition.optimal: Stop.PROVED,
    TerminationCondition.globallyOptimal: Stop.PROVED,
    TerminationCondition.locallyOptimal: Stop.PROVED,
    TerminationCondition.infeasible: Stop.INFEASIBLE,
    TerminationCondition.maxTimeLimit: Stop.TIME_LIMIT,
    TerminationCondition.maxEvaluations: Stop.NODE_LIMIT,
    TerminationCondition.maxIterations: Stop.NODE_LIMIT,
    TerminationCondition.resourceInterrupt: Stop.MEMORY_LIMIT,
    TerminationCondition.userInterrupt: Stop.INTERRUPTED,
}
"""Pyomo's termination condition -> stop; any other one is an error."""


def solve_with(name: str) -> Callable[..., SolverReport]:
    """Return a function like :func:`milp_plan.backends.highs.solve` for a solver by name.

    Parameters
    ----------
    name
        ``gurobi``, ``scip``, ``cbc``, or the name of any interface that Pyomo has.

    Raises
    ------
    BackendUnavailableError
        Pyomo does not know it, or it is not installed here.
    """
    interface = _interface(name)

    def solve(
        model: CompiledModel,
        limits: Limits,
        start: NDArray[np.float64] | None = None,
        *,
        on_progress: Callable[[TracePoint], None] | None = None,
        options: dict[str, bool | int | float | str] | None = None,
        on_spawn: Callable[[int], None] | None = None,  # noqa: ARG001  (Pyomo reports no process)
    ) -> SolverReport:
        """Solve a model; see :func:`milp_plan.backends.highs.solve`."""
        switches = {**_switches(name, limits), **(options or {})}
        report = _Solve(interface, model, start).run(limits, switches)
        if on_progress is not None and report.trace:
            on_progress(report.trace[-1])
        return report

    return solve


def _interface(name: str) -> str:
    """Return the first Pyomo interface of this solver that is available."""
    known = False
    for interface in INTERFACES.get(name, (name,)):
        with LoggingIntercept(io.StringIO(), "pyomo"):
            solver = pyo.SolverFactory(interface)
            known = known or type(solver).__name__ != "UnknownSolver"
            if solver.available(exception_flag=False):
                return interface
    if known:
        reason = "it is not installed here; install it and put it on the path, or take highs"
    else:
        reason = f"Pyomo knows no such solver; expected highs, {', '.join(INTERFACES)} or another"
    raise BackendUnavailableError(f"solver {name!r}: {reason}")


def _switches(name: str, limits: Limits) -> dict[str, Any]:
    """Return limits as options of the solver, as far as it has them."""
    family = next((family for family in SWITCHES if family in name), None)
    if family is None:
        return {}
    switches = {word: getattr(limits, part) for part, word in SWITCHES[family].items()}
    if family == "highs":
        switches["mip_detect_symmetry"] = False  # see the worker
    return {word: amount for word, amount in switches.items() if amount is not None}


class _Solve:
    """One solve of a model through Pyomo."""

    def __init__(
        self, interface: str, model: CompiledModel, start: NDArray[np.float64] | None
    ) -> None:
        self.solver = pyo.SolverFactory(interface)
        self.model = model
        self.accepted = None if start is None else model.violation(start)[0] <= 1e-6
        self.start = start if self.accepted else None

    def run(self, limits: Limits, switches: dict[str, Any]) -> SolverReport:
        began = now()
        if self._no_row_can_hold():
            return self._report(Stop.INFEASIBLE, began, message="a row without columns")
        source = self._source()
        handover = now() - began
        extra = {} if switches else {"timelimit": limits.time_s}
        if self.start is not None and self.solver.warm_start_capable():
            extra["warmstart"] = True
        try:
            with LoggingIntercept(io.StringIO(), "pyomo"):
                results = self.solver.solve(source, load_solutions=False, options=switches, **extra)
        except KeyboardInterrupt:
            return self._report(Stop.INTERRUPTED, began, handover_s=handover)
        except Exception as error:  # each interface fails in its own way
            message = f"{type(error).__name__}: {error}"
            return self._report(Stop.ERROR, began, handover_s=handover, message=message)
        stop, message = self._stop(results)
        vector = self._solution(source, results)
        bound = self._bound(results, stop, vector, limits)
        return self._report(
            stop, began, vector=vector, bound=bound, handover_s=handover, message=message
        )

    def _no_row_can_hold(self) -> bool:
        """Whether a row without columns is infeasible."""
        empty = np.diff(self.model.matrix.indptr) == 0
        low, high = self.model.row_lower[empty], self.model.row_upper[empty]
        return bool((low > 1e-9).any() or (high < -1e-9).any())

    def _source(self) -> Any:
        """Return the matrix as a Pyomo model."""
        model, m = self.model, pyo.ConcreteModel("compiled")
        m.x = pyo.Var(range(model.num_columns))
        m.none = pyo.Var(bounds=(0, 0), initialize=0)  # so that no objective is without columns
        columns = list(m.x.values())
        for number, column in enumerate(columns):
            column.domain = pyo.Integers if model.integrality[number] else pyo.Reals
            low, high = float(model.column_lower[number]), float(model.column_upper[number])
            column.setlb(low if math.isfinite(low) else None)
            column.setub(high if math.isfinite(high) else None)
            if self.start is not None:
                column.set_value(float(self.start[number]), skip_validation=True)
        m.rows = pyo.ConstraintList()
        matrix = model.matrix
        for row in range(model.num_rows):
            span = slice(int(matrix.indptr[row]), int(matrix.indptr[row + 1]))
            if span.start == span.stop:
                continue
            body = LinearExpression(
                linear_coefs=matrix.data[span].tolist(),
                linear_vars=[columns[i] for i in matrix.indices[span].tolist()],
            )
            low, high = float(model.row_lower[row]), float(model.row_upper[row])
            m.rows.add(
                body == low
                if low == high
                else pyo.inequality(
                    low if math.isfinite(low) else None, body, high if math.isfinite(high) else None
                )
            )
        used = np.flatnonzero(model.cost).tolist()
        cost = LinearExpression(
            constant=model.offset,
            linear_coefs=[*model.cost[used].tolist(), 1.0],
            linear_vars=[*(columns[i] for i in used), m.none],
        )
        m.objective = pyo.Objective(expr=cost)
        return m

    def _stop(self, results: Any) -> tuple[Stop, str]:
        condition = results.solver.termination_condition
        text = results.solver.message
        message = text if isinstance(text, str) else str(condition)
        if condition == TerminationCondition.infeasibleOrUnbounded and not self.model.falling:
            return Stop.INFEASIBLE, message
        return STOPS.get(condition, Stop.ERROR), message

    def _solution(self, source: Any, results: Any) -> NDArray[np.float64] | None:
        if not len(results.solution):
            return None
        with LoggingIntercept(io.StringIO(), "pyomo"):  # a limit is no reason to warn
            source.solutions.load_from(results, default_variable_value=0.0)
        return np.array([column.value or 0.0 for column in source.x.values()], dtype=float)

    def _bound(
        self, results: Any, stop: Stop, vector: NDArray[np.float64] | None, limits: Limits
    ) -> float | None:
        bound = results.problem.lower_bound
        if isinstance(bound, int | float) and math.isfinite(bound):
            return float(bound)
        if stop is not Stop.PROVED or vector is None:
            return None
        value = self._value(vector)
        return value - max(limits.gap_abs, limits.gap * abs(value))

    def _value(self, vector: NDArray[np.float64]) -> float:
        return float(self.model.cost @ vector + self.model.offset)

    def _report(
        self,
        stop: Stop,
        began: float,
        *,
        vector: NDArray[np.float64] | None = None,
        bound: float | None = None,
        handover_s: float = 0.0,
        message: str = "",
    ) -> SolverReport:
        known = [entry for entry in (vector, self.start) if entry is not None]
        best = min(known, key=self._value, default=None)
        objective = None if best is None else self._value(best)
        seconds = now() - began
        point = TracePoint(seconds, objective, bound)
        return SolverReport(
            stop=stop,
            solution=best,
            objective=objective,
            bound=bound,
            seconds=seconds,
            handover_s=handover_s,
            start_accepted=self.accepted,
            trace=(point,),
            message=message,
        )
