"""Partitions against all of them."""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

from milp_plan.training.stages import balanced_layers


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
        counts = balanced_layers(times, opens, ends)
        assert sum(counts) == blocks
        cuts = combinations_with_replacement(range(blocks + 1), stages - 1)
        every = [
            tuple(b - a for a, b in zip((0, *cut), (*cut, blocks), strict=True)) for cut in cuts
        ]
        best = min(slowest(one, times, opens, ends) for one in every)
        assert slowest(counts, times, opens, ends) == best


def test_of_equal_partitions_the_first_stages_have_the_fewest_blocks() -> None:
    assert balanced_layers([[1] * 7] * 4, [0] * 4, [0] * 4) == (1, 2, 2, 2)
    assert balanced_layers([[2] * 8] * 4, [0] * 4, [2] * 4) == (0, 3, 3, 2)
