"""Limits of memory under which every plan has operators that run again.

Each instance under one limit: first without operators that may run again, which is to end with a
proof that there is no plan, then with them. The plan is checked once more here.

The study is ``results/paper/memory-floors/study.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

from milp_plan.check import verify
from milp_plan.kinds.schedule.formats import read
from milp_plan.run import Settings, solve

INSTANCES = Path(__file__).resolve().parent.parent / "instances"

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """One limit of one instance, without and with operators that may run again."""
    problem = read(INSTANCES / case["file"])
    scale = Fraction(case["scale"])
    problem = problem.with_memory_scale(scale.numerator, scale.denominator)
    settings = Settings(time_limit_s=case["limit_s"], seed=case["seed"], threads=1)
    began = process_time()
    without = solve(problem, settings)
    proved = process_time()
    again = problem.with_recomputation()
    first: list[tuple[float, int]] = []
    found = solve(
        again, settings, on_incumbent=lambda one: first.append((process_time(), one.value))
    )
    ended = process_time()
    verdict = None if found.plan is None else verify(again, found.plan)
    return {
        "instance": problem.name,
        "limit_bytes": sorted({device.memory_bytes for device in problem.cluster.devices}, key=str),
        "proof": without.infeasible_reason or "",
        "without": without.value,
        "proof_s": proved - began,
        "value": found.value,
        "bound": found.bound,
        "refuted": found.infeasible_reason or "",
        "first": first[0][1] if first else None,
        "first_s": first[0][0] - proved if first else None,
        "seconds": ended - proved,
        "peak_bytes": verdict.components["peak_memory"] if verdict and verdict.ok else None,
        "again": len(found.plan.runs) - len(problem.graph.operators) if found.plan else None,
        "checked": bool(verdict and verdict.ok and verdict.value == found.value),
    }


def present(rows: list[Row]) -> Row:
    """Amounts in the page's units."""
    for row in rows:
        row["limit"] = ", ".join(f"{size:,}" for size in row["limit_bytes"])
        row["check"] = "ok" if row["checked"] else None
        for name in ("first", "value", "bound"):
            row[f"{name}_ms"] = None if row[name] is None else row[name] / 1e6
    shown = [row for row in rows if row["proof"] and row["checked"]]
    return {
        "shown": len(shown),
        "count": len(rows),
        "limit_s": max((row["limit_s"] for row in rows), default=None),
    }


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the page."""
    found = []
    for row in rows:
        where = f"{row['instance']} at {row['scale']}"
        if row["proof"] and row["without"] is not None:
            found.append(f"{where}: a plan and a proof without runs again")
        if row["value"] is not None and (row["refuted"] or not row["checked"]):
            found.append(f"{where}: the plan with runs again does not hold")
        if row["value"] is not None and row["bound"] is not None and row["bound"] > row["value"]:
            found.append(f"{where}: the bound is above the plan")
    return found
