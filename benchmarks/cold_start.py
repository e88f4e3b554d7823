"""What a machine's first run loses: the same command with compiled loops on disk, and without."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from milp_plan.core.budget import Budget

ROOT = Path(__file__).resolve().parent.parent
LEEWAY_S = 2.0
"""Seconds that a process may take beyond its limit."""

MOST_WORSE = 0.02
"""Part of the value by which a first run may be worse."""


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Run a command with compiled loops, then with an empty folder for them."""
    warm, warm_s = answer(case, {})
    with tempfile.TemporaryDirectory() as empty:
        cold, cold_s = answer(case, {"NUMBA_CACHE_DIR": empty})
    return {
        "warm": warm["value_in_unit"],
        "cold": cold["value_in_unit"],
        "unit": warm["unit"],
        "change": (cold["value"] - warm["value"]) / warm["value"],
        "warm_gap": warm["gap"],
        "cold_gap": cold["gap"],
        "warm_s": round(warm_s, 1),
        "cold_s": round(cold_s, 1),
    }


def answer(case: dict[str, Any], changes: dict[str, str]) -> tuple[dict[str, Any], float]:
    """Return the answer of a process of its own, and its seconds of wall clock."""
    command = shlex.split(os.path.expandvars(case["command"]))
    with tempfile.TemporaryDirectory() as folder:
        options = ["--time-limit", str(case["limit"]), "--threads", "2"]
        clock = Budget()
        done = subprocess.run(
            [sys.executable, "-m", "milp_plan", *command, *options,
             "--record-folder", folder, "--json", "--quiet"],
            cwd=ROOT, env=os.environ | changes, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall_s = clock.elapsed_s
    if not done.stdout.strip():
        raise RuntimeError(f"no answer from {case['name']}: {done.stderr.strip()[-500:]}")
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[0])
    return told, wall_s


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures over all rows."""
    return {
        "count": len(rows),
        "worst": max(row["change"] for row in rows),
        "late": sum(beyond(row, way) for row in rows for way in ("warm", "cold")),
        "leeway": LEEWAY_S,
    }


def beyond(row: dict[str, Any], way: str) -> bool:
    """Whether a run took longer than it may."""
    return bool(row[f"{way}_s"] > row["limit"] + LEEWAY_S)


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """Commands whose first run is worse, or takes longer, than it may."""
    found = []
    for row in rows:
        if row["change"] > MOST_WORSE:
            found.append(f"{row['name']}: {row['change']:.2%} worse without compiled loops")
        found += [
            f"{row['name']}: {row[f'{way}_s']} s {way} under a limit of {row['limit']} s"
            for way in ("warm", "cold")
            if beyond(row, way)
        ]
    return found
