"""Planted tiny instances under the serial law, each with a plan that proves it feasible.

The plan comes first: classes are placed at random within the law, and the memory of paying
devices mostly just suffices for it. All payers are alike, and so are all hosts.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    ComputationGraph,
    Contiguity,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Passes,
    Plan,
    PlanningProblem,
    SerialLaw,
    Value,
)

PAYER, HOST = "payer", "host"
ATTEMPTS = 60
"""Random placements that are tried before everything goes to one device."""


def planted_serial(
    seed: int,
    contiguous: bool | None = None,
    calls: int | None = None,
    separate: bool | None = None,
) -> tuple[PlanningProblem, Plan]:
    """Return the instance of a seed and a valid plan of it, which claims its value.

    Parameters
    ----------
    seed
        Equal seeds give equal instances. Odd ones have a backward pass.
    contiguous, separate
        Contiguity and passes of a bottleneck problem; drawn by the seed when ``None``.
    calls
        Calls per device of a latency problem; ``None`` for a bottleneck problem.

    Returns
    -------
    tuple
        Four to six operators, some in colocation groups, on two or three payers and at most one
        host; ticks and bytes are small integers, zeros among them.
    """
    rng = Random(seed)
    drawn = rng.random() < 0.5, rng.random() < 0.4
    chain = drawn[0] if contiguous is None else contiguous
    apart = drawn[1] if separate is None else separate
    law = SerialLaw((PAYER,), Contiguity.CHAIN if chain else Contiguity.FREE)
    if apart:
        law = replace(law, passes=Passes.SEPARATE)
    if calls is not None:
        law = SerialLaw((PAYER,), calls=calls)
    few = calls is not None and calls > 1  # small enough to enumerate
    plan = None
    while plan is None:
        problem = _problem(rng, seed, law, few)
        plan = _plan(rng, problem)
    if rng.random() < 0.7:
        problem = _tight(problem, plan)
    value = verify(problem, plan).value
    assert value is not None
    claims = {"objective": str(problem.objective), "value": value}
    return problem, replace(plan, fingerprint=problem.fingerprint, **claims)  # type: ignore[arg-type]


def _problem(rng: Random, seed: int, law: SerialLaw, few: bool) -> PlanningProblem:
    hosts = rng.choice([0, 1, 1])
    return PlanningProblem(
        f"planted-serial-{seed}",
        _graph(rng, seed % 2 == 1, hosts, 4 if few else 6),
        _cluster(2 if few else rng.choice([2, 3]), hosts),
        Objective.BOTTLENECK if law.calls is None else Objective.LATENCY,
        MemoryLaw.STATIC,
        serial=law,
    )


def _cluster(payers: int, hosts: int) -> Cluster:
    devices = [Device(f"{PAYER}{i}", PAYER, None) for i in range(payers)]
    devices += [Device(f"{HOST}{i}", HOST, None) for i in range(hosts)]
    channels = tuple(
        Channel(a.name, b.name, 0, TICKS_PER_SECOND) for a in devices for b in devices if a is not b
    )
    return Cluster((DeviceClass(PAYER, None), DeviceClass(HOST, None)), tuple(devices), channels)


def _graph(rng: Random, backward: bool, hosts: int, most: int) -> ComputationGraph:
    """Return a forward pass, for training with its mirror image, partly in colocation groups."""
    count = rng.randint(2, most // 2) if backward else rng.randint(4, most)
    ahead = [f"f{i}" for i in range(count)]
    edges = {name: _later(rng, ahead[i + 1 :]) for i, name in enumerate(ahead)}
    groups: dict[str, str] = {}
    back = [f"b{i}" for i in range(len(ahead) if backward else 0)]
    for forward, name in zip(ahead, back, strict=False):
        edges[name] = []
        if rng.random() < 0.7:
            groups[forward] = groups[name] = f"layer {forward}"
    for position, name in enumerate(back):
        if rng.random() < 0.8:
            edges[ahead[position]].append(name)
        for reader in edges[ahead[position]]:
            if reader in ahead:
                edges[back[ahead.index(reader)]].append(name)
    free = [name for name in ahead if name not in groups]
    if len(free) > 2 and rng.random() < 0.5:
        groups.update(dict.fromkeys(rng.sample(free, 2), "pair"))
    kinds = dict.fromkeys(back, "backward")
    homes = _homes(rng, ahead + back, groups, hosts)
    operators = tuple(
        Operator(name, (_option(rng, homes[name]),), kinds.get(name, "forward"), groups.get(name))
        for name in ahead + back
    )
    return ComputationGraph(operators, tuple(_values(rng, edges)))


def _later(rng: Random, names: list[str]) -> list[str]:
    return rng.sample(names, min(len(names), rng.choice([0, 1, 1, 2, 2])))


def _homes(
    rng: Random, names: list[str], groups: dict[str, str], hosts: int
) -> dict[str, tuple[str, ...]]:
    """Return device classes of each operator: groups agree; payers alone without a host."""
    chosen: dict[str, tuple[str, ...]] = {}
    for name in names:
        kinds = rng.choice([(PAYER, HOST)] * 6 + [(PAYER,), (HOST,)]) if hosts else (PAYER,)
        chosen.setdefault(groups.get(name, name), kinds)
    return {name: chosen[groups.get(name, name)] for name in names}


def _option(rng: Random, kinds: tuple[str, ...]) -> Option:
    ticks = {PAYER: rng.choice([0, 1, 2, 3, 4, 5]), HOST: rng.randint(0, 12)}
    return Option("run", {kind: ticks[kind] for kind in kinds})


def _values(rng: Random, edges: dict[str, list[str]]) -> list[Value]:
    values = []
    for position, (name, readers) in enumerate(edges.items()):
        size = rng.choice([0, 1, 2, 3]) if position else 2  # the first one has bytes
        if size:
            values.append(Value(f"{name}:held", None, (name,), {FULL: size}))
        if readers:
            persistent, cost = rng.choice([0, 0, 1]), rng.choice([0, 1, 1, 2, 3, 4])
            ordered = tuple(sorted(readers, key=list(edges).index))
            values.append(Value(f"{name}:out", name, ordered, {FULL: persistent}, {FULL: cost}))
    return values


def _plan(rng: Random, problem: PlanningProblem) -> Plan | None:
    """Return a random plan that the checker accepts, or everything on one device, or none."""
    for _ in range(ATTEMPTS):
        plan = _drawn(rng, problem)
        if verify(problem, plan).ok:
            return plan
    plan = _together(problem)
    return plan if verify(problem, plan).ok else None


def _drawn(rng: Random, problem: PlanningProblem) -> Plan:
    assert problem.serial is not None
    site: dict[str, str] = {}
    runs = []
    for operator in problem.graph.operators:
        places = [place.devices[0] for place in problem.placements(operator.name)]
        device = site.setdefault(operator.group or operator.name, rng.choice(places))
        pays = problem.cluster.device(device).device_class == PAYER
        counts = problem.serial.calls is not None and pays
        call = rng.randrange(problem.serial.calls or 1) if counts else None
        runs.append(OperatorRun(operator.name, "run", (device,), call=call))
    return Plan(problem.name, tuple(runs), planner="planted")


def _together(problem: PlanningProblem) -> Plan:
    """Return the plan with everything on the first device that can run it."""
    assert problem.serial is not None
    runs = []
    for operator in problem.graph.operators:
        device = problem.placements(operator.name)[0].devices[0]
        pays = problem.cluster.device(device).device_class == PAYER
        call = 0 if problem.serial.calls is not None and pays else None
        runs.append(OperatorRun(operator.name, "run", (device,), call=call))
    return Plan(problem.name, tuple(runs), planner="planted")


def _tight(problem: PlanningProblem, plan: Plan) -> PlanningProblem:
    """Return the problem with the memory that the fullest payer needs; hosts are unchanged."""
    figures = verify(problem, plan).components
    payers = [d.name for d in problem.cluster.devices if d.device_class == PAYER]
    most = max(figures.get(f"peak_memory {name}", 0) for name in payers)
    memory: dict[str, int | None] = dict.fromkeys(payers, most)
    return replace(problem, cluster=problem.cluster.with_memory(memory))


def ladder(law: SerialLaw, steps: int = 14) -> PlanningProblem:
    """Return a problem too large to enumerate: each operator reads from the last two.

    Two payers hold a third of the operators each, the host holds all.
    """
    names = [f"o{i}" for i in range(steps)]
    ticks = [{PAYER: 3 + i * 7 % 5, HOST: 30 + i * 11 % 20} for i in range(steps)]
    operators = tuple(
        Operator(name, (Option("run", taken),)) for name, taken in zip(names, ticks, strict=True)
    )
    values = [Value(f"{name}:held", None, (name,), {FULL: 1}) for name in names]
    values += [
        Value(f"{name}:out", name, tuple(names[i + 1 : i + 3]), {FULL: 0}, {FULL: 1 + i * 3 % 7})
        for i, name in enumerate(names[:-1])
    ]
    cluster = _cluster(2, 1)
    return PlanningProblem(
        "ladder",
        ComputationGraph(operators, tuple(values)),
        cluster.with_memory({d.name: steps // 3 for d in cluster.devices if d.name != f"{HOST}0"}),
        Objective.BOTTLENECK if law.calls is None else Objective.LATENCY,
        MemoryLaw.STATIC,
        serial=law,
    )
