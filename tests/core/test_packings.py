"""Dissections: packing problems whose least height is known."""

import pytest

from milp_plan.kinds.packing.bounds import fullest_instant
from tests.support.packings import GRAIN, dissection


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("whole", [1.0, 0.5])
def test_some_instant_is_full_and_none_is_more(seed, whole):
    problem = dissection(seed, 120, 60, 512, whole)
    assert problem.capacity == 512 * GRAIN
    assert 120 <= len(problem.buffers) < 125
    assert fullest_instant(problem).height == problem.capacity
    area = sum(b.size * (b.upper - b.lower) for b in problem.buffers)
    full = problem.capacity * 60
    assert area == full if whole == 1 else 0.5 * full < area < full
    assert dissection(seed, 120, 60, 512, whole).fingerprint == problem.fingerprint
    assert dissection(seed + 1, 120, 60, 512, whole).fingerprint != problem.fingerprint


def test_more_buffers_than_cells():
    with pytest.raises(ValueError, match="only 4 cells"):
        dissection(0, 5, 2, 2)
