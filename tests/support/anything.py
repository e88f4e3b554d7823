"""Random tiny problems of every kind, objective and law, each with its optimum by enumeration.

Half of them count in small numbers (0 to 10), half in numbers as they are met in practice: ticks
from 1 to 10^9 side by side, bytes from 0 to 10^10. Some devices have just the memory that a known
plan needs, some a little less, so that there may be no plan at all. The oracle behind ``best``
shares no code with planners, models and bounds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Contiguity,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    Passes,
    PlanningProblem,
    SerialLaw,
    Value,
)

from .brute import brute_force
from .problems import Draft, capped, marked, some_workload, with_memory, with_some_memory
from .serial_brute import brute_serial

KINDS = GENERAL, PIPELINE, SERIAL = "general", "pipeline", "serial"

MAX_JOINT_PLACEMENTS = 300
OBJECTIVES = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK, Objective.PEAK_MEMORY)


class Numbers(NamedTuple):
    """Draws numbers: digits, or magnitudes as they are met in practice."""

    rng: Random
    real: bool

    def ticks(self, small: int) -> int:
        """Ticks for a small number of them; 0 stays 0."""
        return small if not small or not self.real else self._spread(9)

    def bytes(self, small: int) -> int:
        """Bytes for a small number of them; 0 stays 0."""
        return small if not small or not self.real else self._spread(10)

    def _spread(self, digits: int) -> int:
        return max(1, int(10 ** self.rng.uniform(0, digits)))


def random_case(seed: int) -> PlanningProblem:
    """Return the problem of a seed."""
    rng = Random(f"anything {seed}")
    kind = rng.choices((GENERAL, PIPELINE, SERIAL), (70, 12, 18))[0]
    make = {GENERAL: _general, PIPELINE: _pipeline, SERIAL: _serial}[kind]
    problem = make(rng, Numbers(rng, rng.random() < 0.5))
    tag = {"generator": "tests.support.anything", "seed": str(seed), "kind": kind}
    return replace(problem, name=f"{kind}-{seed}", provenance=tag)


def serial_case(seed: int) -> PlanningProblem:
    """Return the problem of a seed, under the serial law."""
    rng = Random(f"serial {seed}")
    problem = _serial(rng, Numbers(rng, rng.random() < 0.5))
    return replace(problem, name=f"serial-{seed}")


def schedule_case(seed: int) -> PlanningProblem:
    """Return the problem of a seed, mostly of real magnitudes; each sixth is a pipeline."""
    rng = Random(f"schedule {seed}")
    make = _pipeline if seed % 6 == 5 else _general
    problem = make(rng, Numbers(rng, rng.random() < 0.75))
    return replace(problem, name=f"schedule-{seed}")


def timeless_case(seed: int) -> PlanningProblem:
    """Return a problem in which much takes no time, some of it by one option and not by another."""
    rng = Random(f"timeless {seed}")
    return replace(_timeless(rng), name=f"timeless-{seed}")


def uneven_case(seed: int) -> PlanningProblem:
    """Return a problem under the serial law whose devices are not alike; sometimes nobody pays."""
    rng = Random(f"uneven {seed}")
    problem = serial_case(seed)
    graph, cluster = problem.graph, problem.cluster

    def slower(one: Option) -> Option:
        ticks = dict(one.duration_ticks)
        if "payer" in ticks:
            ticks["old"] = ticks["payer"] * rng.choice([1, 2, 3])
        return replace(one, duration_ticks=ticks)

    operators = tuple(
        replace(one, options=tuple(slower(option) for option in one.options))
        for one in graph.operators
    )
    devices = tuple(
        replace(
            one,
            device_class="old" if one.name == "p1" and seed % 2 else one.device_class,
            memory_bytes=one.memory_bytes and one.memory_bytes * rng.choice([3, 4, 5]) // 4,
        )
        for one in cluster.devices
    )
    law = problem.serial
    assert law is not None
    payers = rng.choice([("payer", "old"), ("payer", "old"), ("payer",), ("nobody",)])
    return replace(
        problem,
        name=f"uneven-{seed}",
        graph=replace(graph, operators=operators),
        cluster=replace(
            cluster,
            device_classes=(
                *cluster.device_classes,
                DeviceClass("old", None),
                DeviceClass("nobody", None),
            ),
            devices=devices,
        ),
        serial=replace(law, payers=payers),
    )


def optimum(problem: PlanningProblem) -> int | None:
    """Return the least value of any plan; ``None`` if there is no plan."""
    found = (brute_serial if problem.serial is not None else brute_force)(problem)
    return None if found is None else found[0]


# -- problems with a graph of any form -------------------------------------------------------


def _general(rng: Random, numbers: Numbers) -> PlanningProblem:
    objective = rng.choice(OBJECTIVES)
    law = rng.choice([MemoryLaw.INSTANT, MemoryLaw.INSTANT, MemoryLaw.STATIC])
    draft = Draft(rng, 5)
    if rng.random() < 0.1:
        draft.anchor = ""  # then nothing need take any time
    problem = PlanningProblem(
        "general",
        draft.graph(),
        draft.cluster(rng.choice(list(CommunicationModel))),
        objective,
        law,
    )
    return _with_tight_memory(rng, _spread(numbers, problem))


def _timeless(rng: Random) -> PlanningProblem:
    """Draw a problem about half of whose options, and often of whose transfers, take no time."""
    draft = Draft(rng, 5)
    draft.anchor, draft.devices = "", draft.devices[:2]
    alone, instant = rng.random() < 0.35, rng.random() < 0.5
    if alone:
        draft.gangs, draft.classes = False, ["A"]
    graph, cluster = draft.graph(), draft.cluster(rng.choice(list(CommunicationModel)))
    if alone:
        cluster = replace(cluster, devices=cluster.devices[:1], channels=())

    def hurried(one: Option) -> Option:
        ticks = {kind: rng.choice([0, length]) for kind, length in one.duration_ticks.items()}
        return replace(one, duration_ticks=ticks)

    def options(one: Operator) -> tuple[Option, ...]:
        first = one.options[0]
        ticks = {kind: rng.randint(0, 3) for kind in first.duration_ticks}
        space = rng.choice([0, 2, 4])
        other = replace(first, name="other", duration_ticks=ticks, workspace_bytes=space)
        return tuple(map(hurried, (*one.options, other) if rng.random() < 0.5 else one.options))

    def value(one: Value) -> Value:
        if not instant or one.persistent or rng.random() < 0.3:
            return one
        nothing = dict.fromkeys(one.bytes, 0)
        pairs = dict.fromkeys(one.reshard_ticks, 0)
        return replace(one, transfer_bytes=nothing, reshard_ticks=pairs, messages=1)

    if instant:
        channels = tuple(replace(one, latency_ticks=0) for one in cluster.channels)
        cluster = replace(cluster, channels=channels)
    graph = ComputationGraph(
        tuple(replace(one, options=options(one)) for one in graph.operators),
        tuple(map(value, graph.values)),
    )
    objective = rng.choice(OBJECTIVES)
    law = rng.choice([MemoryLaw.INSTANT] * 5 + [MemoryLaw.STATIC])
    problem = PlanningProblem("timeless", graph, cluster, objective, law)
    return _with_tight_memory(rng, _spread(Numbers(rng, rng.random() < 0.6), problem))


def _with_tight_memory(rng: Random, problem: PlanningProblem) -> PlanningProblem:
    """Return a problem with few placements, and memory that some plan needs, or a little less."""
    problem = capped(problem, MAX_JOINT_PLACEMENTS)
    return _less_memory(rng, with_some_memory(rng, marked(problem, problem.graph))[0])


def _less_memory(rng: Random, problem: PlanningProblem) -> PlanningProblem:
    """Take a little memory from some devices of some problems."""
    if rng.random() < 0.75:
        return problem
    limits = {d.name: d.memory_bytes for d in problem.cluster.devices if d.memory_bytes}
    chosen = rng.sample(list(limits), min(len(limits), rng.choice([1, 1, 2])))
    memory = {name: limits[name] - rng.choice([1, 1, 2]) for name in chosen}
    memory = {name: max(0, left) for name, left in memory.items()}
    return replace(problem, cluster=problem.cluster.with_memory(dict(memory)))


def _spread(numbers: Numbers, problem: PlanningProblem) -> PlanningProblem:
    """Give every duration, size and link a magnitude of its own."""
    if not numbers.real:
        return problem
    rng = numbers.rng

    def option(one: Option) -> Option:
        lengths = {kind: numbers.ticks(ticks) for kind, ticks in one.duration_ticks.items()}
        return replace(
            one, duration_ticks=lengths, workspace_bytes=numbers.bytes(one.workspace_bytes)
        )

    def value(one: Value) -> Value:
        return replace(
            one,
            bytes={layout: numbers.bytes(size) for layout, size in one.bytes.items()},
            transfer_bytes={k: numbers.bytes(size) for k, size in one.transfer_bytes.items()},
            reshard_ticks={pair: numbers.ticks(ticks) for pair, ticks in one.reshard_ticks.items()},
        )

    links: dict[tuple[int, int], tuple[int, int]] = {}

    def channel(one: Channel) -> Channel:
        old = (one.latency_ticks, one.bandwidth_bytes_per_s)
        new = (numbers.ticks(one.latency_ticks), 10 ** rng.randint(8, 12))
        return Channel(one.source, one.target, *links.setdefault(old, new))

    operators = tuple(
        replace(op, options=tuple(map(option, op.options))) for op in problem.graph.operators
    )
    graph = ComputationGraph(operators, tuple(map(value, problem.graph.values)))
    channels = tuple(map(channel, problem.cluster.channels))
    return replace(problem, graph=graph, cluster=replace(problem.cluster, channels=channels))


# -- pipelines -------------------------------------------------------------------------------


def _pipeline(rng: Random, numbers: Numbers) -> PlanningProblem:
    """Two stages on two devices, forward and back, for two micro-batches; some take no time."""
    stages = ("F0", "F1", "B1", "B0")
    device = {name: f"d{name[1]}" for name in stages}
    ticks = {name: numbers.ticks(rng.choice([0, 1, 2, 3, 4, 5])) for name in stages}
    space = {name: numbers.bytes(rng.choice([0, 0, 0, 1, 2])) for name in stages}
    kept = {name: numbers.bytes(rng.choice([0, 1, 2, 3])) for name in ("F0", "F1")}
    sent = rng.choice([0, 0, 1])  # a pipeline whose messages take memory is no shop
    operators, values = [], []
    for batch in range(2):
        for name in stages:
            kind = "forward" if name[0] == "F" else "backward"
            option = Option("run", {device[name]: ticks[name]}, workspace_bytes=space[name])
            operators.append(Operator(f"{name}@{batch}", (option,), kind, name[1], batch))
        for name, reader in pairwise(stages):
            size = {FULL: numbers.bytes(sent) if device[name] != device[reader] else 0}
            values.append(
                Value(f"{name}>@{batch}", f"{name}@{batch}", (f"{reader}@{batch}",), size)
            )
        for name, size in kept.items():
            reader = f"B{name[1]}@{batch}"
            values.append(Value(f"{name}:kept@{batch}", f"{name}@{batch}", (reader,), {FULL: size}))
    weights = [f"{name}@{batch}" for name in ("F0", "B0") for batch in range(2)]
    values.append(Value("weights", None, tuple(weights), {FULL: numbers.bytes(rng.choice([0, 2]))}))
    rate = TICKS_PER_SECOND if not numbers.real else 10 ** rng.randint(8, 12)
    link = numbers.ticks(rng.choice([0, 0, 1, 2])), rate
    cluster = Cluster(
        (DeviceClass("d0", None), DeviceClass("d1", None)),
        (Device("d0", "d0", None), Device("d1", "d1", None)),
        (Channel("d0", "d1", *link), Channel("d1", "d0", *link)),
        communication=rng.choice(list(CommunicationModel)),
    )
    objective = rng.choice([Objective.MAKESPAN, Objective.MAKESPAN, Objective.SPAN, *OBJECTIVES])
    graph = ComputationGraph(tuple(operators), tuple(values))
    problem = PlanningProblem("pipeline", graph, cluster, objective)
    if Random(f"results {graph}").random() < 0.3:
        problem = marked(problem, graph)
    load = some_workload(rng, problem)
    assert load is not None, "there is one placement, and all channels"
    return _less_memory(rng, with_memory(rng, problem, load)[0])


# -- the serial law --------------------------------------------------------------------------


def _serial(rng: Random, numbers: Numbers) -> PlanningProblem:
    """Four or five operators on two payers and perhaps a host."""
    law = rng.choice(
        [
            SerialLaw(("payer",), contiguity, passes)
            for contiguity in Contiguity
            for passes in Passes
        ]
        + [SerialLaw(("payer",), calls=1), SerialLaw(("payer",), calls=2)]
    )
    hosts = rng.choice([0, 1, 1])
    names = [f"o{i}" for i in range(rng.randint(2, 4 if law.calls == 2 else 5))]
    back = rng.choice([0, 0, len(names) // 2])
    groups = {}
    if rng.random() < 0.5:
        groups = dict.fromkeys(rng.sample(names, min(len(names), rng.choice([2, 2, 3]))), "g")
    homes: dict[str, tuple[str, ...]] = {}
    operators, values = [], []
    for i, name in enumerate(names):
        kinds = rng.choice([("payer", "host")] * 6 + [("payer",), ("host",)])
        home = homes.setdefault(groups.get(name, name), kinds if hosts else ("payer",))
        ticks = {kind: numbers.ticks(rng.choice([0, 1, 2, 3, 5, 8])) for kind in home}
        space = numbers.bytes(rng.choice([0, 0, 0, 1, 3]))
        kind = "backward" if i >= len(names) - back else "forward"
        option = Option("run", ticks, workspace_bytes=space)
        operators.append(Operator(name, (option,), kind, groups.get(name)))
        later = names[i + 1 :]
        readers = rng.sample(later, min(len(later), rng.choice([0, 1, 1, 2])))
        sizes = {FULL: numbers.bytes(rng.choice([0, 0, 1, 2]))}
        paid = {FULL: numbers.bytes(rng.choice([0, 1, 2, 4]))} if rng.random() < 0.5 else {}
        values.append(Value(f"{name}>", name, tuple(sorted(readers)), sizes, paid))
        readers = rng.sample(names, rng.choice([1, 1, 1, 2]))
        weights = {FULL: numbers.bytes(rng.choice([0, 0, 1, 2, 4]))}
        values.append(Value(f"{name}:weights", None, tuple(sorted(readers)), weights))
    devices = [Device(f"p{i}", "payer", None) for i in range(2)]
    devices += [Device("h", "host", None)] * hosts
    rate = TICKS_PER_SECOND if not numbers.real else 10 ** rng.randint(8, 12)
    link = numbers.ticks(rng.choice([0, 0, 1])), rate
    cluster = Cluster(
        (DeviceClass("payer", None), DeviceClass("host", None)),
        tuple(devices),
        tuple(Channel(a.name, b.name, *link) for a in devices for b in devices if a is not b),
    )
    problem = PlanningProblem(
        "serial",
        ComputationGraph(tuple(operators), tuple(values)),
        cluster,
        Objective.BOTTLENECK if law.calls is None else Objective.LATENCY,
        MemoryLaw.STATIC,
        serial=law,
    )
    return _serial_memory(rng, problem)


def _serial_memory(rng: Random, problem: PlanningProblem) -> PlanningProblem:
    """Payers get part of what everything takes together."""
    if rng.random() < 0.3:
        return problem
    graph = problem.graph
    total = sum(value.bytes[FULL] for value in graph.values)
    total += max(op.options[0].workspace_bytes for op in graph.operators)
    limit = total * rng.choice([3, 4, 5, 5, 6, 7, 8]) // 10
    memory: dict[str, int | None] = {"p0": limit, "p1": limit}
    return replace(problem, cluster=problem.cluster.with_memory(memory))
