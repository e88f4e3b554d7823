"""Curves of step time against memory on a tiny instance."""

import pytest

from milp_plan.zoo import TRAPS

from .conftest import rows_of


@pytest.mark.slow
def test_curves_are_consistent(page):
    case = {"file": "gpt-tiny-training-2xA100.json", "limit_s": 4, "free_s": 4, "seed": 0}
    case |= {"percents": [100, 90, 60], "full_bytes": 168_696_864}
    code, text, folder = page("paper/memory-curves", "memory_curves", [case])
    assert code == 0
    (row,) = rows_of(folder)
    assert len(row["points"]) == 12
    assert [point["value"] for point in row["points"][-4:]] == [row["free"]] * 4
    assert "## gpt-tiny-training-2xA100" in text
    assert (folder / "gpt-tiny-training-2xA100.png").stat().st_size > 1000


def test_the_best_valid_plan_is_the_start(script):
    curves = script("memory_curves")
    problem = next(t.problem for t in TRAPS if t.name == "memory-forces-delay")
    assert curves.best_of(problem, []) is None


def test_a_curve_above_one_with_fewer_ways_is_reported(script):
    curves = script("memory_curves")
    points = [
        {"percent": 90, "limit_bytes": 9, "way": way, "value": value, "infeasible": ""}
        for way, value in (("none", 5), ("both", 6))
    ]
    row = {"instance": "x", "points": points}
    assert curves.complaints([row]) == ["x: both at 90 % is worse than none at 90 %"]
    points[1]["value"] = 5
    assert curves.complaints([row]) == []
    points[1]["infeasible"] = "no room"
    assert curves.complaints([row]) == ["x at 90 %: a plan and a proof"]
