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
    for stage, peak, limit in exceeded(peaks, limits):
        text = f"a device of pipeline stage {stage} needs more memory than it has"
        yield Violation("memory", (f"stage {stage}",), text, peak, limit, Counts.SIZE)


def exceeded(peaks: Sequence[int], limits: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the stages whose peak is above its limit, with both."""
    for stage, (peak, limit) in enumerate(zip(peaks, limits, strict=True)):
        if peak > limit:
            yield stage, peak, limit
