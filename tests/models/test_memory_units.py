"""Sets of holdings that exceed a memory by very little, against enumeration."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from formulations.operator_schedule.memory_units import MOST_ITEMS, NEAR, MemoryUnits

from .hand import op, problem


def near(sizes: list[int], room: int) -> set[tuple[int, ...]]:
    """Positions of the sets by definition: above the room, not by much, and none can be spared."""
    most = room + max(1, int(room * NEAR))
    found = set()
    for count in range(1, len(sizes) + 1):
        for chosen in combinations(range(len(sizes)), count):
            total = sum(sizes[place] for place in chosen)
            fits = all(total - sizes[place] <= room for place in chosen)
            if room < total <= most and fits and all(sizes[place] for place in chosen):
                found.add(chosen)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_every_smallest_set_that_is_too_large_by_little(seed: int) -> None:
    rng = Random(seed)
    large = rng.random() < 0.5
    sizes = [rng.randint(0, 10 ** rng.randint(1, 10 if large else 2)) for _ in range(9)]
    chosen = rng.sample(sizes, rng.randint(1, 9))
    room = max(1, sum(chosen) - rng.randint(1, 3))
    memory_units = MemoryUnits(problem([op("x", 1)], [], memory={"a": room}), None)
    held = [(size, place) for place, size in enumerate(sizes)]
    found = [tuple(sorted(columns)) for columns in memory_units.tight_covers(held, "a")]
    assert len(set(found)) == len(found)
    assert set(found) == near(sizes, room)


def test_a_set_among_many_items_is_found_and_too_many_are_left() -> None:
    sizes = [9_006_996_378, 2_416_505_936, 101_058] + [7] * 20
    room = sum(sizes[:3]) - 8
    memory_units = MemoryUnits(problem([op("x", 1)], [], memory={"a": room}), None)
    held = [(size, place) for place, size in enumerate(sizes)]
    assert [0, 1, 2] in list(memory_units.tight_covers(held, "a"))
    assert not list(memory_units.tight_covers(held * (MOST_ITEMS // len(held) + 1), "a"))
    assert not list(memory_units.tight_covers(held, "b"))
