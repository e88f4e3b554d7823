"""The dynamic programme against all cuts there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise
from random import Random

import numpy as np
import pytest

from milp_plan.core import Device, DeviceClass, PlanningProblem
from milp_plan.kinds.schedule.planners.constructions.cuts import Balance, Memory, cut
from milp_plan.kinds.schedule.planners.constructions.loads import LayerLoads, loads
from milp_plan.zoo import generate

pytestmark = pytest.mark.untraced


def small(scale: str, batches: int) -> PlanningProblem:
    return generate(
        "gpt-tiny",
        "2xH100+1xA100",
        batch=16,
        micro_batches=batches,
        granularity="block",
        memory_scale=scale,
    )


def cost(
    made: LayerLoads, sites: list[int], memory: Memory, balance: Balance, bounds: list[int]
) -> float:
    """Cost of a cut, by the definition; infinite where it does not fit."""
    total = 0.0
    rows = [made.rows(site) for site in sites]
    mean = sum(float(row.work.sum()) for row in rows) / len(sites) ** 2
    forward, returning = made.heads
    scale = max(mean, forward.max(), returning.max()) if balance.waiting else mean
    for stage, (start, stop) in enumerate(pairwise(bounds)):
        if start == stop:
            continue
        row, part = rows[stage], slice(start, stop)
        held = row.fixed[part].sum() + memory.flights[stage] * made.flying[part].sum()
        parts = sites.count(sites[stage]) if memory.parted else 1
        if held + made.working[part].max() > made.room(sites[stage]) / parts:
            return float("inf")
        load = row.work[part].sum() + balance.crossing * made.crossing[start]
        load += balance.waiting * forward[start]
        late = returning[stop - 1] * balance.waiting
        if late > 0:
            load = max(load, row.returning[part].sum() + late)
        total += float(load / scale) ** (2**balance.doublings)
    return total


@pytest.mark.parametrize("seed", range(24))
def test_no_cut_is_cheaper(seed: int) -> None:
    rng = Random(seed)
    scale = rng.choice(["1", "1/300", "1/500", "1/700"])
    made = loads(small(scale, rng.choice([1, 2, 4])))
    layers = len(made.structure.layers)
    sites = [rng.randrange(3) for _ in range(rng.randint(1, 4))]
    memory = Memory([rng.randint(1, 4) for _ in sites], rng.random() < 0.5)
    balance = Balance(rng.choice([1, 3]), rng.choice([0.0, 0.5]), rng.choice([0.0, 1.0]))
    found = cut(made, sites, memory, balance)
    inner = combinations_with_replacement(range(layers + 1), len(sites) - 1)
    best = min(cost(made, sites, memory, balance, [0, *middle, layers]) for middle in inner)
    if found is None:
        assert best == float("inf")
    else:
        assert found[0] == 0
        assert found[-1] == layers
        assert cost(made, sites, memory, balance, found) == pytest.approx(best, rel=1e-9)


def test_memory_decides_how_many_stages_are_needed() -> None:
    problem = small("1", 1)
    made = loads(problem)
    whole = float(made.rows(0).fixed.sum() + made.flying.sum() + made.working.max())

    def limited(amount: int) -> LayerLoads:
        classes = tuple(DeviceClass(c.name, amount) for c in problem.cluster.device_classes)
        devices = tuple(Device(d.name, d.device_class, amount) for d in problem.cluster.devices)
        cluster = replace(problem.cluster, device_classes=classes, devices=devices)
        return loads(replace(problem, cluster=cluster))

    enough, little = limited(int(whole) + 1), limited(int(whole) - 1)
    one, two = Memory([1]), Memory([1, 1])
    assert cut(enough, [0], one, Balance()) == [0, len(made.structure.layers)]
    assert cut(little, [0], one, Balance()) is None
    assert cut(little, [0, 1], two, Balance()) is not None
    # Two stages on one device part its memory, unless they may share it.
    assert cut(little, [0, 0], two, Balance()) is None


def test_a_long_sequence_is_cut_between_bundles() -> None:
    problem = generate("gpt2-medium", "4xA100", batch=4)
    made = loads(problem)
    many = len(made.structure.layers)
    found = cut(made, [0, 1, 2, 3], Memory([1] * 4), Balance())
    assert found is not None
    assert many > 250
    work = made.rows(0).work
    loaded = [work[a:b].sum() for a, b in pairwise(found)]
    assert max(loaded) <= 1.1 * float(np.sum(work)) / 4
