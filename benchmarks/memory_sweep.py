"""What memory costs: the value of the best plan as every device's memory shrinks step by step.

100 % is what the best plan found without any limit needs: the highest peak of any device. From
there the limit of every device falls in steps of a tenth, until it is proved that no plan fits. A
plan for a tighter limit is valid under every looser one, and a bound for a looser limit holds under
every tighter one, so both are carried over, the plan after a check on the problem it is carried to.

The study is ``results/memory/study.toml``: ``milp-plan table results/memory``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem, Units
from milp_plan.draw.canvas import Scale, axis_label, size_scale, time_scale
from milp_plan.draw.tradeoff import Mark, tradeoff_figure
from milp_plan.kinds.schedule.formats import read
from milp_plan.report.pages import amount, amount_scale
from milp_plan.run import Outcome, Settings, solve

INSTANCES = Path(__file__).resolve().parent.parent / "instances"
STEPS = 10
"""Steps from the reference down to nothing."""

Row = dict[str, Any]


@dataclass
class Point:
    """One limit of one instance.

    Parameters
    ----------
    percent, limit_bytes
        Limit of every device, in percent of the reference and in bytes.
    problem
        The instance under this limit.
    error
        Why there is no answer under this limit.
    plan, value, origin
        Best plan that passes the check here, and the percentage it was found at (``None``: found
        without limits).
    bound, bound_name
        Best bound that holds here.
    infeasible
        The proof that there is no plan, in words.
    """

    percent: int
    limit_bytes: int
    problem: PlanningProblem
    error: str = ""
    plan: Plan | None = None
    value: int | None = None
    origin: int | None = None
    bound: int | None = None
    bound_name: str = ""
    infeasible: str = ""


def measure(case: Mapping[str, Any]) -> Row:
    """Sweep over the limits of an instance."""
    problem = read(INSTANCES / case["file"])
    points = sweep(problem, Settings(time_limit_s=case["limit_s"], seed=case["seed"]))
    units = problem.units
    names = ("percent", "limit_bytes", "value", "origin", "bound", "bound_name")
    return {
        "instance": problem.name,
        "operators": len(problem.graph.operators),
        "devices": len(problem.cluster.devices),
        "objective": str(problem.objective),
        "units": {"time": units.time, "size": units.size, "time_scale": units.time_scale},
        "own_bytes": sorted({d.memory_bytes for d in problem.cluster.devices}, key=str),
        "points": [
            {name: getattr(point, name) for name in (*names, "infeasible", "error")}
            for point in points
        ],
        "wrong": problems_of(points),
    }


def limited(problem: PlanningProblem, memory_bytes: int | None) -> PlanningProblem:
    """Return the problem with this limit on every device; ``None`` means without."""
    limits = dict.fromkeys(problem.cluster.device_names, memory_bytes)
    return replace(problem, cluster=problem.cluster.with_memory(limits))


def sweep(problem: PlanningProblem, settings: Settings) -> list[Point]:
    """Return the points from loose to tight.

    Raises
    ------
    RuntimeError
        There is no plan even without limits.
    """
    free = solve(limited(problem, None), settings)
    if free.plan is None or free.verdict is None:
        raise RuntimeError(f"no plan without limits: {free.infeasible_reason or 'none found'}")
    start = free.verdict.components["peak_memory"]
    points: list[Point] = []
    for step in range(STEPS, 0, -1):
        limit = start * step // STEPS
        points.append(point := Point(100 * step // STEPS, limit, limited(problem, limit)))
        try:
            outcome = solve(point.problem, settings)
        except Exception as error:  # a crash at one limit is a row, the others go on
            point.error = f"{type(error).__name__}: {error}"
            continue
        point.plan, point.value, point.origin = outcome.plan, outcome.value, point.percent
        point.bound, point.bound_name = outcome.bound, outcome.bound_name or ""
        point.infeasible = outcome.infeasible_reason or ""
        if point.infeasible:
            break
    carry(points, free)
    return points


def carry(points: list[Point], free: Outcome[PlanningProblem, Plan]) -> None:
    """Carry plans to looser limits and bounds to tighter ones."""
    assert free.plan is not None
    found: list[tuple[Plan, int | None]] = [(free.plan, None)]
    for point in reversed(points):
        if point.plan is not None:
            found.append((point.plan, point.origin))
        for plan, origin in found:
            _offer(point, plan, origin)
    bound, name = free.bound, free.bound_name or ""
    for point in points:
        if point.infeasible:
            point.bound, point.bound_name = None, ""
        elif point.bound is None or (bound is not None and bound > point.bound):
            point.bound, point.bound_name = bound, f"{name} (looser limit)"
        bound, name = point.bound, point.bound_name.removesuffix(" (looser limit)")


def _offer(point: Point, plan: Plan, origin: int | None) -> None:
    """Take a plan made for another limit if it is better and passes the check here."""
    moved = replace(plan, fingerprint=point.problem.fingerprint)
    verdict = verify(point.problem, moved)
    if verdict.ok and (point.value is None or (verdict.value or 0) < point.value):
        point.plan, point.value, point.origin = moved, verdict.value, origin


def problems_of(points: list[Point]) -> list[str]:
    """What contradicts the claims of the page: errors, plans that fail, a curve that falls."""
    found = [f"{p.percent} %: {p.error}" for p in points if p.error]
    for point in points:
        where = f"{point.percent} %"
        if point.plan is not None:
            verdict = verify(point.problem, replace(point.plan, fingerprint=None))
            if not verdict.ok or verdict.value != point.value:
                found.append(f"{where}: the plan fails the check")
            if point.infeasible:
                found.append(f"{where}: proved infeasible, but there is a plan")
        if point.value is not None and point.bound is not None and point.bound > point.value:
            found.append(f"{where}: bound {point.bound} above value {point.value}")
    values = [p.value for p in points if p.value is not None]
    if any(tight < loose for loose, tight in pairwise(values)):
        found.append("the curve is not monotone")
    return found


# -- the page ------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Lay out every point of every instance."""
    return {"limits": [line for row in rows for line in _lines(row)]}


