"""Exact optimum of tiny problems with re-runs and hosts, by enumeration.

For problems whose operators run on single devices and whose values have the layout ``full``. Each
operator runs up to ``runs`` times, on any of its devices; each reader of a value (a run, on its
device) reads a certain copy: of a run there, sent from a run elsewhere, or brought from a host,
where up to ``reloads`` transfers bring one value to one device; of a result, the copy of a certain
run stays, which the law says of the last one. Every such choice is a workload whose schedules
``brute.py`` searches exactly.

The law has readers read the newest copy, so every plan under it is such a choice, and the least
value over all choices is never above the optimum. It is the optimum where the plan found is valid,
which the checker says of each plan that is returned.

Mostly it is, for a choice can be changed. Let R read a copy c while c', the next one completed
there, is complete before R starts. If c' is held until R stops anyway, R may read it. Otherwise c
is held beyond the stops of all readers of c', which may then read c, and nobody needs c' there. But
what made c' may be needed all the same: a run with several outputs, or one that sends its value to
a device a second time. If meanwhile a transfer under way holds c, then R, which must read c', has
both held under the law, and the choice is better than any plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    CommunicationModel,
    Objective,
    OperatorRun,
    Plan,
    PlanningProblem,
    Transfer,
)

from .brute import Timetable, quietest_order
from .remember import remembered
from .workload import Buffer, Workload, is_result


class Rerun(NamedTuple):
    """A run of an operator: which one of it, and where."""

    operator: str
    number: int
    device: str


class Trip(NamedTuple):
    """A transfer of a value that a run made; the way back from a host has a number."""

    value: str
    made: Rerun
    source: str
    target: str
    number: int = 0


class WaysWorkload(Workload):
    """A workload with several runs of an operator."""

    def plan(self, starts):
        """Return the plan that starts each task when told."""
        runs, trips = [], []
        for task, start, ticks in zip(self.placement, starts, self.durations, strict=True):
            times = (start, start + ticks)
            if isinstance(task, Rerun):
                option = self.problem.graph.operator(task.operator).options[0].name
                runs.append(OperatorRun(task.operator, option, (task.device,), *times))
            else:
                trips.append(Transfer(task.value, (task.source,), (task.target,), FULL, *times))
        return Plan(self.problem.name, tuple(runs), tuple(trips))


@remembered
def brute_force_ways(
    problem: PlanningProblem, *, runs: int = 2, reloads: int = 1
) -> tuple[int, Plan] | None:
    """Return the least makespan and a plan that reaches it; ``None`` if there is no plan.

    Raises
    ------
    AssertionError
        The best choice of copies is no plan under the law, so the optimum is not known.
    """
    loads = [load for sites in _sites(problem, runs) for load in _loads(problem, sites, reloads)]
    timetables = sorted(
        ((Timetable(load).bound(0, 0, ()), number) for number, load in enumerate(loads)),
    )
    best: tuple[int, Plan] | None = None
    for bound, number in timetables:
        if best is not None and bound >= best[0]:
            break
        load = loads[number]
        timetable = Timetable(load)
        if timetable.tight and quietest_order(load) is None:
            continue
        found = timetable.search(None if best is None else best[0])
        if found is not None:
            best = found[0], load.plan(found[1])
    assert best is None or verify(problem, best[1]).ok, "the best choice reads older copies"
    return best


def known_plan(problem: PlanningProblem) -> int | None:
    """Return the makespan of a plan of two runs and a reload at most, if there is one."""
    found = []
    for single in _by_option(replace(problem, objective=Objective.MAKESPAN)):
        try:
            found.append(brute_force_ways(single))
        except AssertionError:  # its best choice reads older copies: it knows nothing then
            continue
    return min((entry[0] for entry in found if entry is not None), default=None)


def _by_option(problem: PlanningProblem) -> Iterator[PlanningProblem]:
    """Yield the problem with each choice of one option for each operator."""
    operators = problem.graph.operators
    for chosen in product(*(operator.options for operator in operators)):
        single = tuple(
            replace(operator, options=(option,))
            for operator, option in zip(operators, chosen, strict=True)
        )
        yield replace(problem, graph=replace(problem.graph, operators=single))


def with_peak(problem: PlanningProblem, peak: int) -> PlanningProblem:
    """Return the problem with at most so much memory on each device."""
    limits = {
        device.name: peak if device.memory_bytes is None else min(peak, device.memory_bytes)
        for device in problem.cluster.devices
    }
    return replace(problem, cluster=problem.cluster.with_memory(dict(limits)))


def _sites(problem: PlanningProblem, most: int) -> Iterator[tuple[Rerun, ...]]:
    """Yield every choice of how often and where operators run."""
    graph = problem.graph
    choices = []
    for operator in graph.operators:
        devices = [placement.devices[0] for placement in problem.placements(operator.name)]
        counts = range(1, most + 1) if operator.recomputable else (1,)
        found = []
        for count in counts:
            for where in product(devices, repeat=count):
                if list(where) == sorted(where):
                    found.append(tuple(Rerun(operator.name, n, d) for n, d in enumerate(where)))
        choices.append(found)
    for choice in product(*choices):
        every = tuple(run for runs in choice for run in runs)
        groups: dict[str, set[str]] = {}
        for run in every:
            group = graph.operator(run.operator).group
            if group is not None:
                groups.setdefault(group, set()).add(run.device)
        if all(len(devices) == 1 for devices in groups.values()):
            yield every


def _loads(problem: PlanningProblem, runs: tuple[Rerun, ...], reloads: int) -> Iterator[Workload]:
    """Yield a workload for every choice of what each reader reads."""
    graph, hosts = problem.graph, sorted(problem.cluster.hosts)
    made = {v.name: [r for r in runs if r.operator == v.producer] for v in graph.values}
    reads = [
        (value.name, reader)
        for value in graph.values
        if value.producer is not None
        for reader in runs
        if reader.operator in value.consumers
    ]
    results = [value.name for value in graph.values if value.producer and is_result(value)]
    choices: list[list[tuple[Rerun | Trip, ...]]] = [
        [(run,) for run in made[name]] for name in results
    ]
    for name, reader in reads:
        ways: list[tuple[Rerun | Trip, ...]] = []
        for run in made[name]:
            if run.device == reader.device:
                ways.append((run,))
            elif problem.cluster.channel(run.device, reader.device):
                ways.append((run, Trip(name, run, run.device, reader.device)))
            for host in hosts:
                both = (run.device, host), (host, reader.device)
                if all(problem.cluster.channel(*ends) for ends in both):
                    out = Trip(name, run, run.device, host)
                    ways += [
                        (run, out, Trip(name, run, host, reader.device, n)) for n in range(reloads)
                    ]
        choices.append(ways)
    again = {run.operator for run in runs if run.number}
    costs = cache(lambda task: (_ticks(problem, task), _held(problem, task)))
    persistent = _persistent(problem, runs)
    for choice in product(*choices):
        used = {ways[0] for ways in choice}
        if all(run in used or run.operator not in again for run in runs):
            stays = {(name, way[0]) for name, way in zip(results, choice, strict=False)}
            copies = choice[len(results) :]
            load = _workload(problem, runs, reads, copies, stays, costs, persistent)
            if load is not None:
                yield load


def _workload(problem, runs, reads, choice, stays, costs, persistent) -> Workload | None:
    graph, cluster = problem.graph, problem.cluster
    trips = sorted({trip for ways in choice for trip in ways[1:]}, key=repr)
    tasks: list[Rerun | Trip] = [*runs, *trips]
    index = {task: i for i, task in enumerate(tasks)}
    before = [0] * len(tasks)
    readers: dict[tuple[str, Rerun | Trip], int] = {}
    for run in runs:
        for value in graph.outputs[run.operator]:
            readers[value.name, run] = 1 << index[run]
    for trip in trips:
        readers[trip.value, trip] = 1 << index[trip]
    for (name, reader), ways in zip(reads, choice, strict=True):
        chain = (*ways, reader)
        for maker, next_one in pairwise(chain):
            before[index[next_one]] |= 1 << index[maker]
            readers[name, maker] |= 1 << index[next_one]
    if _circular(before):
        return None
    devices = cluster.device_names
    bits: dict[str, int] = {name: 1 << i for i, name in enumerate(devices)}
    durations = [costs(task)[0] for task in tasks]
    resources = [
        sum(bits.setdefault(name, 1 << len(bits)) for name in costs(task)[1]) for task in tasks
    ]
    buffers = []
    for (name, maker), mask in readers.items():
        device = maker.device if isinstance(maker, Rerun) else maker.target
        size = graph.value(name).bytes[FULL]
        end = ((name, maker) in stays) << len(tasks)
        buffers.append(Buffer(devices.index(device), size, index[maker], mask | end))
    for run in runs:
        size = graph.operator(run.operator).options[0].workspace_bytes
        buffers.append(Buffer(devices.index(run.device), size, index[run], 1 << index[run], True))
    return WaysWorkload(
        problem,
        tasks,
        (),
        tuple(durations),
        tuple(resources),
        tuple(before),
        tuple(buffer for buffer in buffers if buffer.bytes),
        persistent,
        tuple(device.memory_bytes for device in cluster.devices),
    )


def _ticks(problem: PlanningProblem, task: Rerun | Trip) -> int:
    graph, cluster = problem.graph, problem.cluster
    if isinstance(task, Rerun):
        option = graph.operator(task.operator).options[0]
        return option.duration_ticks[cluster.device(task.device).device_class]
    value, channel = graph.value(task.value), cluster.channel(task.source, task.target)
    assert channel is not None
    return channel.transfer_ticks(value.payload(FULL), value.messages)


def _held(problem: PlanningProblem, task: Rerun | Trip) -> list[str]:
    if isinstance(task, Rerun):
        return [task.device]
    return {
        CommunicationModel.CHANNEL: [f"{task.source}->{task.target}"],
        CommunicationModel.ENDPOINT: [f"{task.source} sends", f"{task.target} receives"],
        CommunicationModel.DELAY: [],
    }[problem.cluster.communication]


def _persistent(problem: PlanningProblem, runs: tuple[Rerun, ...]) -> tuple[int, ...]:
    used = []
    for device in problem.cluster.device_names:
        here = {run.operator for run in runs if run.device == device}
        lying = [v for v in problem.graph.values if v.persistent and here & set(v.consumers)]
        used.append(sum(value.bytes[FULL] for value in lying))
    return tuple(used)


def _circular(before: list[int]) -> bool:
    done = 0
    while True:
        ready = [i for i, mask in enumerate(before) if not done >> i & 1 and not mask & ~done]
        if not ready:
            return done != (1 << len(before)) - 1
        done |= sum(1 << i for i in ready)
