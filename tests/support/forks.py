"""Random graphs with parallel branches between a fork and a join, once or out and back."""

from __future__ import annotations

from random import Random

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    PlanningProblem,
    Value,
)


def random_fork(seed: int, branches: int, *, back: bool, longest: int = 2) -> PlanningProblem:
    """Fork, branches of one operator or more and a join; and the same way back, mirrored.

    Parameters
    ----------
    seed
        Of everything that is drawn: ticks up to 10^9 and bytes up to 10^10, two classes of devices,
        communication model, groups, memory.
    branches
        Side by side.
    back
        Whether there is a way back; most operators share a group with the one they mirror.
    longest
        Operators of a branch, at most.
    """
    rng = Random(seed)
    size = 10 ** rng.choice([1, 3, 6, 9])
    wire = rng.choice([0, 0.1, 0.5, 1, 2])
    chains = [[f"b{k}.{n}" for n in range(rng.randint(1, longest))] for k in range(branches)]
    names = ["fork", *(name for chain in chains for name in chain), "join"]
    edges = [pair for chain in chains for pair in zip(("fork", *chain), (*chain, "join"))]  # noqa: B905
    if rng.random() < 0.3:
        edges.append(("fork", "join"))
    if back:
        mirrored = [(f"{b}.B", f"{a}.B") for a, b in edges]
        edges = [*edges, ("join", "join.B"), *mirrored]
        names = [*names, *(f"{name}.B" for name in reversed(names))]
    group = {n: n for n in names if not n.endswith(".B") and back and rng.random() < 0.8}
    one_value = rng.random() < 0.5
    readers: dict[tuple[str, str], list[str]] = {}
    for a, b in edges:
        readers.setdefault((a, "" if one_value else b), []).append(b)
    values = [
        Value(f"v{k}", a, tuple(found), {"full": round(rng.random() * size * wire)})
        for k, ((a, _), found) in enumerate(readers.items())
    ]
    weights = rng.random() < 0.4
    if weights:
        values += [Value(f"w.{n}", None, (n,), {"full": 10**10}) for n in names if n[0] == "b"]
    slower = rng.choice([1, 2, 5])
    operators = []
    for name in names:
        ticks = 0 if rng.random() < 0.1 else rng.randint(1, size)
        option = Option("one", {"x": ticks, "y": ticks * slower})
        operators.append(Operator(name, (option,), group=group.get(name.removesuffix(".B"))))
    return PlanningProblem(
        f"fork-{seed}",
        ComputationGraph(tuple(operators), tuple(values)),
        _cluster(rng, size, len(names) * 10**10 if weights else None),
    )


def _cluster(rng: Random, size: int, memory: int | None) -> Cluster:
    names = [f"d{k}" for k in range(rng.choice([1, 2, 2, 3]))]
    limit = None if memory is None else memory * rng.choice([1, 2, 3]) // 3 + 10**10
    devices = tuple(Device(name, rng.choice("xxy"), limit) for name in names)
    latency = rng.choice([0, 0, size // 10])
    channels = tuple(Channel(a, b, latency, 10**9) for a in names for b in names if a != b)
    model = rng.choice(list(CommunicationModel))
    classes = tuple(DeviceClass(name, None) for name in "xy")
    return Cluster(classes, devices, channels, (), model)
