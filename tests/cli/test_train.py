"""``train``: the answer in words and as JSON, plans that come back, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.training.memory import MARGIN
from tests.training import measured_rows
from tests.training.test_huggingface import LLAMA3_70B

from .cases import call

ASKED = ("--global-batch", "32", "--sequence", "4096")
ON_EIGHT = ("train", "llama3-8b", "8xH100", *ASKED)


def test_the_answer_says_degrees_figures_proof_and_what_else_there_is() -> None:
    done = call(*ON_EIGHT)
    assert done.exit_code == Exit.DONE, done.stderr
    for words in (
        *("TP ", "PP ", "DP ", "micro-batch", "recompute", "sharded", "TFLOP/s a device", "MFU"),
        *("weights", "activations", "compute", "proved best within the space", "next best"),
        *("rejected", "GB too much", "not considered", "of every device left free", "overlaps"),
        *("error unknown", "costs of H100 assumed, but for products of experts"),
    ):
        assert words in done.stdout


def test_the_error_is_that_of_held_out_rows_of_the_device_class(tmp_path: Path) -> None:
    fixed = ("--fix", "pp=1", "--fix", "mbs=1")
    asked = ("--global-batch", "8", "--sequence", "2048", *fixed)
    known = call("train", "llama3-8b", "8xB200", *asked)
    assert "held-out rows)" in known.stdout
    assert "costs of B200 fitted to measured steps" in known.stdout
    told = json.loads(call("train", "llama3-8b", "8xB200", *asked, "--json").stdout)
    assert 0 < told["error_band"]["median_error"] < 0.1
    eight = call("train", "llama3-8b", "8xB200", *asked, "--fix", "precision=fp8", "--json")
    half = json.loads(eight.stdout)
    assert half["error_band"] is None
    rate = half["model_flops"] / (half["value"] / 1e9) / 8
    assert half["best"]["mfu"] == pytest.approx(rate / (2 * 2250e12))
    rows, rates = tmp_path / "rows.csv", tmp_path / "rates.json"
    rows.write_text(measured_rows.text(measured_rows.rows()[:8]))
    assert call("calibrate", rows, "--fit", rates).exit_code == Exit.DONE
    device = next(iter(json.loads(rates.read_text())["software"]["megatron-core"]["fitted"]))
    for wanted in (device, "V100"):
        words = call("train", "llama3-8b", f"8x{wanted}", *asked, "--rates", rates).stdout
        assert ("held-out rows)" in words) is (wanted == device)


def test_the_default_margin_is_what_measured_runs_leave_free() -> None:
    told = json.loads(call(*ON_EIGHT, "--json").stdout)
    assert told["reserve_bytes"] == round(MARGIN * 80 * 10**9)
    assert max(told["best"]["peak_bytes"]) <= 80 * 10**9 - told["reserve_bytes"]
    none = json.loads(call(*ON_EIGHT, "--json", "--reserve", "0B").stdout)
    assert none["value"] <= told["value"]


def test_a_plan_comes_back_and_is_checked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    told = json.loads(call(*ON_EIGHT, "--plan-output", plan, "--json").stdout)
    checked = json.loads(call(*ON_EIGHT, "--check", plan, "--json").stdout)
    assert (checked["valid"], checked["value"]) == (True, told["value"])
    assert call(*ON_EIGHT, "--plan-output", plan).exit_code == Exit.DONE
    tight = call(*ON_EIGHT, "--memory", "20GB", "--check", plan)
    assert tight.exit_code == Exit.NOT_VALID
    assert "memory" in tight.stdout
    plan.write_text(plan.read_text().replace('"data": 8', '"data": 4'))
    assert "degrees" in call(*ON_EIGHT, "--check", plan).stdout


def test_fixed_fields_less_memory_and_a_reserve_make_steps_longer() -> None:
    free, fixed, tight = (
        json.loads(call(*ON_EIGHT, "--json", *more).stdout)["value"]
        for more in ((), ("--fix", "tp=8"), ("--memory", "50GB", "--reserve", "10GB"))
    )
    assert free < fixed
    assert free < tight


def test_a_file_takes_the_place_of_a_name(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_70B))
    asked = ("--global-batch", "64", "--fix", "tensor=8", "--fix", "pipeline=8", "--json")
    told = json.loads(call("train", "8x8xH100", "--model-file", config, *asked).stdout)
    named = json.loads(call("train", "llama3-70b", "8x8xH100", *asked).stdout)
    assert told["value"] == named["value"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("llama3-9b", "8xH100", *ASKED), Exit.BAD_INPUT, "llama3-8b"),
        (("llama3-8b", "8xH900", *ASKED), Exit.BAD_INPUT, "H900"),
        (("llama3-8b", "12xH100", *ASKED), Exit.BAD_INPUT, "whole nodes"),
        (("llama3-8b", *ASKED), Exit.USAGE, "MODEL and CLUSTER"),
        (("llama3-8b", "8xH100", *ASKED, "--fix", "width=2"), Exit.BAD_INPUT, "width"),
        (("llama3-8b", "8xH100", *ASKED, "--memory", "much"), Exit.USAGE, "80GB"),
        (("llama3-70b", "8xA100-40GB", *ASKED), Exit.INFEASIBLE, ""),
        (("llama3-8b", "8xH100", *ASKED, "--fix", "tp=3"), Exit.INFEASIBLE, "fit cluster"),
        (
            ("llama3-8b", "8xH100", *ASKED, "--fix", "offload=optimizer"),
            Exit.INFEASIBLE,
            "offload of the optimizer to the host is not offered",
        ),
        (
            ("llama3-8b", "8xA100", *ASKED, "--fix", "precision=fp8"),
            Exit.INFEASIBLE,
            "A100 has no 8-bit floats",
        ),
        (
            ("llama3-8b", "8xH100", *ASKED, "--fix", "schedule=dualpipe-v", "--fix", "pp=2"),
            Exit.INFEASIBLE,
            "schedule dualpipe-v is not offered",
        ),
        (
            ("llama3-8b", "8xH100", *ASKED, "--fix", "pp=4", "--fix", "layers=7,8,8,8"),
            Exit.INFEASIBLE,
            "31 blocks, expected 4 chunks with 32",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_or_said(
    words: tuple[str, ...], code: Exit, message: str
) -> None:
    done = call("train", *words)
    assert done.exit_code == code
    assert message in done.stderr + done.stdout


def test_bounds_count_only_the_blocks_that_are_computed_again() -> None:
    fixed = ("--fix", "recompute=full", "--fix", "recomputed=1", "--fix", "zero=1")
    told = json.loads(call(*ON_EIGHT, *fixed, "--reserve", "0B", "--json").stdout)
    assert told["proved"]
    free = json.loads(call(*ON_EIGHT, *fixed[4:], "--reserve", "0B", "--json").stdout)
    assert free["value"] <= told["value"] < 1.2 * free["value"]
