"""The answer of one solve of a formulation's model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from milp_plan.backends import SolverReport, Stop
from milp_plan.core import Verdict
from milp_plan.lp import CompiledModel

SAFETY = 1e-6
"""Relative amount by which a solver's bound is lowered before it counts."""

FAILURES = {
    Stop.KILLED: "the solver process was ended from outside or crashed",
    Stop.ERROR: "the solver failed",
    Stop.MEMORY_LIMIT: "the solver ran out of memory",
}
"""Failures of a solver."""


BOUND_ROUNDED = (
    f"the solver's bound counts only to a part in {1 / SAFETY:,.0f}, because of its tolerances: "
    "the gap that is left is less than the model can resolve"
)
"""Why a model that is solved to optimality leaves a gap."""

HORIZON_TOO_SHORT = "the model finds no plan within its horizon; there may be one beyond"
"""Why a model that is solved to optimality has no plan."""

RULES_RELAXED = (
    "the model leaves out rules: its solution breaks one of them, or says less than its plan"
)
"""Why a model that relaxes the problem leaves a gap."""


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of one solve.

    Parameters
    ----------
    report
        The solver's own report.
    plan, verdict
        The decoded plan and its verdict; ``None`` without a solution.
    value
        Exact value of a valid plan.
    bound
        Proven bound on the model in ticks or bytes, rounded up to the grain.
    disputed
        Why the plan and the solver's claim disagree; empty if they agree.
    model_hash, columns, rows
        Hash and size of the compiled model.
    by
        Name of the formulation.
    proves
        Whether bound and infeasibility hold for the problem: the formulation is exact, and its
        switches leave out no plan.
    doubt
        Why a claim of the solver does not count, in words; empty if all of them do.
    failed
        The formulation's own code raised or timed out: there is nothing but the report.
    model
        The compiled model of a disputed answer, to be saved for other solvers.
    root_bound
        Like ``bound``, at the root node.
    claim
        Value of the solution by the solver, rounded, ticks or bytes: of formulations that relax
        the problem, whose plan may be worse, or none at all.
    startless
        Why the plan to start from is no start of the model, in the formulation's words.
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
    failed: bool = False
    model: CompiledModel | None = None
    root_bound: int | None = None
    claim: int | None = None
    startless: str = ""

    def doubted(self, doubt: str, bound: int | None = None) -> ModelAnswer:
        """Return the answer with another bound, or none, and the reason."""
        return dataclasses.replace(self, bound=bound, doubt=doubt)

    @property
    def gap_reason(self) -> str:
        """Why there is a gap although the model was solved."""
        if self.claim is not None:
            return RULES_RELAXED
        return HORIZON_TOO_SHORT if self.plan is None else BOUND_ROUNDED

    @property
    def failure(self) -> str:
        """The failure in words; empty if there was none."""
        if self.failed:
            return self.report.message
        text = FAILURES.get(self.report.stop, "")
        if self.report.stop is Stop.ERROR and self.report.message:
            text += f" ({self.report.message})"
        return text

    @property
    def beyond(self) -> bool:
        """Whether the solver gave up a model whose numbers are beyond its tolerances.

        This is not a defect, but like every answer about such a model it proves nothing.
        """
        return self.report.stop is Stop.ERROR and bool(self.doubt) and not self.failed

    def described(self) -> dict[str, Any]:
        """Return the answer as plain data for the record."""
        report = self.report
        return {
            "model_hash": self.model_hash or None,
            "model": {
                "columns": self.columns,
                "rows": self.rows,
                "stop": str(report.stop),
                "message": report.message,
                "value": self.value,
                "bound": self.bound,
                "root_bound": self.root_bound,
                "nodes": report.nodes,
                "gap": report.gap,
                "start_accepted": report.start_accepted,
                "doubt": self.doubt,
            },
        }


class AcceptedAnswer(NamedTuple):
    """Summary of a model's answer, after the ledger has read it.

    Parameters
    ----------
    better
        Whether its plan is the best one now.
    found, complete
        Whether it has a valid plan; whether the solver finished its search.
    seconds
        Time spent in the solver.
    failed
        The formulation's own code raised or timed out.
    """

    better: bool
    found: bool
    complete: bool
    seconds: float
    failed: bool
