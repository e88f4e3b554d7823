"""Problems of one device as a graph whose orders are planned: what operators make and need.

On one device without transfers a plan is an order: idle time frees nothing. By the memory law an
operator that lasts some time sees all values that were made before it and are still to be read (by
itself as well), its outputs and its workspace; one that lasts no time holds nothing itself. What is
kept to the end is read by one operator more, the *end*, that comes behind all others; it has the
last number and is in no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

from milp_plan.core import MemoryLaw, Operator, OperatorRun, Plan, PlanningProblem
from milp_plan.core.view import view


@dataclass(frozen=True)
class OrderGraph:
    """Operators by number, in the order of the problem's file, and the end if anything is kept.

    Parameters
    ----------
    problem
        With one device, and one way to run each operator on it.
    base_bytes
        Persistent values.
    workspace
        Bytes of the workspace of each operator.
    lasting
        Whether each operator takes any time.
    sizes, producers, consumers
        Bytes, producer and consumers of each value that is made.
    """

    problem: PlanningProblem
    base_bytes: int
    workspace: tuple[int, ...]
    lasting: tuple[bool, ...]
    sizes: tuple[int, ...]
    producers: tuple[int, ...]
    consumers: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.workspace)

    @cached_property
    def inputs(self) -> list[list[int]]:
        """Values that each operator reads."""
        result: list[list[int]] = [[] for _ in range(len(self))]
        for value, readers in enumerate(self.consumers):
            for reader in readers:
                result[reader].append(value)
        return result

    @cached_property
    def outputs(self) -> list[list[int]]:
        """Values that each operator makes."""
        result: list[list[int]] = [[] for _ in range(len(self))]
        for value, producer in enumerate(self.producers):
            result[producer].append(value)
        return result

    @cached_property
    def before(self) -> list[set[int]]:
        """Operators whose values each operator reads."""
        return [{self.producers[value] for value in values} for values in self.inputs]

    @cached_property
    def after(self) -> list[list[int]]:
        """Operators that read what each operator makes, each once."""
        return [
            list(dict.fromkeys(r for value in made for r in self.consumers[value]))
            for made in self.outputs
        ]

    def by_rank(self, rank: Sequence[int]) -> list[int]:
        """Operators in the order of their ranks, each as soon as what it reads is there."""
        waiting = [len(before) for before in self.before]
        ready = [(rank[o], o) for o in range(len(self)) if not waiting[o]]
        heapify(ready)
        order = []
        while ready:
            order.append(heappop(ready)[1])
            for other in self.after[order[-1]]:
                waiting[other] -= 1
                if not waiting[other]:
                    heappush(ready, (rank[other], other))
        return order

    def profile(self, order: Sequence[int]) -> list[int]:
        """Bytes on the device while each operator of an order runs; 0 where it takes no time."""
        left = [len(readers) for readers in self.consumers]
        live, found = self.base_bytes, []
        for operator in order:
            made = self.outputs[operator]
            held = live + self.workspace[operator] + sum(self.sizes[value] for value in made)
            found.append(held if self.lasting[operator] else 0)
            live += sum(self.sizes[value] for value in made if left[value])
            for value in self.inputs[operator]:
                left[value] -= 1
                if left[value] == 0:
                    live -= self.sizes[value]
        return found

    def peak(self, order: Sequence[int]) -> int:
        """Return the value of an order."""
        return max([self.base_bytes, *self.profile(order)])

    def plan(self, order: Sequence[int], planner: str) -> Plan:
        """One operator after the other."""
        problem, now, runs = self.problem, 0, []
        for number in order:
            if number == len(problem.graph.operators):
                continue
            operator = problem.graph.operators[number]
            (place,) = problem.placements(operator.name)
            stop = now + problem.duration_ticks(operator.name, place)
            runs.append(OperatorRun(operator.name, place.option, place.devices, now, stop))
            now = stop
        return Plan(problem.name, tuple(runs), planner=planner)


_END = ()
"""Name of the end."""


@view
def read_order(problem: PlanningProblem) -> OrderGraph | str:
    """Read a problem as an order of operators, or return the reason why it is none."""
    if len(problem.cluster.devices) != 1 or problem.serial is not None:
        return "there are several devices, or transfers are work"
    if problem.allows_memory_saving:
        return "operators may run again, or values wait on a host"
    if problem.memory_law is not MemoryLaw.INSTANT:
        return "memory has no clock"
    graph = problem.graph
    ways = [problem.placements(operator.name) for operator in graph.operators]
    if any(len(places) != 1 for places in ways):
        return "an operator has several options, or none"
    options = {o.name: o.option(w[0].option) for o, w in zip(graph.operators, ways, strict=True)}
    base, made = 0, []
    for value in graph.values:
        read = {options[name].layout_read(value.name) for name in value.consumers}
        if value.producer is None:
            base += sum(value.bytes[layout] for layout in read)
            continue
        written = options[value.producer].layout_written(value.name)
        if read - {written}:
            return "values change their layout"
        end = (_END,) if value.is_kept else ()
        made.append((value.bytes[written], value.producer, (*value.consumers, *end)))
    place: dict[object, int] = {operator.name: i for i, operator in enumerate(graph.operators)}
    workspace = [options[operator.name].workspace_bytes for operator in graph.operators]
    lasting = [_lasts(problem, operator) for operator in graph.operators]
    if any(_END in readers for _, _, readers in made):
        place[_END] = len(place)
        workspace.append(0)
        lasting.append(True)
        last = [name for name, after in graph.successors.items() if not after]
        made += [(0, name, (_END,)) for name in last]
    return OrderGraph(
        problem,
        base,
        tuple(workspace),
        tuple(lasting),
        tuple(size for size, _, _ in made),
        tuple(place[producer] for _, producer, _ in made),
        tuple(tuple(place[name] for name in dict.fromkeys(readers)) for _, _, readers in made),
    )


def _lasts(problem: PlanningProblem, operator: Operator) -> bool:
    (where,) = problem.placements(operator.name)
    return problem.duration_ticks(operator.name, where) > 0
