"""Plans and problems for the tests of coarsening."""

from __future__ import annotations

import random
from collections.abc import Iterator
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
    Option,
    Plan,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.coarsen.nodes import Caps
from milp_plan.kinds.schedule.coarsen.quotient import Quotient
from tests.support.plans import placed, routes_of, timed

INFINITE = float("inf")

LOOSE = Caps(INFINITE, INFINITE, INFINITE, None, strict=False)


def unlimited(problem: PlanningProblem) -> PlanningProblem:
    """The problem without memory limits."""
    memory = dict.fromkeys(problem.cluster.device_names)
    return replace(problem, cluster=problem.cluster.with_memory(memory))


def random_clusters(problem: PlanningProblem, rng: random.Random) -> list[list[str]]:
    """Clusters of random merges."""
    quotient = Quotient(problem)
    for _ in range(rng.randint(1, 2 * len(quotient))):
        if len(quotient) > 1:
            pair = rng.sample(sorted(quotient.nodes), 2)
            if quotient.may_merge(pair, LOOSE):
                quotient.merge(pair)
    return quotient.clusters()


def random_plan(problem: PlanningProblem, rng: random.Random) -> Plan | None:
    """A random plan that is valid when memory has no limit; ``None`` if no try is routed."""
    for _ in range(30):
        chosen = placed(problem, rng)
        if chosen is not None and routes_of(problem, chosen) is not None:
            order = _random_order(problem.graph, rng)
            return timed(
                *(problem, chosen, order), lambda ready, _: ready + rng.choice([0, 0, 0, 1, 4])
            )
    return None


def _random_order(graph: ComputationGraph, rng: random.Random) -> Iterator[str]:
    todo = {operator.name for operator in graph.operators}
    while todo:
        name = rng.choice(sorted(n for n in todo if todo.isdisjoint(graph.predecessors[n])))
        todo.remove(name)
        yield name


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
