"""Gaps and clocks."""

import pytest

from milp_plan.run.settings import Clock, relative_gap


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (None, None, None),
        (None, 5, None),
        (5, None, None),
        (0, None, None),
        (None, 0, None),
        (0, 0, 0.0),
        (10, 0, 1.0),
        (10, 10, 0.0),
        (10, 9, 0.1),
        (10, 11, 0.0),
        (2**80, 2**79, 0.5),
    ],
)
def test_relative_gap(value, bound, gap):
    found = relative_gap(value, bound)
    assert found == gap
    assert found is None or isinstance(found, float)


def test_numbers_too_large_for_floats_have_a_gap():
    assert relative_gap(10**400, 9 * 10**399) == pytest.approx(0.1)


def test_phases_add_up():
    clock = Clock(100.0)
    with clock.phase("build"):
        pass
    first = clock.phases["build"]
    with pytest.raises(KeyError), clock.phase("build"):
        raise KeyError
    assert clock.phases["build"] >= first >= 0
    clock.add("solve", 2.0)
    clock.add("solve", -0.5)
    assert clock.phases["solve"] == 1.5


def test_time_left_is_never_negative():
    clock = Clock(100.0)
    assert 0 < clock.left_s <= 100
    assert clock.elapsed_s >= 0
    assert Clock(0.0).left_s == 0
