"""Plans beside each other: ``diff`` and ``sweep`` of the public face."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import milp_plan

from .kinds import PROBLEMS
from .test_shown import read_html

mp: Any = milp_plan


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_plan_with_itself_is_not_different(kind: str) -> None:
    outcome = mp.solve(PROBLEMS[kind], time_limit=20)
    found = mp.diff(outcome, outcome.plan)
    assert (found.change, found.moves, found.components) == (0, (), {})
    assert found.before.bound == outcome.bound
    assert "nothing is treated differently" in str(found)
    assert repr(found).startswith(f"<Comparison {PROBLEMS[kind].name}: ")


def test_what_differs_is_reported_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    problem = PROBLEMS["schedule"]
    best = mp.solve(problem, time_limit=20)
    worse = mp.explain(problem, best.plan, what_if="move:m1=d0", time_limit=20).effects[0].result
    found = mp.diff(best.plan, worse.plan, problem=problem)
    assert found.change == worse.value - best.value == 55
    assert found.moves
    for shown in (str(found), read_html(found), str(pickle.loads(pickle.dumps(found)))):
        assert "makespan 110 ns -> 165 ns: worse by 55 ns" in shown
        assert "m1" in shown
    assert len(found.draw(tmp_path / "both.png").axes) >= 2
    assert (tmp_path / "both.png").stat().st_size > 1000


def test_variants_have_problems_of_their_own() -> None:
    problem = PROBLEMS["packing"]
    plan = mp.solve(problem, time_limit=20).plan
    wide = mp.sweep(problem, memory=2, time_limit=20).points[0]
    found = mp.diff(plan, wide.found.plan)
    assert found.after.problem is wide.problem
    assert found.change == 0
    stranger = mp.diff(plan, wide.found.plan, problem=problem, variant=wide.problem)
    assert stranger.after.problem is wide.problem


def test_what_cannot_be_compared_is_refused_in_words() -> None:
    problem = PROBLEMS["schedule"]
    outcome = mp.solve(problem, time_limit=20)
    with pytest.raises(mp.InputError, match=r"say diff\(..., problem=...\)"):
        mp.diff(outcome, milp_plan.Plan("far", ()))
    with pytest.raises(mp.InputError, match="a packing problem"):
        mp.diff(outcome, mp.solve(PROBLEMS["packing"], time_limit=20))
    model = mp.Model("tight", time_unit="ns")
    model.add_device(memory=10)
    model.add_operator("a", 1, workspace=20)
    with pytest.raises(mp.InputError, match="after: found no plan"):
        mp.diff(outcome, mp.solve(model, time_limit=20))


def test_a_problem_under_many_limits(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    problem = PROBLEMS["packing"]
    found = mp.sweep(problem, memory="1/2,1:2:1", time_limit=20, store=tmp_path / "kept")
    assert [point.value for point in found.points] == [None, 10, 10]
    assert [point.settings["memory"] for point in found.front] == [1]
    assert not found.interrupted
    frame = found.to_frame()
    assert list(frame["value"]) == [None, 10, 10]
    assert list(frame["front"]) == [False, True, False]
    assert "capacity" in frame["infeasible_because"][0] or frame["infeasible_because"][0]
    for shown in (str(found), read_html(found)):
        assert "no plan exists" in shown
        assert shown.count("proved optimal") == 2
    assert found.draw(tmp_path / "front.png").axes
    assert (tmp_path / "front.png").stat().st_size > 1000
    again = mp.sweep(problem, memory=[0.5, 1, np.int64(2)], time_limit=20, store=tmp_path / "kept")
    assert all(point.again for point in again.points)
    assert [point.value for point in again.points] == [None, 10, 10]


def test_without_a_store_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = (np.float64(1.0), Fraction(6, 5))
    found = mp.sweep(PROBLEMS["packing"], memory=steps, time_limit=20)
    assert [point.value for point in found.points] == [10, 10]
    assert list(tmp_path.iterdir()) == []
    assert found.points[0].found.plan.to_frame()["end"].max() == 10


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "nothing to vary"),
        ({"memory": "much"}, "sweep, memory: found 'much'"),
        ({"memory": "2:1:1"}, "first:last:step"),
        ({"bandwidth": [0]}, "sweep, bandwidth: found 0"),
        ({"devices": 1.5}, "sweep, devices: found 1.5, expected whole numbers"),
        ({"memory": 1, "time_limit": "soon"}, "sweep, time_limit: found 'soon'"),
    ],
)
def test_what_is_no_factor_is_refused_in_words(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(mp.InputError, match=words):
        mp.sweep(PROBLEMS["schedule"], **asked)


def test_what_means_nothing_for_a_problem_is_refused() -> None:
    with pytest.raises(mp.MilpPlanError, match="bandwidth: without meaning here"):
        mp.sweep(PROBLEMS["packing"], bandwidth=2)
