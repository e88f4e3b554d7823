"""What offload lanes are worth: makespan without and with them, under the same memory.

Two tables. The pipeline table plans one stage per device, with input and weight gradients apart,
for several memory limits and lane times, once with every activation staying on its device and once
with activations that may travel to the host and back; idle time is what the makespan exceeds a
device's work by. The chain table proves the trade-off of one device: layers forward and backward,
one outbound and one inbound lane. Times are in forward passes.

The study is ``results/offload/study.toml``: ``milp-plan table results/offload``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.models.registry import get
from milp_plan.pipeline import Lanes, chain_problem, offload_problem, place, uniform
from milp_plan.run import Settings, solve
from milp_plan.run.model import Solver, make_options

STAGES, BATCHES, LAYERS = 4, 8, 12
CAPS = (1, 2, 3, 4)
LANE_TIMES = (Fraction(1, 2), Fraction(1), Fraction(2))
"""Ticks of a journey, in forward passes."""
SCALE = 2
"""Ticks per forward pass."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Plan all pipelines, one after the other, or prove a chain."""
    if case["of"] == "pipelines":
        return {"pipelines": pipelines(case["limit_s"], case["seed"])}
    return chain(Fraction(case["lane"]), case["memory"], case["limit_s"])


def problem_of(cap: int, lane: Fraction) -> PlanningProblem:
    """One case."""
    template, activation = uniform(STAGES, BATCHES, (2, 2, 2))
    ticks = int(SCALE * lane)
    name = f"offload-{STAGES}x{BATCHES}-cap{cap}-lane{float(lane):g}"
    return offload_problem(
        name, template, place("line", STAGES), Lanes(ticks, ticks), memory_bytes=cap * activation
    )


def pipelines(limit_s: float, seed: int) -> list[Row]:
    """Slow lanes first and little memory first, so that plans carry over."""
    found: list[Row] = []
    plans: dict[tuple[int, Fraction], Plan] = {}
    for lane in sorted(LANE_TIMES, reverse=True):
        for cap in CAPS:
            problem = problem_of(cap, lane)
            orders = [plan for (c, x), plan in plans.items() if c <= cap and x >= lane]
            hints = orders[::-1][:4]
            answer = solve(problem, Settings(time_limit_s=limit_s, seed=seed, hints=hints))
            told = answer.record["offload"]
            plan = answer.plan
            if plan is not None:
                plans[cap, lane] = plan
            verdict = None if plan is None else verify(problem, plan)
            away = 0 if plan is None else sum(r.devices[0].startswith("host") for r in plan.runs)
            found.append(
                {
                    "cap": cap,
                    "lane": float(lane),
                    "stay": _units(told["stay"]),
                    "stay_bound": told["stay_bound"] / SCALE,
                    "travel": _units(answer.value),
                    "bound": (answer.bound or 0) / SCALE,
                    "rule": _units(told["rule"]),
                    "journeys": away,
                    "by": told["found_by"],
                    "seconds": answer.seconds,
                    "valid": bool(verdict and verdict.ok and verdict.value == answer.value),
                }
            )
    _carry_bounds(found)
    return found


def _carry_bounds(rows: list[Row]) -> None:
    """A bound holds with less memory and slower lanes; one without journeys with less memory."""
    for row in rows:
        for other in rows:
            if other["cap"] >= row["cap"] and other["lane"] <= row["lane"]:
                row["bound"] = max(row["bound"], other["bound"])
            if other["cap"] >= row["cap"]:
                row["stay_bound"] = max(row["stay_bound"], other["stay_bound"])


def _units(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / SCALE


def chain(lane: Fraction, memory: int, limit_s: float) -> Row:
    """Prove a chain's makespan with the whole model."""
    found = get("pipeline_offload")
    lanes, name = Lanes(int(SCALE * lane), int(SCALE * lane)), f"chain-{float(lane):g}-{memory}"
    problem = chain_problem(name, LAYERS, (2, 4), lanes, memory_bytes=memory, time_scale=SCALE)
    began = time.perf_counter()
    solver = Solver(found, make_options(found, {}))
    answer = solver.run(problem, Guide(), Limits(time_s=limit_s), Budget(limit_s))
    return {
        "makespan": _units(answer.value),
        "bound": _units(answer.bound),
        "proved": answer.value is not None and answer.value == answer.bound,
        "seconds": time.perf_counter() - began,
    }


# -- the page ------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Split the rows, and add what the page says in words."""
    chains = [row for row in rows if row["of"] == "chain"]
    for row in chains:
        row["proof"] = "yes" if row["proved"] else "no"
    planned = sorted(_pipelines(rows), key=lambda row: (row["cap"], row["lane"]))
    for row in planned:
        row["check"] = "ok" if row["valid"] else "FAILS"
        row["cut"] = idle_cut(row)
    facts = {"stages": STAGES, "batches": BATCHES, "layers": LAYERS, "work": 3 * BATCHES}
    return {**facts, "planned": planned, "chains": chains}


def _pipelines(rows: list[Row]) -> list[Row]:
    return [dict(line) for row in rows if row["of"] == "pipelines" for line in row["pipelines"]]


def idle_cut(row: Row) -> float | None:
    """Part of a device's idle time that goes."""
    if row["stay"] is None or row["travel"] is None or row["stay"] == 3 * BATCHES:
        return None
    return 1 - float((row["travel"] - 3 * BATCHES) / (row["stay"] - 3 * BATCHES))


def complaints(rows: list[Row]) -> list[str]:
    """What contradicts the claims of the page."""
    found = []
    for row in _pipelines(rows):
        where = f"memory {row['cap']}, lane {row['lane']:g}"
        if not row["valid"]:
            found.append(f"{where}: the plan fails the check")
        if row["stay"] is not None and (row["travel"] is None or row["travel"] > row["stay"]):
            found.append(f"{where}: worse than with all staying")
        if row["travel"] is not None and row["bound"] > row["travel"]:
            found.append(f"{where}: bound {row['bound']:g} above {row['travel']:g}")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Makespan against memory, one line per lane time and one without journeys."""
    planned = _pipelines(rows)
    with drawing_style():
        figure = new_figure(6, 4)
        axes = figure.subplots()
        stay = sorted({(row["cap"], row["stay"]) for row in planned if row["stay"] is not None})
        axes.plot(*zip(*stay, strict=True), "k-o", label="all stay")
        for lane, mark in zip(sorted({row["lane"] for row in planned}), "s^v", strict=True):
            own = [row for row in planned if row["lane"] == lane and row["travel"] is not None]
            line = sorted((row["cap"], row["travel"]) for row in own)
            axes.plot(*zip(*line, strict=True), f"-{mark}", label=f"lane {lane:g}")
        axes.axhline(3 * BATCHES, color="grey", linewidth=0.8, label="work of a device")
        axes.set_xlabel("memory per device, activations of one micro-batch")
        axes.set_ylabel("makespan, forward passes")
        axes.set_xticks(CAPS)
        axes.set_title(f"{STAGES} stages, {BATCHES} micro-batches")
        axes.legend()
    return {"offload.png": figure}
