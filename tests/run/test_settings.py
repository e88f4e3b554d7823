"""Budgets."""

import pytest

from milp_plan.core.budget import Budget, OutOfTime


def test_phases_add_up():
    budget = Budget(100.0)
    with budget.phase("build"):
        pass
    first = budget.phases["build"]
    with pytest.raises(KeyError), budget.phase("build"):
        raise KeyError
    assert budget.phases["build"] >= first >= 0
    budget.add("solve", 2.0)
    budget.add("solve", -0.5)
    assert budget.phases["solve"] == 1.5


def test_time_left_is_never_negative():
    budget = Budget(100.0)
    assert 0 < budget.left_s <= 100
    assert budget.elapsed_s >= 0
    empty = Budget(0.0)
    assert empty.left_s == 0
    assert empty.over
    with pytest.raises(OutOfTime):
        empty.check()
    assert not Budget().over


def test_parts_stay_within_the_whole_and_are_on_record():
    budget = Budget(100.0)
    part = budget.part("model", 0.25)
    assert 24.0 < part.limit_s <= 25.0
    assert budget.at_most("rest", 1000.0).limit_s <= 100.0
    assert 49.0 < budget.part("half", 0.5, of_limit=False).limit_s <= 50.0
    with part.phase("solve"):
        pass
    assert "solve" in budget.phases
    assert set(budget.shares) == {"model", "rest", "half"}


def test_repeatable_parts_end_with_the_whole():
    budget = Budget(100.0, nodes=5)
    assert budget.repeatable
    assert budget.part("model", 0.01).limit_s > 99.0
