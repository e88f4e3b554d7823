"""``solve --start``: last week's plan, times measured anew; ``export --format places``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import milp_plan as mp
from milp_plan.cli.exits import Exit
from tests.report.plans import plan_of_two_devices, two_devices

from .cases import call, instance_file, plan_file

LIMIT = ("--time-limit", "60", "--quiet", "--record-folder", "runs", "--json")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measured_anew(ticks: int = 1) -> mp.PlanningProblem:
    """The problem of two devices whose first operator takes a little longer."""
    problem = two_devices()
    first, *rest = problem.graph.operators
    options = tuple(
        replace(option, duration_ticks={c: ns + ticks for c, ns in option.duration_ticks.items()})
        for option in first.options
    )
    operators = (replace(first, options=options), *rest)
    return replace(problem, graph=replace(problem.graph, operators=operators))


def test_one_duration_more_does_not_lose_a_plan(here: Path) -> None:
    instance, plan = instance_file(here, measured_anew()), plan_file(here)
    assert call("check", instance, plan).exit_code == Exit.NOT_VALID
    reported = json.loads(call("solve", instance, "--start", plan, *LIMIT).stdout)
    assert reported["exit_code"] == Exit.DONE
    assert reported["start"] == "times recomputed: 1 duration differs"
    shown = call("solve", instance, "--start", plan, *LIMIT[:-1]).stdout
    assert "  start      times recomputed: 1 duration differs\n" in shown
    record = json.loads(Path(reported["record_file"]).read_text())
    assert record["start"] == reported["start"]
    same = json.loads(call("solve", instance_file(here), "--start", plan, *LIMIT).stdout)
    assert same["start"] == "valid as it is"
    none = json.loads(call("solve", instance_file(here), *LIMIT).stdout)
    assert none["start"] is None


def test_places_alone_are_written_and_are_a_start(here: Path) -> None:
    instance, plan, places = instance_file(here), plan_file(here), here / "places.json"
    done = call("export", instance, "--plan", plan, "--format", "places", "-o", places)
    assert done.exit_code == Exit.DONE, done.stderr
    document = json.loads(places.read_text())
    assert not document.get("transfers")
    assert all("start_ns" not in entry for entry in document["operators"])
    reported = json.loads(call("solve", instance, "--start", places, *LIMIT).stdout)
    assert reported["start"] == "times recomputed: the plan has places and order alone"


def test_what_is_renamed_is_named(here: Path) -> None:
    plan = plan_of_two_devices()
    renamed = replace(plan, runs=(replace(plan.runs[0], operator="hed"), *plan.runs[1:]))
    instance, file = instance_file(here, measured_anew()), plan_file(here, renamed)
    result = call("solve", instance, "--start", file, *LIMIT)
    assert result.exit_code == Exit.BAD_INPUT
    assert "'hed', unknown" in result.stderr
    assert f"no {plan.runs[0].operator!r}" in result.stderr


def test_from_python() -> None:
    outcome = mp.solve(measured_anew(), start=plan_of_two_devices(), time_limit=60, display=False)
    assert outcome.record["start"] == "times recomputed: 1 duration differs"
    assert "times recomputed" in str(outcome)
