"""The overview, end to end on tiny instances, and what its page says about records."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
        "units": {"time": "ns", "size": "bytes", "time_scale": 1},
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


@pytest.mark.slow
def test_run_resume_and_collect(script, tmp_path, capsys):
    overview = script("overview")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    suite = suite_file(tmp_path, "two-sends-one-port.json", bad, "missing.json")
    common = ["--suite", str(suite), "--time-limit", "3", "--out", str(tmp_path / "out")]
    common += ["--records", str(tmp_path / "runs")]
    assert overview.main(common) == 1  # the bad file
    page = (tmp_path / "out" / "overview.md").read_text()
    assert "two-sends-one-port" in page
    assert "40 ns" in page
    assert "`bad`: InputError" in page
    assert "`missing`: absent: not in instances" in page
    assert str(tmp_path) not in page
    assert os.uname().nodename not in page
    with (tmp_path / "out" / "overview.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["instance"] for row in rows] == ["two-sends-one-port", "bad", "missing"]
    assert rows[0]["value"] == rows[0]["bound"] == "40"
    assert rows[2]["stop"] == "absent"
    content = json.loads((tmp_path / "out" / "overview.json").read_text())
    assert content["suites"]["mine"]["num_rows"] == 3

    (written,) = (p for p in (tmp_path / "runs").glob("*.json") if ".plan." not in p.name)
    stamp = written.stat().st_mtime_ns
    overview.main([*common, "--resume"])
    overview.main([*common, "--collect"])
    assert written.stat().st_mtime_ns == stamp
    capsys.readouterr()
    overview.main([*common, "--collect", "--seed", "7"])
    assert "not run" in capsys.readouterr().err
    assert "`two-sends-one-port`: not run" in (tmp_path / "out" / "overview.md").read_text()


def test_a_process_that_dies_is_a_row(script, tmp_path, monkeypatch):
    runs, suites = script("runs"), script("suites")
    entry = suites.Entry("a.json", tmp_path / "a.json")
    pool = runs.Pool(runs.Settings(time_limit_s=1), tmp_path)
    monkeypatch.setattr(runs, "__file__", str(tmp_path / "dies.py"))
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    row = pool.one(entry)
    assert row["stop"] == "error"
    assert "code -9" in row["error"]


def test_a_process_that_overruns_is_ended(script, tmp_path, monkeypatch):
    runs, suites = script("runs"), script("suites")
    monkeypatch.setattr(runs, "OVERRUN_S", 0.0)
    monkeypatch.setattr(runs, "__file__", str(tmp_path / "sleeps.py"))
    (tmp_path / "sleeps.py").write_text("import time; time.sleep(600)")
    pool = runs.Pool(runs.Settings(time_limit_s=0.1), tmp_path)
    row = pool.one(suites.Entry("a.json", tmp_path / "a.json"))
    assert "ended from outside" in row["error"]


def test_a_closed_pool_starts_nothing(script, tmp_path):
    runs, suites = script("runs"), script("suites")
    pool = runs.Pool(runs.Settings(), tmp_path)
    pool.close()
    assert pool.one(suites.Entry("a.json", tmp_path / "a.json"))["stop"] == "not run"


def test_interruption_ends_the_processes_and_keeps_the_rest(script, tmp_path, monkeypatch):
    overview, suites, runs = script("overview"), script("suites"), script("runs")

    class Interrupted(runs.Pool):
        def run(self, entries, on_row):
            on_row(entries[0], record(instance="first"))
            raise KeyboardInterrupt

    entries = tuple(suites.Entry(f"{n}.json", tmp_path / f"{n}.json") for n in ("first", "second"))
    rows = overview.solve_all(
        [suites.Suite("s", "S", "", entries)], Interrupted(runs.Settings(), tmp_path)
    )
    assert [row["stop"] for row in rows["s"]] == ["time_limit", "not run"]


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
    overview, suites = script("overview"), script("suites")
    known = {("known", "makespan"): suites.Known("known", "makespan", "enumeration", 170)}
    rows = [record(**changes)]
    found = overview.concerns(rows, known)
    assert (said in found[0]) if said else not found
    assert overview.broken(rows, known) is wrong


def test_a_crash_is_broken_and_absence_is_not(script):
    overview = script("overview")
    crash = {"instance": "i", "stop": "error", "verdict": "no plan", "error": "died"}
    assert overview.broken([crash], {})
    assert not overview.broken([crash | {"stop": "absent"}], {})


@pytest.mark.untraced
def test_runs_as_a_command():
    script = INSTANCES.parent / "benchmarks" / "overview.py"
    answer = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=True
    )
    assert "--resume" in answer.stdout
