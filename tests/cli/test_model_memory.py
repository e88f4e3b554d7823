"""``export`` says how much memory a model would take before it takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.cli.model_memory import GIB, at_most, estimate
from milp_plan.core import UnsupportedProblemError
from milp_plan.io import read

from .cases import INSTANCES, call

LARGE = INSTANCES / "gpt2-xl-training-16xA100.json.gz"
SMALL = INSTANCES / "two-tower-tiny-inference-2xH100.json"


def test_a_model_that_took_all_memory_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "model.mps"
    words = ("--format", "mps", "--output", output, "--model-memory", "24GiB")
    result = call("export", LARGE, *words)
    assert result.exit_code == Exit.BAD_INPUT
    assert "24.0 GiB are allowed" in result.stderr
    assert "--target" in result.stderr
    assert not output.exists()


def test_small_models_are_written_and_large_ones_estimated(tmp_path: Path) -> None:
    assert estimate(read(LARGE), "operator_schedule") > 24 * GIB
    assert estimate(read(SMALL), "operator_schedule") < GIB // 100
    assert estimate(read(LARGE), "another") is None
    output = tmp_path / "model.mps"
    words = ("--format", "mps", "--output", output, "--model-memory", "4GiB")
    assert call("export", SMALL, *words).exit_code == Exit.DONE
    assert output.is_file()


def test_a_limit_is_a_limit() -> None:
    refused = pytest.raises(UnsupportedProblemError, match=r"more than the 0\.1 GiB allowed")
    with refused, at_most("large", GIB // 8):
        bytearray(GIB)
    bytearray(GIB // 4)


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    words = ("--format", "mps", "--output", tmp_path / "m.mps", "--model-memory", "much")
    result = call("export", SMALL, *words)
    assert result.exit_code == Exit.USAGE
    assert "much" in result.stderr
