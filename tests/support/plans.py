"""Random small problems, each with a plan that is valid by construction.

The plan comes first: operators are placed at random, transfers follow from the planners' reading of
the supply law, tasks run in topological order, one after the other or packed to the left. Only
then do the devices get their memory: at least what that plan needs, often exactly that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from milp_plan.check import replay
from milp_plan.core import (
    FULL,
    PLAIN_OBJECTIVES,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.core.schedule import transfer_resources
from milp_plan.cost.routes import Route, routes

from .problems import marked

HALF = "half"


@dataclass(frozen=True)
class Planted:
    """A problem and a valid plan of it."""

    problem: PlanningProblem
    plan: Plan


@lru_cache(maxsize=4096)
def planted(seed: int) -> Planted:
    """Return the problem and plan of a seed; equal seeds give equal answers."""
    rng = random.Random(seed)
    problem = marked(_problem(rng, f"planted-{seed}"), f"planted {seed}")
    placements = _place(problem, rng)
    packed = rng.random() < 0.5
    plan = timed(
        *(problem, placements, problem.graph.topological_order),
        lambda ready, clock: ready if packed else clock + rng.choice([0, 0, 1]),
    )
    problem = _with_memory(problem, plan, rng)
    if not problem.needs_schedule and rng.random() < 0.5:
        plan = without_times(plan)
    return Planted(problem, plan)


def _problem(rng: random.Random, name: str) -> PlanningProblem:
    objective = rng.choice([Objective.MAKESPAN, *PLAIN_OBJECTIVES])
    law = rng.choice([MemoryLaw.INSTANT, MemoryLaw.INSTANT, MemoryLaw.STATIC])
    return PlanningProblem(name, _graph(rng), _cluster(rng), objective, law)


def _cluster(rng: random.Random) -> Cluster:
    names = [f"d{i}" for i in range(rng.randint(2, 4))]
    devices = [Device("d0", "fast", None)]  # every graph fits one class wholly
    devices += [Device(name, rng.choice(["fast", "slow"]), None) for name in names[1:]]
    channels = [
        Channel(a, b, rng.randint(0, 3), rng.choice([1, 2, 5]) * 10**9)
        for a in names
        for b in names
        if a != b and rng.random() < 0.9
    ]
    pairs = [(a, b) for a in names for b in names if a != b]
    groups = rng.sample(pairs, k=min(len(pairs), 3))
    classes = (DeviceClass("fast", None), DeviceClass("slow", None))
    model = rng.choice(list(CommunicationModel))
    return Cluster(classes, tuple(devices), tuple(channels), tuple(groups), model)


def _graph(rng: random.Random) -> ComputationGraph:
    count = rng.randint(2, 8)
    names = [f"op{i}" for i in range(count)]
    values = []
    for index, name in enumerate(names):
        for number in range(rng.choice([0, 1, 1, 2])):
            later = names[index + 1 :]
            readers = rng.sample(later, k=min(len(later), rng.randint(0, 3)))
            values.append(_value(rng, f"v{index}.{number}", name, readers))
    for number in range(rng.randint(0, 2)):
        readers = rng.sample(names, k=min(count, rng.randint(1, 2)))
        values.append(_value(rng, f"w{number}", None, readers))
    group = set(rng.sample(names, k=2)) if rng.random() < 0.6 else set()
    operators = [
        Operator(
            name,
            _options(rng, name, values),
            kind="update" if index == count - 1 else "forward",
            group="together" if name in group else None,
        )
        for index, name in enumerate(names)
    ]
    return ComputationGraph(tuple(operators), tuple(values))


def _value(rng: random.Random, name: str, producer: str | None, readers: list[str]) -> Value:
    size = rng.randint(0, 20)
    changes = {(FULL, HALF): rng.randint(0, 4), (HALF, FULL): rng.randint(0, 4)}
    return Value(
        name,
        producer,
        tuple(readers),
        bytes={FULL: 2 * size, HALF: size},
        transfer_bytes={FULL: 3} if rng.random() < 0.2 else {},
        messages=rng.choice([1, 1, 2]),
        reshard_ticks={pair: ticks for pair, ticks in changes.items() if rng.random() < 0.8},
    )


def _options(rng: random.Random, name: str, values: list[Value]) -> tuple[Option, ...]:
    inputs = [value.name for value in values if name in value.consumers]
    outputs = [value.name for value in values if value.producer == name]

    def durations() -> dict[str, int]:
        table = {"fast": rng.randint(0, 6)}
        if rng.random() < 0.8:
            table["slow"] = rng.randint(1, 9)
        return table

    single = Option("single", durations(), workspace_bytes=rng.choice([0, rng.randint(1, 9)]))
    pair = Option(
        "pair",
        durations(),
        gang=2,
        workspace_bytes=rng.randint(0, 5),
        reads={value: HALF for value in inputs if rng.random() < 0.5},
        writes={value: HALF for value in outputs if rng.random() < 0.5},
    )
    return (single, pair) if rng.random() < 0.7 else (single,)


def _place(problem: PlanningProblem, rng: random.Random) -> dict[str, Placement]:
    """Place at random where the law allows every transfer; else everything on ``d0``."""
    for _ in range(20):
        chosen = placed(problem, rng)
        if chosen is not None and routes_of(problem, chosen) is not None:
            return chosen
    return {op.name: Placement("single", ("d0",)) for op in problem.graph.operators}


def placed(problem: PlanningProblem, rng: random.Random) -> dict[str, Placement] | None:
    """A random placement that keeps groups together; ``None`` if an operator has none left."""
    chosen: dict[str, Placement] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for operator in problem.graph.operators:
        ways = problem.placements(operator.name)
        if operator.group in groups:
            ways = tuple(way for way in ways if way.devices == groups[operator.group])
        if not ways:
            return None
        chosen[operator.name] = rng.choice(ways)
        if operator.group is not None:
            groups[operator.group] = chosen[operator.name].devices
    return chosen


def routes_of(
    problem: PlanningProblem, chosen: dict[str, Placement]
) -> dict[tuple[str, str], tuple[Route, ...]] | None:
    """Routes of each value to each of its readers; ``None`` if one cannot be reached."""
    found = {}
    for value in problem.graph.values:
        if value.producer is None:
            continue
        for consumer in value.consumers:
            way = routes(problem, value, chosen[value.producer], consumer, chosen[consumer])
            if way is None:
                return None
            found[value.name, consumer] = way
    return found


def timed(
    problem: PlanningProblem,
    chosen: dict[str, Placement],
    order: Iterable[str],
    begin: Callable[[int, int], int],
) -> Plan:
    """Operators in an order, each behind the transfers that it needs.

    ``begin`` says when a task starts, from when inputs and resources are there and when all before
    it has stopped.
    """
    ways = routes_of(problem, chosen)
    assert ways is not None
    free: dict[str, int] = {}
    stops: dict[str, int] = {}
    clock = 0

    def take(held: tuple[str, ...], ready: int, ticks: int) -> tuple[int, int]:
        nonlocal clock
        start = begin(max([ready, *(free.get(name, 0) for name in held)]), clock)
        clock = max(clock, start + ticks)
        free.update(dict.fromkeys(held, start + ticks))
        return start, start + ticks

    runs: list[OperatorRun] = []
    made: dict[object, Transfer] = {}
    for name in order:
        ready = 0
        for value in problem.graph.inputs[name]:
            if value.producer is None:
                continue
            ready = max(ready, stops[value.producer])
            for route in ways[value.name, name]:
                if route.key not in made:
                    held = transfer_resources(problem.cluster, route.source, route.target)
                    times = take(held, stops[value.producer], route.duration_ticks)
                    made[route.key] = Transfer(
                        route.value, route.source, route.target, route.layout, *times
                    )
                ready = max(ready, made[route.key].stop_ticks or 0)
        placement = chosen[name]
        ticks = problem.duration_ticks(name, placement)
        start, stops[name] = take(placement.devices, ready, ticks)
        runs.append(OperatorRun(name, placement.option, placement.devices, start, stops[name]))
    return Plan(problem.name, tuple(runs), tuple(made.values()))


def _with_memory(problem: PlanningProblem, plan: Plan, rng: random.Random) -> PlanningProblem:
    memory: dict[str, int | None] = {}
    for name, used in replay(problem, plan).devices.items():
        memory[name] = rng.choice([used.peak_bytes, used.peak_bytes, used.peak_bytes + 5, None])
    return replace(problem, cluster=problem.cluster.with_memory(memory))


def without_times(plan: Plan) -> Plan:
    """The plan without starts and stops."""
    return replace(
        plan,
        runs=tuple(replace(run, start_ticks=None, stop_ticks=None) for run in plan.runs),
        transfers=tuple(replace(t, start_ticks=None, stop_ticks=None) for t in plan.transfers),
    )
