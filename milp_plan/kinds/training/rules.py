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
    for stage, peak in enumerate(peaks):
        limit = problem.limit_bytes(decision, stage)
        if peak > limit:
            subjects = (f"stage {stage}",)
            text = f"a device of pipeline stage {stage} needs more memory than it has"
            yield Violation("memory", subjects, text, peak, limit, Counts.SIZE)


def beyond_host(
    problem: ModelOnCluster, decision: Any, peaks: Sequence[int]
) -> Iterator[Violation]:
    """Yield the pipeline stages whose devices need more memory of their host than it has."""
    for stage, peak in enumerate(peaks):
        limit = problem.host_limit(decision, stage)
        if peak > limit:
            text = f"the host lacks memory for a device of pipeline stage {stage}"
            yield Violation("host memory", (f"stage {stage}",), text, peak, limit, Counts.SIZE)
