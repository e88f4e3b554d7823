"""Plans and problems for the tests of coarsening."""

from __future__ import annotations

import random
from dataclasses import replace

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

INFINITE = float("inf")


def unlimited(problem: PlanningProblem) -> PlanningProblem:
    """The problem without memory limits."""
    memory = dict.fromkeys(problem.cluster.device_names)
    return replace(problem, cluster=problem.cluster.with_memory(memory))


def random_plan(problem: PlanningProblem, rng: random.Random) -> Plan | None:
    """A random plan that is valid when memory has no limit; ``None`` if no try is routed."""
    for _ in range(30):
        chosen = _placed(problem, rng)
        ways = None if chosen is None else _ways(problem, chosen)
        if chosen is not None and ways is not None:
            return _timed(problem, chosen, ways, rng)
    return None


def _placed(problem: PlanningProblem, rng: random.Random) -> dict[str, Placement] | None:
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


def _ways(
    problem: PlanningProblem, chosen: dict[str, Placement]
) -> dict[tuple[str, str], tuple[Route, ...]] | None:
    found = {}
    for value in problem.graph.values:
        if value.producer is not None:
            for consumer in value.consumers:
                way = routes(problem, value, chosen[value.producer], consumer, chosen[consumer])
                if way is None:
                    return None
                found[value.name, consumer] = way
    return found


def _timed(
    problem: PlanningProblem,
    chosen: dict[str, Placement],
    ways: dict[tuple[str, str], tuple[Route, ...]],
    rng: random.Random,
) -> Plan:
    """Tasks in a random topological order, each as early as its resources and inputs allow."""
    graph = problem.graph
    free: dict[str, int] = {}
    stops: dict[str, int] = {}
    made: dict[object, Transfer] = {}
    runs = []

    def take(held: tuple[str, ...], ready: int, ticks: int) -> tuple[int, int]:
        start = max([ready, *(free.get(name, 0) for name in held)]) + rng.choice([0, 0, 0, 1, 4])
        free.update(dict.fromkeys(held, start + ticks))
        return start, start + ticks

    todo = set(chosen)
    while todo:
        name = rng.choice(sorted(n for n in todo if todo.isdisjoint(graph.predecessors[n])))
        todo.remove(name)
        ready = 0
        for value in graph.inputs[name]:
            if value.producer is None:
                continue
            ready = max(ready, stops[value.producer])
            for route in ways[value.name, name]:
                if route.key not in made:
                    held = transfer_resources(problem.cluster, route.source, route.target)
                    times = take(held, stops[value.producer], route.duration_ns)
                    made[route.key] = Transfer(
                        route.value, route.source, route.target, route.layout, *times
                    )
                ready = max(ready, made[route.key].stop_ns or 0)
        placement = chosen[name]
        ticks = problem.duration_ns(name, placement)
        start, stop = take(placement.devices, ready, ticks)
        stops[name] = stop
        runs.append(OperatorRun(name, placement.option, placement.devices, start, stop))
    return Plan(problem.name, tuple(runs), tuple(made.values()))


def without_times(plan: Plan) -> Plan:
    return replace(
        plan,
        runs=tuple(replace(run, start_ns=None, stop_ns=None) for run in plan.runs),
        transfers=tuple(replace(t, start_ns=None, stop_ns=None) for t in plan.transfers),
    )


def small_cluster(
    devices: int = 2,
    memory: int | None = None,
    communication: CommunicationModel = CommunicationModel.CHANNEL,
) -> Cluster:
    names = [f"d{i}" for i in range(devices)]
    return Cluster(
        (DeviceClass("fast", memory),),
        tuple(Device(name, "fast", memory) for name in names),
        tuple(Channel(a, b, 1, TICKS_PER_SECOND) for a in names for b in names if a != b),
        communication=communication,
    )


def single(ticks: int, workspace: int = 0) -> tuple[Option, ...]:
    return (Option("single", {"fast": ticks}, workspace_bytes=workspace),)


def problem_of(
    operators: list[Operator],
    values: list[Value],
    cluster: Cluster | None = None,
    objective: Objective = Objective.MAKESPAN,
    law: MemoryLaw = MemoryLaw.INSTANT,
) -> PlanningProblem:
    graph = ComputationGraph(tuple(operators), tuple(values))
    return PlanningProblem("drafted", graph, cluster or small_cluster(), objective, law)


def with_idle_operators(problem: PlanningProblem, seed: int) -> PlanningProblem:
    """The problem with a few operators of no length hung to it, in and out of groups."""
    rng = random.Random(seed)
    graph = problem.graph
    operators, values = list(graph.operators), list(graph.values)
    classes = [entry.name for entry in problem.cluster.device_classes]
    for k in range(rng.choice([1, 1, 2])):
        other = rng.choice(graph.operators)
        group = rng.choice([None, None, other.group])
        name, size = f"idle{k}", rng.choice([0, 2, 5])
        option = Option("none", dict.fromkeys(classes, 0), workspace_bytes=rng.choice([0, 4]))
        operators.append(Operator(name, (option,), group=group))
        kind = rng.choice(["source", "source", "sink", "looker"])
        readers = (name,) if kind != "source" else (other.name,)
        producer = other.name if kind != "source" else name
        values.append(Value(f"i{k}", producer, readers, {FULL: size}))
        if kind == "looker":
            values.append(Value(f"r{k}", name, (), {FULL: 1}))
        if rng.random() < 0.3:
            values.append(Value(f"p{k}", None, (name,), {FULL: rng.choice([1, 3])}))
    graph = ComputationGraph(tuple(operators), tuple(values))
    return replace(problem, graph=graph)
