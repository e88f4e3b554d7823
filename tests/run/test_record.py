"""The record of a run, and the files it is written to."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.check import verify
from milp_plan.core import OperatorRun, Plan
from milp_plan.io.plan_file import read_plan
from milp_plan.run import Settings, identity, kinds, solve, write_record
from milp_plan.run.ledger import Ledger
from milp_plan.run.record import RECORD_VERSION, outcome_of
from tests.check.cases import problem

from .cases import REPOSITORY, instance, quick, trap, weaken

EASY = trap("gang-beats-single").problem
"""Proved by heuristics and bounds alone, in a moment."""

SETTINGS = Settings(time_limit_s=20.0)


def test_a_record_is_plain_data(monkeypatch):
    weaken(monkeypatch)
    outcome = quick(instance("two-tower-tiny-inference-2xH100"), target=5, node_limit=1, rounds=1)
    text = json.dumps(outcome.record, allow_nan=False)
    assert json.loads(text) == outcome.record
    record = outcome.record
    assert record["record"] == RECORD_VERSION
    assert record["instance"] == "two-tower-tiny-inference-2xH100"
    assert record["fingerprint"] == outcome.problem.fingerprint
    assert (record["operators"], record["devices"]) == (11, 2)
    assert record["coarse_operators"] <= 5
    assert record["formulation"]["name"] == "operator_schedule"
    assert re.fullmatch("[0-9a-f]{64}", record["formulation"]["sha256"])
    assert (record["unit"], record["ticks_per_unit"]) == ("ns", 1)
    assert record["value_in_unit"] == str(outcome.value)
    assert record["bounds"] == {"weak": 1}
    phases = {"bounds", "baselines", "coarsen", "anneal", "build", "compile", "hand over", "solve"}
    assert phases | {"decode", "expand", "check"} <= record["phases"].keys()
    assert all(seconds >= 0 for seconds in record["phases"].values())
    assert sum(record["phases"].values()) <= record["seconds"] + 0.01
    model = record["model"]
    assert model["columns"] > 0 < model["rows"]
    assert re.fullmatch("[0-9a-f]{64}", record["model_hash"])
    assert record["window_search"]["rounds"] == 1
    assert record["settings"]["node_limit"] == 1
    assert record["trace"][0]["phase"] == "start"


def test_without_a_model_there_is_nothing_about_one():
    record = quick(EASY).record
    assert record["model"] is record["model_hash"] is record["window_search"] is None
    assert "coarse_operators" not in record


def key(a_problem=EASY, settings=SETTINGS):
    return solve(a_problem, settings).record["key"]


def test_same_question_same_key():
    assert key() == key(replace(EASY, provenance={"from": "elsewhere"}))
    assert re.fullmatch("gang-beats-single-[0-9a-f]{12}", key())


@pytest.mark.parametrize(
    "change",
    [
        {"time_limit_s": 21.0},
        {"node_limit": 9},
        {"rounds": 3},
        {"gap": 1e-3},
        {"seed": 1},
        {"threads": 999},
        {"target": 9},
        {"options": {"symmetry": False}},
        {"solver": "appsi_highs"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_settings_other_key(change):
    assert key(settings=replace(SETTINGS, **change)) != key()


def test_another_problem_another_key():
    assert key(problem("a")) != key(problem("b"))


def test_another_start_another_key():
    keys = {key(problem("a"))}
    for begin in (0, 5):
        start = Plan("p", (OperatorRun("a", "o", ("d0",), begin, begin + 10),))
        keys.add(key(problem("a"), replace(SETTINGS, start=start)))
    assert len(keys) == 3


def test_another_formulation_file_another_key(tmp_path):
    copied = tmp_path / "operator_schedule"
    shutil.copytree(REPOSITORY / "formulations" / "operator_schedule", copied)
    rows = copied / "memory_rows.py"
    keys = {key()}
    for revision in ("", "# revised\n"):
        rows.write_text(rows.read_text() + revision)
        keys.add(key(settings=replace(SETTINGS, formulation=str(copied))))
    assert len(keys) == 2, "the same text elsewhere is the same formulation"


def test_another_version_another_key(monkeypatch):
    found = identity.installed()
    assert found["milp_plan"]
    assert found["highspy"]
    before = key()
    changed = {**found, "highspy": "0.0.1"}
    monkeypatch.setattr("milp_plan.run.key.installed", lambda: changed)
    assert key() != before


# -- files ---------------------------------------------------------------------------------------


def test_both_files_are_written_and_nothing_else(tmp_path):
    folder = tmp_path / "results" / "runs"
    outcome = quick(EASY)
    for _ in range(2):
        path = write_record(outcome, folder)
        name = outcome.record["key"]
        assert path == folder / f"{name}.json"
        assert sorted(f.name for f in folder.iterdir()) == [f"{name}.json", f"{name}.plan.json"]
    assert json.loads(path.read_text()) == outcome.record
    plan = read_plan(path.with_suffix(".plan.json"))
    assert plan == outcome.plan
    verdict = verify(EASY, plan)
    assert verdict.ok
    assert verdict.value == outcome.value


def test_a_run_without_a_plan_writes_its_record(tmp_path):
    tight = trap("persistent-counted-once").problem.with_memory_scale(1, 4)
    path = write_record(quick(tight), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    outcome = quick(EASY)

    def full(*_):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_record(outcome, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_record(tmp_path, monkeypatch):
    outcome = quick(EASY)
    path = write_record(outcome, tmp_path)
    before = path.read_bytes()
    replaced = replace(outcome, record={**outcome.record, "seconds": -1.0})

    def refused(*_):
        raise OSError(13, "permission denied")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="permission"):
        write_record(replaced, tmp_path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["a/b: c", "../up", "x" * 300, "größe"])
def test_names_of_instances_that_are_no_names_of_files(tmp_path, name):
    path = write_record(quick(replace(EASY, name=name)), tmp_path)
    assert path.parent == tmp_path
    assert path.is_file()
    assert len(path.name) < 130
    assert json.loads(path.read_text())["instance"] == name


def test_a_dispute_is_the_verdict():
    books = Ledger(kinds.kind_of(EASY), EASY, SETTINGS)
    assert outcome_of(books).record["verdict"] == "no plan"
    books.offer(quick(EASY).plan, "somebody", "test")
    assert outcome_of(books).record["verdict"] == "ok"
    assert outcome_of(books).record["disputed_because"] is None
    books.dispute("so")
    books.dispute("and so")
    record = outcome_of(books).record
    assert (record["verdict"], record["disputed_because"]) == ("DISPUTED", "so")


def test_a_plan_of_ours_that_breaks_a_law_is_a_defect_on_record():
    """It was dropped in silence."""
    books = Ledger(kinds.kind_of(EASY), EASY, SETTINGS)
    half = Plan(EASY.name, quick(EASY).plan.runs[:0])
    assert not books.offer(half, "somebody", "test")
    assert not books.offer(half, "a try", "test", must_be_valid=False)
    (defect,) = outcome_of(books).record["defects"]
    assert defect.startswith("somebody made a plan that breaks a law: assignment")


def test_seconds_for_an_obstacle_are_none_of_the_bounds(monkeypatch):
    books = Ledger(kinds.kind_of(EASY), EASY, SETTINGS)
    monkeypatch.setattr(type(books.kind), "obstacle", lambda *_: "none fits")
    books.prove_infeasible()
    assert books.infeasible_reason == "none fits"
    assert set(books.budget.phases) == {"obstacle"}
    assert set(books.budget.shares) == {"obstacle"}
    books.find_bounds(0.15)
    assert set(books.budget.phases) == {"obstacle", "bounds"}
    assert books.budget.shares["bounds"] == pytest.approx(3.0)
