"""Plans of captured PyTorch models: gaps with all, and 60 % of, the memory one device needs.

Three readings of a captured step: places and times of its operators (``schedule``), a placement of
every tensor on a mesh (``sharding``), and strategies, places and times together (``together``),
beside the schedule of the cheapest strategies (sharding first). One device's need is the peak of
the step on one device, one operator after the other; of a sharding, what is kept where everything
is whole everywhere.

The study is ``results/paper/captures/study.toml``: ``milp-plan table results/paper/captures``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from milp_plan.backends import Stop
from milp_plan.capture.chosen import chosen_placements
from milp_plan.capture.instance import instance
from milp_plan.capture.meshed import meshed
from milp_plan.capture.record import read_capture
from milp_plan.capture.sharding import sharding
from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.cost.clusters import cluster
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.report.pages import DASH, amount, share
from milp_plan.run import Settings, solve
from milp_plan.zoo import mesh_on

CAPTURES = Path(__file__).parents[1] / "instances" / "captures"

MOST_GAP = 0.08
"""Gap above which a row is a complaint, within the time that its case has."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Solve a case; its plan is checked."""
    problem = problem_of(case)
    found = solve(problem, Settings(time_limit_s=case["time_limit"], gap=case["until_gap"]))
    row = {
        "name": problem.name,
        "operators": _size(problem),
        "limit": _limit(problem),
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "stop": str(found.stop.value),
        "planner": found.planner,
        "seconds": round(found.seconds, 2),
        "check": "none can be" if found.stop is Stop.INFEASIBLE else "no plan",
        "collectives": {},
        "first": _first(problem) if case["reading"] == "together" else None,
    }
    if isinstance(problem, ShardingProblem) and isinstance(found.plan, ShardingPlan):
        ok = verify_sharding(problem, found.plan).ok
        row["collectives"] = dict(chosen_placements(problem, found.plan).collectives)
        row["check"] = "ok" if ok else "fails"
    elif found.plan is not None:
        row["check"] = "ok" if verify(problem, found.plan).ok else "fails"
    return row


def problem_of(case: Mapping[str, Any]) -> PlanningProblem | ShardingProblem:
    """The problem of a case, within its part of what one device needs."""
    capture = read_capture(CAPTURES / f"{case['model']}.capture.json.gz")
    machines = cluster(case["cluster"])
    if case["reading"] == "sharding":
        made = sharding(capture, mesh_on(machines, case["how"]))
        return replace(made, limit=_part(_whole_bytes(made), case))
    if case["reading"] == "together":
        problem = meshed(capture, machines, case["how"].split())
    else:
        problem = instance(capture, machines, granularity=case["how"])
    plan = PLANNERS["single_device"](problem)
    assert plan is not None
    parts = verify(problem, plan).components
    need = max(parts[f"peak_memory {name}"] for name in machines.device_names)
    devices = tuple(replace(device, memory_bytes=_part(need, case)) for device in machines.devices)
    return replace(problem, cluster=replace(machines, devices=devices))


def _first(problem: PlanningProblem | ShardingProblem) -> int | None:
    """What the planner reaches that chooses strategies first."""
    assert isinstance(problem, PlanningProblem)
    plan = PLANNERS["sharding_first"](problem)
    return None if plan is None else verify(problem, plan).value


def _part(need: int, case: Mapping[str, Any]) -> int:
    return need * int(100 * case["part"]) // 100


def _whole_bytes(problem: ShardingProblem) -> int:
    """Bytes of a device where everything is whole everywhere."""
    starts = problem.strategies.offsets.tolist()
    whole = [
        next(pick for pick in range(stop - start) if not _cuts(problem.labels[start + pick]))
        for start, stop in pairwise(starts)
    ]
    return verify_sharding(problem, ShardingPlan("", tuple(whole))).components["peak_usage"]


def _cuts(label: str) -> bool:
    return "S" in label or "P" in label


def _size(problem: PlanningProblem | ShardingProblem) -> int:
    if isinstance(problem, ShardingProblem):
        return len(problem.operators)
    return len(problem.graph.operators)


def _limit(problem: PlanningProblem | ShardingProblem) -> int | None:
    if isinstance(problem, ShardingProblem):
        return problem.limit
    return problem.cluster.devices[0].memory_bytes


def complaints(rows: list[Row]) -> list[str]:
    """Cases without an answer, with a larger gap than asked for, or worse than sharding first."""
    return [
        f"{row['name']}: {row['check']}, gap {share(row['gap'])}"
        for row in rows
        if row["check"] != "none can be" and (row["check"] != "ok" or _far(row) or _worse(row))
    ]


def _far(row: Row) -> bool:
    """Together, bounds that hold for every choice of strategies are far: no gap is asked for."""
    asked = row["reading"] != "together"
    return asked and (row["gap"] is None or row["gap"] > MOST_GAP)


def _worse(row: Row) -> bool:
    return row["first"] is not None and row["value"] > row["first"]


def present(rows: list[Row]) -> Row:
    """Add what the page says in words."""
    for row in rows:
        row["memory"] = f"{row['part']:.0%}"
        sent = sorted(row["collectives"].items())
        row["sent"] = ", ".join(f"{count} {kind}" for kind, count in sent) or "none"
        row["before"] = DASH if row["first"] is None else amount(row["first"], (1000, "µs"))
    gaps = [row["gap"] for row in rows if row["gap"] is not None and row["reading"] != "together"]
    return {
        "cases": len(rows),
        "valid": sum(row["check"] == "ok" for row in rows),
        "impossible": sum(row["check"] == "none can be" for row in rows),
        "worst": share(max(gaps, default=None)),
    }
