"""Rows of paper tables."""

from __future__ import annotations

from fractions import Fraction

import pytest

from milp_plan.io.plan_file import plan_from_json
from milp_plan.io.recipe_file import Peer, Recipe, RecipeCase
from milp_plan.kinds.pipeline.case import build
from milp_plan.run import Settings, solve
from milp_plan.study.job import do, job_of
from milp_plan.study.paper import case_of, expert_value, make_row, recipe_tasks, standing

ENTRY = RecipeCase(
    stages=4,
    micro_batches=8,
    placement="dualpipe",
    times=(1, 1, 1),
    memory=5,
    peers=(Peer("somebody", 25.5, "nowhere"),),
)
READINGS = ("dualpipe_atomic", "dualpipe_opened", "dualpipe")


def test_dualpipe_is_read_in_three_ways() -> None:
    """Source: closed form (PP/2 - 1)(F&B + B - 3W) for atomic pairs; the order itself else."""
    built = build(case_of(ENTRY))
    assert [expert_value(name, built) for name in READINGS] == [26, 25, 25]


def test_an_expert_above_the_limit_has_no_value() -> None:
    tight = RecipeCase(4, 8, "dualpipe", (1, 1, 1), memory=4)
    assert [expert_value(name, build(case_of(tight))) for name in READINGS] == [None] * 3


def test_a_row_says_what_was_found_and_who_is_ahead() -> None:
    built = build(case_of(ENTRY))
    row = make_row(ENTRY, built, solve(built.problem, Settings(time_limit_s=30)), READINGS)
    assert row["value"] == row["bound"] == row["makespan"] == 25
    assert row["proved"]
    assert row["verdict"] == "ok"
    assert row["peak_memory"] <= 5
    assert row["work"] == 24
    assert row["experts"] == dict(zip(READINGS, (26, 25, 25), strict=True))
    assert row["best_peer"] == ["somebody", 25.5]
    assert standing(row, "best_peer") == "better"
    assert standing(row, "best_expert") == "equal"
    assert standing({**row, "value": None}, "best_peer") == "worse"
    assert standing({**row, "best_peer": None}, "best_peer") == "alone"


def test_decimals_of_a_recipe_are_exact() -> None:
    case = case_of(RecipeCase(2, 2, "v", (0.1, 0.2, 0.3), transfer=0.05, freed_at_backward=0.5))
    assert case.model.pieces[0].forward == Fraction(1, 10)
    assert case.model.transfer == Fraction(1, 20)
    assert case.memory is None


def test_each_case_is_a_run_with_its_own_limit() -> None:
    small = RecipeCase(2, 2, "line", (1, 1, 1), time_limit=20.0)
    recipe = Recipe("three", "about", (small, ENTRY, small), experts=READINGS, threads=2)
    first, other, again = recipe_tasks("three", recipe)
    assert first.key == again.key != other.key
    assert first.asked["case"]["time_limit_s"] == 20.0
    assert other.asked["case"]["time_limit_s"] == recipe.time_limit
    assert first.asked["threads"] == 2
    answer = do(job_of(first))
    assert answer["status"] == "done", answer["error"]
    row = answer["outcome"]
    assert row["value"] == pytest.approx(row["bound"])
    assert plan_from_json(answer["plan"].encode()).runs
