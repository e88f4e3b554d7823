from itertools import product
from random import Random

import pytest

from milp_plan.kinds.schedule.bounds.binpacking import bins_needed, least_capacity


def fewest_bins(sizes: list[int], capacity: int) -> int:
    for bins in range(len(sizes) + 1):
        for choice in product(range(bins), repeat=len(sizes)):
            loads = [0] * bins
            for size, place in zip(sizes, choice, strict=True):
                loads[place] += size
            if all(load <= capacity for load in loads):
                return bins
    raise AssertionError("every size fits a bin of its own")


@pytest.mark.parametrize(
    ("sizes", "capacity", "bins"),
    [
        ([], 5, 0),
        ([0, 0], 5, 0),
        ([3, 3], 6, 1),
        ([4, 4, 4], 7, 3),  # more than half
        ([3, 3, 3, 3, 3], 8, 3),  # more than a third
        ([6, 6, 4, 4, 1], 10, 3),
        ([7, 7, 2, 2, 2, 2], 10, 3),  # what does not fit beside the large ones
    ],
)
def test_known_bins(sizes, capacity, bins):
    assert bins_needed(sizes, capacity) == bins
    assert bins == fewest_bins([size for size in sizes if size], capacity)


def test_never_more_than_the_optimum():
    random = Random(5)
    tight = 0
    for _ in range(150):
        capacity = random.randint(3, 30)
        sizes = [random.randint(0, capacity) for _ in range(random.randint(1, 6))]
        bins = fewest_bins([s for s in sizes if s], capacity)
        assert bins_needed(sizes, capacity) <= bins
        tight += bins_needed(sizes, capacity) == bins
        needed = least_capacity(sizes, 3)
        assert fewest_bins([s for s in sizes if s], max(needed - 1, *sizes)) > 3 or (
            needed <= max(sizes) or needed == -(-sum(sizes) // 3)
        )
    assert tight > 135


def test_least_capacity():
    assert least_capacity([3, 3, 3, 3, 3], 2) == 9
    assert least_capacity([5, 5, 5], 2) == 10
    assert least_capacity([4, 2], 3) == 4
    assert least_capacity([], 3) == 0
    huge = 10**40
    assert least_capacity([huge] * 3, 2) == 2 * huge
