"""Planned schedules run in torch, on processes that talk over gloo, with the gradients of one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import times
from milp_plan.kinds.pipeline.torch_schedule import torch_schedule_csv

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed; `make test-torch` installs it and runs these",
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_pipeline" / "run.py"
MODEL_TENSORS = {"first": 1, "stage": 13, "last": 4}
"""Parameters: embedding, gain and block, head."""


def run(*arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Run the example on real processes; each row is a schedule."""
    command = [sys.executable, str(EXAMPLE), "--json", "--unit-ms", "0", "--steps", "1"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def tensors(stages: int) -> int:
    return MODEL_TENSORS["first"] + MODEL_TENSORS["stage"] * stages + MODEL_TENSORS["last"]


def test_experts_and_the_models_plan_give_the_gradients_of_one_process(tmp_path: Path) -> None:
    code, rows = run("--processes", "2", "4", "--keep", tmp_path)
    assert code == 0
    assert [(row["schedule"], row["processes"], row["stages"]) for row in rows] == [
        *(("1F1B", 2, 2), ("ZB-V", 2, 4), ("MILP", 2, 2)),
        *(("1F1B", 4, 4), ("ZB-V", 4, 8), ("MILP", 4, 4)),
    ]
    for row in rows:
        assert row["tensors"] == tensors(row["stages"])
        assert row["loss_error"] <= 1e-6
        assert row["gradient_error"] <= 1e-6 < 1e-3 < row["largest_gradient"]
    for processes in (2, 4):
        cells = {
            name: (tmp_path / f"{name}-{processes}" / "schedule.csv").read_text()
            for name in ("1f1b", "zbv", "milp")
        }
        assert f"{processes - 1}B7" in cells["1f1b"]
        assert f"{2 * processes - 1}I7" in cells["zbv"]
        assert f"{processes - 1}W7" in cells["milp"]


def test_double_precision_agrees_to_double_precision() -> None:
    code, rows = run("--schedules", "zbv", "--processes", "2", "--dtype", "float64")
    assert code == 0
    assert rows[0]["gradient_error"] <= 1e-14 < 1e-3 < rows[0]["largest_gradient"]


def test_without_renumbering_torch_would_be_wrong_in_silence(tmp_path: Path) -> None:
    """The trap is real, the comparison sees it, and the export avoids it."""
    template, _ = uniform(2, 3, (1, 1, 1))
    problem = pipeline_problem("case", template, place("line", 2))
    shop = shop_of(problem)
    assert shop is not None
    kinds = {kind.name: k for k, kind in enumerate(shop.kinds)}
    words = [[kinds[f"{kind}{stage}"] for kind in "FFFBBBWWW"] for stage in range(2)]
    straight = shop.plan(times(shop, words), "test")
    turned = {"0": "2", "1": "1", "2": "0"}
    plan = replace(
        straight,
        runs=tuple(
            replace(r, operator=r.operator[:3] + turned[r.operator[3]]) for r in straight.runs
        ),
        transfers=tuple(
            replace(t, value=t.value[:3] + turned[t.value[3]]) for t in straight.transfers
        ),
    )
    exported = tmp_path / "exported.csv"
    exported.write_text(torch_schedule_csv(problem, plan))
    naive = tmp_path / "naive.csv"
    naive.write_text("0F2,0F1,0F0,0I2,0I1,0I0,0W2,0W1,0W0\n1F2,1F1,1F0,1I2,1I1,1I0,1W2,1W1,1W0\n")
    code, rows = run("--files", exported, naive, "--micro-batches", "3")
    assert code == 1
    assert [row["ok"] for row in rows] == [True, False]
    assert rows[1]["gradient_error"] > 1e-3
