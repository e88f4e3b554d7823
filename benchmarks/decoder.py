"""How many schedules a second of the processor makes: the compiled decoder beside the dispatcher.

Both get the same placement (consecutive stages) and the same priorities (longest way to the end),
with memory counted by both; the dispatcher is what annealing decoded with before. One run measures
both, one after the other, so the ratio does not depend on the machine.

The study is ``results/decoder/study.toml``: ``milp-plan table results/decoder``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.decoder.layout import TIMED
from milp_plan.kinds.schedule.planners.dispatch import dispatch
from milp_plan.kinds.schedule.planners.priorities import bottom_levels

INSTANCES = Path(__file__).resolve().parent.parent / "instances"
CLAIM = 50.0
"""The ratio asked for."""


def per_second(make: Callable[[], object], seconds: float) -> float:
    """How often something is done in a second of the processor."""
    make()
    began, count = time.process_time(), 0
    while (taken := time.process_time() - began) < seconds or count < 3:
        make()
        count += 1
    return count / taken


def limited(problem: PlanningProblem, plan: Plan) -> PlanningProblem:
    """The same with a little more memory than a plan needs: it has to be watched all the time."""
    most = verify(replace(problem, objective=Objective.PEAK_MEMORY), plan).value
    assert most is not None
    devices = tuple(
        replace(device, memory_bytes=most + most // 4) for device in problem.cluster.devices
    )
    return replace(problem, cluster=replace(problem.cluster, devices=devices))


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Measure one instance."""
    problem = read(INSTANCES / case["file"])
    plan = PLANNERS["contiguous"](problem)
    assert plan is not None
    problem = limited(problem, plan)
    placements = {run.operator: run.placement for run in plan.runs}
    priority = bottom_levels(problem)
    decoder = Decoder(problem)
    site, option = decoder.place(placements)
    rank = decoder.ranks(priority)
    ours = per_second(lambda: decoder.decode(site, option, rank), case["seconds"])
    theirs = per_second(
        lambda: dispatch(problem, priority=priority, placements=placements), case["seconds"]
    )
    return {
        "name": problem.name,
        "operators": len(problem.graph.operators),
        "devices": len(problem.cluster.devices),
        "memory": bool(decoder.memory.part(TIMED)[0]),
        "decoder": round(ours),
        "dispatcher": round(theirs, 1),
        "ratio": round(ours / theirs, 1),
    }


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures over all rows."""
    least = min(row["ratio"] for row in rows)
    return {"least": least, "claim": CLAIM, "kept": "kept" if least >= CLAIM else "missed"}


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """Rows below the ratio asked for."""
    return [f"{row['name']}: {row['ratio']} times" for row in rows if row["ratio"] < CLAIM]
