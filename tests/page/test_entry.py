"""What a report is told: records, plans and instances that belong together, or an error."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.report.page import read_entry
from milp_plan.report.page.plots import short_name
from milp_plan.run.change import changes_to_text
from milp_plan.run.kinds import changes_from_text
from tests.cli.cases import call, late_plan
from tests.report.plans import plan_of_two_devices
from tests.study.cases import QUICK, TINY, suite_file

from .runs import run_files


def test_an_entry_finds_plan_and_instance(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path)
    entry = read_entry(path)
    assert (entry.name, entry.problem.name) == ("run", "two-devices")
    assert entry.verdict is not None
    assert (entry.verdict.ok, entry.verdict.value) == (True, 14_000)
    assert [panel.title for panel in entry.panels] == ["Timeline", "Memory", "Utilisation"]


def test_long_names_of_rows_keep_their_shares() -> None:
    """``receive accelerator0: 7…`` was all there was to see."""
    assert short_name("receive accelerator0: 73 %") == "receive accele…or0: 73 %"
    assert short_name("accelerator0: 73 %") == "accelerator0: 73 %"


def test_the_instance_may_be_elsewhere(tmp_path: Path) -> None:
    path, instance = run_files(tmp_path)
    moved = instance.rename(tmp_path / "moved.json")
    with pytest.raises(InputError, match="--instance"):
        read_entry(path)
    assert read_entry(path, [moved]).verdict is not None


def test_a_broken_plan_is_an_entry(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path, late_plan())
    entry = read_entry(path)
    assert entry.verdict is not None
    assert not entry.verdict.ok
    assert entry.panels


def test_a_run_without_a_plan_needs_no_other_file(tmp_path: Path) -> None:
    path, instance = run_files(tmp_path, value=None, infeasible_reason="too large")
    instance.unlink()
    path.with_name("run.plan.json").unlink()
    entry = read_entry(path)
    assert (entry.verdict, entry.panels) == (None, ())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path, told: path.with_name("run.plan.json").unlink(), "run.plan.json"),
        (lambda path, told: path.write_text(json.dumps(told | {"value": 13_000})), "13000, where"),
        (lambda path, told: path.write_text(json.dumps(told | {"trace": 3})), "trace"),
        (lambda path, told: path.write_text(json.dumps(told | {"fingerprint": "0"})), "another"),
        (lambda path, told: path.write_text(json.dumps(told | {"instance_file": 7})), "say where"),
        (lambda path, told: path.write_text(json.dumps(told | {"changes": [1]})), "changes"),
        (
            lambda path, told: path.write_text(json.dumps(told | {"changes": {"host": "x"}})),
            "changes.host",
        ),
        (lambda path, told: path.write_text("{}"), "a record of a run"),
        (lambda path, told: path.unlink(), "run.json"),
    ],
    ids=["plan", "value", "trace", "fingerprint", "where", "list", "change", "other", "missing"],
)
def test_what_does_not_belong_together_is_one_clear_error(damage, said, tmp_path: Path) -> None:
    path, _ = run_files(tmp_path)
    damage(path, json.loads(path.read_text()))
    with pytest.raises(InputError) as caught:
        read_entry(path)
    (finding,) = caught.value.findings
    assert said in str(finding)
    assert str(tmp_path) in str(finding)


def test_the_plan_of_another_instance_is_refused(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path, replace(plan_of_two_devices(), problem="other", fingerprint="f"))
    with pytest.raises(InputError, match=r"run\.plan\.json"):
        read_entry(path)


def test_changes_are_read_again_as_they_were_asked(tmp_path: Path) -> None:
    words = {"memory_scale": "4/5", "host": "1024@7", "recompute": True, "objective": "makespan"}
    assert changes_to_text(changes_from_text(words, "record.json")) == words
    assert changes_to_text({"recompute": False, "host": None}) == {}


def test_solve_tells_its_record_what_a_report_needs(tmp_path: Path) -> None:
    _, instance = run_files(tmp_path)
    solved = ("--memory-scale", "7/5", "--time-limit", 5, "--quiet", "--record-folder")
    folder = tmp_path / "records"
    assert call("solve", instance, *solved, folder).exit_code == Exit.DONE
    (path,) = (p for p in folder.glob("*.json") if not p.name.endswith(".plan.json"))
    assert json.loads(path.read_text())["changes"] == {"memory_scale": "7/5"}
    assert read_entry(path).verdict is not None


def test_the_store_of_a_suite_tells_what_a_report_needs(tmp_path: Path) -> None:
    roomy = '[[variations]]\nname = "roomy"\nmemory_scale = "3/2"\n'
    suite = suite_file(tmp_path, QUICK + roomy, files=(TINY[0], TINY[2]))
    store = tmp_path / "store"
    call("bench", "run", suite, "--store", store, "--jobs", 1)
    paths = [path for path in store.glob("*.json") if not path.name.endswith(".plan.json")]
    entries = [read_entry(path) for path in paths]
    names = {entry.name for entry in entries}
    assert "gang-beats-single, roomy, heft, seed 0" in names
    assert len(names) == len(entries) == 4
    planned = [entry for entry in entries if entry.verdict is not None]
    assert len(planned) >= 2
    assert all(entry.verdict.ok and entry.panels for entry in planned)
    assert {entry.record["changes"]["memory_scale"] for entry in entries} == {"3/2"}


def test_a_run_of_a_store_that_failed_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "failed.json"
    path.write_text('{"store": 1, "status": "failed", "error": "no memory", "outcome": null}')
    with pytest.raises(InputError, match=r"failed\.json.*ended as failed: no memory"):
        read_entry(path)


def test_without_the_library_there_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bokeh", "bokeh.plotting"):
        monkeypatch.setitem(sys.modules, name, None)
    path, _ = run_files(tmp_path)
    result = call("report", path, "-o", tmp_path / "page.html")
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert "pip install 'milp_plan[report]'" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_outputs_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    path, instance = run_files(tmp_path)
    other = tmp_path / "other.html"
    other.write_text("<!DOCTYPE html><p>mine")
    for output, said in (
        (path, "expected a name that ends in .html"),
        (tmp_path / "page.txt", "expected a name that ends in .html"),
        (other, "holds something else"),
    ):
        result = call("report", path, "--instance", instance, "-o", output)
        assert result.exit_code == Exit.USAGE
        assert said in result.stderr
    assert other.read_text() == "<!DOCTYPE html><p>mine"
