"""The recipe of the sharding contest: rows are kept, pages say what the rows say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from milp_plan.core.sharding import sharding_problem
from milp_plan.io.iopddl import write_iopddl


@pytest.fixture
def row(script):
    sizes = dict.fromkeys(
        ("operators", "edges", "strategies", "rows_before", "operators_left", "edges_left"), 7
    )
    return script("iopddl").Row(
        instance="B",
        limit_s=60.0,
        **sizes,
        strategies_left=5,
        rows_left=3,
        cost=532_843,
        bound=532_843,
        gap=0.0,
        proved=True,
        checked=True,
        seconds=2.5,
        reading_and_reducing_s=0.4,
        peak_mib=99,
    )


def test_runs_are_repeated_one_by_one_and_the_others_kept(script, row, tmp_path, monkeypatch):
    recipe = script("iopddl")
    asked = []

    def measure(name, path, limit_s):
        asked.append((name, path.name, limit_s))
        return replace(row, instance=name, cost=1000 + len(asked), bound=990, proved=False)

    monkeypatch.setattr(recipe, "measure", measure)
    common = ["--files", str(tmp_path), "--out", str(tmp_path)]
    assert recipe.main([*common, "--instances", "V", "A"]) == 0
    assert recipe.main([*common, "--instances", "V", "--scale", "0.5"]) == 0
    assert asked[0] == ("V", "asplos-2025-iopddl-V.json.gz", 300.0)
    assert asked[2][2] == 150.0
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [(found["instance"], found["cost"]) for found in rows] == [("A", 1002), ("V", 1003)]
    page = (tmp_path / "table.md").read_text()
    assert recipe.main([*common, "--page-only"]) == 0
    assert (tmp_path / "table.md").read_text() == page
    assert "| V | 1,003 | 990 | 0.0000% | — |" in page


def test_a_run_that_is_not_checked_fails(script, row, tmp_path, monkeypatch):
    recipe = script("iopddl")
    monkeypatch.setattr(recipe, "measure", lambda *_: replace(row, checked=False))
    common = ["--files", str(tmp_path), "--out", str(tmp_path)]
    assert recipe.main([*common, "--instances", "B"]) == 1
    assert "| NO |" in (tmp_path / "table.md").read_text()


def test_the_page_compares_with_what_is_published(script, row):
    recipe = script("iopddl")
    published = recipe.read_published(recipe.FOLDER / "published.csv")
    assert list(published) == ["A", "B", "G", "K", "M", "S", "V"]
    better = replace(row, instance="S", cost=1_500_000_000, bound=1_485_000_000, gap=0.01)
    record = {"command": "again", "versions": {}, "machine": {}}
    page = recipe.page([row, better], published, record)
    said = "2 at most the winner's on two cores, 2 at most the contest's best, 2 at most the later"
    assert f"Of 2 instances: {said} best, 1 below it." in page
    assert "-1.442%" in page
    assert "median gap 0.500%" in page


@pytest.mark.slow
def test_the_command_is_measured_and_its_solution_checked(script, tmp_path):
    problem = sharding_problem(
        "tiny",
        [[9, 1], [9, 1]],
        usages=[[0, 5], [0, 5]],
        edges={(0, 1): [[0, 3], [3, None]]},
        limit=5,
    )
    write_iopddl(problem, tmp_path / "tiny.json.gz")
    found = script("iopddl").measure("tiny", tmp_path / "tiny.json.gz", 30.0)
    assert (found.cost, found.bound, found.proved, found.checked) == (13, 13, True, True)
    assert found.peak_mib > 10
