"""A killed solver and Ctrl-C cost no plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.backends import Stop, highs
from milp_plan.check import verify
from milp_plan.core import Plan
from milp_plan.io.plan_file import read_plan
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.strategies import schedule, small_schedule
from milp_plan.run import Settings, solve, solving
from tests.cli.cases import call
from tests.support.processes import PATIENCE_S, finish, start

from .cases import INSTANCES, instance, trap, weaken
from .driver import DRIVER

SLOW = "unet-inference-2xH100"
"""Its model takes many times longer than it takes to kill it."""

SMALL = "gpt-tiny-inference-2xV100"
"""Its model is killed before it begins."""

HARD = "moe-tiny-meshed-2xH100"
"""Its model takes several seconds."""

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="Windows cannot send SIGINT or SIGTERM to another process"
)


@pytest.fixture
def kill(monkeypatch):
    """Kill -9 the process of the model of this number: at birth, or when it first reports."""

    def of(number: int, *, at_birth: bool) -> list[int]:
        inner, pids = highs.solve, []

        def spawned(pid):
            pids.append(pid)
            if at_birth and len(pids) == number:
                os.kill(pid, signal.SIGKILL)

        def killed(model, limits, vector=None, *, on_progress=None, **rest):
            def show(point):
                if on_progress is not None:
                    on_progress(point)
                if not at_birth and len(pids) == number:
                    os.kill(pids[-1], signal.SIGKILL)

            return inner(model, limits, vector, on_progress=show, on_spawn=spawned)

        monkeypatch.setattr(highs, "solve", killed)
        return pids

    return of


@pytest.mark.untraced
def test_kill_of_the_solver_keeps_the_best_plan_and_says_so(monkeypatch, kill):
    weaken(monkeypatch)
    pids = kill(1, at_birth=False)
    heard = []
    outcome = solve(
        instance(SLOW), Settings(time_limit_s=600, target=20, node_limit=50, rounds=0), heard.append
    )
    assert len(pids) == 1
    model = outcome.record["model"]
    assert model["stop"] == Stop.KILLED
    assert model["value"] is not None, "the incumbent of the dead process"
    assert "ended without an answer" in model["message"]
    assert outcome.stop is Stop.KILLED
    assert outcome.value <= min(outcome.baselines.values())
    assert verify(outcome.problem, outcome.plan).value == outcome.value
    assert any("ended from outside or crashed" in point.note for point in heard)


@pytest.mark.untraced
def test_kill_in_the_neighbourhood_search_costs_one_round(monkeypatch):
    weaken(monkeypatch)
    take, taken = highs._idle.take, []

    def dead_once(threads):
        process = take(threads)
        taken.append(process)
        if len(taken) == 2:  # the first is for the model
            process.kill()
        return process

    monkeypatch.setattr(highs._idle, "take", dead_once)
    outcome = solve(instance(SLOW), Settings(time_limit_s=600, target=12, node_limit=5, rounds=3))
    assert len(taken) > 2, "the one that was killed is replaced"
    assert outcome.record["window_search"]["rounds"] == 3
    assert outcome.defects == ("the solver process was ended from outside or crashed",)
    assert outcome.stop is Stop.NODE_LIMIT
    assert verify(outcome.problem, outcome.plan).value == outcome.value


@pytest.mark.untraced
def test_a_command_whose_run_goes_on_without_the_model_says_so(monkeypatch, kill, tmp_path):
    weaken(monkeypatch)
    kill(1, at_birth=True)
    path = INSTANCES / f"{SMALL}.json"
    limits = ["--time-limit", "600", "--target", "12", "--node-limit", "5", "--rounds", "1"]
    result = call("solve", path, *limits, "--record-folder", tmp_path, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["stop"] == "killed"
    assert "the solver process was ended from outside or crashed" in result.stderr
    assert "the best plan until then was kept" in result.stderr


def workers(parent: int) -> dict[int, float]:
    """Solver processes of a process, with the seconds each of them has computed."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):  # not a process, or one that has just ended
            continue
        if b"milp_plan.backends.worker" in command and int(fields[1]) == parent:
            found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def kill_the_busy_worker(process: subprocess.Popen[str]) -> None:
    """Wait until a solver is past its imports and in the middle of its work, and kill it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        for pid, seconds in workers(process.pid).items():
            if seconds > 1.0:
                os.kill(pid, signal.SIGKILL)
                return
        time.sleep(0.05)


@pytest.mark.untraced
@pytest.mark.skipif(sys.platform != "linux", reason="finds the solver in /proc")
def test_kill_of_the_solver_of_a_command(tmp_path):
    path = INSTANCES / f"{HARD}.json"
    limits = ["--time-limit", "600", "--target", "25", "--node-limit", "100000", "--rounds", "0"]
    process = start(tmp_path, DRIVER, "none", "solve", path, *limits, "--json")
    kill_the_busy_worker(process)
    code, out, err = finish(process)
    assert code == 0, err
    told = json.loads(out)
    assert told["stop"] == "killed"
    assert told["value"] <= told["best_baseline"]
    assert "the solver process was ended from outside or crashed" in err
    plan = read_plan(tmp_path / told["plan_file"])
    assert verify(instance(HARD), plan).value == told["value"]


@pytest.mark.untraced
@pytest.mark.parametrize("phase", ["anneal", "model", "polish"])
def test_ctrl_c_keeps_the_best_plan_and_writes_the_record(tmp_path, phase):
    path = INSTANCES / f"{SLOW}.json"
    limits = ["--time-limit", "600", "--target", "12", "--node-limit", "50"]
    code, out, err = finish(start(tmp_path, DRIVER, phase, "solve", path, *limits, "--json"))
    assert code == 130, err
    told = json.loads(out)
    assert told["stop"] == "interrupted"
    assert "interrupted; the best plan so far was kept" in err
    record = json.loads((tmp_path / told["record_file"]).read_text())
    assert record["stop"] == "interrupted"
    assert (record["model"] is None) == (phase == "anneal")
    assert phase == "polish" or record["window_search"] is None
    plan = read_plan(tmp_path / told["plan_file"])
    assert verify(instance(SLOW), plan).value == told["value"] <= told["best_baseline"]


def test_ctrl_c_before_there_is_a_plan(monkeypatch):
    def press(point):
        if point.phase == "bounds":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(schedule.ScheduleStrategy, "find_first", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "plan_sharding_first", lambda _: None)
    monkeypatch.setattr(ClauseLearning, "suits", lambda _problem: False)  # before bounds
    monkeypatch.setattr(small_schedule, "is_small", lambda _problem: False)
    outcome = solve(instance(SLOW), Settings(time_limit_s=600), press)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.plan is None
    assert outcome.record["verdict"] == "no plan"
    assert outcome.record["model"] is None


def test_ctrl_c_while_the_answer_is_written_up(monkeypatch):
    inner, calls = solving.outcome_of, []

    def pressed(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return inner(*given)

    monkeypatch.setattr(solving, "outcome_of", pressed)
    outcome = solve(trap("gang-beats-single").problem, Settings(time_limit_s=20))
    assert len(calls) == 2
    assert outcome.value == outcome.record["value"] == 110


def test_a_late_search_does_not_report_a_plan_that_the_outcome_does_not_have(monkeypatch):
    """An alarm left a search behind; its plan was shown as the best, and the outcome had another.

    Its offer could also come between the outcome's plan and the outcome's value.
    """
    problem = trap("gang-beats-single").problem
    best = solve(problem, Settings(time_limit_s=20)).plan
    runs = [
        replace(run, start_ticks=run.start_ticks + 1, stop_ticks=run.stop_ticks + 1)
        for run in best.runs
    ]
    worse = Plan(problem.name, tuple(runs), planner="late by a tick")
    write, heard = solving.outcome_of, []

    def behind(ledger):
        ledger.offer(best, "late search", "anneal")
        return write(ledger)

    def stop(point):
        heard.append(point.incumbent)
        if point.incumbent is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(solving, "outcome_of", behind)
    outcome = solve(problem, Settings(time_limit_s=20, start=worse), stop)
    assert outcome.stop is Stop.INTERRUPTED
    assert (heard[-1], outcome.value, outcome.planner) == (111, 111, "late by a tick")
    assert verify(problem, outcome.plan).value == 111
