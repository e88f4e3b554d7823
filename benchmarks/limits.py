"""Whether time limits are kept: wall clock of whole processes, imports and writing included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from milp_plan.core.budget import Budget

ROOT = Path(__file__).resolve().parent.parent
LEEWAY_S = 2.0
"""Seconds that a process may take beyond its limit."""

MILP_PLAN = (sys.executable, "-m", "milp_plan")


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Solve an instance under a limit in a process of its own."""
    file, *options = os.path.expandvars(case["file"]).split()
    with tempfile.TemporaryDirectory() as folder:
        limit = ["--time-limit", str(case["limit"]), "--record-folder", folder]
        clock = Budget()
        done = subprocess.run(
            [*MILP_PLAN, "solve", file, *options, *limit, "--json", "--quiet"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall_s = clock.elapsed_s
    lines = done.stdout.strip().splitlines()
    told = json.loads(lines[0]) if lines else {}
    return {
        "name": Path(file).name.removesuffix(".gz").removesuffix(".json"),
        "asked": " ".join(options),
        "exit_code": done.returncode,
        "stop": told.get("stop"),
        "wall_s": round(wall_s, 2),
        "over_s": round(max(0.0, wall_s - case["limit"]), 2),
    }


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures over all rows."""
    worst = max(rows, key=lambda row: row["over_s"])
    late = [row for row in rows if row["over_s"] > LEEWAY_S]
    return {
        "count": len(rows),
        "late": len(late),
        "worst": worst["over_s"],
        "worst_name": worst["name"],
        "leeway": LEEWAY_S,
    }


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """Runs that took longer than they may."""
    return [
        f"{row['name']} {row['asked']}: {row['wall_s']} s under a limit of {row['limit']} s"
        for row in rows
        if row["over_s"] > LEEWAY_S
    ]
