"""Options that would do nothing where they are typed are refused with the reason."""

from __future__ import annotations

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
