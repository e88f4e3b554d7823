"""``table RECIPE``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.study import driver
from tests.study.cases import InThisProcess

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


def test_a_recipe_becomes_table_data_and_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "Child", InThisProcess)
    folder(tmp_path)
    result = call("table", tmp_path, "--store", tmp_path / "store")
    assert result.exit_code == Exit.DONE, result.stderr
    assert result.stdout == f"{tmp_path / 'table.md'}\n"
    rows = json.loads((tmp_path / "table.json").read_text())
    assert [row["proved"] for row in rows] == [True, True]
    assert rows[0]["best_peer"] == ["somebody", 99]
    assert rows[1]["experts"]["dualpipe"] is not None
    assert all("plan" not in row for row in rows)
    assert (tmp_path / "schedules.png").read_bytes().startswith(b"\x89PNG")
    stamps = [path.stat().st_mtime_ns for path in sorted((tmp_path / "store").glob("*.json"))]
    text = (tmp_path / "table.md").read_text()
    assert "![Tiny](schedules.png)" in text

    (tmp_path / "table.md").unlink()
    assert call("table", tmp_path, "--store", tmp_path / "store").exit_code == Exit.DONE
    assert (tmp_path / "table.md").read_text() == text
    files = sorted((tmp_path / "store").glob("*.json"))
    assert [path.stat().st_mtime_ns for path in files] == stamps, "it was planned again"
    picture = (tmp_path / "schedules.png").read_bytes()
    (tmp_path / "schedules.png").write_bytes(b"old")
    result = call("table", tmp_path, "--render", "--store", tmp_path / "elsewhere")
    assert result.exit_code == Exit.DONE
    assert "as it was, its plan is not in" in result.stderr
    assert (tmp_path / "schedules.png").read_bytes() == b"old"
    result = call("table", tmp_path, "--render", "--store", tmp_path / "store")
    assert result.exit_code == Exit.DONE
    assert (tmp_path / "table.md").read_text() == text
    assert (tmp_path / "schedules.png").read_bytes() == picture


def test_nothing_to_render(tmp_path: Path) -> None:
    result = call("table", folder(tmp_path), "--render")
    assert result.exit_code == Exit.BAD_INPUT
    assert "no such file" in result.stderr
    (tmp_path / "table.json").write_text("[]")
    result = call("table", tmp_path, "--render")
    assert result.exit_code == Exit.BAD_INPUT
    assert "0 results for 2 cases" in result.stderr


def test_a_bad_recipe_is_reported(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('title = "x"\ncases = []\n')
    result = call("table", tmp_path)
    assert result.exit_code == Exit.BAD_INPUT
    assert "about" in result.stderr
