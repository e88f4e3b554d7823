"""The command as a process of its own: exit codes and Ctrl-C as a shell sees them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from tests.support.processes import finish, heard_until_a_plan, start

from .cases import INSTANCES, call, instance_file


@pytest.mark.untraced
def test_plan_of_a_tiny_instance_is_proved_and_passes_the_check(tmp_path: Path) -> None:
    instance = INSTANCES / "gang-beats-single.json"
    code, out, err = finish(
        start(tmp_path, "milp_plan", "solve", instance, "--json", "--time-limit", "100")
    )
    assert code == Exit.DONE, err
    reported = json.loads(out)
    assert reported["value"] == reported["bound"] == 110
    assert reported["stop"] == "proved"
    assert reported["verdict"] == "ok"
    assert "incumbent 110 ns" in err
    assert call("check", instance, tmp_path / reported["plan_file"]).exit_code == Exit.DONE
    assert (tmp_path / reported["record_file"]).is_file()


@pytest.mark.untraced
def test_a_bad_file_among_good_ones(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    code, out, err = finish(
        start(
            tmp_path,
            "milp_plan",
            "solve",
            bad,
            INSTANCES / "gang-beats-single.json",
            "--time-limit",
            "100",
        )
    )
    assert code == Exit.BAD_INPUT
    assert "gang-beats-single: makespan 110 ns, proved optimal" in out
    assert f"error: {bad}: " in err


@pytest.mark.untraced
def test_proved_infeasible(tmp_path: Path) -> None:
    instance = instance_file(tmp_path)
    code, out, _ = finish(
        start(tmp_path, "milp_plan", "solve", instance, "--memory-scale", "1/4", "--quiet")
    )
    assert code == Exit.INFEASIBLE
    assert out.startswith("two-devices: no plan exists: ")


@pytest.mark.untraced
@pytest.mark.skipif(os.name == "nt", reason="Windows cannot send SIGINT to another process")
def test_ctrl_c_keeps_the_best_plan(tmp_path: Path) -> None:
    instance = INSTANCES / "unet-training-4xA100.json"
    other = INSTANCES / "gang-beats-single.json"
    process = start(
        tmp_path, "milp_plan", "solve", instance, other, "--time-limit", "600", "--json"
    )
    heard = heard_until_a_plan(process)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == Exit.INTERRUPTED, heard + err
    reported = json.loads(out)
    assert reported["stop"] == "interrupted"
    assert reported["value"] >= reported["bound"]
    assert f"{other}: skipped after the interruption" in err
    assert call("check", instance, tmp_path / reported["plan_file"]).exit_code == Exit.DONE


@pytest.mark.untraced
def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    process = start(tmp_path, "milp_plan", "list", "--json")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, _, err = finish(process)
    assert "Traceback" not in err
