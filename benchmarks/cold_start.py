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

MOST_WORSE = 0.03
"""Part of the value by which a first run may be worse."""

FIRST_PLAN_S = 3.0
"""Seconds in which a first run should have a plan."""


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Run a command with compiled loops, then with an empty folder for them.

    Parameters
    ----------
    case
        ``limit``, and either ``file``, a shipped instance, or ``name`` and ``command``.
    """
    command = case.get("command") or f"solve instances/{case['file']}"
    warm = run(command, case["limit"], {})
    with tempfile.TemporaryDirectory() as empty:
        cold = run(command, case["limit"], {"NUMBA_CACHE_DIR": empty})
    both = None not in {warm["value"], cold["value"]}
    return {
        "name": case.get("name") or case["file"].split(".json")[0],
        "shipped": "file" in case,
        "operators": warm["operators"],
        "unit": warm["unit"],
        "change": (cold["value"] - warm["value"]) / warm["value"] if both else None,
        **{f"warm_{name}": entry for name, entry in warm.items()},
        **{f"cold_{name}": entry for name, entry in cold.items()},
    }


def run(command: str, limit: float, changes: dict[str, str]) -> dict[str, Any]:
    """Return what a process of its own answers and records, and its seconds of wall clock."""
    words = shlex.split(os.path.expandvars(command))
    with tempfile.TemporaryDirectory() as folder:
        options = ["--time-limit", str(limit), "--threads", "2"]
        clock = Budget()
        done = subprocess.run(
            [sys.executable, "-m", "milp_plan", *words, *options,
             "--record-folder", folder, "--json", "--quiet"],
            cwd=ROOT, env=os.environ | changes, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall_s = clock.elapsed_s
        if not done.stdout.strip():
            raise RuntimeError(f"no answer from {command}: {done.stderr.strip()[-500:]}")
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[0])
        record = json.loads(Path(answer["record_file"]).read_text(encoding="utf-8"))
    planned = (point for point in record["trace"] if point["incumbent"] is not None)
    return {
        "value": answer["value"],
        "shown": answer["value_in_unit"],
        "unit": answer["unit"],
        "gap": answer["gap"],
        "proved": bool(record["proved"]),
        "operators": record.get("operators"),
        "first_s": next((point["seconds"] for point in planned), None),
        "s": round(wall_s, 1),
    }


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures over all rows."""
    changes = [row["change"] for row in rows if row["change"] is not None]
    firsts = [row["cold_first_s"] for row in rows if row["cold_first_s"] is not None]
    return {
        "count": len(rows),
        "worst": max(changes, default=0.0),
        "within": sum(change <= MOST_WORSE for change in changes),
        "compared": len(changes),
        "most_worse": MOST_WORSE,
        "warm_proofs": sum(row["warm_proved"] for row in rows),
        "cold_proofs": sum(row["cold_proved"] for row in rows),
        "first": max(firsts, default=0.0),
        "soon": sum(seconds <= FIRST_PLAN_S for seconds in firsts),
        "planned": len(firsts),
        "first_limit": FIRST_PLAN_S,
        "late": sum(beyond(row, way) for row in rows for way in ("warm", "cold")),
        "leeway": LEEWAY_S,
        "shipped": [row for row in rows if row["shipped"]],
        "others": [row for row in rows if not row["shipped"]],
    }


def beyond(row: dict[str, Any], way: str) -> bool:
    """Whether a run took longer than it may."""
    return bool(row[f"{way}_s"] > row["limit"] + LEEWAY_S)


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """Commands whose first run is worse, later or longer than it may be, or proves less."""
    found = []
    for row in rows:
        if row["change"] is not None and row["change"] > MOST_WORSE:
            found.append(f"{row['name']}: {row['change']:.2%} worse without compiled loops")
        if row["warm_value"] is not None and row["cold_value"] is None:
            found.append(f"{row['name']}: no plan without compiled loops")
        if row["warm_proved"] and not row["cold_proved"]:
            found.append(f"{row['name']}: no proof without compiled loops")
        if row["cold_first_s"] is not None and row["cold_first_s"] > FIRST_PLAN_S:
            found.append(f"{row['name']}: the first plan after {row['cold_first_s']} s")
        found += [
            f"{row['name']}: {row[f'{way}_s']} s {way} under a limit of {row['limit']} s"
            for way in ("warm", "cold")
            if beyond(row, way)
        ]
    return found