def _lines(row: Row) -> list[Row]:
    largest = max((p["value"] for p in row["points"] if p["value"] is not None), default=0)
    units = row["units"]
    of_bytes = row["objective"] == "peak_memory"
    unit = {"unit": units["size"]} if of_bytes else {"unit": units["time"]}
    ticks = 1 if of_bytes else units["time_scale"]
    scale = amount_scale({**unit, "ticks_per_unit": ticks, "value": largest})
    sizes = ("no limit" if size is None else f"{size:,}" for size in row["own_bytes"])
    about = {name: row[name] for name in ("instance", "operators", "devices", "objective")}
    about["own"] = ", ".join(sizes)
    lines = []
    for point in row["points"]:
        value, bound, origin = point["value"], point["bound"], point["origin"]
        known = value is not None
        gap = None if not known or bound is None else (value - bound) / value if value else 0.0
        lines.append(
            {
                **about,
                "limit": f"{point['percent']} %",
                "limit_bytes": point["limit_bytes"],
                "value": amount(value, scale),
                "from": None if not known else "no limit" if origin is None else f"{origin} %",
                "bound": amount(bound, scale),
                "bound_name": point["bound_name"] or None,
                "gap": gap,
                "check": "ok" if known else None,
                "remark": point["error"]
                or point["infeasible"]
                or ("" if known else "no plan found"),
            }
        )
    return lines


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the page's claims."""
    return [f"{row['instance']} {said}" for row in rows for said in row["wrong"]]


def figures(rows: list[Row]) -> dict[str, Any]:
    """Value against memory, a figure per instance."""
    found = {}
    for row in rows:
        of_bytes = row["objective"] == "peak_memory"
        figure = memory_figure({"": row["points"]}, row, "value", of_bytes=of_bytes)
        found |= {f"{row['instance']}.{suffix}": figure for suffix in ("png", "svg")}
    return found


def memory_figure(
    lines: Mapping[str, list[Row]], row: Row, value: str, *, of_bytes: bool = False
) -> Any:
    """Draw values against the memory of a device: name of a line -> its points."""
    units, points = Units(**row["units"]), [point for line in lines.values() for point in line]
    known = [point[name] for point in points for name in ("value", "bound")]
    largest = max((number for number in known if number is not None), default=0)
    scale = (size_scale if of_bytes else time_scale)(units, largest)
    size = size_scale(units, max((point["limit_bytes"] for point in points), default=0))
    marks = [_mark(name, point, size, scale) for name, line in lines.items() for point in line]
    labels = (axis_label("memory of a device", size), axis_label(value, scale))
    return tradeoff_figure(marks, row["instance"], labels)


def _mark(name: str, point: Row, size: Scale, scale: Scale) -> Mark:
    value, bound = (None if n is None else scale(n) for n in (point["value"], point["bound"]))
    infeasible = bool(point["infeasible"])
    return Mark(name, size(point["limit_bytes"]), value, bound, infeasible=infeasible)
