"""Compares a planned step with its plan, and with a step without a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milp_plan.capture.checkpoints import FINGERPRINT, policies
from milp_plan.capture.model_file import Builder
from milp_plan.capture.record import LOSS_GRADIENT, fingerprint
from milp_plan.capture.trace import capture_model
from milp_plan.capture.work import draws_random
from milp_plan.check import verify
from milp_plan.core import FULL, Finding, InputError, Plan, PlanningProblem, UnsupportedProblemError
from milp_plan.core.sharding import ShardingProblem
from milp_plan.io.capture_wire import Capture

from .processes import ShardedStep
from .step import StepResult, run_step

TOLERANCE = {"float64": 1e-14, "float32": 1e-6}
"""Largest difference of numbers, relative to the largest gradient; 1e-2 for shorter types."""


@dataclass(frozen=True)
class Differences:
    """Differences of a planned step from a step without a plan.

    Parameters
    ----------
    loss_error, gradient_error
        Largest differences; infinite if a gradient is missing.
    largest_gradient
        Largest entry of any gradient.
    tensors
        Number of gradients compared.
    tolerance
        Largest allowed difference.
    """

    loss_error: float
    gradient_error: float
    largest_gradient: float
    tensors: int
    tolerance: float

    @property
    def equal(self) -> bool:
        """Whether numbers are equal, within the tolerance."""
        return max(self.loss_error, self.gradient_error) <= self.tolerance


@dataclass(frozen=True)
class Comparison(Differences):
    """Figures of a planned step.

    Parameters
    ----------
    blocks
        Block -> policy.
    planned_bytes, measured_bytes, without_bytes
        Peak above weights and states: of the plan, of the planned step, without a plan.
    """

    blocks: Mapping[str, str]
    planned_bytes: int
    measured_bytes: int
    without_bytes: int

    @property
    def ok(self) -> bool:
        """Whether numbers are equal, and memory is within the plan."""
        return self.equal and self.measured_bytes <= self.planned_bytes


def compare(
    problem: PlanningProblem,
    plan: Plan,
    builder: Builder,
    *,
    dtype: str | None = None,
    report: Any = lambda _text: None,
) -> Comparison:
    """Run a step as planned, and one without a plan, and compare.

    Raises
    ------
    UnsupportedProblemError
        The plan uses several devices, or is not valid.
    The instance has no choice of recomputation, or is of another model.
        The instance has no choice of recomputation, or is not of this model.
    """
    chosen = policies(problem, plan)
    devices = {name for run in plan.runs for name in run.devices}
    if len(devices) > 1:
        raise UnsupportedProblemError(
            f"{problem.name}: the plan uses {len(devices)} devices; only plans of one device that"
            " choose what is computed again are run, for example on a cluster of 1xA100"
        )
    verdict = verify(problem, plan)
    if not verdict.ok:
        raise UnsupportedProblemError(f"{problem.name}: the plan is not valid, see milp-plan check")
    report("capturing the model, to see that the instance belongs to it")
    captured = capture_model(builder, dtype=dtype)
    require_same(problem, captured)
    report("running a step without a plan")
    plain = run_step(builder, dtype=dtype)
    report("running a step as planned")
    planned = run_step(builder, chosen, dtype=dtype, random=draws_random(captured))
    (device,) = devices
    return Comparison(
        *differences(plain, planned, dtype),
        chosen,
        verdict.components[f"peak_memory {device}"] - resting_bytes(problem),
        planned.peak_bytes,
        plain.peak_bytes,
    )


def require_same(problem: PlanningProblem | ShardingProblem, captured: Capture) -> None:
    """Check that an instance was made from the model that was captured.

    Raises
    ------
    InputError
        It is of another model, or of a release of PyTorch that captures it differently.
    """
    current = fingerprint(captured)
    if problem.provenance.get(FINGERPRINT) != current:
        where = f"provenance of {problem.name}, {FINGERPRINT!r}"
        recorded = problem.provenance.get(FINGERPRINT, "nothing")
        tool = problem.provenance.get("captured with", "an unknown release")
        remedy = f"capture it again with this release of PyTorch (the instance: {tool})"
        raise InputError([Finding(where, recorded, f"{current}, that of the model", remedy)])


def resting_bytes(problem: PlanningProblem) -> int:
    """Return the bytes on a device before a step: weights, states and inputs.

    The gradient of the loss is not included: PyTorch creates it in the backward pass.
    """
    return sum(
        value.bytes[FULL]
        for value in problem.graph.values
        if value.persistent and value.name != LOSS_GRADIENT
    )


def differences(
    plain: StepResult, planned: StepResult | ShardedStep, dtype: str | None
) -> tuple[float, float, float, int, float]:
    """Return the fields of :class:`Differences`, for numbers of a type (``float32`` by default)."""
    tolerance, tensors = TOLERANCE.get(dtype or "float32", 1e-2), len(plain.gradients)
    if plain.gradients.keys() != planned.gradients.keys():
        return float("inf"), float("inf"), 0.0, tensors, tolerance
    error = largest = 0.0
    for name, expected in plain.gradients.items():
        error = max(error, float((planned.gradients[name] - expected).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    return abs(plain.loss - planned.loss), error, largest, tensors, tolerance * max(largest, 1.0)


def refuse_random(captured: Capture, builder: Builder) -> None:
    """Refuse a model that draws random numbers.

    Raises
    ------
    UnsupportedProblemError
        It does: every process would draw different ones.
    """
    if draws_random(captured):
        raise UnsupportedProblemError(
            f"{builder.text}: the model draws random numbers, of which every process would have"
            " others; turn dropout off"
        )
