"""Random small plans in which operators run again and values wait on hosts, valid by construction.

Tasks run one after the other. Before an operator runs, each of its inputs is kept, made again or
sent to a host and back, by chance; a run is repeated only once somebody has read the one before,
so nothing in the plan is for nobody. Then devices get just the memory the plan needs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import lru_cache

from milp_plan.check import replay
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)

from .plans import Planted
from .problems import marked

HOST = "host"


@lru_cache(maxsize=1024)
def planted_memory_saving(seed: int) -> Planted:
    """Return the problem and plan of a seed; equal seeds give equal answers."""
    rng = random.Random(f"ways {seed}")
    problem = _problem(rng, f"ways-{seed}")
    problem = marked(problem, f"ways {seed}") if seed % 3 == 0 else problem
    plan = _Serial(problem, rng).plan()
    memory: dict[str, int | None] = {}
    for name, used in replay(problem, plan).devices.items():
        memory[name] = rng.choice([used.peak_bytes, used.peak_bytes, used.peak_bytes + 5, None])
    return Planted(replace(problem, cluster=problem.cluster.with_memory(memory)), plan)


def serial_plan(problem: PlanningProblem, rng: random.Random) -> Plan:
    """Return a plan, valid without memory limits, that runs again and offloads by chance."""
    return _Serial(problem, rng).plan()


def _problem(rng: random.Random, name: str) -> PlanningProblem:
    scale = rng.choice([1, 10**6])
    devices = [f"d{i}" for i in range(rng.randint(1, 3))]
    names = [*devices, HOST]
    channels = [
        Channel(a, b, rng.randint(0, 3), rng.choice([1, 2, 5]) * 10**9)
        for a in names
        for b in names
        if a != b
    ]
    cluster = Cluster(
        (DeviceClass("fast", None), DeviceClass("store", None, host=True)),
        (*(Device(d, "fast", None) for d in devices), Device(HOST, "store", None)),
        tuple(channels),
        communication=rng.choice(list(CommunicationModel)),
    )
    count = rng.randint(4, 8)
    ops = [f"op{i}" for i in range(count)]
    values = []
    for index, op in enumerate(ops[:-1]):
        later = ops[index + 1 :]
        readers = {later[0], *rng.sample(later, k=min(len(later), rng.randint(1, 3)))}
        size = rng.randint(1, 20) * scale
        values.append(Value(f"v{index}", op, tuple(sorted(readers)), {FULL: size}))
    values.append(Value("w0", None, tuple(rng.sample(ops, k=2)), {FULL: 3 * scale}))
    group = set(rng.sample(ops, k=2)) if rng.random() < 0.4 else set()
    operators = [
        Operator(
            op,
            (
                Option(
                    "single",
                    {"fast": rng.randint(1, 6) * scale},
                    workspace_bytes=rng.choice([0, 5]),
                ),
            ),
            group="together" if op in group else None,
            recomputable=rng.random() < 0.7,
        )
        for op in ops
    ]
    return PlanningProblem(name, ComputationGraph(tuple(operators), tuple(values)), cluster)


@dataclass
class _Serial:
    """Tasks one after the other."""

    problem: PlanningProblem
    rng: random.Random
    clock: int = 0
    runs: list[OperatorRun] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    last: dict[tuple[str, str], object] = field(default_factory=dict)
    """(value, device) -> the run or transfer that made its newest copy there."""
    read: set[int] = field(default_factory=set)
    """Identities of runs and transfers somebody has read."""
    sent: set[tuple[int, str]] = field(default_factory=set)

    def plan(self) -> Plan:
        """Run every operator once, and some again on the way."""
        sites = {}
        for operator in self.problem.graph.operators:
            key = operator.group or operator.name
            names = [n for n in self.problem.cluster.device_names if n != HOST]
            sites[operator.name] = sites.setdefault(key, self.rng.choice(names))
        self.sites = sites
        for operator in self.problem.graph.operators:
            for value in self.problem.graph.inputs[operator.name]:
                self._supply(value, sites[operator.name], 2)
            self._run(operator.name, sites[operator.name])
        return Plan(self.problem.name, tuple(self.runs), tuple(self.transfers))

    def _run(self, name: str, device: str) -> None:
        for value in self.problem.graph.inputs[name]:
            if value.producer is not None:
                self.read.add(id(self.last[value.name, device]))
        ticks = self.problem.graph.operator(name).options[0].duration_ticks["fast"]
        run = OperatorRun(name, "single", (device,), self.clock, self.clock + ticks)
        self.clock += ticks
        self.runs.append(run)
        for value in self.problem.graph.outputs[name]:
            self.last[value.name, device] = run

    def _send(self, value: Value, source: str, target: str) -> None:
        self.read.add(id(self.last[value.name, source]))
        channel = self.problem.cluster.channel(source, target)
        ticks = channel.transfer_ticks(value.payload(FULL))
        trip = Transfer(value.name, (source,), (target,), FULL, self.clock, self.clock + ticks)
        self.clock += ticks
        self.transfers.append(trip)
        self.last[value.name, target] = trip

    def _supply(self, value: Value, device: str, depth: int) -> None:
        """Bring a copy to a device, by chance a new one."""
        if value.producer is None:
            return
        have = self.last.get((value.name, device))
        stale = have is None or (id(have) in self.read and depth > 0)
        if have is not None and not (stale and self.rng.random() < 0.5):
            return
        if self.rng.random() < 0.5 and self._again(value, device, depth):
            return
        runs = [run for run in self.runs if run.operator == value.producer]
        latest = runs[-1]
        home = latest.devices[0]
        direct = self.last[value.name, home] is latest and (id(latest), device) not in self.sent
        if have is None and home != device and direct and self.rng.random() < 0.5:
            self.sent.add((id(latest), device))
            self._send(value, home, device)
            return
        if (id(latest), HOST) not in self.sent:
            self.sent.add((id(latest), HOST))
            self.last[value.name, home] = latest
            self._send(value, home, HOST)
        self._send(value, HOST, device)

    def _again(self, value: Value, device: str, depth: int) -> bool:
        """Run the producer again where it may, if all of its runs have been read."""
        producer = self.problem.graph.operator(str(value.producer))
        runs = [run for run in self.runs if run.operator == producer.name]
        if not producer.recomputable or depth == 0 or not all(id(run) in self.read for run in runs):
            return False
        if producer.group is not None and self.sites[producer.name] != device:
            return False
        for other in self.problem.graph.inputs[producer.name]:
            self._supply(other, device, depth - 1)
        self._run(producer.name, device)
        return True


def tiny_ways(seed: int) -> PlanningProblem:
    """Return a tiny training step, forward and back, on one or two devices beside a host.

    Every third one has results.
    """
    problem = _tiny_step(seed)
    if seed % 3 != 2:
        return problem
    rng, graph = random.Random(f"results {seed}"), problem.graph
    values = [replace(v, kept=rng.random() < 0.3 or None) for v in graph.values]
    last = graph.topological_order[-1]
    values.append(Value("out", last, (), {FULL: rng.randint(1, 4)}, kept=rng.choice([None, False])))
    return replace(problem, graph=replace(graph, values=tuple(values)))


def _tiny_step(seed: int) -> PlanningProblem:
    rng = random.Random(f"tiny {seed}")
    depth = rng.choice([2, 2, 3])
    devices = ["d0"] if depth == 3 else ["d0", "d1"][: rng.choice([1, 1, 2])]
    names = [*devices, HOST]
    forward = [f"f{i}" for i in range(depth)]
    back = [f"b{i}" for i in range(depth - 1)]
    values = [Value("last", forward[-1], (back[-1],), {FULL: rng.randint(1, 4)})]
    for i in range(depth - 1):
        size = rng.randint(1, 6)
        values.append(Value(f"v{i}", forward[i], (forward[i + 1], back[i]), {FULL: size}))
        if i:
            values.append(Value(f"g{i}", back[i], (back[i - 1],), {FULL: rng.randint(1, 4)}))
    operators = [
        Operator(
            name,
            (Option("single", {"fast": rng.randint(0, 5)}, workspace_bytes=rng.choice([0, 2])),),
            kind="forward" if name in forward else "backward-input",
            recomputable=name in forward[:-1],
        )
        for name in (*forward, *back)
    ]
    cluster = Cluster(
        (DeviceClass("fast", None), DeviceClass("store", None, host=True)),
        (*(Device(d, "fast", None) for d in devices), Device(HOST, "store", rng.randint(4, 12))),
        tuple(
            Channel(a, b, rng.randint(0, 2), rng.choice([1, 2, 5]) * 10**9)
            for a in names
            for b in names
            if a != b
        ),
        communication=rng.choice(list(CommunicationModel)),
    )
    most = sum(value.bytes[FULL] for value in values)
    graph = ComputationGraph(tuple(operators), tuple(values))
    least = max(
        operator.options[0].workspace_bytes
        + sum(v.bytes[FULL] for v in (*graph.inputs[name], *graph.outputs[name]))
        for name, operator in zip((*forward, *back), operators, strict=True)
    )
    limits = {device: rng.randint(least, max(least, most - 1)) for device in devices}
    return PlanningProblem(f"tiny-{seed}", graph, cluster.with_memory(dict(limits)))


def scarce_ways(seed: int) -> PlanningProblem:
    """Return three or four operators that need runs again, or a host, or cannot be planned.

    Magnitudes are digits, or ticks up to 10^9 and bytes up to 10^10; some tasks take no time.
    """
    rng = random.Random(f"scarce {seed}")
    form, scale = rng.choice(("digits", "scaled", "scaled", "spread")), 10 ** rng.randint(3, 9)

    def drawn(small: int, digits: int) -> int:
        if not small or form == "digits":
            return small
        if form == "scaled":
            return small * min(scale, 10 ** (digits - 1)) + rng.randint(-3, 3)
        return max(1, int(10 ** rng.uniform(0, digits)))

    hosted, alone = rng.random() < 0.5, rng.random() < 0.8
    again = 0.7 if not hosted or rng.random() < 0.2 else 0.0
    devices = ["d0"] if alone else ["d0", "d1"]
    names = [f"o{i}" for i in range(rng.choice([3, 4, 4] if alone else [3]))]
    values = []
    crossed = rng.random() < 0.7  # a chain, and what its first ones make for its last
    for i, name in enumerate(names[:-1]):
        later = names[i + 1 :]
        some = rng.sample(later, min(len(later), rng.choice([1, 1, 2])))
        sizes = [set(later[:1] if crossed else some)]
        if len(later) > 1 and rng.random() < (0.8 if i == 0 else 0.2):
            sizes.append({later[-1]})
        for k, chosen in enumerate(sizes):
            size = drawn(rng.randint(1, 6) if k else rng.randint(0, 6), 10)
            kept = rng.choice([None, None, None, True, False])
            readers = tuple(sorted(chosen))
            values.append(Value(f"v{i}.{k}", name, readers, {FULL: size}, kept=kept))
    for kept in rng.choice([(), (), (None,), (False,)]):  # results of the last one
        values.append(Value("end", names[-1], (), {FULL: drawn(rng.randint(0, 4), 10)}, kept=kept))
    if rng.random() < 0.2:
        readers = tuple(rng.sample(names, 2))
        values.append(Value("w", None, readers, {FULL: drawn(rng.randint(0, 3), 9)}))
    together = rng.sample(names, 2) if rng.random() < 0.2 else []
    operators = tuple(
        Operator(
            name,
            tuple(
                Option(
                    f"p{n}",
                    {"fast": drawn(rng.choice([0, 1, 2, 5]), 9)},
                    workspace_bytes=drawn(rng.choice([0, 0, 0, 2]), 10),
                )
                for n in range(rng.choice([1, 1, 1, 2]))
            ),
            group="g" if name in together else None,
            recomputable=rng.random() < again,
        )
        for name in names
    )
    graph = ComputationGraph(operators, tuple(values))
    places = [*devices, HOST] if hosted else devices
    rate = 10**9 if form == "digits" else 10 ** rng.randint(8, 12)
    cluster = Cluster(
        (DeviceClass("fast", None), DeviceClass("store", None, host=True)),
        tuple(Device(d, "store" if d == HOST else "fast", None) for d in places),
        tuple(
            Channel(a, b, drawn(rng.choice([0, 0, 1]), 6), rate)
            for a in places
            for b in places
            if a != b and rng.random() < 0.95
        ),
        communication=rng.choice(list(CommunicationModel)),
    )
    floors = [
        min(option.workspace_bytes for option in operator.options)
        + sum(v.bytes[FULL] for v in (*graph.inputs[operator.name], *graph.outputs[operator.name]))
        for operator in operators
    ]
    every = sum(value.bytes[FULL] for value in values)
    low = max(floors) + sum(v.bytes[FULL] for v in values if v.persistent)
    limits: dict[str, int | None] = {
        device: rng.choice([low, low, low + rng.randint(0, max(0, every - low)), max(0, low - 1)])
        for device in devices
    }
    if hosted:
        limits[HOST] = rng.choice([None, every, every // 2])
    objective = rng.choice([Objective.MAKESPAN] * 3 + [Objective.SPAN, Objective.PEAK_MEMORY])
    return PlanningProblem(f"scarce-{seed}", graph, cluster.with_memory(limits), objective)
