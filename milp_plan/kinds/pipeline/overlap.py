"""Fuses forward and backward of two micro-batches into one operator with its own duration.

A device that computes one micro-batch while another one's tensors travel inside a layer
(expert parallelism) needs less time for both together than for one after the other. DualPipe
builds on such pairs. :func:`fuse` turns pairs of a problem into operators of kind ``overlapped``;
the result is a problem like any other, with the laws unchanged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from milp_plan.core import (
    ComputationGraph,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.cost.routes import routes

from .template import JOINT
from .timing import Deadlock

OVERLAPPED = "overlapped"
"""Kind of the operators that stand for a pair of two micro-batches; the backward operators of one
micro-batch make a joint ``backward``."""

Pair = tuple[str, ...]
"""Names of operators that run together: a forward, and the backward operators of another
micro-batch."""


def fuse(
    problem: PlanningProblem,
    pairs: Iterable[Pair] | Mapping[Pair, int],
) -> tuple[PlanningProblem, dict[Pair, str]]:
    """Replace groups of operators by one operator each.

    The operator reads and makes what its members read and make. It starts when all of them may,
    and what it makes is there when it stops; outputs are held from its start, inputs to its stop.
    Values that pass only between members become its workspace, next to theirs.

    Parameters
    ----------
    problem
        Operators of pairs must have one option, on one and the same device.
    pairs
        Each operator is in at most one pair. A mapping gives the ticks of each pair; otherwise a
        pair takes the sum of its members' ticks. Source of the idea: DeepSeek-V3 report, arXiv
        2412.19437, section 3.2.1.

    Returns
    -------
    problem, names
        The new problem and the operator that stands for each pair.

    Raises
    ------
    ValueError
        An operator is in two pairs, may run on several devices or in several ways, or a value is
        read in two layouts.
    InputError
        A pair waits for itself: some operator between two of its members is outside.
    """
    names: dict[Pair, str] = {}
    home: dict[str, str] = {}  # operator -> the one that stands for it
    for pair in pairs:
        names[pair] = "&".join(pair)
        for name in pair:
            if name in home:
                raise ValueError(f"operator {name!r} is in two pairs")
            home[name] = names[pair]
    ticks = dict(pairs) if isinstance(pairs, Mapping) else {}
    inner = [value for value in problem.graph.values if _is_inner(value, home)]
    values: dict[str, list[Value]] = {}
    gone = {value.name for value in inner}
    for value in inner:
        values.setdefault(home[value.producer or ""], []).append(value)
    joined = {
        pair[0]: _joined(problem, pair, name, values.get(name, []), ticks.get(pair))
        for pair, name in names.items()
    }
    graph = ComputationGraph(
        tuple(
            joined.get(operator.name, operator)
            for operator in problem.graph.operators
            if operator.name in joined or operator.name not in home
        ),
        tuple(_moved(value, home) for value in problem.graph.values if value.name not in gone),
    )
    return replace(problem, name=f"{problem.name}, overlapped", graph=graph), names


def _is_inner(value: Value, home: Mapping[str, str]) -> bool:
    if value.producer is None or value.producer not in home or value.is_kept:
        return False
    return {home.get(reader) for reader in value.consumers} == {home[value.producer]}


def _moved(value: Value, home: Mapping[str, str]) -> Value:
    producer = None if value.producer is None else home.get(value.producer, value.producer)
    readers = dict.fromkeys(home.get(reader, reader) for reader in value.consumers)
    return replace(value.read_by(r for r in readers if r != producer), producer=producer)


def _joined(
    problem: PlanningProblem,
    pair: Pair,
    name: str,
    inner: Sequence[Value],
    ticks: int | None,
) -> Operator:
    members = [problem.graph.operator(member) for member in pair]
    places = {place for member in members for place in _places(problem, member)}
    if len(places) != 1:
        raise ValueError(f"operators of {name!r} may run on {len(places)} devices, expected one")
    inside = {value.name for value in inner}
    workspace = sum(member.options[0].workspace_bytes for member in members)
    for value in inner:
        assert value.producer is not None
        layout = problem.graph.operator(value.producer).options[0].layout_written(value.name)
        workspace += value.bytes[layout]
    reads: dict[str, str] = {}
    writes: dict[str, str] = {}
    for member in members:
        option = member.options[0]
        for value in problem.graph.inputs[member.name]:
            layout = option.layout_read(value.name)
            if value.producer not in pair and reads.setdefault(value.name, layout) != layout:
                raise ValueError(f"{name!r} reads {value.name!r} in two layouts")
        for value in problem.graph.outputs[member.name]:
            if value.name not in inside:
                writes[value.name] = option.layout_written(value.name)
    if ticks is None:
        ticks = sum(problem.duration_ticks(m.name, problem.placements(m.name)[0]) for m in members)
    classes = {problem.cluster.device(device).device_class for device in places}
    option = Option("run", dict.fromkeys(classes, ticks), 1, workspace, reads, writes)
    blocks = dict.fromkeys(member.block or member.name for member in members)
    batches = {member.micro_batch for member in members}
    alone = len(batches) == 1
    return Operator(
        name,
        (option,),
        JOINT if alone else OVERLAPPED,
        micro_batch=batches.pop() if alone else None,
        block=" & ".join(blocks),
    )


def _places(problem: PlanningProblem, operator: Operator) -> list[str]:
    if len(operator.options) != 1 or operator.options[0].gang != 1:
        raise ValueError(f"operator {operator.name!r} may run in several ways, expected one")
    return [place.devices[0] for place in problem.placements(operator.name)]


def finer(problem: PlanningProblem, factor: int) -> PlanningProblem:
    """Split each tick into ``factor`` ticks: the same problem on a finer grid.

    Raises
    ------
    ValueError
        ``factor`` is below 1, or a value might change devices whose bytes, messages or changes of
        layout take time: what rounds up to ticks need not scale.
    """
    if factor < 1:
        raise ValueError(f"factor is {factor}, expected at least 1")
    if factor == 1:
        return problem
    for value in problem.graph.values:
        if value.producer is None or not _may_travel(problem, value):
            continue
        if any(map(value.payload, value.bytes)) or value.messages != 1 or value.reshard_ticks:
            raise ValueError(f"transfers of {value.name!r} need not scale with the tick")
    operators = tuple(
        replace(
            operator,
            options=tuple(
                replace(
                    option,
                    duration_ticks={
                        c: ticks * factor for c, ticks in option.duration_ticks.items()
                    },
                )
                for option in operator.options
            ),
        )
        for operator in problem.graph.operators
    )
    channels = tuple(
        replace(channel, latency_ticks=channel.latency_ticks * factor)
        for channel in problem.cluster.channels
    )
    return replace(
        problem,
        graph=replace(problem.graph, operators=operators),
        cluster=replace(problem.cluster, channels=channels),
        units=replace(problem.units, time_scale=problem.units.time_scale * factor),
    )


def _may_travel(problem: PlanningProblem, value: Value) -> bool:
    places = [
        {place.devices for place in problem.placements(name)}
        for name in (value.producer, *value.consumers)
        if name is not None
    ]
    return len(set.union(*places)) > 1


def sequence(problem: PlanningProblem, orders: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all operators in the order of their earliest starts, for given orders of devices.

    Transfers take their time and hold nothing here; memory is ignored. A list scheduler
    that takes operators in this order runs each device's in its own order.

    Parameters
    ----------
    problem
        Every operator has one placement.
    orders
        Device -> its operators, in order.

    Raises
    ------
    Deadlock
        The orders wait for each other in a circle, or do not hold every operator once.
    """
    after: dict[str, list[tuple[str, int]]] = {o.name: [] for o in problem.graph.operators}
    missing = dict.fromkeys(after, 0)

    def arc(before: str, then: str, lag: int) -> None:
        after[before].append((then, lag))
        missing[then] += 1

    for row in orders.values():
        for before, then in pairwise(row):
            arc(before, then, 0)
    for value in problem.graph.values:
        for reader in value.consumers:
            if value.producer is not None:
                arc(value.producer, reader, _lag(problem, value, value.producer, reader))
    start = dict.fromkeys(after, 0)
    place = {name: number for number, name in enumerate(after)}
    ready = [(0, number, name) for name, number in place.items() if not missing[name]]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        begin, _, name = heapq.heappop(ready)
        order.append(name)
        stop = begin + problem.duration_ticks(name, problem.placements(name)[0])
        for then, lag in after[name]:
            start[then] = max(start[then], stop + lag)
            missing[then] -= 1
            if not missing[then]:
                heapq.heappush(ready, (start[then], place[then], then))
    listed = [name for row in orders.values() for name in row]
    if len(order) < len(after) or sorted(listed) != sorted(after):
        stuck = next((name for name in after if missing[name]), "an operator")
        raise Deadlock(f"{stuck} does not start: orders wait for each other or are not complete")
    return order


def _lag(problem: PlanningProblem, value: Value, producer: str, reader: str) -> int:
    made, read = problem.placements(producer)[0], problem.placements(reader)[0]
    ways = routes(problem, value, made, reader, read)
    if ways is None:
        raise Deadlock(f"value {value.name!r} cannot reach {reader!r}")
    return max((way.duration_ticks for way in ways), default=0)
