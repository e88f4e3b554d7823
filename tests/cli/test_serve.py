"""``serve``: the answer in words and as JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit

from .cases import call

ASKED = ("--prompt", "1024")
ON_FOUR = ("serve", "llama3-8b", "4xH100", *ASKED)


def test_the_answer_says_times_memory_proof_and_what_else_there_is() -> None:
    done = call(*ON_FOUR)
    assert done.exit_code == Exit.DONE, done.stderr
    for words in (
        *("TP ", "PP ", "replica", "first token", "each further token", "tokens/s a device"),
        *("weights", "cache", "bytes a token", "left free", "not fitted to measured inference"),
        *("proved best within the space", "next best", "not considered"),
    ):
        assert words in done.stdout
    reported = json.loads(call(*ON_FOUR, "--json").stdout)
    assert reported["best"]["deployment"]["tensor"] == 4
    assert reported["best"]["peak_bytes"] < 72 * 10**9


def test_files_of_a_job_and_its_plan_come_back(tmp_path: Path) -> None:
    job, plan, picture = tmp_path / "job.json", tmp_path / "plan.json", tmp_path / "request.png"
    files = ("--job-output", job, "--plan-output", plan, "--plot", picture)
    asked = (*ON_FOUR, "--cache-precision", "fp8", "--token", "30ms", "--fix", "pp=1")
    reported = json.loads(call(*asked, "--json", *files).stdout)
    assert reported["proved"]
    assert reported["bound"] == reported["value"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    limit = ("--quiet", "--record-folder", tmp_path, "--time-limit", "60")
    solved = json.loads(call("solve", job, "--json", *limit).stdout)
    assert (solved["kind"], solved["value"]) == ("serving", reported["value"])
    assert solved["fingerprint"] == reported["fingerprint"]
    checked = json.loads(call("serve", *asked[1:-2], "--check", plan, "--json").stdout)
    assert (checked["verb"], checked["valid"], checked["value"]) == (
        "serve",
        True,
        reported["value"],
    )
    tight = call("serve", *asked[1:-2], "--memory", "4GB", "--check", plan)
    assert tight.exit_code == Exit.NOT_VALID
    assert "memory" in tight.stdout


def test_fixed_degrees_precision_and_requests_change_the_answer() -> None:
    value, fixed, small, many = (
        json.loads(call(*ON_FOUR, "--json", *more).stdout)["value"]
        for more in ((), ("--fix", "tp=1"), ("--precision", "fp8"), ("--requests", "64"))
    )
    assert small < value < fixed
    assert value < many


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("llama3-70b", "1xH100", *ASKED), Exit.INFEASIBLE, "GB too much"),
        (("llama3-8b", "4xH100", *ASKED, "--token", "1us"), Exit.INFEASIBLE, "limits on times"),
        (("llama3-8b", "4xH100", *ASKED, "--token", "fast"), Exit.USAGE, "amount"),
        (("llama3-8b", "4xH100", *ASKED, "--fix", "tp=3"), Exit.INFEASIBLE, "no deployment can"),
        (("llama3-8b", "4xH100", *ASKED, "--fix", "zero=1"), Exit.BAD_INPUT, "tensor"),
        (("llama3-8b", "4xH100", *ASKED, "--fix", "tp=x"), Exit.BAD_INPUT, "number from 1"),
        (
            ("llama3-8b", "4xH100", *ASKED, "--phase", "prefill", "--token", "9ms"),
            Exit.BAD_INPUT,
            "a limit beside phase prefill",
        ),
        (
            ("llama3-8b", "4xH100", *ASKED, "--phase", "prefill", "--output", "9"),
            Exit.USAGE,
            "prefill makes one token",
        ),
        (("vit-l", "4xH100", *ASKED), Exit.BAD_INPUT, "generates no tokens"),
        (("llama3-8b", *ASKED), Exit.USAGE, "CLUSTER is missing after llama3-8b"),
    ],
)
def test_what_cannot_be_answered_is_refused_or_reported(
    words: tuple[str, ...], code: Exit, message: str
) -> None:
    done = call("serve", *words)
    assert done.exit_code == code
    assert message in done.stderr + done.stdout


def test_a_field_with_two_values_and_absurd_sizes_are_one_clear_error() -> None:
    asked = ("serve", "llama3-8b", "8xH100", "--prompt", "1000")
    for words, message in (
        (("--fix", "tensor=2", "--fix", "tp=4"), "--fix tensor: found 2 and 4, expected one value"),
        (("--output", "9" * 30), "output: found 999"),
        (("--memory", "0GB"), "memory_bytes: found 0 bytes"),
    ):
        done = call(*asked, *words)
        assert done.exit_code == Exit.BAD_INPUT
        assert message in done.stderr
