"""Small problems: what proves most of them in a second comes before bounds and list schedules."""

import pytest

from milp_plan.core.budget import Budget
from milp_plan.run.kinds.schedule import KIND
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import Settings
from milp_plan.run.ways import schedule
from milp_plan.run.ways.schedule import ScheduleWay
from milp_plan.zoo import generate

pytestmark = pytest.mark.untraced


def way_of(settings, monkeypatch, *, kept=True):
    monkeypatch.setattr(schedule, "kept", lambda _loop: kept)
    problem = generate("gpt-tiny", "2xV100", mode="inference", batch=1)
    return ScheduleWay(Ledger(KIND, problem, settings, Budget(600.0, settings.node_limit)))


def wanted(way):
    return [step.name for step in way.steps() if step.wanted()]


def test_a_small_problem_is_proved_before_bounds(monkeypatch):
    way = way_of(Settings(time_limit_s=600.0), monkeypatch)
    monkeypatch.setattr(way.ledger, "find_bounds", lambda _share: pytest.fail("not needed"))
    way.go()
    assert way.ledger.value == way.ledger.lower
    assert way.ledger.bound.name == "enumeration"


def test_what_is_left_open_is_gone_on_with_later(monkeypatch):
    way = way_of(Settings(time_limit_s=600.0), monkeypatch)
    monkeypatch.setattr(schedule, "AT_FIRST", 0)
    way.enumerate_some()
    first = way.enumeration
    assert not way.ledger.settled
    way.enumerate()
    assert way.enumeration is first
    assert way.ledger.settled


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (Settings(time_limit_s=600.0), False),
        (Settings(time_limit_s=600.0, node_limit=9), True),
        (Settings(time_limit_s=600.0, formulation="operator_schedule"), True),
    ],
    ids=["loops to compile", "repeatable", "a model was asked for"],
)
def test_it_comes_later_where_that_costs_seconds_or_repeatability(settings, kept, monkeypatch):
    names = wanted(way_of(settings, monkeypatch, kept=kept))
    assert "bounds" in names
    assert "enumeration, first" not in names
