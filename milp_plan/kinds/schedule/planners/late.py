"""Delayed starts, so that devices span less: the second half of list scheduling for spans.

List schedulers start everything early, on some device long before anything else can follow there.
Here the last stop of every device stays, and each task, from the last to the first, starts as late
as that, its readers and the order on its resources allow. No stop exceeds the last one of its
device and no start is earlier, so no span grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar

from milp_plan.check import verify
from milp_plan.core import Objective, OperatorRun, Plan, PlanningProblem, Transfer
from milp_plan.core.schedule import transfer_resources

from .indexed import indexed

T = TypeVar("T", OperatorRun, Transfer)


def put_off(problem: PlanningProblem, plan: Plan) -> Plan:
    """Return a valid plan with late starts; the plan itself where the objective is not ``span``.

    Also where memory does not admit the late starts.
    """
    if problem.objective is not Objective.SPAN or not plan.has_schedule:
        return plan
    late = _late(problem, plan)
    return late if not indexed(problem).memory_binds or verify(problem, late).ok else plan


@dataclass(slots=True)
class _Task(Generic[T]):
    """A run or transfer, its resources, its place in the order, and its latest stop."""

    made: T
    resources: tuple[str, ...]
    key: tuple[int, int, float]
    stop: int
    after: list[_Task[Any]] = field(default_factory=list)
    start: int = 0

    def settle(self) -> None:
        """Start as late as what follows allows."""
        self.stop = min([self.stop, *(task.start for task in self.after)])
        self.start = self.stop - (self.key[1] - self.key[0])

    def moved(self) -> T:
        """Return the run or transfer at its new time."""
        return replace(self.made, start_ticks=self.start, stop_ticks=self.stop)


def _late(problem: PlanningProblem, plan: Plan) -> Plan:
    runs = _runs(problem, plan)
    transfers = _transfers(problem, plan, runs)
    for name, followers in problem.graph.successors.items():
        runs[name].after += [runs[follower] for follower in followers]
    everything: list[_Task[Any]] = [*runs.values(), *transfers]
    everything.sort(key=lambda task: task.key)  # of equal ones the last is put off first
    held: dict[str, list[_Task[Any]]] = {}
    for task in everything:
        for resource in task.resources:
            held.setdefault(resource, []).append(task)
    for tasks in held.values():
        for task, following in pairwise(tasks):
            task.after.append(following)
    for task in reversed(everything):
        task.settle()
    return replace(
        plan,
        runs=tuple(runs[run.operator].moved() for run in plan.runs),
        transfers=tuple(task.moved() for task in transfers),
    )


def _runs(problem: PlanningProblem, plan: Plan) -> dict[str, _Task[OperatorRun]]:
    """Return the operators; each has stopped when its device has run its last one."""
    position = {name: n for n, name in enumerate(problem.graph.topological_order)}
    last: dict[str, int] = {}
    for run in plan.runs:
        for device in run.devices:
            last[device] = max(last.get(device, 0), run.stop_ticks or 0)
    return {
        run.operator: _Task(
            run,
            run.devices,
            (run.start_ticks or 0, run.stop_ticks or 0, position[run.operator]),
            min(last[device] for device in run.devices),
        )
        for run in plan.runs
    }


def _transfers(
    problem: PlanningProblem, plan: Plan, runs: dict[str, _Task[OperatorRun]]
) -> list[_Task[Transfer]]:
    """Return the transfers, after their producers and before whoever can read their copy."""
    result = []
    for sent in plan.transfers:
        value = problem.graph.value(sent.value)
        producer = runs[str(value.producer)]
        held = transfer_resources(problem.cluster, sent.source, sent.target)
        key = sent.start_ticks or 0, sent.stop_ticks or 0, producer.key[2] + 0.5
        task = _Task(sent, held, key, plan.stop_ticks)
        producer.after.append(task)
        for reader in (runs[consumer] for consumer in value.consumers):
            here = not set(sent.target).isdisjoint(reader.made.devices)
            if here and key[1] <= reader.key[0]:
                task.after.append(reader)
        result.append(task)
    return result
