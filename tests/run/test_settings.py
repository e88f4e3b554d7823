"""Clocks."""

import pytest

from milp_plan.run.settings import Clock


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
