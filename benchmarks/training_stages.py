"""Layers of named models on the stages of a pipeline: the even split against ``training_stages``.

Degrees, micro-batches and schedule of each case are given. The even split lets all layers run in
one way, the best that fits; the model chooses layers and what recomputes.

The study is ``results/paper/training-stages/study.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milp_plan.kinds.training import Configuration, Recompute, Schedule
from milp_plan.kinds.training.api import check, training_problem
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.stage_plans import Stages, fastest_stages, with_stages

Row = dict[str, Any]

WAYS = (Recompute.NONE, Recompute.FULL)


def measure(case: Mapping[str, Any]) -> Row:
    """One model on one pipeline."""
    problem = training_problem(
        case["model"], case["cluster"], global_batch=case["batch"], sequence=case["sequence"]
    )
    tensor, pipeline = case["tensor"], case["pipeline"]
    data = problem.cluster.devices // (tensor * pipeline)
    degrees = Configuration(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        expert=case["expert"],
        micro_batches=case["batch"] // data,
        schedule=Schedule(case["schedule"]),
        sequence_parallel=tensor > 1,
    )
    reason = problem.why_not(degrees)
    if reason is not None:
        return {"reason": reason}
    found = fastest_stages(PlanCosts(problem), degrees, WAYS, case["limit_s"])
    best = found.configuration
    return {
        "even": None if found.even is None else found.even.value,
        "value": None if found.plan is None else found.plan.value,
        "bound": found.bound,
        "proved": found.proved,
        "columns": found.columns,
        "seconds": found.seconds,
        "layers": None if best is None else list(best.layers),
        "recomputed": None if best is None else _recomputed(best),
        "even_replay": _even_replay(degrees, found),
        "replay": found.candidates[0][1].step_ns if found.candidates else None,
        "checked": best is not None and check(problem, best).ok,
    }


def _recomputed(best: Configuration) -> list[int]:
    if best.recompute is Recompute.NONE:
        return [0] * len(best.layers)
    return list(best.recomputed_by_chunk or best.layers)


def _even_replay(degrees: Configuration, found: Stages) -> int | None:
    """Step of the even split by its replay, where it fits."""
    if found.even is None:
        return None
    even = with_stages(degrees, found.problem, found.even)
    return next((step.step_ns for c, step in found.candidates if c == even), None)


def present(rows: list[Row]) -> Row:
    """Seconds, gains and lists in the page's form."""
    for row in rows:
        for name in ("even", "value", "even_replay", "replay"):
            row[f"{name}_s"] = None if row.get(name) is None else row[name] / 1e9
        row["gain"], row["replay_gain"] = (
            _gain(row, "even", "value"),
            _gain(row, "even_replay", "replay"),
        )
        for name in ("layers", "recomputed"):
            row[f"{name}_text"] = " ".join(map(str, row.get(name) or ())) or None
        row["proof"] = "proved" if row.get("proved") else _gap(row)
    return {
        "count": len(rows),
        "proved": sum(bool(row.get("proved")) for row in rows),
        "better": sum((row["replay_gain"] or 0) > 0 for row in rows),
        "limit_s": max((row["limit_s"] for row in rows), default=None),
    }


def _gain(row: Row, old: str, new: str) -> float | None:
    if not row.get(old) or not row.get(new):
        return None
    gain: float = 1 - row[new] / row[old]
    return gain


def _gap(row: Row) -> str | None:
    if not row.get("value") or row.get("bound") is None:
        return None
    return f"{100 * (row['value'] - row['bound']) / row['value']:.2f} %"


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the page."""
    found = []
    for row in rows:
        where = f"{row['model']} on {row['pipeline']} stages, {row['schedule']}"
        if row.get("reason"):
            found.append(f"{where}: {row['reason']}")
            continue
        if row["value"] is not None and not row["checked"]:
            found.append(f"{where}: no configuration that the checker accepts")
        for old, new in (("even", "value"), ("even_replay", "replay")):
            if row[old] is not None and (row[new] is None or row[new] > row[old]):
                found.append(f"{where}: the even split is faster")
        if row["value"] is not None and (row["bound"] or 0) > row["value"]:
            found.append(f"{where}: the bound is above the plan")
    return found
