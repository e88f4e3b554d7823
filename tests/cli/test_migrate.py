"""``migrate``: the shipped example, its files, and plans of different models."""

from __future__ import annotations

import json
from pathlib import Path

from milp_plan.cli.exits import Exit

from .cases import call

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "migrate"
BEFORE, AFTER = FOLDER / "four-hosts.json", FOLDER / "three-left.json"


def test_a_host_leaves(tmp_path: Path) -> None:
    instance, plan = tmp_path / "move.json", tmp_path / "plan.json"
    files = ("--instance-output", instance, "--plan-output", plan)
    done = call("migrate", BEFORE, AFTER, "--time-limit", "1", *files, "--json")
    assert done.exit_code == Exit.DONE, done.stderr
    reported = json.loads(done.stdout)
    assert 0 < reported["moved_bytes"] < reported["needed_bytes"]
    assert reported["value"] >= reported["bound"] > 0
    checked = json.loads(call("check", instance, plan, "--json").stdout)
    assert (checked["verdict"], checked["value"]) == ("ok", reported["value"])
    assert "not there already" in call("migrate", BEFORE, AFTER, "--time-limit", "0.1").stdout
    same = json.loads(call("migrate", BEFORE, BEFORE, "--time-limit", "60", "--json").stdout)
    assert (same["moved_bytes"], same["value"], same["proved"]) == (0, 0, True)


def test_plans_of_different_models(tmp_path: Path) -> None:
    other = json.loads(AFTER.read_text())
    other["parameters"] = other["parameters"][:1]
    file = tmp_path / "other.json"
    file.write_text(json.dumps(other))
    done = call("migrate", BEFORE, file)
    assert done.exit_code == Exit.BAD_INPUT
    assert "the same model" in done.stderr
    assert call("migrate", BEFORE, AFTER, "--card", "fast").exit_code == Exit.USAGE
