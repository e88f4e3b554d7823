"""``check`` and ``explain``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from tests.report.plans import plan_of_two_devices

from .cases import VALUE_NS, call, instance_file, late_plan, plan_file


def test_valid_plan(tmp_path: Path) -> None:
    result = call("check", instance_file(tmp_path), plan_file(tmp_path))
    assert result.exit_code == Exit.DONE
    valid, scope = result.stdout.splitlines()
    assert valid == "two-devices: valid, makespan 14 µs (14000 ticks)"
    assert scope.startswith("  scope      placement and order; ")


def test_broken_plan_lists_what_breaks(tmp_path: Path) -> None:
    result = call("check", instance_file(tmp_path), plan_file(tmp_path, late_plan()))
    assert result.exit_code == Exit.NOT_VALID
    lines = result.stdout.splitlines()
    assert lines[0].startswith("two-devices: not valid, ")
    assert any("supply" in line and "head" in line for line in lines[1:])


def test_plan_of_another_instance(tmp_path: Path) -> None:
    other = plan_file(tmp_path, replace(plan_of_two_devices(), problem="elsewhere"))
    file = instance_file(tmp_path)
    for verb in ("check", "explain"):
        result = call(verb, file, other)
        assert result.exit_code == Exit.BAD_INPUT
        assert result.stderr == (
            f"error: {other}: problem: found a plan for 'elsewhere', expected a plan for "
            f"'two-devices' ({file}); name the instance and the plan that belong together\n"
        )


def test_checked_under_less_memory(tmp_path: Path) -> None:
    files = instance_file(tmp_path), plan_file(tmp_path)
    result = call("check", *files, "--memory-scale", "1/2")
    assert result.exit_code == Exit.NOT_VALID
    assert "memory" in result.stdout


def test_checked_for_another_objective(tmp_path: Path) -> None:
    files = instance_file(tmp_path), plan_file(tmp_path)
    result = call("check", *files, "--objective", "peak_memory")
    assert result.stdout.startswith("two-devices: valid, peak_memory 4 MiB (4194304 bytes)\n")


@pytest.mark.parametrize("scale", ["0", "-1", "much", "1/0"])
def test_memory_scale_is_a_positive_number(scale: str, tmp_path: Path) -> None:
    result = call("check", instance_file(tmp_path), plan_file(tmp_path), f"--memory-scale={scale}")
    assert result.exit_code == Exit.USAGE
    assert "--memory-scale" in result.stderr


def test_explain_in_words(tmp_path: Path) -> None:
    instance = instance_file(tmp_path)
    result = call("explain", instance, plan_file(tmp_path))
    assert result.exit_code == Exit.DONE
    assert "critical chain" in result.stdout
    broken = call("explain", instance, plan_file(tmp_path, late_plan()))
    assert broken.exit_code == Exit.NOT_VALID
    assert "not valid" in broken.stdout


def test_explain_as_json(tmp_path: Path) -> None:
    instance = instance_file(tmp_path)
    reported = json.loads(call("explain", instance, plan_file(tmp_path), "--json").stdout)
    assert [entry["device"] for entry in reported["details"]["memory"]] == ["d0", "d1"]
    assert reported["details"]["critical_chain"][-1]["stop_ticks"] == VALUE_NS
    broken = json.loads(
        call("explain", instance, plan_file(tmp_path, late_plan()), "--json").stdout
    )
    assert broken["details"]["critical_chain"] == []
    assert broken["violations"]


def test_a_call_number_belongs_to_the_serial_law(tmp_path: Path) -> None:
    plan = plan_of_two_devices()
    called = replace(plan, runs=(replace(plan.runs[0], call=0), *plan.runs[1:]))
    result = call("check", instance_file(tmp_path), plan_file(tmp_path, called))
    assert result.exit_code == Exit.NOT_VALID
    assert "has a call number, which counts under the serial law alone" in result.stdout


@pytest.mark.parametrize("verb", ["check", "explain", "solve"])
def test_an_export_is_no_plan_and_is_called_by_its_name(verb: str, tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.csv"
    schedule.write_text("0F0,0F1,0B0\n")
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    more = ["--start"] if verb == "solve" else []
    for file, title in ((schedule, "torch.distributed.pipelining"), (trace, "ui.perfetto.dev")):
        result = call(verb, instance_file(tmp_path), *more, file)
        assert result.exit_code == Exit.BAD_INPUT
        assert title in result.stderr
        assert "name the plan that it was exported from" in result.stderr
        assert "fetch or write the file again" not in result.stderr
