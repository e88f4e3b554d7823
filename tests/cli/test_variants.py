"""What-if: plans of an instance and of its variants are starts of each other, and are checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.io.plan_file import read_plan

from .cases import call, instance_file

LIMIT = ("--time-limit", "100", "--quiet", "--json")


@pytest.mark.untraced
def test_starts_and_plans_of_variants(tmp_path: Path) -> None:
    instance, scaled = instance_file(tmp_path), ("--memory-scale", "1.2")
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    folder = ("--record-folder", tmp_path / "runs")
    result = call("solve", instance, "--plan-output", first, *folder, *LIMIT)
    assert result.exit_code == Exit.DONE
    checked = call("check", instance, first, *scaled)
    assert checked.exit_code == Exit.DONE, checked.output
    result = call(
        *("solve", instance, *scaled, "--start", first, "--plan-output", second),
        *(*folder, *LIMIT),
    )
    assert result.exit_code == Exit.DONE, result.stderr
    assert json.loads(result.stdout)["verdict"] == "ok"
    assert read_plan(second).parent == read_plan(first).fingerprint
    for options in ((), ("--memory-scale", "1.5"), ("--objective", "peak_memory")):
        checked = call("check", instance, second, *options)
        assert checked.exit_code == Exit.DONE, checked.output
    assert call("check", instance, second, "--memory-scale", "1/4").exit_code == Exit.NOT_VALID
