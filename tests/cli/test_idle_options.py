"""Options that would do nothing where they are typed are refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli import interrupts
from milp_plan.cli.exits import SERIOUSNESS, Exit

from .cases import INSTANCES, call, instance_file, plan_file

PIPELINE = ("pipeline", "--stages", "2", "--micro-batches", "4", "--quiet")


@pytest.mark.parametrize("placement", ["line", "v", "dualpipe"])
def test_chunks_of_placements_that_have_none(placement: str, tmp_path: Path) -> None:
    """They were dropped in silence."""
    asked = (*PIPELINE, "--placement", placement, "--record-folder", tmp_path)
    result = call(*asked, "--chunks", "2")
    assert result.exit_code == Exit.USAGE
    assert "--chunks 2 would do nothing" in result.stderr
    assert f"placement {placement} has its own number" in result.stderr


def test_one_number_of_micro_batches_has_no_fixed_batch() -> None:
    result = call(*PIPELINE, "--fixed-batch")
    assert result.exit_code == Exit.USAGE
    assert "--fixed-batch would do nothing" in result.stderr


@pytest.mark.parametrize(
    "option",
    [("--target", "3"), ("--formulation", "operator_schedule"), ("--model-memory", "1GiB")],
)
def test_a_plan_is_exported_without_a_model(option: tuple[str, str], tmp_path: Path) -> None:
    files = (instance_file(tmp_path), "--plan", plan_file(tmp_path))
    asked = ("export", *files, "--format", "perfetto", "-o", tmp_path / "trace.json")
    assert call(*asked).exit_code == Exit.DONE
    result = call(*asked, *option)
    assert result.exit_code == Exit.USAGE
    assert f"{option[0]} " in result.stderr
    assert "no model is built" in result.stderr


@pytest.mark.parametrize("option", ["--time-limit", "--gap"])
@pytest.mark.parametrize("word", ["nan", "-1", "", "x"])
def test_numbers_that_mean_nothing_are_one_error(option: str, word: str) -> None:
    result = call("solve", INSTANCES / "gang-beats-single.json", option, word, "--quiet")
    assert result.exit_code == Exit.USAGE
    assert f"'{option}'" in result.stderr


def test_signals_that_end_a_run_have_codes_of_their_own() -> None:
    codes = interrupts.CODES
    assert all(code == 128 + number for number, code in codes.items())
    assert set(codes.values()) <= set(SERIOUSNESS)
    assert set(SERIOUSNESS) == set(Exit)


GRAPH = INSTANCES / "captures" / "llama-inference.capture.json.gz"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("plot gap suite.toml --devices 2 -o x.svg", "no instance is read"),
        ("plot gap record.json --store kept -o x.svg", "records stand in their own files"),
        ("plot {file} {plan} --store kept -o x.svg", "drawn from its file"),
        ("explain {file} {plan} --time-limit 5", "nothing is planned"),
        ("table --jobs 2", "it is for a RECIPE"),
        ("table --render", "it is for a RECIPE"),
        ("table --store kept", "it is for a RECIPE"),
        ("table folder --record-folder runs", "has its own files"),
        ("table folder --all", "has its own files"),
        ("table folder --json", "has its own files"),
        ("table folder -o x.md", "has its own files"),
        ("table folder --render --jobs 2", "--render does no run"),
        ("table folder --render --store kept", "--render reads"),
        ("table folder --dask tcp://nowhere:1 --jobs 2", "workers of --dask"),
        ("bench run suite.toml --dask tcp://nowhere:1 --jobs 2", "workers of --dask"),
        ("bench run suite.toml --dry-run --quiet", "--dry-run does no run"),
        ("generate gpt-tiny 2xA100 --sharding 2 --communication delay", "sharding problem"),
        ("generate gpt-tiny 2xA100 --sharding 2 --objective span", "sharding problem"),
        ("generate gpt-tiny 2xA100 --mode inference --optimizer sgd", "updates no weights"),
        (f"capture {GRAPH} 2xA100 --optimizer sgd -o x.json", "updates no weights"),
        (f"capture {GRAPH} 2xA100 --barrier -o x.json", "updates no weights"),
        (f"capture {GRAPH} 2xA100 --sharding 2 --communication delay", "no transfers"),
        (f"{' '.join(PIPELINE)} --rounds 3", "no search in rounds of neighbourhoods"),
        ("solve {file} --devices 2", "--devices: found an option of hybrid problems"),
    ],
)
def test_an_option_that_would_do_nothing(
    words: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"{file}": instance_file(tmp_path), "{plan}": plan_file(tmp_path)}
    result = call(*(names.get(word, word) for word in words.split()))
    assert result.exit_code == Exit.USAGE, result.output
    assert reason in result.stderr


def test_a_record_without_a_time_limit_is_json(tmp_path: Path) -> None:
    """It held Infinity, which no other reader of JSON takes."""
    asked = ("solve", INSTANCES / "gang-beats-single.json", "--time-limit", "inf", "--quiet")
    assert call(*asked, "--record-folder", tmp_path).exit_code == Exit.DONE
    (record,) = (path for path in tmp_path.iterdir() if ".plan" not in path.name)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    reported = json.loads(record.read_text(), parse_constant=refuse)
    assert reported["settings"]["time_limit_s"] is None
