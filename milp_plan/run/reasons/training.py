"""Reasons of training: fixed fields, memory of devices, and the passes that a step waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace

from milp_plan.core import Counts, Verdict
from milp_plan.pipeline import times
from milp_plan.training.api import MOST_MEMORY
from milp_plan.training.costing import PlanCosts
from milp_plan.training.problem import TrainingPlan, TrainingProblem
from milp_plan.training.replay import shop_and_words
from milp_plan.training.step import Priced, derive

from .base import Move, Reasons, Resource, Task, Usage, Why, chain_of

MOST_PASSES = 2000
"""Passes of a step of which the chain is looked for."""


class TrainingReasons(Reasons[TrainingProblem, TrainingPlan]):
    """Reasons of :class:`milp_plan.training.problem.TrainingProblem`."""

    noun = "fixed fields"
    partless = True

    def parts(self, problem: TrainingProblem) -> tuple[str, ...]:
        """Fixed fields."""
        return tuple(problem.fixed)

    def keep(self, problem: TrainingProblem, names: Collection[str]) -> TrainingProblem:
        """Leave the other fields free: every plan stays one, with the same value."""
        fixed = {name: value for name, value in problem.fixed.items() if name in set(names)}
        return replace(problem, fixed=fixed)

    def resources(self, problem: TrainingProblem) -> tuple[Resource, ...]:
        """Memory of a device of each group."""
        sizes = zip(_memories(problem), problem.cluster.memories, strict=True)
        return tuple(
            Resource(name, "memory", None if size >= MOST_MEMORY else size, Counts.SIZE)
            for name, size in sizes
        )

    def resized(
        self, problem: TrainingProblem, amounts: Mapping[str, int | None]
    ) -> TrainingProblem:
        """Other memory."""
        known = dict(zip(_memories(problem), problem.cluster.memories, strict=True))
        known |= {name: MOST_MEMORY if size is None else size for name, size in amounts.items()}
        return replace(problem, cluster=problem.cluster.with_memory(*known.values()))

    def why(self, problem: TrainingProblem, plan: TrainingPlan, verdict: Verdict) -> Why:
        """The chain of passes, how busy stages are, and how full their devices."""
        priced = PlanCosts(problem).priced(plan.configuration)
        step, value = derive(plan.configuration, priced), verdict.value or 0
        usage = [
            Usage(f"stage {stage}", "stage", busy, value, Counts.TIME)
            for stage, busy in enumerate(step.played.busy_ns)
        ]
        names, fullest = _memories(problem), dict[str, Usage]()
        for stage, peak in enumerate(step.peaks):
            name = names[problem.group_of(plan.configuration, stage)]
            limit = problem.limit_bytes(plan.configuration, stage)
            if name not in fullest or peak > fullest[name].amount:
                fullest[name] = Usage(name, "memory", peak, limit, Counts.SIZE)
        return Why(
            chain_of(list(_tasks(plan, priced))),
            tuple(sorted(usage, key=lambda entry: (-entry.amount, entry.name))),
            tuple(sorted(fullest.values(), key=lambda entry: -(entry.share or 0))),
        )

    def moves(
        self,
        problem: TrainingProblem,  # noqa: ARG002
        before: TrainingPlan,
        other: TrainingProblem,  # noqa: ARG002
        after: TrainingPlan,
    ) -> tuple[Move, ...]:
        """Fields that have another value."""
        was, now = asdict(before.configuration), asdict(after.configuration)
        return tuple(
            Move(name, str(was[name]), str(now[name]), (name,))
            for name in was
            if was[name] != now[name]
        )


def _memories(problem: TrainingProblem) -> list[str]:
    """Name the memory of each group."""
    names = [group.device.name for group in problem.cluster.groups]
    return [
        f"memory of {name}" if names.count(name) == 1 else f"memory of group {place}, {name}"
        for place, name in enumerate(names)
    ]


def _tasks(plan: TrainingPlan, priced: Priced) -> Iterator[Task]:
    """Passes of a step; none where they are too many to follow."""
    c = plan.configuration
    if c.pipeline == 1 or 3 * c.chunks * c.micro_batches > MOST_PASSES:
        return
    shop, words = shop_and_words(c, priced.chunks)
    starts = times(shop, words)
    names = [f"{kind.role} of {kind.block}" for kind in shop.kinds]
    for k, kind in enumerate(shop.kinds):
        for number, start in enumerate(starts[k]):
            inputs = tuple(f"{names[a]}, micro-batch {number}" for a, _ in shop.before[k])
            place, name = f"stage {kind.machine}", f"{names[k]}, micro-batch {number}"
            yield Task(name, place, (place,), start, start + kind.duration, inputs)
