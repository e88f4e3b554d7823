"""Partitions against all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product
from random import Random

import pytest

from milp_plan.kinds.training.stages import balanced_layers, layers_within_memory
from milp_plan.kinds.training.stages_problem import Chunk, Device, Load, Run, TrainingStagesProblem
from tests.support.seeds import few


def slowest(counts: tuple[int, ...], times: list, opens: list, ends: list) -> int:
    at, found = 0, []
    for stage, count in enumerate(counts):
        found.append(sum(times[stage][at : at + count]))
        at += count
    found[0] += opens[0]
    found[-1] += ends[-1]
    return max(found)


def test_the_slowest_stage_is_as_short_as_in_any_partition() -> None:
    random = Random(47)
    for _ in range(300):
        stages, blocks = random.randint(1, 4), random.randint(1, 8)
        most = random.choice([3, 10**9])
        speeds = [random.randint(1, 3) for _ in range(stages)]
        plain = [random.randint(0, most) for _ in range(blocks)]
        times = [[speed * time for time in plain] for speed in speeds]
        opens, ends = ([random.randint(0, most) for _ in range(stages)] for _ in range(2))
        partitions = balanced_layers(times, opens, ends)
        cuts = combinations_with_replacement(range(blocks + 1), stages - 1)
        every = [
            tuple(b - a for a, b in zip((0, *cut), (*cut, blocks), strict=True)) for cut in cuts
        ]
        best = min(slowest(one, times, opens, ends) for one in every)
        for counts in partitions:
            assert len(counts) == stages
            assert sum(counts) == blocks
            assert slowest(counts, times, opens, ends) == best
        assert len(set(partitions)) == len(partitions) <= 3


def test_partitions_with_few_blocks_first_and_with_long_stages_last_or_first() -> None:
    seven = balanced_layers([[1] * 7] * 4, [0] * 4, [0] * 4)
    assert seven == ((1, 2, 2, 2), (2, 2, 2, 1))
    eight = balanced_layers([[2] * 8] * 4, [0] * 4, [2] * 4)
    assert eight == ((0, 3, 3, 2), (2, 2, 2, 2), (3, 2, 2, 1))


def test_no_stage_idles_where_blocks_suffice_for_all() -> None:
    """32 blocks on 15 stages, a head of three blocks' time: 3 is the least of the slowest."""
    greedy, last, first = balanced_layers([[10] * 32] * 15, [0] * 15, [29] * 15)
    assert greedy == (0, 0, 0, 2, *[3] * 10, 0)
    assert last == (*[2] * 10, *[3] * 4, 0)
    assert first == (*[3] * 4, *[2] * 10, 0)


@pytest.mark.parametrize("seed", few(range(200), 30))
def test_within_memory_the_slowest_stage_is_the_shortest(seed: int) -> None:
    rng = Random(seed)
    count, stages = rng.randint(1, 9), rng.randint(1, 4)
    stages = min(count, stages)
    top = rng.choice((10, 10**9))
    time, size, m = rng.randint(1, top), rng.randint(1, top), rng.randint(1, 6)
    kept = Load(backward=time, kept=size, resident=rng.randint(0, top))
    again = replace(
        kept,
        backward=time + rng.randint(0, top),
        kept=rng.randint(0, size),
        workspace=rng.choice((0, size)),
    )
    chunks = tuple(
        Chunk(k, Load(forward=rng.choice((0, rng.randint(0, top))), kept=rng.randint(0, top)))
        for k in range(stages)
    )
    room = count * (size * m + kept.resident) // stages
    devices = tuple(
        Device(0, rng.randint(room // 2, 2 * room + 1), ((rng.randint(1, m),),))
        for _ in range(stages)
    )
    run = Run("layer", count, ((kept, again),))
    problem = TrainingStagesProblem("p", ("none", "full"), (run,), devices, chunks, m)
    best: dict[tuple[int, ...], int] = {}
    for layers in product(range(count + 1), repeat=stages):
        if sum(layers) == count:
            times = [least_time(problem, k, n) for k, n in enumerate(layers)]
            if None not in times:
                best[layers] = max(times)
    found = layers_within_memory(problem)
    if not best:
        assert found is None
    else:
        assert found is not None
        assert best[found] <= min(best.values()) * (1 + 1 / 2000)


def least_time(problem: TrainingStagesProblem, stage: int, layers: int) -> int | None:
    """Time of a stage with so many layers and the fewest recomputed that fit, one by one."""
    ((kept, again),) = problem.runs[0].ways
    device, beside = problem.devices[stage], problem.chunks[stage].beside
    ((waiting,),) = device.waiting
    for some in range(layers + 1):
        loads = [beside, *[kept] * (layers - some), *[again] * some]
        peak = sum(load.resident + waiting * load.kept for load in loads)
        if peak + max(load.workspace for load in loads) <= device.limit:
            return sum(load.time for load in loads)
    return None
