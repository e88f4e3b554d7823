"""The memory sweep on a tiny instance, and how plans and bounds are carried."""

import csv
from pathlib import Path

import pytest

from milp_plan.io import read
from milp_plan.zoo import TRAPS

INSTANCES = Path(__file__).resolve().parents[2] / "instances"


@pytest.mark.slow
def test_down_to_a_proof_of_infeasibility(script, tmp_path):
    memory_sweep = script("memory_sweep")
    file = INSTANCES / "memory-forces-delay.json"
    asked = [str(file), "--time-limit", "3", "--out", str(tmp_path)]
    asked += ["--records", str(tmp_path / "runs")]
    assert memory_sweep.main(asked) == 0
    with (tmp_path / "memory_sweep.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    values = [int(row["value"]) for row in rows if row["value"]]
    assert values == sorted(values)
    assert len(values) >= 1
    assert rows[-1]["proved_infeasible"]
    assert [row["limit_percent"] for row in rows][:2] == ["100", "90"]
    page = (tmp_path / "memory_sweep.md").read_text()
    assert str(tmp_path) not in page
    assert "python benchmarks/memory_sweep.py" in page
    for suffix in ("png", "svg"):
        assert (tmp_path / f"memory_sweep-memory-forces-delay.{suffix}").stat().st_size > 1000

    runs = sorted(p.stat().st_mtime_ns for p in (tmp_path / "runs").iterdir())
    assert memory_sweep.main([*asked, "--resume"]) == 0
    assert sorted(p.stat().st_mtime_ns for p in (tmp_path / "runs").iterdir()) == runs
    assert (tmp_path / "memory_sweep.md").read_text() == page


def test_a_file_that_fails_costs_its_section_only(script, tmp_path):
    memory_sweep = script("memory_sweep")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    good = INSTANCES / "gang-beats-single.json"
    asked = ["--time-limit", "2", "--out", str(tmp_path), "--records", str(tmp_path / "runs")]
    assert memory_sweep.main([str(bad), str(good), *asked]) == 1
    page = (tmp_path / "memory_sweep.md").read_text()
    assert "bad.json: InputError" in page
    assert str(tmp_path) not in page
    assert "## gang-beats-single" in page


def test_carrying_plans_up_and_bounds_down(script, tmp_path):
    memory_sweep, runs = script("memory_sweep"), script("runs")
    problem = next(t.problem for t in TRAPS if t.name == "memory-forces-delay")
    free = memory_sweep.limited(problem, None)
    record, plan = runs.recorded_solve(free, runs.Settings(time_limit_s=3), tmp_path)
    loose = memory_sweep.Point(problem.name, 100, 1, free, bound=170, bound_name="load")
    tight = memory_sweep.Point(problem.name, 90, 1, free, bound=10, bound_name="path")
    memory_sweep.carry([loose, tight], plan, record)
    assert loose.value == tight.value == record["value"]
    assert loose.origin is None
    assert (tight.bound, tight.bound_name) == (170, "load (looser limit)")
    found = memory_sweep.problems_of([loose, tight])
    assert all("above value" in line for line in found)
    loose.value = tight.value + 1
    assert any("not monotone" in line for line in memory_sweep.problems_of([loose, tight]))


def test_a_crash_at_one_limit_is_its_row(script, tmp_path, monkeypatch):
    memory_sweep = script("memory_sweep")
    problem = read(INSTANCES / "gang-beats-single.json")
    true_solve, calls = memory_sweep.recorded_solve, []

    def fails_once(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError("boom")
        return true_solve(*arguments)

    monkeypatch.setattr(memory_sweep, "recorded_solve", fails_once)
    settings = memory_sweep.Settings(time_limit_s=2)
    _, points = memory_sweep.sweep(problem, settings, tmp_path, "no")
    assert points[0].error == "ZeroDivisionError: boom"
    assert points[0].value is not None  # carried from the run without limits
    assert len(points) > 1
