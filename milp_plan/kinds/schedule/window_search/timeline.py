"""A plan as tasks on resources, in arrays of integers, and plans from placements and orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from milp_plan.core import OperatorRun, Plan, Transfer, ceil_div
from milp_plan.core.schedule import transfer_resources

from ..planners.indexed import Indexed, Spot
from .loops import Integers, backward, forward

Key = tuple[int, tuple[int, ...], str]
"""The copy that a transfer makes: value, target devices, layout."""


class Journey(NamedTuple):
    """A transfer of a plan.

    ``duration`` is in units of the view; ``resources`` are the numbers of channels or ports.
    """

    key: Key
    source: tuple[int, ...]
    duration: int
    resources: tuple[int, ...]


class Timeline:
    """The tasks of a plan: its operators first, then its transfers.

    Parameters
    ----------
    view
        The problem.
    plan
        A valid plan of it, with a schedule.

    Attributes
    ----------
    spots, journeys
        Placement of each operator; the transfers.
    start, length : shape (tasks,), int64
        Starts, rounded down, and durations, rounded up, in units of the view.
    order, place
        Tasks in the order of the plan, and the position of each there.
    held
        Resources of each task, as (first of each task, resource).
    arcs
        Producers and transfers that a task waits for, as (first of each task, task, value).
    chains
        Per resource, the tasks that hold it, in order.
    touching
        Per value, the transfers that carry it.
    head, tail : shape (tasks,), int64
        Earliest start, and least time from the stop to the end, in the plan's order.
    """

    def __init__(self, view: Indexed, plan: Plan) -> None:
        self.view, self.plan = view, plan
        self.spots = [view.spot(view.index[r.operator], r.placement) for r in self._by_number()]
        self.journeys = [self._journey(transfer) for transfer in plan.transfers]
        runs = [(r.start_ticks or 0, r.stop_ticks or 0) for r in self._by_number()]
        runs += [(t.start_ticks or 0, t.stop_ticks or 0) for t in plan.transfers]
        self.num_tasks = len(runs)
        self.start: Integers = np.array([a // view.tick for a, _ in runs], dtype=np.int64)
        lengths = [ceil_div(b - a, view.tick) for a, b in runs]
        self.length: Integers = np.array(lengths, dtype=np.int64)
        n = view.num_operators
        late = [2 * view.position[view.producer[j.key[0]]] + 1 for j in self.journeys]
        rank = [*(2 * place for place in view.position), *late]
        ordered = sorted(range(self.num_tasks), key=lambda task: (*runs[task], rank[task]))
        self.order: Integers = np.array(ordered, dtype=np.int64)
        self.place = np.empty(self.num_tasks, np.int64)
        self.place[self.order] = np.arange(self.num_tasks)
        self.touching: list[list[int]] = [[] for _ in view.values]
        for number, journey in enumerate(self.journeys):
            self.touching[journey.key[0]].append(n + number)
        holds = [spot.devices for spot in self.spots] + [j.resources for j in self.journeys]
        self.held = _flatten(holds)
        self.chains: list[list[int]] = [[] for _ in range(view.num_resources)]
        for task in self.order.tolist():
            for resource in holds[task]:
                self.chains[resource].append(task)
        self.readers: list[list[int]] = [[] for _ in self.journeys]
        self.arcs = self._arcs()
        self._measure()

    def _by_number(self) -> list[OperatorRun]:
        return [self.plan.run(name) for name in self.view.names]

    def _journey(self, transfer: Transfer) -> Journey:
        view = self.view
        source = tuple(view.device_index[name] for name in transfer.source)
        target = tuple(view.device_index[name] for name in transfer.target)
        names = transfer_resources(view.problem.cluster, transfer.source, transfer.target)
        held = tuple(view.resource_index[f"transfer {name}"] for name in names)
        length = ceil_div((transfer.stop_ticks or 0) - (transfer.start_ticks or 0), view.tick)
        key = (view.value_index[transfer.value], target, transfer.layout)
        return Journey(key, source, length, held)

    def exact(self, number: int) -> Journey:
        """Return a transfer with its duration in ticks."""
        transfer = self.plan.transfers[number]
        ticks = (transfer.stop_ticks or 0) - (transfer.start_ticks or 0)
        return self.journeys[number]._replace(duration=ticks)

    def _arcs(self) -> tuple[Integers, Integers, Integers]:
        view, n = self.view, self.view.num_operators
        known = {journey.key: n + number for number, journey in enumerate(self.journeys)}
        into: list[list[tuple[int, int]]] = [[] for _ in range(self.num_tasks)]
        for value, producer in enumerate(view.producer):
            if producer < 0:
                continue
            for task in self.touching[value]:
                into[task].append((producer, value))
            for reader in view.consumers[value]:
                legs = view.legs_between(value, self.spots[producer], self.spots[reader]) or ()
                into[reader] += [(producer, value)] if not legs else []
                for leg in legs:
                    task = known[value, leg.target, leg.layout]
                    into[reader].append((task, value))
                    self.readers[task - n].append(reader)
        first = np.cumsum([0, *(len(row) for row in into)], dtype=np.int64)
        flat = np.array([pair for row in into for pair in row], dtype=np.int64).reshape(-1, 2)
        return first, flat[:, 0].copy(), flat[:, 1].copy()

    def _measure(self) -> None:
        state = np.zeros(self.num_tasks, np.int64)
        touched = np.zeros(len(self.view.values), np.bool_)
        nothing = np.zeros(self.num_tasks + 1, np.int64), state[:0], state[:0]
        self.head, self.tail = np.zeros_like(state), np.zeros_like(state)
        for loop, result in ((forward, self.head), (backward, self.tail)):
            last = np.zeros(self.view.num_resources, np.int64)
            loop(
                self.order, state, self.length, self.arcs, touched, nothing, self.held, last, result
            )

    @property
    def makespan(self) -> int:
        """Makespan of the plan with every task as early as its order allows."""
        n = self.view.num_operators
        return int((self.head[:n] + self.length[:n]).max(initial=0))

    @cached_property
    def critical(self) -> list[int]:
        """Tasks without slack."""
        tasks: list[int] = np.flatnonzero(self.slack == 0).tolist()
        return tasks

    @property
    def slack(self) -> Integers:
        """Delay of each task that does not change the makespan, in the plan's order."""
        return self.makespan - self.head - self.length - self.tail


