"""Ctrl-C and SIGTERM: the best plan is kept, the exit code says which it was."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from milp_plan import run
from milp_plan.backends import Stop
from milp_plan.cli.exits import Exit
from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners import portfolio
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.strategies import schedule
from tests.support.processes import finish, heard_until_a_plan, start

from .cases import INSTANCES, call


@pytest.mark.untraced
@pytest.mark.skipif(
    os.name == "nt", reason="Windows cannot send SIGINT or SIGTERM to another process"
)
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, Exit.INTERRUPTED),
        (signal.SIGTERM, Exit.TERMINATED),
        pytest.param(signal.SIGHUP, Exit.HUNG_UP, marks=pytest.mark.slow),
        pytest.param(signal.SIGQUIT, Exit.QUIT, marks=pytest.mark.slow),
    ],
)
def test_the_best_plan_is_kept(number: signal.Signals, code: Exit, tmp_path: Path) -> None:
    instance = INSTANCES / "unet-training-4xA100.json"
    plan = tmp_path / "plan.json"
    process = start(
        *(tmp_path, "milp_plan", "solve", instance, "--time-limit", "600", "--json"),
        *("--plan-output", plan),
    )
    heard = heard_until_a_plan(process)
    process.send_signal(number)
    ended, out, err = finish(process)
    assert ended == code, heard + err
    reported = json.loads(out)
    assert reported["stop"] == "interrupted"
    assert reported["exit_code"] == code
    assert reported["value"] >= reported["bound"]
    assert "interrupted; the best plan so far was kept" in err
    assert (tmp_path / reported["record_file"]).is_file()
    assert call("check", instance, plan).exit_code == Exit.DONE


def test_a_plan_of_the_baselines_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(_problem: PlanningProblem, seed: int = 0) -> Plan | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule.ScheduleStrategy, "find_first", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "plan_sharding_first", lambda _: None)
    planners = {"one": PLANNERS["single_device"], "pressed": pressed}
    monkeypatch.setattr(portfolio, "PLANNERS", planners)
    monkeypatch.setattr(catalogue, "all_bounds", lambda *_: iter(()))  # nothing is proved
    outcome = run.solve(read(INSTANCES / "gang-beats-single.json"), run.Settings(time_limit_s=60))
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.planner == "one"
    assert outcome.value is not None
