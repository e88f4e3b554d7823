"""Tiny instances, each named after the trap it contains, with the optimum computed by hand.

Times are ticks, sizes are bytes; channels carry one byte per tick, without latency unless stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from milp_plan.core import (
    TICKS_PER_SECOND,
    UPDATE_KIND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)


@dataclass(frozen=True)
class Trap:
    """A tiny instance and its optimum.

    Parameters
    ----------
    problem
        The instance, named after the trap.
    optimum
        Value of its objective, proved by enumeration in the tests.
    lesson
        Mistake of a planner that falls into the trap, in one sentence.
    """

    problem: PlanningProblem
    optimum: int
    lesson: str

    @property
    def name(self) -> str:
        """Name of the problem."""
        return self.problem.name


Times = int | Mapping[str, int]


def _cluster(
    devices: Mapping[str, tuple[str, int | None]],
    *,
    joined: tuple[tuple[str, str], ...] | None = None,
    groups: tuple[tuple[str, ...], ...] = (),
    communication: CommunicationModel = CommunicationModel.CHANNEL,
) -> Cluster:
    """Return a cluster of name -> (class, memory); all are joined unless ``joined`` lists pairs."""
    pairs = joined or tuple((a, b) for a in devices for b in devices if a != b)
    classes = dict.fromkeys(kind for kind, _ in devices.values())
    return Cluster(
        tuple(DeviceClass(kind, None) for kind in classes),
        tuple(Device(name, kind, memory) for name, (kind, memory) in devices.items()),
        tuple(Channel(a, b, 0, TICKS_PER_SECOND) for a, b in pairs),
        groups,
        communication,
    )


_PAIR = {"d0": ("any", None), "d1": ("any", None)}


def _op(name: str, times: Times, *, group: str | None = None, kind: str = "forward") -> Operator:
    table = {"any": times} if isinstance(times, int) else times
    return Operator(name, (Option("single", table),), kind, group)


def _value(name: str, size: int, producer: str | None, *consumers: str) -> Value:
    return Value(name, producer, consumers, {"full": size})


def _trap(
    name: str,
    optimum: int,
    lesson: str,
    cluster: Cluster,
    *parts: Operator | Value,
    objective: Objective = Objective.MAKESPAN,
) -> Trap:
    operators = tuple(part for part in parts if isinstance(part, Operator))
    values = tuple(part for part in parts if isinstance(part, Value))
    details = {"generator": "milp_plan.zoo traps", "lesson": lesson, "optimum": str(optimum)}
    graph = ComputationGraph(operators, values)
    return Trap(
        PlanningProblem(name, graph, cluster, objective, provenance=details), optimum, lesson
    )


def _split(operator: Operator, ticks: int, reads: str | None, writes: str | None) -> Operator:
    """Add an option over two devices, with the layout ``half2`` of a value read or written."""
    option = Option(
        "half2",
        {"any": ticks},
        gang=2,
        reads={} if reads is None else {reads: "half2"},
        writes={} if writes is None else {writes: "half2"},
    )
    return replace(operator, options=(*operator.options, option))


def _halved(value: Value, gather_ns: int) -> Value:
    reshard = {("full", "half2"): 0, ("half2", "full"): gather_ns}
    return replace(value, bytes={"full": value.bytes["full"], "half2": 10}, reshard_ticks=reshard)


TRAPS: tuple[Trap, ...] = (
    # the long task c and the empty task z share a device, so z waits for c or c for z
    _trap(
        "zero-length-chain",
        30,
        "A task of length zero may stand between two tasks, never inside one.",
        _cluster(_PAIR),
        _op("a", 10),
        _op("z", 0, group="g"),
        _op("b", 10),
        _op("c", 20, group="g"),
        _value("x", 0, "a", "z"),
        _value("y", 0, "z", "b"),
    ),
    # p1 0-10, x1 10-70, c1 70-90; x2 (60 bytes) finds room only at 90, c2 150-170
    _trap(
        "memory-forces-delay",
        170,
        "A transfer must wait until its target has room, although channel and value are ready.",
        _cluster({"big": ("source", None), "small": ("sink", 100)}),
        _op("p1", {"source": 10}),
        _op("p2", {"source": 10}),
        _op("c1", {"sink": 20}),
        _op("c2", {"sink": 20}),
        _value("x1", 60, "p1", "c1"),
        _value("x2", 60, "p2", "c2"),
    ),
    # b 0-2, y 2-22, c2 22-27; a 2-12, x 22-32, c1 32-37; the other order takes 45
    _trap(
        "shared-channel-contention",
        37,
        "Two values that leave on one channel take turns; the order decides.",
        _cluster({"d0": ("source", None), "d1": ("sink", None)}),
        _op("a", {"source": 10}),
        _op("b", {"source": 2}),
        _op("c1", {"sink": 5}),
        _op("c2", {"sink": 5}),
        _value("x", 10, "a", "c1"),
        _value("y", 20, "b", "c2"),
    ),
    # p 0-10, one send 10-40, three readers 40-70; a send for each would end at 110
    _trap(
        "fan-out-one-send",
        70,
        "A value travels once to a device, however many operators read it there.",
        _cluster({"d0": ("source", None), "d1": ("sink", None)}),
        _op("p", {"source": 10}),
        _op("c1", {"sink": 10}),
        _op("c2", {"sink": 10}),
        _op("c3", {"sink": 10}),
        _value("x", 30, "p", "c1", "c2", "c3"),
    ),
    # one send port: p 0-10, sends 10-20 and 20-30, last reader 30-40; two channels would give 30
    _trap(
        "two-sends-one-port",
        40,
        "Under the endpoint model, sends to different devices still share the sender's port.",
        _cluster(
            {"d0": ("source", None), "d1": ("left", None), "d2": ("right", None)},
            communication=CommunicationModel.ENDPOINT,
        ),
        _op("p", {"source": 10}),
        _op("c1", {"left": 10}),
        _op("c2", {"right": 10}),
        _value("x", 10, "p", "c1", "c2"),
    ),
    # layers on two devices: 10 + 1 + 10 + 10 + 1 + 10 + 20; a free update would allow 60
    _trap(
        "colocated-update",
        62,
        "The update runs where the layer's weights lie, not where a device happens to be idle.",
        _cluster(_PAIR),
        _op("l1.F", 10, group="l1"),
        _op("l2.F", 10, group="l2"),
        _op("l2.W", 10, group="l2", kind="backward-weight"),
        _op("l1.W", 10, group="l1", kind="backward-weight"),
        _op("l1.U", 20, group="l1", kind=UPDATE_KIND),
        _op("l2.U", 20, group="l2", kind=UPDATE_KIND),
        _value("y1", 1, "l1.F", "l2.F"),
        _value("y2", 1, "l2.F", "l2.W"),
        _value("dy1", 1, "l2.W", "l1.W"),
        _value("dw1", 1, "l1.W", "l1.U"),
        _value("dw2", 1, "l2.W", "l2.U"),
    ),
    # both split: 55 + 55; the value between them stays in halves
    _trap(
        "gang-beats-single",
        110,
        "Two devices together finish a chain that no placement of single devices can shorten.",
        _cluster(_PAIR, groups=(("d0", "d1"),)),
        _split(_op("m1", 100), 55, None, "x"),
        _split(_op("m2", 100), 55, "x", None),
        _halved(_value("x", 20, "m1", "m2"), 30),
    ),
    # both alone: 50 + 50; splitting the first saves 15 and the gather costs 30
    _trap(
        "reshard-costs-more-than-it-saves",
        100,
        "The faster option is the wrong one when its layout must be changed right after.",
        _cluster(_PAIR, groups=(("d0", "d1"),)),
        _split(_op("m1", 50), 35, None, "x"),
        _op("m2", 50),
        _halved(_value("x", 20, "m1", "m2"), 30),
    ),
    # a and b on the fast device: 11 + 10; earliest finish puts a on the slow one and pays 50
    _trap(
        "heterogeneous-greedy-trap",
        21,
        "Placing each operator where it finishes first strands its successor behind a transfer.",
        _cluster({"slow": ("old", None), "fast": ("new", None)}),
        _op("a", {"old": 10, "new": 11}),
        _op("b", {"old": 100, "new": 10}),
        _value("x", 50, "a", "b"),
    ),
    # weights 60 once, plus outputs of 20 each: 100 of 100 bytes
    _trap(
        "persistent-counted-once",
        20,
        "Weights that two micro-batches read on one device occupy it once.",
        _cluster({"d0": ("any", 100), "d1": ("any", 50)}),
        _op("f@0", 10, group="f"),
        _op("f@1", 10, group="f"),
        _value("w", 60, None, "f@0", "f@1"),
        _value("y0", 20, "f@0"),
        _value("y1", 20, "f@1"),
    ),
    # all on the lonely d2: 5 + 20 + 20; with d0 -> d1, the only channel, 10 + 5 + 50
    _trap(
        "disconnected-devices",
        45,
        "Devices that no channel joins cannot share a chain, in either direction.",
        _cluster(
            {"d0": ("any", None), "d1": ("any", None), "d2": ("lonely", None)},
            joined=(("d0", "d1"),),
        ),
        _op("a", {"any": 10, "lonely": 5}),
        _op("b", {"any": 50, "lonely": 20}),
        _op("c", {"any": 50, "lonely": 20}),
        _value("x", 5, "a", "b", "c"),
    ),
    # one branch after the other: 5 + 50 + 5 while the second is reduced; both at once hold 105
    _trap(
        "depth-first-saves-memory",
        60,
        "The order in which branches run decides the peak, at equal makespan.",
        _cluster({"d0": ("any", None)}),
        _op("a1", 10),
        _op("a2", 10),
        _op("r1", 10),
        _op("r2", 10),
        _op("join", 10),
        _value("x1", 50, "a1", "r1"),
        _value("x2", 50, "a2", "r2"),
        _value("y1", 5, "r1", "join"),
        _value("y2", 5, "r2", "join"),
        objective=Objective.PEAK_MEMORY,
    ),
)
"""All traps."""
