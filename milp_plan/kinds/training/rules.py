"""Rules that plans for a model on a cluster share, whatever they decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from milp_plan.core import Counts, Violation

from .problem import ModelOnCluster


def other_than_fixed(problem: ModelOnCluster, decision: Any) -> Iterator[Violation]:
    """Yield the fixed fields that have another value."""
    for name, value in problem.fixed.items():
        chosen = getattr(decision, name)
        if chosen != value:
            yield Violation("fixed", (name,), f"{name} is {chosen}, it is fixed to {value}")


def beyond_memory(
    problem: ModelOnCluster, decision: Any, peaks: Sequence[int]
) -> Iterator[Violation]:
    """Yield the pipeline stages whose devices need more memory than they have."""
    limits = [problem.limit_bytes(decision, stage) for stage in range(len(peaks))]
    text = "a device of pipeline stage {} needs more memory than it has"
    yield from _beyond("memory", text, peaks, limits)


def beyond_host(
    problem: ModelOnCluster, decision: Any, peaks: Sequence[int]
) -> Iterator[Violation]:
    """Yield the pipeline stages whose devices need more memory of their host than it has."""
    limits = [problem.host_limit(decision, stage) for stage in range(len(peaks))]
    text = "the host lacks memory for a device of pipeline stage {}"
    yield from _beyond("host memory", text, peaks, limits)


def _beyond(
    rule: str, text: str, peaks: Sequence[int], limits: Sequence[int]
) -> Iterator[Violation]:
    for stage, (peak, limit) in enumerate(zip(peaks, limits, strict=True)):
        if peak > limit:
            subjects = (f"stage {stage}",)
            yield Violation(rule, subjects, text.format(stage), peak, limit, Counts.SIZE)
