"""``solve`` around the run: arguments, results, files, exit codes."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest

from milp_plan import run
from milp_plan.backends import Stop
from milp_plan.cli.exits import Exit
from milp_plan.cli.interrupts import Deferred
from milp_plan.cli.solve import solve
from milp_plan.core import (
    BackendUnavailableError,
    Objective,
    PlanningProblem,
    UnsupportedProblemError,
)
from milp_plan.io.plan_file import read_plan
from tests.report.plans import chain, plan_of_two_devices, two_devices

from .cases import VALUE_NS, call, instance_file, plan_file
from .outcomes import broken, outcome, runner, without_plan

KEYS = ("instance", "objective", "value", "bound", "bound_name", "gap", "stop", "verdict")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where a run finds the plan of two devices."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "solve", runner(outcome))
    return tmp_path


def test_defaults_are_those_of_the_run() -> None:
    info = solve.to_info_dict(click.Context(solve))
    defaults = {parameter["name"]: parameter.get("default") for parameter in info["params"]}
    settings = run.Settings()
    assert defaults["time_limit"] == settings.time_limit_s
    for name in ("gap", "seed", "threads", "target", "formulation", "solver", "only"):
        assert defaults[name] == getattr(settings, name)


def test_settings_reach_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def spy(problem: PlanningProblem, settings: run.Settings, *_: Any, **__: Any) -> Any:
        seen.update(problem=problem, settings=settings)
        return outcome(two_devices())

    monkeypatch.setattr(run, "solve", spy)
    result = call(
        *("solve", instance_file(here), "--time-limit", "2.5", "--node-limit", "7"),
        *("--rounds", "3", "--gap", "0.01", "--seed", "5", "--threads", "2", "--target", "9"),
        *("--option", "symmetry=false", "--start", plan_file(here), "--solver", "scip"),
        *("--memory-scale", "0.8", "--objective", "peak_memory", "--only"),
    )
    assert result.exit_code == Exit.DONE
    assert seen["settings"] == run.Settings(
        formulation="operator_schedule",  # whose switch it is
        time_limit_s=2.5,
        node_limit=7,
        rounds=3,
        gap=0.01,
        seed=5,
        threads=2,
        target=9,
        options={"symmetry": False},
        start=plan_of_two_devices(),
        solver="scip",
        only=True,
    )
    memory = seen["problem"].cluster.devices[0].memory_bytes
    assert memory == int(4 * 2**20 * Fraction("0.8"))
    assert seen["problem"].objective is Objective.PEAK_MEMORY


def test_result_for_people(here: Path) -> None:
    result = call("solve", instance_file(here))
    assert result.exit_code == Exit.DONE
    lines = result.stdout.splitlines()
    assert lines[0] == "two-devices: makespan 14 µs"
    facts = dict(line.strip().split(maxsplit=1) for line in lines[1:11])
    assert facts["scope"].startswith("placement and order; no recomputation (--recompute)")
    assert facts["bound"] == "9 µs by critical path"
    assert facts["gap"] == "35.71%"
    assert facts["check"] == "ok"
    assert facts["operators"] == "3, 2 after coarsening"
    assert Path(facts["record"]).is_file()
    assert read_plan(facts["plan"]).runs == plan_of_two_devices().runs
    table = [line.split() for line in lines[13:17]]
    assert table == [
        ["fast", "14", "µs", "0.00%"],
        ["operator_schedule", "21", "µs", "33.33%"],
        ["slow", "28", "µs", "50.00%"],
        ["none", "no", "plan", "—"],
    ]
    assert lines[-1] == "  time: bounds 0.25 s, solve 12.0 s"


def test_progress_on_standard_error_unless_quiet(here: Path) -> None:
    instance = instance_file(here)
    assert "incumbent 14 µs, bound 9 µs" in call("solve", instance).stderr
    assert call("solve", instance, "--quiet").stderr == ""


def test_proved_plan(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proved = runner(
        outcome,
        proved=True,
        stop=Stop.PROVED,
        gap=0.0,
        baselines={},
        record={"coarse_operators": 3, "phases": {}, "reached": {}},
    )
    monkeypatch.setattr(run, "solve", proved)
    result = call("solve", instance_file(here))
    assert result.stdout.startswith("two-devices: makespan 14 µs, proved optimal\n")
    assert " operators  3\n" in result.stdout
    assert "better by" not in result.stdout
    assert "time:" not in result.stdout


def test_the_answer_says_why_a_formulation_was_not_asked_or_had_no_start(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"not_asked": "resource_load: not asked (proved before)", "startless": "no room"}
    monkeypatch.setattr(run, "solve", runner(outcome, record=reasons))
    answer = json.loads(call("solve", instance_file(here), "--json").stdout)
    assert reasons.items() <= answer.items()


def test_one_json_object_per_line_and_file(here: Path) -> None:
    first, second = instance_file(here), instance_file(here, replace(two_devices(), name="second"))
    result = call("solve", first, here / "none.json", second, "--json", "--quiet")
    assert result.exit_code == Exit.BAD_INPUT
    one, bad, two = (json.loads(line) for line in result.stdout.splitlines())
    assert set(KEYS) <= one.keys()
    assert one.keys() == bad.keys() == two.keys()
    assert one["instance"] == "two-devices"
    assert one["value"] == VALUE_NS
    assert one["exit_code"] == Exit.DONE
    assert Path(one["plan_file"]).is_file()
    assert bad["file"] == str(here / "none.json")
    assert all(bad[key] is None for key in KEYS)
    assert bad["exit_code"] == Exit.BAD_INPUT
    assert "no such file" in bad["errors"][0]
    assert f"error: {here / 'none.json'}: " in result.stderr
    assert two["instance"] == "second"


@pytest.mark.parametrize(
    ("make", "changes", "code", "words"),
    [
        (outcome, {}, Exit.DONE, ""),
        (outcome, {"stop": Stop.KILLED}, Exit.DONE, "ended from outside or crashed; the best plan"),
        (outcome, {"stop": Stop.ERROR}, Exit.DONE, "the solver failed; the best plan"),
        (outcome, {"stop": Stop.INTERRUPTED}, Exit.INTERRUPTED, "interrupted; the best plan"),
        (
            without_plan,
            {"stop": Stop.INFEASIBLE, "infeasible_reason": "'x' needs more memory"},
            Exit.INFEASIBLE,
            "",
        ),
        (without_plan, {"stop": Stop.TIME_LIMIT}, Exit.NO_PLAN, ""),
        (without_plan, {"stop": Stop.NODE_LIMIT, "bound": None}, Exit.NO_PLAN, ""),
        (
            without_plan,
            {"stop": Stop.MEMORY_LIMIT},
            Exit.SOLVER_FAILURE,
            "out of memory; no plan",
        ),
        (without_plan, {"stop": Stop.INTERRUPTED}, Exit.INTERRUPTED, "there was no plan yet"),
        (without_plan, {"stop": Stop.KILLED}, Exit.SOLVER_FAILURE, "no plan was found"),
        (without_plan, {"stop": Stop.ERROR}, Exit.SOLVER_FAILURE, "the solver failed"),
        (
            outcome,
            {"disputed_reason": "they differ"},
            Exit.NOT_VALID,
            "disputes the solver: they differ",
        ),
        (without_plan, {"disputed_reason": "they differ"}, Exit.NOT_VALID, "disputes the solver"),
        (broken, {}, Exit.NOT_VALID, ""),
    ],
)
def test_exit_codes(
    make: Any,
    changes: dict[str, Any],
    code: Exit,
    words: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "solve", runner(make, **changes))
    result = call("solve", instance_file(here), "--quiet")
    assert result.exit_code == code
    assert words in result.stderr
    assert bool(result.stderr) == bool(words)
    made = make(two_devices(), **changes)
    assert list(here.glob("results/runs/*.json"))
    assert bool(list(here.glob("results/runs/*.plan.json"))) == (made.plan is not None)


def test_headlines_without_a_plan(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "solve", runner(without_plan, bound=None))
    result = call("solve", instance_file(here))
    assert result.stdout.startswith("two-devices: no plan found\n  scope ")
    assert "\n  bound      —\n" in result.stdout
    proof = runner(without_plan, infeasible_reason="'x' is too large", stop=Stop.INFEASIBLE)
    monkeypatch.setattr(run, "solve", proof)
    result = call("solve", instance_file(here))
    assert result.stdout.startswith("two-devices: no plan exists: 'x' is too large\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnsupportedProblemError("not for this one"), Exit.BAD_INPUT),
        (BackendUnavailableError("highspy is not installed"), Exit.SOLVER_FAILURE),
    ],
)
def test_an_error_ends_only_its_file(
    error: Exception, code: Exit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_once(problem: PlanningProblem, *_: Any, **__: Any) -> Any:
        if problem.name == "chain":
            raise error
        return outcome(problem)

    monkeypatch.setattr(run, "solve", fail_once)
    files = instance_file(here, chain(2)[0]), instance_file(here)
    result = call("solve", *files, "--json")
    assert result.exit_code == code
    assert f"error: {files[0]}: {error}" in result.stderr
    failed, good = (json.loads(line) for line in result.stdout.splitlines())
    assert failed["instance"] == "chain"
    assert failed["objective"] == "makespan"
    assert failed["errors"] == [str(error)]
    assert good["value"] == VALUE_NS


def test_ctrl_c_keeps_the_plan_and_skips_the_rest(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "solve", runner(outcome, stop=Stop.INTERRUPTED))
    files = instance_file(here), instance_file(here, chain(2)[0])
    result = call("solve", *files, "--quiet")
    assert result.exit_code == Exit.INTERRUPTED
    assert list(here.glob("results/runs/two-devices-*.plan.json"))
    assert f"{files[1]}: skipped" in result.stderr
    assert "chain" not in result.stdout


def test_ctrl_c_while_results_are_written_waits(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = run.record_files

    def files(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return written(*arguments)

    monkeypatch.setattr(run, "record_files", files)
    result = call("solve", instance_file(here), here / "next.json")
    assert result.exit_code == Exit.INTERRUPTED
    assert result.stdout.startswith("two-devices: makespan 14 µs\n")
    assert "next.json: skipped" in result.stderr
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_interrupts_are_left_alone_outside_the_main_thread() -> None:
    def use() -> None:
        with Deferred() as interrupt:
            found.append(interrupt.asked)

    found: list[bool] = []
    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert found == [False]


def test_ctrl_c_before_the_run_can_catch_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "solve", interrupt)
    result = call("solve", instance_file(here), here / "next.json")
    assert result.exit_code == Exit.INTERRUPTED
    assert "interrupted before there was a plan" in result.stderr
    assert "next.json: skipped" in result.stderr


def test_plan_and_picture_where_they_are_wanted(here: Path) -> None:
    plan, picture = here / "plan.json.gz", here / "timeline.svg"
    result = call(
        *("solve", instance_file(here), "--plan-output", plan, "--plot", picture),
        *("--record-folder", here / "records"),
    )
    assert result.exit_code == Exit.DONE
    assert read_plan(plan).runs == plan_of_two_devices().runs
    assert picture.read_text().startswith("<?xml")
    assert len(list((here / "records").glob("*.json"))) == 2
    assert not (here / "results").exists()
    assert f"plan       {plan}" in result.stdout


def test_start_plan_of_another_instance(here: Path) -> None:
    result = call("solve", instance_file(here, chain(2)[0]), "--start", plan_file(here))
    assert result.exit_code == Exit.BAD_INPUT
    assert "a plan for 'two-devices', expected a plan for 'chain'" in result.stderr


@pytest.mark.parametrize("option", ["--start", "--plan-output", "--plot"])
def test_options_for_one_file(option: str, here: Path) -> None:
    instance = instance_file(here)
    result = call("solve", instance, instance, option, "x.png")
    assert result.exit_code == Exit.USAGE
    assert f"{option} is for one FILE, found 2" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--plot", "x.pdf"), Exit.USAGE, ".png or .svg"),
        (("--plan-output", "no/such/plan.json"), Exit.USAGE, "there is no folder"),
        (("--plot", "no/such/plan.png"), Exit.USAGE, "there is no folder"),
        (("--formulation", "guess"), Exit.USAGE, "found no such name, expected one of "),
        (("--formulation", "guess.py"), Exit.BAD_INPUT, "guess.py"),
        (("--option", "symmetry"), Exit.USAGE, "expected key=value"),
        (("--time-limit", "0"), Exit.USAGE, "--time-limit"),
        (("--memory-scale", "none"), Exit.USAGE, "no number"),
        (("--record-folder", "two-devices.json"), Exit.USAGE, "two-devices.json"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(
    options: tuple[str, ...], code: Exit, words: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(run, "solve")
    result = call("solve", instance_file(here), *options)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""
