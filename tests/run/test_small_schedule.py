"""Few operators: when every placement is looked at."""

from __future__ import annotations

import pytest

from milp_plan.backends import Stop
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.strategies import small_schedule
from milp_plan.run.loop_parts import LoopPart
from milp_plan.zoo import TRAPS
from tests.support.pipeline_of_groups import OPTIMUM, pipeline_of_groups

from .cases import WEAK_BOUND, quick

TRAP = next(trap for trap in TRAPS if trap.name == "fan-out-one-send")


def phases(**changes: object) -> set[str]:
    """What a run of a small problem took its time for."""
    found = quick(TRAP.problem, **changes)
    assert found.record["stop"] == Stop.PROVED.value
    assert found.value == TRAP.optimum
    return set(found.record["phases"])


@pytest.fixture(autouse=True)
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be compiled, and nothing is too small."""
    monkeypatch.setattr(LoopPart, "on_disk", True)
    monkeypatch.setattr(small_schedule, "BOUNDS_FIRST", 0)


def test_it_comes_before_bounds_and_after_baselines() -> None:
    """It proved unet-inference two seconds later, behind bounds that do not."""
    assert {"baselines", "enumerate"} <= phases()
    assert "bounds" not in phases()


def test_bounds_come_first_where_loading_its_loops_would_take_their_time() -> None:
    assert "bounds" in phases(time_limit_s=small_schedule.LEAST_S - 0.5)


def test_bounds_come_first_where_they_take_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_schedule, "BOUNDS_FIRST", len(TRAP.problem.graph.operators) + 1)
    assert "bounds" in phases()


def test_bounds_come_first_where_a_run_must_be_repeatable() -> None:
    assert "bounds" in phases(node_limit=10)


def test_what_a_moment_leaves_open_is_looked_at_behind_the_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_schedule, "BEGIN_S", 0.0)
    assert "bounds" in phases()


def test_a_formulation_by_name_is_asked() -> None:
    assert "enumerate" not in phases(formulation="operator_schedule")


def test_a_run_proves_many_operators_of_few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the search, whatever other bounds prove."""
    monkeypatch.setattr(catalogue, "all_bounds", lambda *_: iter([WEAK_BOUND]))
    found = quick(pipeline_of_groups(), node_limit=1)
    assert found.record["stop"] == Stop.PROVED.value
    assert (found.value, found.record["bound_name"]) == (OPTIMUM, "clause learning")
