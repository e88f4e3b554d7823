"""Reasons of local updates: the budget, memory of stages, and how busy devices are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from milp_plan.core import Counts, Verdict
from milp_plan.run.reasons.base import (
    Move,
    Reasons,
    Remedy,
    Resource,
    Task,
    Usage,
    Why,
    chain_of,
    largest_first,
    used_up,
)

from .check import task_stops
from .problem import LocalUpdatesPlan, LocalUpdatesProblem

BUDGET = "budget"


class LocalUpdatesReasons(Reasons[LocalUpdatesProblem, LocalUpdatesPlan]):
    """Reasons of :class:`milp_plan.kinds.local_updates.problem.LocalUpdatesProblem`."""

    noun = "stages with limited memory"

    def parts(self, problem: LocalUpdatesProblem) -> tuple[str, ...]:
        """Return the stages whose memory is limited: the only parts that may conflict."""
        return tuple(stage.name for stage in problem.stages if stage.most is not None)

    def keep(self, problem: LocalUpdatesProblem, names: Collection[str]) -> LocalUpdatesProblem:
        """Lift the memory limit of other stages: every plan stays valid, with the same value."""
        selected = set(names)
        stages = [s if s.name in selected else replace(s, most=None) for s in problem.stages]
        return replace(problem, stages=tuple(stages))

    def resources(self, problem: LocalUpdatesProblem) -> tuple[Resource, ...]:
        """Return the budget, and the memory of each stage."""
        memory = (
            Resource(f"memory of {stage.name}", "memory", stage.most, Counts.THINGS)
            for stage in problem.stages
        )
        return (Resource(BUDGET, "price", problem.budget, Counts.THINGS), *memory)

    def resized(
        self, problem: LocalUpdatesProblem, amounts: Mapping[str, int | None]
    ) -> LocalUpdatesProblem:
        """Return the problem with another budget or other memory."""
        stages = [
            replace(stage, most=amounts.get(f"memory of {stage.name}", stage.most))
            for stage in problem.stages
        ]
        budget = amounts.get(BUDGET, problem.budget)
        return replace(problem, stages=tuple(stages), budget=budget)

    def why(self, problem: LocalUpdatesProblem, plan: LocalUpdatesPlan, verdict: Verdict) -> Why:
        """Return the chain of tasks, how busy devices are, and which limits are used up."""
        cuts = sorted(problem.by_name[name] for name in plan.cuts)
        tasks = list(_tasks(problem, cuts, task_stops(problem, cuts)))
        value = verdict.value or 0
        usage = largest_first(
            Usage(name, "device", ticks, value, Counts.TIME)
            for name, ticks in verdict.components.items()
        )
        limits = self.used(problem, plan)
        spent = problem.price(plan.cuts)
        busiest = max(verdict.components.values(), default=0)
        remedies = []
        if problem.budget is not None and spent < sum(s.price for s in problem.stages[:-1]):
            remedies.append(Remedy("a budget for more cuts", value - busiest))
        return Why(chain_of(tasks), usage, limits, used_up(limits), (), tuple(remedies))

    def used(self, problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> tuple[Usage, ...]:
        """Return the limits, and how much of each a plan uses."""
        usages = []
        if problem.budget is not None:
            spent = problem.price(plan.cuts)
            usages.append(Usage(BUDGET, "price", spent, problem.budget, Counts.THINGS))
        ends = sorted({*(problem.by_name[name] for name in plan.cuts), len(problem.stages) - 1})
        for place, stage in enumerate(problem.stages):
            if stage.most is not None:
                held = problem.ahead(place, next(end for end in ends if end >= place))
                name = f"memory of {stage.name}"
                usages.append(Usage(name, "micro-batches", held, stage.most, Counts.THINGS))
        return tuple(sorted(usages, key=lambda entry: (-(entry.share or 0), entry.name)))

    def moves(
        self,
        problem: LocalUpdatesProblem,  # noqa: ARG002
        before: LocalUpdatesPlan,
        other: LocalUpdatesProblem,
        after: LocalUpdatesPlan,
    ) -> tuple[Move, ...]:
        """Return cuts that were added and removed."""
        moves = []
        for was, now, names in (
            ("gradients pass", "a cut", [n for n in after.cuts if n not in before.cuts]),
            ("a cut", "gradients pass", [n for n in before.cuts if n not in after.cuts]),
        ):
            if names:
                sign = 1 if now == "a cut" else -1
                cost = {"price": sign * other.price(names)}
                moves.append(Move("cut", was, now, tuple(names), cost, Counts.THINGS))
        return tuple(moves)


def _tasks(
    problem: LocalUpdatesProblem, cuts: Sequence[int], stops: Mapping[tuple[str, int, int], int]
) -> Iterator[Task]:
    """Yield tasks of stages, and transfers between them where these take time."""
    for (phase, place, batch), stop in stops.items():
        stage = problem.stages[place]
        name = f"{phase} of {stage.name}, micro-batch {batch}"
        sources = {
            "forward": place - 1,
            "backward": len(problem.stages) if place in cuts else place + 1,
        }
        source, inputs = sources.get(phase, -1), tuple[str, ...]()
        if 0 <= source < len(problem.stages):
            other = problem.stages[source].name
            inputs = (f"{phase} of {other}, micro-batch {batch}",)
            if problem.transfer:
                sent = f"{phase} of micro-batch {batch} from {other} to {stage.name}"
                ready = stops[phase, source, batch]
                yield Task(sent, None, (), ready, ready + problem.transfer, inputs)
                inputs = (sent,)
        start = stop - int(getattr(stage, phase))
        yield Task(name, stage.name, (stage.name,), start, stop, inputs)
