"""Whatever the code of a formulation does, the run ends in time, says so, and keeps its plans."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.core import BackendUnavailableError, FormulationError
from milp_plan.kinds.schedule.strategies import schedule, two_stages
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.models import isolated
from milp_plan.run import solve
from tests.cli.cases import call, instance_file
from tests.support.sharding import layered, optimum

from . import bad_ends
from .cases import WEAK_BOUND, quick, trap
from .test_dispute import pair, weak
from .test_sharding_model import ALONE, some_plan

__all__ = ["weak"]

HEURISTIC = 20
"""Value of the only plan that is found without a model; with it, 10."""

LIMIT_S = 120.0
LOOP_S = 6.0
"""Limit of runs in which something goes on for ever."""

SLACK_S = 60.0
"""For a busy machine."""

GIB = 2**30

pytestmark = pytest.mark.untraced

SLOW = pytest.mark.slow
RAISED = "raised ValueError: it does not add up (line 11 of bad.py)"

ENDS = [
    ("build", bad_ends.RAISE, RAISED, "error"),
    ("build", bad_ends.EXIT, "ended the process with code 3", "error"),
    ("build", bad_ends.SEGMENTATION, "was killed by signal 11 (segmentation fault)", "killed"),
    ("build", bad_ends.ALLOCATE, "ran out of memory (limit 2.0 GiB)", "memory_limit"),
    ("build", bad_ends.LOOP, "did not finish within ", "time_limit"),
]
MORE_ENDS = [
    ("decode", bad_ends.LOOP, "did not finish within ", "time_limit"),
    ("encode", bad_ends.RAISE, RAISED, "error"),
    ("scale", bad_ends.RAISE, RAISED, "error"),
    ("unsupported", bad_ends.RAISE, RAISED, "error"),
    ("decode", bad_ends.RAISE, RAISED, "error"),
    ("decode", bad_ends.HARD_EXIT, "ended the process with code 0", "error"),
    ("decode", bad_ends.KILL, "was killed by signal 9 (killed)", "killed"),
    ("build", bad_ends.MEMORY_ERROR, "ran out of memory (limit 2.0 GiB)", "memory_limit"),
    ("restricts", bad_ends.RAISE, RAISED, "error"),
    ("unsupported", bad_ends.LOOP, "did not finish within ", "time_limit"),
]


@pytest.fixture
def little_memory(monkeypatch):
    """Formulations may have 2 GiB."""
    monkeypatch.setattr(isolated, "memory_of_machine", lambda: int(2 * GIB / isolated.MEMORY_SHARE))


@pytest.mark.usefixtures("weak", "little_memory")
@pytest.mark.parametrize(
    ("step", "code", "words", "stop"),
    [*ENDS, *(pytest.param(*end, marks=SLOW) for end in MORE_ENDS)],
)
def test_plans_stay_whatever_a_step_does(tmp_path, step, code, words, stop):
    began = time.monotonic()
    looping = LOOP_S if step == "build" else 2 * LOOP_S  # the others come later in a run, or twice
    limit_s = looping if code == bad_ends.LOOP else LIMIT_S
    path = bad_ends.write_bad(tmp_path, step, code)
    outcome = quick(pair(), formulation=path, rounds=0, time_limit_s=limit_s)
    assert time.monotonic() - began < limit_s + SLACK_S
    assert verify(outcome.problem, outcome.plan).value == outcome.value == HEURISTIC
    (failure,) = outcome.record["defects"]
    assert failure.startswith(f"formulation 'bad' (bad.py): {step} {words}")
    assert outcome.record["model"]["stop"] == str(outcome.stop) == stop
    assert outcome.record["model"]["message"] == failure
    assert (outcome.bound, outcome.bound_name) == (WEAK_BOUND.value, WEAK_BOUND.name)
    assert not outcome.proved
    assert not outcome.disputed


@pytest.mark.usefixtures("weak", "little_memory")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (bad_ends.RAISE, "import raised ValueError: it does not add up (line 11 of bad.py)"),
        pytest.param(bad_ends.LOOP, "import did not finish within 3 s", marks=SLOW),
        pytest.param(bad_ends.EXIT, "import ended the process with code 3", marks=SLOW),
        pytest.param(
            bad_ends.SEGMENTATION, "import was killed by signal 11 (segmentation fault)", marks=SLOW
        ),
        pytest.param(bad_ends.ALLOCATE, "import ran out of memory (limit 2.0 GiB)", marks=SLOW),
    ],
)
def test_a_command_keeps_its_plans_where_a_file_does_not_load(tmp_path, code, words):
    path = bad_ends.write_bad(tmp_path, "import", code)
    limit_s = LOOP_S if code == bad_ends.LOOP else LIMIT_S
    limits = ["--time-limit", str(limit_s), "--rounds", "0", "--record-folder", tmp_path / "runs"]
    result = call(
        "solve", instance_file(tmp_path, pair()), "--formulation", path, *limits, "--json"
    )
    assert result.exit_code == Exit.DONE
    reported = json.loads(result.stdout)
    assert reported["value"] == HEURISTIC
    sentence = f"formulation 'bad' (bad.py): {words}"
    assert reported["defects"] == [sentence]
    assert f"{sentence}; the best plan until then was kept" in result.stderr


@pytest.mark.usefixtures("weak")
def test_without_any_plan_a_failed_formulation_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule.ScheduleStrategy, "find_first", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "plan_sharding_first", lambda _: None)
    monkeypatch.setattr(two_stages, "best_plan", lambda *_, **__: (None, {}))
    path = bad_ends.write_bad(tmp_path, "build", bad_ends.EXIT)
    limits = ["--time-limit", "10", "--record-folder", tmp_path / "runs"]
    result = call("solve", instance_file(tmp_path, pair()), "--formulation", path, *limits)
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert "build ended the process with code 3; no plan was found" in result.stderr


@pytest.mark.usefixtures("weak")
def test_the_same_file_without_a_bad_end_proves(tmp_path):
    path = bad_ends.write_bad(tmp_path, "build", bad_ends.NOTHING)
    outcome = quick(pair(), formulation=path)
    assert (outcome.value, outcome.bound, outcome.bound_name) == (10, 10, "bad")
    assert outcome.proved
    assert outcome.record["defects"] == []


def test_a_solver_that_is_not_there_is_refused_though_a_heuristic_would_prove():
    entry = trap("gang-beats-single")
    assert quick(entry.problem).proved
    with pytest.raises(BackendUnavailableError, match="'nope'"):
        quick(entry.problem, solver="nope")


def test_an_unknown_solver_is_a_solver_failure(tmp_path):
    file = instance_file(tmp_path, pair())
    result = call("solve", file, "--solver", "nope", "--record-folder", tmp_path / "runs")
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert "solver 'nope': Pyomo knows no such solver" in result.stderr
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize(
    "step", ["unsupported", *(pytest.param(step, marks=SLOW) for step in ("import", "build"))]
)
def test_plans_of_sharding_problems_stay_too(tmp_path, step):
    problem = layered(3, 3, 2, 3)
    path = bad_ends.write_bad(tmp_path, step, bad_ends.EXIT, inner="sharding")
    start = some_plan(problem, optimum(problem))
    known = verify_sharding(problem, start).value
    outcome = solve(problem, replace(ALONE, formulation=path, start=start))
    assert outcome.value is not None
    assert outcome.value <= known
    (failure,) = outcome.record["defects"]
    assert failure == f"formulation 'bad' (bad.py): {step} ended the process with code 3"
    assert outcome.record["bound_name"] != "bad"


def test_a_file_without_a_formulation_stops_a_run_of_it_alone(tmp_path):
    """It went on, and said that heuristics and bounds would."""
    path = tmp_path / "bad.py"
    path.write_text("class F: pass\n")
    records = ("--record-folder", tmp_path / "runs")
    file = instance_file(tmp_path, pair())
    result = call("solve", file, "--formulation", path, "--only", "--time-limit", "60", *records)
    assert result.exit_code == Exit.BAD_INPUT
    stated = "formulation 'bad' (bad.py): import failed: it defines no FORMULATION"
    assert result.stderr.count(stated) == 1
    assert "go on" not in result.stderr
    with pytest.raises(FormulationError, match="it defines no FORMULATION"):
        quick(pair(), formulation=str(path), only=True)
