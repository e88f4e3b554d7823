"""``transform``: training steps with local updates, planned like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit

from .cases import call

ROOT = Path(__file__).resolve().parents[2]
STEP = ROOT / "instances" / "unet-training-4xA100.json"
QUIET = ("--quiet", "--record-folder")


def info(path: Path) -> dict[str, int]:
    reported: dict[str, int] = json.loads(call("info", path, "--json").stdout)["about"]
    return reported


def test_a_training_step_is_cut_and_planned(tmp_path: Path) -> None:
    """Two stages, two micro-batches, forward 1, backward 2: 9, and cut 1 + 2 (3 + 0.5)."""
    step, local, plan = (tmp_path / f"{name}.json" for name in ("step", "local", "plan"))
    words = ("--stages", "2", "--micro-batches", "2", "--times", "2,2,2", "--joint-backward")
    quiet = ("--quiet", "--record-folder", tmp_path / "runs", "--time-limit", "300")
    assert call("pipeline", *words, *quiet, "--instance-output", step).exit_code == Exit.DONE
    done = call(
        *("transform", step, "--local-updates", "greedy", "--head", "1/2", "--final-head"),
        *("-o", local),
    )
    assert done.exit_code == Exit.DONE, done.stderr
    assert "2 blocks, 4 heads" in done.stdout
    solved = call("solve", local, *quiet, "--plan-output", plan, "--json")
    assert json.loads(solved.stdout)["value"] == 2 + 2 * (2 + 4 + 1)
    assert call("check", local, plan).exit_code == Exit.DONE
    assert call("check", step, plan).exit_code != Exit.DONE


@pytest.mark.parametrize("variant", ["0", "chunks:2", "overlapping"])
@pytest.mark.parametrize("head", ["0.3", "64x1024x1000"])
def test_variants(variant: str, head: str, tmp_path: Path) -> None:
    local = tmp_path / "local.json"
    done = call("transform", STEP, "--local-updates", variant, "--head", head, "-o", local)
    assert done.exit_code == Exit.DONE, done.stderr
    assert info(local)["operators"] > info(STEP)["operators"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--local-updates", "99"), Exit.BAD_INPUT, "boundaries 0 to"),
        (("--local-updates", "some"), Exit.USAGE, "greedy, overlapping"),
        (("--local-updates", "chunks:99"), Exit.USAGE, "99 chunks of"),
        (("--local-updates", "greedy", "--head", "much"), Exit.USAGE, "expected a part"),
    ],
)
def test_what_cannot_be(words: tuple[str, ...], code: Exit, said: str, tmp_path: Path) -> None:
    done = call("transform", STEP, *words, "-o", tmp_path / "local.json")
    assert done.exit_code == code, done.stderr
    assert said in done.stderr


def test_no_training_step(tmp_path: Path) -> None:
    other = ROOT / "instances" / "gpt-tiny-inference-2xV100.json"
    words = ("--local-updates", "greedy", "-o", tmp_path / "local.json")
    assert "a training step of several blocks" in call("transform", other, *words).stderr
    wrong = ROOT / "examples" / "resharding" / "two-to-three-hosts.json"
    assert "a schedule problem" in call("transform", wrong, *words).stderr
