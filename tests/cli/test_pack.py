"""``pack``: addresses for the copies of a plan."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit

from .cases import call, instance_file, late_plan, plan_file


def test_addresses_on_every_device(tmp_path: Path) -> None:
    table, picture = tmp_path / "addresses.csv", tmp_path / "addresses.png"
    files = (instance_file(tmp_path), plan_file(tmp_path))
    result = call("pack", *files, "--quiet", "--output", table, "--plot", picture)
    assert result.exit_code == Exit.DONE
    assert result.stdout.startswith("two-devices: fragmentation at most 0.00%\n")
    assert "proved lowest" in result.stdout
    assert picture.stat().st_size > 5_000
    rows = list(csv.DictReader(table.read_text().splitlines()))
    reported = json.loads(call("pack", *files, "--quiet", "--json").stdout)
    assert {row["device"] for row in rows} == {entry["device"] for entry in reported["memories"]}
    for entry in reported["memories"]:
        ends = [int(r["offset"]) + int(r["size"]) for r in rows if r["device"] == entry["device"]]
        assert (len(ends), max(ends)) == (entry["copies"], entry["height"])
        assert (entry["load"], entry["fits"], entry["proved"]) == (entry["height"], True, True)
    assert {row["kind"] for row in rows} <= {"persistent", "workspace", "native", "copy"}


def test_json_file_and_what_stands_there_already(tmp_path: Path) -> None:
    files = (instance_file(tmp_path), plan_file(tmp_path))
    out = tmp_path / "addresses.json"
    assert call("pack", *files, "--quiet", "--output", out, "--alignment", "256").exit_code == 0
    document = json.loads(out.read_text())
    assert document["instance"] == "two-devices"
    assert document["addresses"]
    assert all(entry["offset"] % 256 == 0 for entry in document["addresses"])
    assert call("pack", *files, "--quiet", "--output", out).exit_code == Exit.DONE
    taken = call("pack", *files, "--quiet", "--output", files[1])
    assert taken.exit_code == Exit.USAGE
    wrong = call("pack", *files, "--quiet", "--output", tmp_path / "addresses.txt")
    assert (wrong.exit_code, ".csv or .json" in wrong.stderr) == (Exit.USAGE, True)


def test_a_plan_that_breaks_a_law_gets_none(tmp_path: Path) -> None:
    files = (instance_file(tmp_path), plan_file(tmp_path, late_plan()))
    result = call("pack", *files, "--quiet", "--json")
    reported = json.loads(result.stdout)
    assert (result.exit_code, reported["verdict"], reported["memories"]) == (7, "violated", [])
    assert "not valid" in reported["errors"][0]


def test_alignment_beyond_the_memory_is_reported(tmp_path: Path) -> None:
    files = (instance_file(tmp_path), plan_file(tmp_path))
    result = call("pack", *files, "--quiet", "--alignment", 2**40)
    assert result.exit_code in (Exit.NO_PLAN, Exit.INFEASIBLE)
    assert "never" in result.stdout or " no " in result.stdout


@pytest.mark.parametrize("kind", ["packing"])
def test_plans_without_copies(kind: str, tmp_path: Path) -> None:
    file, plan = tmp_path / "one.csv", tmp_path / "plan.csv"
    file.write_text("id,lower,upper,size\na,0,1,1\n")
    plan.write_text("id,offset\na,0\n")
    result = call("pack", file, plan, "--quiet")
    assert result.exit_code == Exit.BAD_INPUT
    assert f"plans of the kind {kind!r} have no copies to place" in result.stderr
