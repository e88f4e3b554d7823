"""The memory sweep on a tiny instance, and how plans and bounds are carried."""

from pathlib import Path

import pytest

from milp_plan.kinds.schedule.formats import read
from milp_plan.run import Settings, solve
from milp_plan.zoo import TRAPS

from .conftest import rows_of

INSTANCES = Path(__file__).resolve().parents[2] / "instances"


@pytest.mark.slow
def test_down_to_a_proof_of_infeasibility(page):
    case = {"file": "memory-forces-delay.json", "limit_s": 3, "seed": 0}
    code, text, folder = page("memory", "memory_sweep", [case])
    assert code == 0
    (row,) = rows_of(folder)
    values = [point["value"] for point in row["points"] if point["value"]]
    assert values == sorted(values)
    assert len(values) >= 1
    assert row["points"][-1]["infeasible"]
    assert [point["percent"] for point in row["points"]][:2] == [100, 90]
    assert "## memory-forces-delay" in text
    assert "| 100 % |" in text
    for suffix in ("png", "svg"):
        assert (folder / f"memory-forces-delay.{suffix}").stat().st_size > 1000


def test_carrying_plans_up_and_bounds_down(script):
    memory_sweep = script("memory_sweep")
    problem = next(t.problem for t in TRAPS if t.name == "memory-forces-delay")
    free = memory_sweep.limited(problem, None)
    outcome = solve(free, Settings(time_limit_s=3))
    loose = memory_sweep.Point(100, 1, free, bound=170, bound_name="load")
    tight = memory_sweep.Point(90, 1, free, bound=10, bound_name="path")
    memory_sweep.carry([loose, tight], outcome)
    assert loose.value == tight.value == outcome.value
    assert loose.origin is None
    assert (tight.bound, tight.bound_name) == (170, "load (looser limit)")
    found = memory_sweep.problems_of([loose, tight])
    assert all("above value" in line for line in found)
    loose.value = tight.value + 1
    assert any("not monotone" in line for line in memory_sweep.problems_of([loose, tight]))


def test_a_crash_at_one_limit_is_its_row(script, monkeypatch):
    memory_sweep = script("memory_sweep")
    problem = read(INSTANCES / "gang-beats-single.json")
    calls = []

    def fails_once(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError("boom")
        return solve(*arguments)

    monkeypatch.setattr(memory_sweep, "solve", fails_once)
    points = memory_sweep.sweep(problem, Settings(time_limit_s=2))
    assert points[0].error == "ZeroDivisionError: boom"
    assert points[0].value is not None  # carried from the run without limits
    assert len(points) > 1
    assert memory_sweep.problems_of(points) == ["100 %: ZeroDivisionError: boom"]


def test_page_of_stored_rows(page_again):
    assert page_again("memory").count("proved by the solver") >= 2