def _flatten(rows: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    first = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return first, np.array([entry for row in rows for entry in row], dtype=np.int64)


# -- plans from decisions ------------------------------------------------------------------------


class _TaskGraph(NamedTuple):
    """Tasks to be timed: successors, numbers of predecessors, durations and resources."""

    successors: list[list[int]]
    num_predecessors: list[int]
    length: list[int]
    holds: list[tuple[int, ...]]


def timed(
    view: Indexed,
    spots: Sequence[Spot],
    known: Mapping[Key, Journey],
    after: Iterable[tuple[int | Key, int | Key]],
    hints: Mapping[int | Key, float],
) -> Plan | None:
    """Schedule operators and the transfers they need as early as an order allows.

    Parameters
    ----------
    view, spots
        The problem, and a placement of every operator.
    known
        Transfers that keep their source; the others leave from the fastest device.
    after
        Pairs of operators (by number) and transfers (by their copy); the second starts after the
        first stops. Pairs that form a cycle, or name a transfer that does not exist, are dropped.
    hints
        When tasks should come, in any unit; used only for tasks in a cycle.

    Returns
    -------
    Plan or None
        ``None`` where a value cannot get to a reader.
    """
    graph_and_transfers = _task_graph(view, spots, known)
    if graph_and_transfers is None:
        return None
    graph, made = graph_and_transfers
    n = len(spots)
    number: dict[int | Key, int] = {journey.key: n + k for k, journey in enumerate(made)}
    number.update((operator, operator) for operator in range(n))
    later: list[list[int]] = [[] for _ in graph.successors]
    for one, other in after:
        if one in number and other in number:
            later[number[one]].append(number[other])
    when = [(hints.get(k, 0.0), 0.0) for k in [*range(n), *(journey.key for journey in made)]]
    starts = _starts(graph, later, when, use_resources=False)
    times = [
        (float(start), float(start + ticks))
        for start, ticks in zip(starts, graph.length, strict=True)
    ]
    starts = _starts(graph, [[] for _ in later], times, use_resources=True)
    return _plan(view, spots, made, starts)


def _task_graph(
    view: Indexed, spots: Sequence[Spot], known: Mapping[Key, Journey]
) -> tuple[_TaskGraph, list[Journey]] | None:
    """Return the tasks of a placement and its transfers; ``None`` where one is impossible."""
    n = view.num_operators
    successors: list[list[int]] = [[] for _ in range(n)]
    num_predecessors = [0] * n
    journeys: dict[Key, Journey] = {}
    number: dict[Key, int] = {}
    for value, producer in enumerate(view.producer):
        for reader in view.consumers[value] if producer >= 0 else ():
            legs = view.legs_between(value, spots[producer], spots[reader])
            if legs is None:
                return None
            successors[producer].append(reader)
            num_predecessors[reader] += 1
            for leg in legs:
                key = (value, leg.target, leg.layout)
                if key not in journeys:
                    made = Journey(key, leg.source, leg.duration, leg.resources)
                    journeys[key], number[key] = known.get(key, made), len(successors)
                    successors[producer].append(len(successors))
                    successors.append([])
                    num_predecessors.append(1)
                successors[number[key]].append(reader)
                num_predecessors[reader] += 1
    made_all = list(journeys.values())
    length = [spot.duration for spot in spots] + [journey.duration for journey in made_all]
    holds = [spot.devices for spot in spots] + [journey.resources for journey in made_all]
    return _TaskGraph(successors, num_predecessors, length, holds), made_all


def _starts(
    graph: _TaskGraph,
    later: list[list[int]],
    when: Sequence[tuple[float, float]],
    *,
    use_resources: bool,
) -> list[int]:
    """Return the start of each task, taking ready tasks in the order of ``later``, then ``when``.

    ``later`` lists tasks that should follow a task; pairs in a cycle are ignored. With
    ``use_resources`` the tasks on a resource follow each other in the order in which they are
    taken.
    """
    missing = list(graph.num_predecessors)
    waiting = [0] * len(missing)
    for row in later:
        for other in row:
            waiting[other] += 1
    free: dict[int, int] = {}
    start = [0] * len(missing)
    ready = [(waiting[t] > 0, *when[t], t) for t, left in enumerate(missing) if not left]
    heapify(ready)
    done = [False] * len(missing)
    while ready:
        task = heappop(ready)[3]
        if done[task]:
            continue  # pushed a second time when nothing was left to wait for
        done[task] = True
        if use_resources:
            start[task] = max([start[task], *(free.get(r, 0) for r in graph.holds[task])])
        stop = start[task] + graph.length[task]
        free.update(dict.fromkeys(graph.holds[task], stop))
        for other in graph.successors[task]:
            start[other] = max(start[other], stop)
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, (waiting[other] > 0, *when[other], other))
        for other in later[task]:
            if not done[other]:
                start[other] = max(start[other], stop)
            waiting[other] -= 1
            if not waiting[other] and not missing[other]:
                heappush(ready, (False, *when[other], other))
    return start


def _plan(
    view: Indexed, spots: Sequence[Spot], made: Sequence[Journey], starts: Sequence[int]
) -> Plan:
    names = view.problem.cluster.device_names
    runs = tuple(
        OperatorRun(name, *spot.placement, begin, begin + spot.duration)
        for name, spot, begin in zip(view.names, spots, starts, strict=False)
    )
    transfers = tuple(
        Transfer(
            view.values[journey.key[0]].name,
            tuple(names[device] for device in journey.source),
            tuple(names[device] for device in journey.key[1]),
            journey.key[2],
            begin,
            begin + journey.duration,
        )
        for journey, begin in zip(made, starts[len(spots) :], strict=True)
    )
    return Plan(view.problem.name, runs, transfers)
