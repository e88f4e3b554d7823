"""Step time against memory, with and without operators that run again and a host.

From tight limits to loose ones, and from no way to all ways, each run starts with the best plan
that is already known to be valid there. So no curve falls where memory grows, and none lies above
another that has fewer ways; that is checked, not assumed. Where that plan is as fast as any that is
known without a limit, nothing more is asked.

Limits are parts of the bytes that the study names, not of what a run's own plan without a limit
needs: of two plans that are equally fast one may need a sixth less, and no row could be compared
with the same row of another run.

The study is ``results/paper/memory-curves/study.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from memory_sweep import limited, memory_figure

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.formats import read
from milp_plan.run import Settings, solve

INSTANCES = Path(__file__).resolve().parent.parent / "instances"

HOST = (512 * 2**30, 25 * 10**9)
"""Bytes of the host, and bytes per second to and from each device."""

WAYS = {
    "none": (False, False),
    "recompute": (True, False),
    "host": (False, True),
    "both": (True, True),
}
"""Name -> whether operators may run again, and whether there is a host."""

LABELS = {"none": "none", "recompute": "runs again", "host": "host", "both": "both"}

MEDIAN_AT = 70
"""Percentage of the memory at which instances are put together."""

Row = dict[str, Any]


def problem_of(problem: PlanningProblem, limit: int, way: str) -> PlanningProblem:
    """Return the problem under a limit with a way."""
    again, host = WAYS[way]
    found = limited(problem, limit)
    found = found.with_recomputation() if again else found
    return found.with_host(*HOST) if host else found


def measure(case: Mapping[str, Any]) -> Row:
    """All limits of an instance, with every way."""
    problem = read(INSTANCES / case["file"])
    settings = Settings(time_limit_s=case["free_s"], seed=case["seed"], threads=1)
    free = solve(limited(problem, None), settings)
    if free.plan is None or free.verdict is None:
        raise RuntimeError(f"no plan without limits: {free.infeasible_reason or 'none found'}")
    plans = [free.plan]
    fastest = free.verdict.value
    assert fastest is not None
    points: list[Row] = []
    cells = [(percent, way) for percent in sorted(case["percents"]) for way in WAYS]
    settings = replace(settings, time_limit_s=case["limit_s"])
    for percent, way in cells:
        point: Row = {
            "percent": percent,
            "limit_bytes": case["full_bytes"] * percent // 100,
            "way": way,
        }
        asked = problem_of(problem, point["limit_bytes"], way)
        known = best_of(asked, plans)
        if known is not None and known.value == fastest:
            points.append(point | {"value": fastest, "infeasible": ""})
            continue
        outcome = solve(asked, replace(settings, start=known))
        if outcome.plan is not None and outcome.value is not None:
            plans.append(outcome.plan)
            fastest = min(fastest, outcome.value)
        proof = outcome.infeasible_reason or ""
        points.append(point | {"value": outcome.value, "infeasible": proof})
    units = problem.units
    return {
        "instance": problem.name,
        "operators": len(problem.graph.operators),
        "devices": len(problem.cluster.devices),
        "free": fastest,
        "free_bytes": free.verdict.components["peak_memory"],
        "units": {"time": units.time, "size": units.size, "time_scale": units.time_scale},
        "points": points,
    }


def best_of(problem: PlanningProblem, plans: list[Plan]) -> Plan | None:
    """Return the best of the plans that pass the check on a problem, with its value claimed."""
    moved = [replace(p, fingerprint=problem.fingerprint, parent=None, value=None) for p in plans]
    judged = [(verify(problem, plan), plan) for plan in moved]
    valid = [(v.value, n) for n, (v, _) in enumerate(judged) if v.ok and v.value is not None]
    if not valid:
        return None
    value, number = min(valid)
    return replace(judged[number][1], value=value)


# -- the page ------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Rows of the tables, and the median of all instances."""
    lines = [line for row in rows for line in _lines(row)]
    slower = [
        line["both_more"]
        for line in lines
        if line["percent"] == MEDIAN_AT and line["both_more"] is not None
    ]
    return {
        "limits": lines,
        "limit_s": max((row["limit_s"] for row in rows), default=None),
        "free_s": max((row["free_s"] for row in rows), default=None),
        "median_at": MEDIAN_AT,
        "median_of": len(slower),
        "median": median(slower) if slower else None,
    }


def _lines(row: Row) -> list[Row]:
    lines: dict[int, Row] = {}
    for point in row["points"]:
        percent, way, value = point["percent"], point["way"], point["value"]
        line = lines.setdefault(
            percent,
            {
                **{name: row[name] for name in ("instance", "operators", "devices", "free_bytes")},
                "percent": percent,
                "limit": f"{percent} %",
                "limit_bytes": point["limit_bytes"],
                "proofs": [],
            },
        )
        line[f"{way}_ms"] = None if value is None else value / 1e6
        line[f"{way}_more"] = None if value is None else value / row["free"] - 1
        if point["infeasible"]:
            line["proofs"].append(LABELS[way])
    for line in lines.values():
        line["proofs"] = ", ".join(line["proofs"]) or None
    return [lines[percent] for percent in sorted(lines, reverse=True)]


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the claims of the page."""
    found = []
    for row in rows:
        value = {(p["percent"], p["way"]): p["value"] for p in row["points"]}
        for (percent, way), here in value.items():
            for (looser, more), there in value.items():
                further = all(a <= b for a, b in zip(WAYS[way], WAYS[more], strict=True))
                easier = looser >= percent and further
                if easier and here is not None and (there is None or there > here):
                    where = f"{row['instance']}: {LABELS[more]} at {looser} %"
                    found.append(f"{where} is worse than {LABELS[way]} at {percent} %")
        for point in row["points"]:
            if point["infeasible"] and point["value"] is not None:
                found.append(f"{row['instance']} at {point['percent']} %: a plan and a proof")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """A line for each way, a figure per instance."""
    found = {}
    for row in rows:
        lines = {
            LABELS[way]: [{**p, "bound": None} for p in row["points"] if p["way"] == way]
            for way in WAYS
        }
        figure = memory_figure(lines, row, "time of a step")
        found |= {f"{row['instance']}.{suffix}": figure for suffix in ("png", "svg")}
    return found
