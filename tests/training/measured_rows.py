"""Rows of measured steps that are made from known rates."""

from __future__ import annotations

import csv
import io
from itertools import product

from milp_plan.kinds.training.costs import step_seconds
from milp_plan.kinds.training.efficiency import DeviceRates, Efficiency, Software
from milp_plan.kinds.training.measured import measured_rows
from milp_plan.kinds.training.work import stage_works

COLUMNS = (
    *("model", "layers", "hidden", "heads", "seq", "gpu", "gpus", "tp", "pp", "dp"),
    *("micro_batch", "global_batch", "recompute", "step_time_s"),
)
TRUE = Efficiency(
    {"A100": DeviceRates(0.62, 0.7, 0.31, 0.55, 0.66, 0.7, 15_000.0, 4_000.0)},
    Software("megatron-2021", 22_000.0, 8e6, fused_attention=False, gradient_bytes=2),
)
"""What the rows are made from."""


def rows(true: Efficiency = TRUE) -> list[dict[str, str]]:
    """Return rows of two models on 2 to 8 devices, each with the step that the rates give."""
    made = []
    for (layers, hidden), gpus, tp, pp, batch in product(
        ((8, 1024), (12, 4096)), (2, 4, 8), (1, 2, 4), (1, 2), (1, 4)
    ):
        if gpus % (tp * pp):
            continue
        dp = gpus // (tp * pp)
        values = ("x", layers, hidden, 16, 1024, "A100", gpus, tp, pp, dp, batch, 4 * batch * dp)
        made.append(dict(zip(COLUMNS, map(str, (*values, "full", 1)), strict=True)))
    for row, run in zip(made, measured_rows(made), strict=True):
        c = run.configuration
        works = stage_works(run.architecture, run.cluster, c, run.sequence, true.software)
        row["step_time_s"] = str(step_seconds(works, run.cluster, c, true).total)
    return made


def text(made: list[dict[str, str]]) -> str:
    """Return rows as a CSV file."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    writer.writerows(made)
    return file.getvalue()
