"""The file ``torch-checkpoint``: the blocks of a model that recompute activations.

Described in ``instances/formats/torch-checkpoint.md``.
"""

from __future__ import annotations

from typing import Literal

from milp_plan.core import Finding, InputError, Plan, PlanningProblem
from milp_plan.io.wire import Strict, encode

from .passes import FORWARD
from .recompute import KEEP, POLICIES

FINGERPRINT = "captured graph"
"""Entry of an instance's provenance: fingerprint of its captured graph."""


class TorchCheckpoint(Strict):
    """Policy of each block of a captured model."""

    format: Literal["milp-plan-torch-checkpoint"]
    version: Literal[1]
    problem: str
    graph: str
    torch: str
    blocks: dict[str, Literal["keep", "attention", "full"]]


def policies(problem: PlanningProblem, plan: Plan) -> dict[str, str]:
    """Return block -> policy of a plan; blocks without a choice are left out.

    Raises
    ------
    InputError
        The problem was not captured with ``--recompute``.
    """
    choices = {KEEP, *POLICIES}
    chosen = {run.operator: run.option for run in plan.runs}
    found = {}
    for operator in problem.graph.operators:
        option = chosen.get(operator.name)
        if operator.kind == FORWARD and operator.block is not None and option in choices:
            found[operator.block] = str(option)
    if not found or FINGERPRINT not in problem.provenance:
        expected = "blocks that can compute again"
        remedy = "make it by milp-plan capture MODEL CLUSTER --recompute full,attention"
        raise InputError([Finding("operators", "no such choice", expected, remedy)])
    return found


def checkpoint_text(problem: PlanningProblem, plan: Plan) -> bytes:
    """Return the file of a plan.

    Raises
    ------
    InputError
        See :func:`policies`.
    """
    return encode(
        TorchCheckpoint(
            format="milp-plan-torch-checkpoint",
            version=1,
            problem=problem.name,
            graph=problem.provenance.get(FINGERPRINT, ""),
            torch=problem.provenance.get("captured with", "").removeprefix("PyTorch "),
            blocks=policies(problem, plan),  # type: ignore[arg-type]
        )
    )
