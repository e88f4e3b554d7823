"""``table``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from milp_plan.cli.exits import Exit

from .cases import call


def record(folder: Path, name: str, when: int, **changes: Any) -> Path:
    """Write a record of a run, as old as ``when`` says."""
    content = {
        "instance": "a",
        "fingerprint": "f",
        "operators": 3,
        "objective": "makespan",
        "unit": "ticks",
        "ticks_per_unit": 1,
        "proved": False,
        "verdict": "ok",
        "strategy": "schedule",
        "settings": {"seed": 0},
        "trace": [],
        "value": 14,
        "bound": 9,
        "gap": 0.357,
        "stop": "time_limit",
        "seconds": 1.0,
        "phases": {"solve": 0.5},
    } | changes
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    os.utime(path, (when, when))
    return path


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two runs of one problem, one of another, and a plan."""
    record(tmp_path, "z-first", 1, value=20)
    record(tmp_path, "a-second", 2, value=14)
    record(tmp_path, "other", 3, instance="b", fingerprint="g", operators=2)
    (tmp_path / "z-first.plan.json").write_text("{}")
    return tmp_path


def test_latest_run_of_each_problem_by_size(records: Path) -> None:
    result = call("table", "--record-folder", records)
    assert result.exit_code == Exit.DONE
    rows = [line for line in result.stdout.splitlines() if line.startswith("|")][2:]
    assert [row.split(" | ")[0] for row in rows] == ["| b", "| a"]
    assert " 14 " in rows[1]
    assert "Median gap" in result.stdout


def test_every_run(records: Path) -> None:
    reported = json.loads(call("table", "--record-folder", records, "--all", "--json").stdout)
    assert [row["value"] for row in reported["rows"]] == [14, 20, 14]


def test_into_a_file(records: Path, tmp_path: Path) -> None:
    target = tmp_path / "overview.md"
    result = call("table", "--record-folder", records, "--output", target)
    assert result.stdout == f"{target}: 2 runs\n"
    assert target.read_text().startswith("| instance |")


@pytest.mark.parametrize("text", ["{", "[]", '{"instance": "x"}'])
def test_what_is_no_record_is_named(text: str, records: Path) -> None:
    (records / "odd.json").write_text(text)
    result = call("table", "--record-folder", records)
    assert result.exit_code == Exit.BAD_INPUT
    assert f"error: {records / 'odd.json'}: " in result.stderr
    assert "| b |" in result.stdout


def test_an_empty_file_is_named(records: Path) -> None:
    (records / "odd.json").write_text("")
    result = call("table", "--record-folder", records)
    assert result.exit_code == Exit.BAD_INPUT
    assert "an empty file" in result.stderr


def test_no_records(tmp_path: Path) -> None:
    result = call("table", "--record-folder", tmp_path / "none")
    assert result.exit_code == Exit.BAD_INPUT
    assert "milp-plan solve" in result.stderr


def test_a_member_that_a_hand_has_changed_is_named(records: Path) -> None:
    odd = record(records, "odd", 4, seconds="long")
    result = call("table", "--record-folder", records)
    assert result.exit_code == Exit.BAD_INPUT
    assert f"error: {odd}: seconds: found " in result.stderr
