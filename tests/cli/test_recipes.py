"""``table RECIPE``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.cli.recipes import PARTIAL, Partial
from milp_plan.run import identity

from .cases import call

RECIPE = """
title = "Tiny"
about = "Two cases."
experts = ["dualpipe_atomic", "dualpipe"]
figure = 2
time_limit = 20

[[cases]]
stages = 2
micro_batches = 3
placement = "line"
times = [1, 2, 1]
memory = 1
peers = [{ name = "somebody", value = 99, source = "nowhere" }]

[[cases]]
stages = 2
micro_batches = 4
placement = "dualpipe"
times = [1, 1, 1]
memory = 3
"""


def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def test_a_recipe_becomes_table_data_and_figure(tmp_path: Path) -> None:
    Partial(folder(tmp_path)).add(7, {"value": 1})
    (tmp_path / "recipe.toml").write_text(RECIPE + "\n")
    result = call("table", tmp_path)
    assert result.exit_code == Exit.DONE, result.stderr
    assert "1 cases of an interrupted run are planned again: changed recipe" in result.stderr
    assert result.stdout == f"{tmp_path / 'table.md'}\n"
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [row["proved"] for row in rows] == [True, True]
    assert rows[0]["best_peer"] == ["somebody", 99]
    assert rows[1]["experts"]["dualpipe"] is not None
    assert all("plan" not in row for row in rows)
    assert (tmp_path / "schedules.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / PARTIAL).exists()
    text = (tmp_path / "table.md").read_text()
    assert "![Tiny](schedules.png)" in text

    (tmp_path / "table.md").unlink()
    result = call("table", tmp_path, "--render")
    assert result.exit_code == Exit.DONE
    assert (tmp_path / "table.md").read_text() == text


def test_finished_cases_of_an_interrupted_run_are_kept(tmp_path: Path) -> None:
    folder(tmp_path)
    Partial(tmp_path).add(0, {"value": 1})
    again = Partial(tmp_path)
    assert again.rows == {0: {"value": 1}}
    assert again.note.endswith("1 cases of an interrupted run are used again")
    (tmp_path / "recipe.toml").write_text(RECIPE + "\n")
    changed = Partial(tmp_path)
    assert changed.rows == {}
    assert changed.note.endswith("are planned again: changed recipe")


def test_cases_planned_by_other_sources_are_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path)
    Partial(tmp_path).add(0, {"value": 1})
    monkeypatch.setattr(identity, "sources", lambda: "others")
    changed = Partial(tmp_path)
    assert changed.rows == {}
    assert changed.note.endswith("are planned again: changed sources")
    changed.add(1, {"value": 2})
    assert Partial(tmp_path).rows == {1: {"value": 2}}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": {"x": 1}}', '{"rows": []}'])
def test_a_broken_file_of_finished_cases_counts_for_nothing(tmp_path: Path, text: str) -> None:
    folder(tmp_path)
    (tmp_path / PARTIAL).write_text(text)
    partial = Partial(tmp_path)
    assert (partial.rows, partial.note) == ({}, "")


def test_nothing_to_render(tmp_path: Path) -> None:
    result = call("table", folder(tmp_path), "--render")
    assert result.exit_code == Exit.BAD_INPUT
    assert "no such file" in result.stderr
    (tmp_path / "table.json").write_text("[]")
    result = call("table", tmp_path, "--render")
    assert result.exit_code == Exit.BAD_INPUT
    assert "0 results for 2 cases" in result.stderr


def test_a_bad_recipe_is_told(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('title = "x"\ncases = []\n')
    result = call("table", tmp_path)
    assert result.exit_code == Exit.BAD_INPUT
    assert "about" in result.stderr
