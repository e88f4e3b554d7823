"""Reasons of training: fixed fields, memory of devices, and the passes that a step waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, TypeVar

from milp_plan.core import Counts, Verdict
from milp_plan.kinds.pipeline.timing import times
from milp_plan.run.reasons.base import (
    Move,
    Reasons,
    Resource,
    Task,
    Usage,
    Why,
    chain_of,
    largest_first,
)

from .api import MOST_MEMORY
from .configuration import Configuration
from .costing import PlanCosts
from .problem import ModelOnCluster, TrainingPlan, TrainingProblem
from .replay import shop_and_words
from .step import Priced, derive

P = TypeVar("P", bound=Any)
S = TypeVar("S", bound=Any)

MOST_PASSES = 2000
"""Passes of a step of which the chain is looked for."""


class ModelReasons(Reasons[P, S]):
    """Reasons of a kind whose plans decide how a model lies on a cluster."""

    noun = "fixed fields"
    partless = True
    member: ClassVar[str]
    """Where a plan has what it decides."""

    def parts(self, problem: P) -> tuple[str, ...]:
        """Fixed fields."""
        return tuple(problem.fixed)

    def keep(self, problem: P, names: Collection[str]) -> P:
        """Leave the other fields free: every plan stays one, with the same value."""
        fixed = {name: value for name, value in problem.fixed.items() if name in set(names)}
        return replace(problem, fixed=fixed)

    def resources(self, problem: P) -> tuple[Resource, ...]:
        """Memory of a device of each group."""
        sizes = zip(_memories(problem), problem.cluster.memories, strict=True)
        return tuple(
            Resource(name, "memory", None if size >= MOST_MEMORY else size, Counts.SIZE)
            for name, size in sizes
        )

    def resized(self, problem: P, amounts: Mapping[str, int | None]) -> P:
        """Other memory."""
        known = dict(zip(_memories(problem), problem.cluster.memories, strict=True))
        known |= {name: MOST_MEMORY if size is None else size for name, size in amounts.items()}
        return replace(problem, cluster=problem.cluster.with_memory(*known.values()))

    def fullest(self, problem: P, decision: Any, peaks: Sequence[int]) -> tuple[Usage, ...]:
        """Return the fullest device of each group."""
        names, fullest = _memories(problem), dict[str, Usage]()
        for stage, peak in enumerate(peaks):
            name = names[problem.group_of(decision, stage)]
            limit = problem.limit_bytes(decision, stage)
            if name not in fullest or peak > fullest[name].amount:
                fullest[name] = Usage(name, "memory", peak, limit, Counts.SIZE)
        return tuple(sorted(fullest.values(), key=lambda entry: -(entry.share or 0)))

    def moves(self, problem: P, before: S, other: P, after: S) -> tuple[Move, ...]:  # noqa: ARG002
        """Fields that have another value."""
        was, now = (asdict(getattr(plan, self.member)) for plan in (before, after))
        return tuple(
            Move(name, str(was[name]), str(now[name]), (name,))
            for name in was
            if was[name] != now[name]
        )


class TrainingReasons(ModelReasons[TrainingProblem, TrainingPlan]):
    """Reasons of :class:`milp_plan.kinds.training.problem.TrainingProblem`."""

    member = "configuration"

    def why(self, problem: TrainingProblem, plan: TrainingPlan, verdict: Verdict) -> Why:
        """The chain of passes, how busy stages are, and how full their devices."""
        priced = PlanCosts(problem).priced(plan.configuration)
        step, value = derive(plan.configuration, priced), verdict.value or 0
        usage = (
            Usage(f"stage {stage}", "stage", busy, value, Counts.TIME)
            for stage, busy in enumerate(step.played.busy_ns)
        )
        limits = (
            *self.fullest(problem, plan.configuration, step.peaks),
            *_fullest_host(problem, plan.configuration, step.host_peaks),
        )
        return Why(chain_of(list(_tasks(plan, priced))), largest_first(usage), limits)


REASONS = TrainingReasons()


def _memories(problem: ModelOnCluster) -> list[str]:
    """Name the memory of each group."""
    names = [group.device.name for group in problem.cluster.groups]
    return [
        f"memory of {name}" if names.count(name) == 1 else f"memory of group {place}, {name}"
        for place, name in enumerate(names)
    ]


def _fullest_host(
    problem: TrainingProblem, c: Configuration, peaks: Sequence[int]
) -> Iterator[Usage]:
    """Yield the fullest host, if anything is there."""
    if any(peaks):
        full = max(range(len(peaks)), key=lambda stage: peaks[stage] / problem.host_limit(c, stage))
        name = problem.cluster.groups[problem.group_of(c, full)].device.name
        limit = problem.host_limit(c, full)
        yield Usage(f"host memory of {name}", "memory", peaks[full], limit, Counts.SIZE)


def _tasks(plan: TrainingPlan, priced: Priced) -> Iterator[Task]:
    """Passes of a step; none where they are too many to follow."""
    c = plan.configuration
    if c.pipeline == 1 or 3 * c.chunks * c.micro_batches > MOST_PASSES:
        return
    shop, words = shop_and_words(c, priced.chunks, priced.lag_ns)
    starts = times(shop, words)
    names = [f"{kind.role} of {kind.block}" for kind in shop.kinds]
    for k, kind in enumerate(shop.kinds):
        for number, start in enumerate(starts[k]):
            inputs = []
            for before, lag in shop.before[k]:
                made = f"{names[before]}, micro-batch {number}"
                if lag:
                    stop = starts[before][number] + shop.kinds[before].duration
                    sent = f"sending {made} to {kind.block}"
                    yield Task(sent, None, (), stop, stop + lag, (made,))
                inputs.append(sent if lag else made)
            place, name = f"stage {kind.machine}", f"{names[k]}, micro-batch {number}"
            yield Task(name, place, (place,), start, start + kind.duration, tuple(inputs))
