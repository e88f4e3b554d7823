"""Seeded random tiny problems, each with a plan that proves it can be solved.

Memory limits are taken from the peaks of a random serial plan, so tight ones bind and still admit
that plan. Sizes are capped so that the oracle (``brute.py``) answers each of them quickly.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from random import Random

from hypothesis import strategies as st

from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    Plan,
    PlanningProblem,
    Value,
)

from .brute import serial_starts, startable
from .workload import Expander, Workload, joint_placements

MAX_JOINT_PLACEMENTS = 2500
"""More than these and options are dropped: the oracle goes through every one."""

SPLIT, COLUMNS, PACKED = "split", "columns", "packed"
"""Layouts: two of a gang of two, and one that single devices read."""


def random_problem(
    seed: int,
    *,
    max_operators: int = 7,
    communication: CommunicationModel | None = None,
    objective: Objective | None = None,
) -> PlanningProblem:
    """Return the problem of this seed; ``None`` leaves the choice to the seed.

    Objectives drawn are makespan (mostly) and peak memory. ``bottleneck`` when asked for, under
    the static memory law.
    """
    return random_problem_with_plan(
        seed, max_operators=max_operators, communication=communication, objective=objective
    )[0]


def random_problem_with_plan(
    seed: int,
    *,
    max_operators: int = 7,
    communication: CommunicationModel | None = None,
    objective: Objective | None = None,
) -> tuple[PlanningProblem, Plan]:
    """Like :func:`random_problem`, together with a valid plan."""
    rng = Random(seed)
    model = rng.choice(list(CommunicationModel))
    goal = rng.choice([Objective.MAKESPAN] * 3 + [Objective.PEAK_MEMORY])
    draft = Draft(rng, max_operators)
    goal = objective or goal
    problem = PlanningProblem(
        name=f"random-{seed}",
        graph=draft.graph(),
        cluster=draft.cluster(communication or model),
        objective=goal,
        memory_law=MemoryLaw.STATIC if goal is Objective.BOTTLENECK else MemoryLaw.INSTANT,
        provenance={"generator": "tests.support.problems", "seed": str(seed)},
    )
    return with_some_memory(rng, marked(capped(problem), seed))


def with_some_memory(rng: Random, problem: PlanningProblem) -> tuple[PlanningProblem, Plan]:
    """Limit memory to what some plan needs; devices are joined where no plan can be routed."""
    load = some_workload(rng, problem)
    if load is None:
        problem = joined(problem)
        load = some_workload(rng, problem)
    assert load is not None, "every placement can be routed when nothing is missing"
    return with_memory(rng, problem, load)


def marked(problem: PlanningProblem, seed: object) -> PlanningProblem:
    """Mark some values as kept or as not, whether they are read or not."""
    rng = Random(f"kept {seed}")
    values = tuple(
        replace(value, kept=rng.choice([None, None, None, True, False]))
        for value in problem.graph.values
    )
    return replace(problem, graph=replace(problem.graph, values=values))


def problems(
    *, max_operators: int = 6, objective: Objective | None = None
) -> st.SearchStrategy[PlanningProblem]:
    """Hypothesis strategy over :func:`random_problem`."""
    return st.builds(
        lambda seed, size, model: random_problem(
            seed, max_operators=size, communication=model, objective=objective
        ),
        st.integers(0, 2**32 - 1),
        st.integers(2, max_operators),
        st.sampled_from(CommunicationModel),
    )


class Draft:
    """The random choices behind one problem."""

    def __init__(self, rng: Random, max_operators: int) -> None:
        self.rng = rng
        self.names = [f"o{i}" for i in range(max(rng.randint(2, max_operators) for _ in range(2)))]
        self.classes = ["A", "B"] if rng.random() < 0.4 else ["A"]
        self.devices = [f"d{i}" for i in range(rng.choice([2, 2, 3]))]
        self.gangs = rng.random() < 0.4
        self.packs = rng.random() < 0.15
        self.longest = rng.choice([3, 6, 10])
        self.anchor = rng.choice(self.names)

    def graph(self) -> ComputationGraph:
        values = self._values()
        groups = self._groups()
        restricted = {name: self._classes_of(groups.get(name)) for name in self.names}
        operators = [
            Operator(name, self._options(name, values, restricted[name]), group=groups.get(name))
            for name in self.names
        ]
        self.rng.shuffle(operators)
        return ComputationGraph(tuple(operators), tuple(values))

    def _values(self) -> list[Value]:
        rng, values = self.rng, []
        for i, name in enumerate(self.names):
            later = self.names[i + 1 :]
            for k in range(rng.choice([1, 1, 1, 2]) if later else rng.choice([0, 1])):
                readers = rng.sample(later, min(len(later), rng.choice([0, 1, 1, 2, 2, 3])))
                values.append(self._value(f"v{i}.{k}", name, readers))
        for k in range(rng.choice([0, 0, 1, 2])):
            readers = rng.sample(self.names, min(len(self.names), rng.choice([1, 1, 2])))
            values.append(self._value(f"w{k}", None, readers))
        return values

    def _value(self, name: str, producer: str | None, readers: list[str]) -> Value:
        rng = self.rng
        size = rng.choice([0, 1, 2, 3, 4, 6])
        sizes = {FULL: size}
        if self.gangs:
            sizes |= {SPLIT: -(-size // 2), COLUMNS: -(-size // 2)}
        if self.packs:
            sizes[PACKED] = -(-size // 3)
        travels = {}
        if producer is not None and rng.random() < 0.2:
            travels = {layout: rng.randint(0, 5) for layout in sizes}
        pairs = [(a, b) for a in sizes for b in sizes if a != b]
        missing = 0.1 if producer is not None else 0.0
        return Value(
            name,
            producer,
            tuple(readers),
            sizes,
            transfer_bytes=travels,
            messages=rng.choice([1, 1, 1, 2, 3]),
            reshard_ticks={pair: rng.randint(0, 3) for pair in pairs if rng.random() >= missing},
        )

    def _groups(self) -> dict[str, str]:
        rng = self.rng
        if len(self.names) < 3 or rng.random() < 0.6:
            return {}
        return dict.fromkeys(rng.sample(self.names, rng.choice([2, 2, 3])), "g")

    def _classes_of(self, group: str | None) -> list[str]:
        if group is None and len(self.classes) > 1 and self.rng.random() < 0.35:
            return [self.rng.choice(self.classes)]
        return self.classes

    def _options(self, name: str, values: list[Value], classes: list[str]) -> tuple[Option, ...]:
        rng = self.rng
        read = [value.name for value in values if name in value.consumers]
        written = [value.name for value in values if value.producer == name]
        durations = {entry: self._ticks(name) for entry in classes}
        options = [Option("plain", durations, workspace_bytes=rng.choice([0, 0, 1, 3]))]
        if rng.random() < 0.15:
            frugal = {entry: ticks + rng.randint(1, 3) for entry, ticks in durations.items()}
            options.append(Option("frugal", frugal))
        if self.packs and rng.random() < 0.4:
            reads, writes = self._layouts(read, [PACKED]), self._layouts(written, [PACKED])
            options.append(Option("packed", durations, reads=reads, writes=writes))
        if self.gangs and rng.random() < 0.5:
            half = {entry: -(-ticks // 2) for entry, ticks in durations.items()}
            kinds = [SPLIT, SPLIT, COLUMNS, FULL]
            reads, writes = self._layouts(read, kinds), self._layouts(written, kinds)
            space = rng.choice([0, 1])
            options.append(Option("gang", half, 2, space, reads=reads, writes=writes))
        return tuple(options)

    def _layouts(self, values: list[str], kinds: list[str]) -> dict[str, str]:
        chosen = {value: self.rng.choice(kinds) for value in values if self.rng.random() < 0.8}
        return {value: layout for value, layout in chosen.items() if layout != FULL}

    def _ticks(self, name: str) -> int:
        """Rarely no time at all; the anchor always takes some, so that the horizon is not empty."""
        if name != self.anchor and self.rng.random() < 0.12:
            return 0
        return self.rng.randint(1, self.longest)

    def cluster(self, communication: CommunicationModel) -> Cluster:
        rng, devices = self.rng, self.devices
        kinds = [self.classes[i % len(self.classes)] for i in range(len(devices))]
        uniform = rng.random() < 0.6
        link = self._link()
        ends = [(a, b) for a in devices for b in devices if a != b]
        if rng.random() < 0.2:
            for lost in rng.sample(ends, rng.choice([1, 2])):
                ends.remove(lost)
        channels = [Channel(a, b, *(link if uniform else self._link())) for a, b in ends]
        groups: list[tuple[str, ...]] = []
        if self.gangs:
            pairs = list(pairwise(devices))
            groups = rng.sample(pairs, rng.randint(1, len(pairs)))
            if rng.random() < 0.1:
                groups.append(groups[0][::-1])
        return Cluster(
            tuple(DeviceClass(name, None) for name in self.classes),
            tuple(Device(n, kind, None) for n, kind in zip(devices, kinds, strict=True)),
            tuple(channels),
            tuple(groups),
            communication,
        )

    def _link(self) -> tuple[int, int]:
        """Latency, and bandwidth in bytes per 10^9 ticks: half a byte to three per tick."""
        halves = self.rng.choice([1, 2, 2, 3, 4, 6])
        return self.rng.choice([0, 0, 1, 2]), TICKS_PER_SECOND * halves // 2


def capped(problem: PlanningProblem, most: int = MAX_JOINT_PLACEMENTS) -> PlanningProblem:
    """Drop options until the oracle can go through all joint placements, or none is to spare."""
    while sum(1 for _ in islice(joint_placements(problem), most + 1)) > most:
        operators = problem.graph.operators
        rich = next((op for op in operators if len(op.options) > 1), None)
        if rich is None:
            return problem
        poorer = replace(rich, options=rich.options[:-1])
        operators = tuple(poorer if op is rich else op for op in operators)
        problem = replace(problem, graph=replace(problem.graph, operators=operators))
    return problem


def joined(problem: PlanningProblem) -> PlanningProblem:
    """Fill in every missing channel and change of layout."""
    names = problem.cluster.device_names
    link = (1, TICKS_PER_SECOND)
    channels = tuple(
        problem.cluster.channel(a, b) or Channel(a, b, *link)
        for a in names
        for b in names
        if a != b
    )
    values = tuple(
        replace(
            value, reshard_ticks={(a, b): 1 for a in value.bytes for b in value.bytes if a != b}
        )
        for value in problem.graph.values
    )
    return replace(
        problem,
        graph=replace(problem.graph, values=values),
        cluster=replace(problem.cluster, channels=channels),
    )


def some_workload(rng: Random, problem: PlanningProblem) -> Workload | None:
    expand = Expander(problem)
    placements = list(joint_placements(problem))
    for placement in rng.sample(placements, min(len(placements), 40)):
        loads = list(expand(placement))
        if loads:
            return rng.choice(loads)
    return None


def with_memory(
    rng: Random, problem: PlanningProblem, load: Workload
) -> tuple[PlanningProblem, Plan]:
    """Set memory limits that a random serial plan of this workload keeps."""
    order, peaks = _random_order(rng, load)
    if problem.memory_law is MemoryLaw.STATIC:
        peaks = load.static_usage()
    tightness = rng.choice(["none", "loose", "tight", "tight", "tight", "tight", "mixed"])
    memory: dict[str, int | None] = {}
    for device, peak, whole in zip(
        problem.cluster.device_names, peaks, load.static_usage(), strict=True
    ):
        limits = {"none": None, "loose": whole + 3, "tight": peak + rng.choice([0, 0, 1])}
        kind = tightness if tightness != "mixed" else rng.choice(list(limits))
        memory[device] = limits[kind]
    problem = replace(problem, cluster=problem.cluster.with_memory(memory))
    starts = serial_starts(load, order) if problem.needs_schedule else [None] * len(order)
    return problem, load.plan(starts)


def _random_order(rng: Random, load: Workload) -> tuple[list[int], list[int]]:
    """Return a random serial order of the tasks, and the peak on each device."""
    order: list[int] = []
    done, peaks = 0, load.lasting()
    while done != load.everything:
        task = rng.choice(startable(load, done, done))
        order.append(task)
        if load.durations[task]:
            used = load.usage(done | 1 << task, done)
            peaks = [max(pair) for pair in zip(peaks, used, strict=True)]
        done |= 1 << task
    return order, peaks
