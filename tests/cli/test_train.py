"""``train``: the answer in words and as JSON, plans that come back, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
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
        *("rejected", "GB too much", "not considered"),
    ):
        assert words in done.stdout


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
