"""Suites list what there is, and say what is absent."""

import pytest

from milp_plan.core import InputError
from milp_plan.zoo import SHIPPED, TRAPS


def test_suites_hold_every_instance_of_the_repository(script):
    suites = script("suites")
    stems = {e.stem for name in ("shipped", "traps") for e in suites.load_suite(name).entries}
    assert stems == {r.name for r in SHIPPED} | {t.name for t in TRAPS}
    assert all(not e.absent for n in ("shipped", "traps") for e in suites.load_suite(n).entries)


def test_absent_files_are_listed_with_the_reason(script, monkeypatch, tmp_path):
    suites = script("suites")
    monkeypatch.setenv("MILP_PLAN_BENCHMARKS", str(tmp_path))
    entries = suites.load_suite("dnn-partitioning").entries
    assert len(entries) == 19
    assert all("MILP_PLAN_BENCHMARKS" in e.absent and "github.com" in e.absent for e in entries)
    assert all(str(tmp_path) not in e.absent for e in entries)
    there = tmp_path / entries[0].label
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    again = suites.load_suite("dnn-partitioning").entries
    assert [bool(e.absent) for e in again] == [False] + 18 * [True]


def test_without_the_variable_the_way_to_set_it_is_named(script, monkeypatch, tmp_path):
    suites = script("suites")
    monkeypatch.delenv("MILP_PLAN_BENCHMARKS", raising=False)
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "t"\nabout = "a"\nvariable = "SOME_FOLDER"\nfolder = "nowhere"\nfiles = ["x.json"]'
    )
    (entry,) = suites.load_suite(str(file)).entries
    assert entry.absent == "not in nowhere; set SOME_FOLDER to their folder"
    assert entry.stem == "x"


def test_a_suite_with_a_wrong_member_is_refused(script, tmp_path):
    suites = script("suites")
    file = tmp_path / "mine.toml"
    file.write_text('title = "t"\nabout = "a"\nfile = []\nfolder = "."')
    with pytest.raises(InputError, match="file: found an unknown field"):
        suites.load_suite(str(file))


def test_known_values_are_those_of_the_traps(script):
    known = script("suites").known_values()
    for trap in TRAPS:
        assert known[trap.name, str(trap.problem.objective)].optimum == trap.optimum
