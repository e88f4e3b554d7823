"""Planted tiny instances: each comes with a plan that proves it can be solved.

The plan comes first: operators are placed at random and run one after the other, and the devices
get just the memory that this takes. So limits bind, and no instance is infeasible by accident.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    PLAIN_OBJECTIVES,
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
from milp_plan.cost.routes import Route, routes
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import read_shop
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import memory_peaks, times

SPLIT = "split"
"""The layout in which each of two devices holds one half."""


def planted(seed: int, objective: Objective | None = None) -> PlanningProblem:
    """Return the instance of a seed.

    Parameters
    ----------
    seed
        Equal seeds give equal instances. Every third has operators that may run on two devices.
    objective
        Drawn by the seed when ``None``. ``BOTTLENECK`` comes with the static memory law, the
        others with memory over time.

    Returns
    -------
    PlanningProblem
        Three to five operators on two or three devices.
    """
    return planted_with_plan(seed, objective)[0]


def planted_with_plan(
    seed: int, objective: Objective | None = None
) -> tuple[PlanningProblem, Plan]:
    """Return the instance of a seed and a valid plan of it, which claims its value."""
    rng = Random(seed)
    drawn = rng.choice(PLAIN_OBJECTIVES)
    goal = objective or drawn
    law = MemoryLaw.STATIC if goal is Objective.BOTTLENECK else MemoryLaw.INSTANT
    gangs = seed % 3 == 0
    graph, cluster = _graph(rng, gangs), _cluster(rng, gangs)
    problem = PlanningProblem(f"planted-{seed}", graph, cluster, goal, law)
    plan = _serial_plan(rng, problem)
    figures = verify(problem, plan).components
    tight = {name: figures[f"peak_memory {name}"] for name in cluster.device_names}
    if rng.random() < 0.8:
        problem = replace(problem, cluster=cluster.with_memory(dict(tight)))
    value = verify(problem, plan).value
    assert value is not None
    return problem, replace(
        plan, objective=goal.value, value=value, fingerprint=problem.fingerprint
    )


def _graph(rng: Random, gangs: bool) -> ComputationGraph:
    names = [f"op{i}" for i in range(rng.randint(3, 5))]
    values: list[Value] = []
    for i, name in enumerate(names[:-1]):
        later = names[i + 1 :]
        readers = tuple(rng.sample(later, min(len(later), rng.choice([1, 1, 2]))))
        values.append(_value(rng, f"value{i}", name, readers))
    values.append(_value(rng, "weights", None, (rng.choice(names),)))
    together = rng.sample(names, 2) if rng.random() < 0.4 else []
    operators = [
        Operator(
            name, _options(rng, name, values, gangs), group="pair" if name in together else None
        )
        for name in names
    ]
    return ComputationGraph(tuple(operators), tuple(values))


def _value(rng: Random, name: str, producer: str | None, readers: tuple[str, ...]) -> Value:
    size = 2 * rng.randint(1, 4)
    change = {(FULL, SPLIT): rng.randint(0, 2), (SPLIT, FULL): rng.randint(1, 3)}
    return Value(name, producer, readers, {FULL: size, SPLIT: size // 2}, reshard_ticks=change)


def _options(rng: Random, name: str, values: list[Value], gangs: bool) -> tuple[Option, ...]:
    ticks = {"fast": rng.randint(1, 4), "slow": rng.randint(3, 6)}
    options = [Option("whole", ticks, workspace_bytes=rng.randint(0, 2))]
    if gangs and rng.random() < 0.6:
        halves = {kind: -(-length // 2) for kind, length in ticks.items()}
        reads = {value.name: SPLIT for value in values if name in value.consumers}
        writes = {value.name: SPLIT for value in values if value.producer == name}
        options.append(Option("halves", halves, gang=2, reads=reads, writes=writes))
    return tuple(options)


def _cluster(rng: Random, gangs: bool) -> Cluster:
    names = [f"device{i}" for i in range(rng.choice([2, 3]))]
    kinds = ["fast", rng.choice(["fast", "slow"]), "fast"]
    return Cluster(
        (DeviceClass("fast", None), DeviceClass("slow", None)),
        tuple(Device(name, kind, None) for name, kind in zip(names, kinds, strict=False)),
        tuple(
            Channel(a, b, rng.randint(0, 1), rng.choice([1, 2, 4]) * TICKS_PER_SECOND)
            for a in names
            for b in names
            if a != b
        ),
        ((names[0], names[1]),) if gangs else (),
        rng.choice(list(CommunicationModel)),
    )


def _serial_plan(rng: Random, problem: PlanningProblem) -> Plan:
    """Place operators at random, and run transfers and operators one after the other."""
    graph, placed = problem.graph, _places(rng, problem)
    made: dict[tuple[str, tuple[str, ...], str], Transfer] = {}
    runs: list[OperatorRun] = []
    now = 0
    for name in graph.topological_order:
        for value in graph.inputs[name]:
            if value.producer is None:
                continue
            result = routes(problem, value, placed[value.producer], name, placed[name])
            assert result is not None, "devices are fully joined and every layout can be changed"
            for route in result:
                if route.key not in made:
                    made[route.key] = _transfer(route, now)
                    now += route.duration_ticks
        stop = now + problem.duration_ticks(name, placed[name])
        runs.append(OperatorRun(name, *placed[name], now, stop))
        now = stop
    return Plan(problem.name, tuple(runs), tuple(made.values()), planner="planted")


def _transfer(route: Route, start: int) -> Transfer:
    stop = start + route.duration_ticks
    return Transfer(route.value, route.source, route.target, route.layout, start, stop)


def _places(rng: Random, problem: PlanningProblem) -> dict[str, Placement]:
    sites: dict[str, tuple[str, ...]] = {}
    placed: dict[str, Placement] = {}
    for operator in problem.graph.operators:
        choices = problem.placements(operator.name)
        if operator.group is not None:
            single = [place for place in choices if len(place.devices) == 1]
            site = sites.setdefault(operator.group, rng.choice(single).devices)
            choices = tuple(place for place in choices if place.devices == site)
        placed[operator.name] = rng.choice(choices)
    return placed


def planted_pipeline(seed: int, objective: Objective | None = None) -> tuple[PlanningProblem, Plan]:
    """Return a tiny pipeline of identical micro-batches and a valid plan of it.

    Parameters
    ----------
    seed
        Equal seeds give equal instances: placement family, times, transfers as delays or on
        channels, split or joint backward. Memory is just what the plan takes, mostly.
    objective
        Makespan or span; drawn by the seed when ``None``.
    """
    rng = Random(seed)
    drawn = rng.choice([Objective.MAKESPAN, Objective.SPAN])
    family = ("line", "v", "dualpipe")[seed % 3]
    joint = family == "v" or rng.random() < 0.3
    template, _ = uniform(
        2,
        2 if family == "v" else rng.choice([2, 4]) if family == "dualpipe" else rng.choice([2, 3]),
        (rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 3)),
        transfer=rng.randint(0, 2),
        chunks=2 if family == "v" else 1,
        freed_at_backward=rng.choice([Fraction(0), Fraction(1, 2)]),
        joint_backward=joint,
    )
    if rng.random() < 0.4:
        template = replace(template, transfers=CommunicationModel.CHANNEL)
    problem = pipeline_problem(
        f"planted-pipeline-{seed}", template, place(family, 2), objective=objective or drawn
    )
    shop = read_shop(problem)
    assert isinstance(shop, Shop), shop
    words = planted_words(rng, shop)
    if rng.random() < 0.8:
        tight = dict(zip(shop.machines, memory_peaks(shop, words), strict=True))
        limits: dict[str, int | None] = {n: tight[n] for n in problem.cluster.device_names}
        problem = replace(problem, cluster=problem.cluster.with_memory(limits))
    plan = shop.plan(times(shop, words), "planted")
    value = verify(problem, plan).value
    assert value is not None
    claims = {"objective": problem.objective.value, "value": value}
    return problem, replace(plan, fingerprint=problem.fingerprint, **claims)  # type: ignore[arg-type]


def planted_words(rng: Random, shop: Shop) -> list[list[int]]:
    """Return the words of random micro-batch orders: any task runs whose predecessors have run."""
    seen = [0] * len(shop.kinds)
    words: list[list[int]] = [[] for _ in shop.machines]
    while True:
        ready = [
            k
            for k, kind in enumerate(shop.kinds)
            if seen[k] < kind.count and all(seen[a] > seen[k] for a, _ in shop.before[k])
        ]
        if not ready:
            return words
        chosen = rng.choice(ready)
        words[shop.kinds[chosen].machine].append(chosen)
        seen[chosen] += 1
