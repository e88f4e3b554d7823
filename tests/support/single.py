"""Tiny schedules of operators with one option on one device: groups, memory, kept values."""

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

from .magnitudes import magnified


def random_single(seed: int, most: int = 5) -> PlanningProblem:
    """Return the problem of a seed, with up to so many operators."""
    rng = Random(f"single {seed}")
    classes = ("fast", "slow") if rng.random() < 0.5 else ("fast",)
    names = [f"o{i}" for i in range(rng.randint(2, most))]
    groups = [rng.choice((None, None, "g", "h")) for _ in names]
    operators = []
    for name, group in zip(names, groups, strict=True):
        ticks = {kind: rng.choice((0, 1, 2, 3, 5, 9)) for kind in classes}
        if group is None and rng.random() < 0.1:
            ticks.pop(rng.choice(sorted(ticks)[1:] or ["none"]), None)
        option = Option("only", ticks, workspace_bytes=rng.choice((0, 0, 1, 4)))
        operators.append(Operator(name, (option,), group=group))
    values = []
    for i, name in enumerate(names[:-1]):
        for copy in range(rng.choice((0, 1, 1, 2))):
            readers = tuple(n for n in names[i + 1 :] if rng.random() < 0.6)
            kept = rng.choice((None, None, True, False))
            values.append(
                Value(f"v{i}.{copy}", name, readers, {"full": rng.randint(0, 6)}, kept=kept)
            )
    if rng.random() < 0.5:
        readers = tuple(n for n in names if rng.random() < 0.5) or (names[0],)
        values.append(Value("w", None, readers, {"full": rng.randint(1, 4)}))
    found = PlanningProblem(
        f"single-{seed}", ComputationGraph(tuple(operators), tuple(values)), _cluster(rng, classes)
    )
    return magnified(found, seed)


def _cluster(rng: Random, classes: tuple[str, ...]) -> Cluster:
    """Two or three devices, mostly with little memory; now and then a channel is missing."""
    limit = rng.choice((None, 6, 9, 13))
    kinds = [DeviceClass(kind, limit) for kind in classes]
    devices = tuple(
        Device(f"d{n}", rng.choice(classes), limit) for n in range(rng.choice((2, 3, 3)))
    )
    one = rng.choice((0, 1, 2)), rng.choice((10**9, 5 * 10**8))
    channels = tuple(
        Channel(a.name, b.name, *(one if rng.random() < 0.8 else (3, 10**9)))
        for a in devices
        for b in devices
        if a is not b and rng.random() < 0.95
    )
    model = rng.choice(list(CommunicationModel))
    return Cluster(tuple(kinds), devices, channels, communication=model)
