"""Seconds to plan a pipeline by a repeating pattern, against the number of micro-batches.

The pattern and its ends are planned for a short pipeline, and periods are put in; so planning
hardly depends on the number of micro-batches, apart from writing the plan down, which is linear,
like making the problem. The checker accepts every plan that is listed. Seconds are wall-clock.

The study is ``results/pipeline-growth/study.toml``: ``milp-plan table results/pipeline-growth``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Plan
from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.pipeline.experts import WORDS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import read_shop
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.strategies.periodic import lower_bound, plan_periodic
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import fits, times, value_of

COSTS, TRANSFER = (10, 12, 7), 1
FAMILIES = {"line": 0.75, "dualpipe": 1.0}
"""Placement and its memory: activations per device, as a share of the devices (one more for two
directions)."""

Row = dict[str, Any]


def best_expert(shop: Shop) -> tuple[int | None, str | None]:
    """Value and name of the best expert schedule that fits."""
    found: list[tuple[int, str]] = []
    for name, expert in WORDS.items():
        words = expert(shop)
        if words is not None and fits(shop, words):
            found.append((value_of(shop, times(shop, words)), name))
    return min(found, default=(None, None))


def measure(case: Mapping[str, Any]) -> Row:
    """Plan one pipeline."""
    placement, devices, count = case["placement"], case["devices"], case["micro_batches"]
    activations = int(FAMILIES[placement] * devices) + (placement == "dualpipe")
    marks = [time.perf_counter()]

    def lap() -> float:
        marks.append(time.perf_counter())
        return marks[-1] - marks[-2]

    template, size = uniform(devices, count, COSTS, transfer=TRANSFER)
    problem = pipeline_problem(
        f"{placement} {devices}x{count}",
        template,
        place(placement, devices),
        memory_bytes=activations * size,
    )
    made = lap()
    shop = read_shop(problem)
    if isinstance(shop, str):
        raise ValueError(shop)
    read = lap()
    seen: list[float] = []

    def note(_: Plan) -> None:
        seen.append(time.perf_counter() - marks[-1])

    plan = plan_periodic(shop, case["limit_s"], on_better=note)
    planned = lap()
    verdict = None if plan is None else verify(problem, plan)
    checked = lap()
    expert, name = best_expert(shop)
    return {
        "activations": activations,
        "operators": len(problem.graph.operators),
        "problem_s": made,
        "read_s": read,
        "first_s": seen[0] if seen else None,
        "plan_s": planned,
        "check_s": checked,
        "value": verdict.value if verdict is not None and verdict.ok else None,
        "expert": expert,
        "expert_name": name,
        "bound": lower_bound(shop),
    }


def present(rows: list[Row]) -> Row:
    """Add what the page says in words."""
    for row in rows:
        name = row["expert_name"]
        row["rival"] = None if name is None else f"{row['expert']} ({name})"
    return {"costs": ", ".join(map(str, (*COSTS, TRANSFER)))}


def complaints(rows: list[Row]) -> list[str]:
    """Pipelines without a plan."""
    return [
        f"{row['placement']} {row['devices']}x{row['micro_batches']}: no plan"
        for row in rows
        if row["value"] is None
    ]


def figures(rows: list[Row]) -> dict[str, Any]:
    """Seconds against micro-batches, a line per placement and devices that has several points."""
    lines: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        lines.setdefault((row["placement"], row["devices"]), []).append(row)
    with drawing_style():
        figure = new_figure(5.0, 3.2)
        axes = figure.subplots()
        grown = {name: own for name, own in lines.items() if len(own) > 1}
        for number, ((placement, devices), own) in enumerate(grown.items()):
            counts = [row["micro_batches"] for row in own]
            colour = f"C{number}"
            label = f"{placement}, {devices} devices"
            axes.plot(counts, [r["plan_s"] for r in own], "o-", color=colour, label=label)
            first = [float("nan") if r["first_s"] is None else r["first_s"] for r in own]
            axes.plot(counts, first, "o:", color=colour, label=f"{label}, first plan")
        axes.set_xlabel("micro-batches")
        axes.set_xscale("log", base=2)
        plain_ticks(axes.xaxis)
        axes.set_ylabel("planning time (wall-clock seconds)")
        axes.set_ylim(bottom=0)
        if grown:
            figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return {"growth.png": figure}
