"""The overview, end to end on tiny instances, and what its page says about records."""

import csv
import json
import os
from pathlib import Path

import pytest

from milp_plan.io.known_file import KnownValue
from milp_plan.zoo import TRAPS

INSTANCES = Path(__file__).resolve().parents[2] / "instances"


def suite_file(folder: Path, *files: str) -> Path:
    path = folder / "mine.toml"
    listed = ", ".join(json.dumps(str(file)) for file in files)
    instances = Path(__file__).resolve().parents[2] / "instances"
    head = f'title = "Mine"\nabout = "Two."\nfolder = {json.dumps(str(instances))}\n'
    path.write_text(f"{head}files = [{listed}]\n")
    return path


def record(**changes):
    base = {
        "instance": "i",
        "objective": "makespan",
        "unit": "ns",
        "ticks_per_unit": 1,
        "operators": 30,
        "coarse_operators": 30,
        "value": 200,
        "bound": 150,
        "bound_name": "load",
        "gap": 0.25,
        "stop": "time_limit",
        "verdict": "ok",
        "disputed_because": None,
        "infeasible_because": None,
        "proved": False,
        "planner": "p",
        "best_baseline": 250,
        "baseline_name": "greedy",
        "seconds": 1.0,
        "phases": {"solve": 0.5},
        "model": None,
    }
    return base | changes


def test_run_and_collect(script, tmp_path, capsys):
    overview = script("overview")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    suite = suite_file(tmp_path, "gang-beats-single.json", bad, "missing.json")
    common = ["--suite", str(suite), "--out", str(tmp_path / "out")]
    common += ["--store", str(tmp_path / "store")]
    assert overview.main([*common, "--collect"]) == 1  # the bad file
    assert "`gang-beats-single`: not run" in (tmp_path / "out" / "overview.md").read_text()
    assert overview.main(common) == 1
    page = (tmp_path / "out" / "overview.md").read_text()
    assert "110 ns" in page
    assert "`bad`: line 1" in page
    assert "`missing`: absent: not in" in page
    assert os.uname().nodename not in page
    with (tmp_path / "out" / "overview.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["instance"] for row in rows] == ["gang-beats-single", "bad", "missing"]
    assert rows[0]["value"] == rows[0]["bound"] == "110"
    assert rows[2]["stop"] == "absent"
    content = json.loads((tmp_path / "out" / "overview.json").read_text())
    assert content["suites"]["mine"]["num_rows"] == 3
    (written,) = (p for p in (tmp_path / "store").glob("*.json") if ".plan." not in p.name)
    stamp = written.stat().st_mtime_ns
    assert overview.main(common) == 1
    assert written.stat().st_mtime_ns == stamp, "it was run again"
    assert (tmp_path / "out" / "overview.md").read_text() == page


@pytest.mark.parametrize(
    ("changes", "said", "wrong"),
    [
        ({}, "", False),
        ({"value": 260}, "worse than baseline greedy", False),
        ({"operators": 20}, "not proved optimal", False),
        ({"stop": "proved"}, "stopped as proved at a gap of 25.00%", False),
        ({"verdict": "DISPUTED", "disputed_because": "late"}, "check DISPUTED: late", True),
        ({"value": None, "verdict": "no plan", "gap": None}, "no plan found", False),
        ({"instance": "known", "value": 160}, "its optimum is 170 (enumeration)", True),
        ({"instance": "known", "bound": 180}, "its optimum is 170 (enumeration)", True),
    ],
)
def test_concerns(script, changes, said, wrong):
    overview = script("overview")
    known = {("known", "makespan"): KnownValue("known", "makespan", "enumeration", 170)}
    rows = [record(**changes)]
    found = overview.concerns(rows, known)
    assert (said in found[0]) if said else not found
    assert overview.broken(rows, known) is wrong


def test_a_crash_is_broken_and_absence_is_not(script):
    overview = script("overview")
    crash = {"instance": "i", "stop": "error", "verdict": "no plan", "error": "died"}
    assert overview.broken([crash], {})
    assert not overview.broken([crash | {"stop": "absent"}], {})


def test_known_values_are_those_of_the_traps(script):
    known = script("overview").known_values()
    for trap in TRAPS:
        assert known[trap.name, str(trap.problem.objective)].optimum == trap.optimum
