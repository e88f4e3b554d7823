"""Seconds to plan a pipeline by a repeating pattern, against the number of micro-batches.

The pattern and its ends are planned for a short pipeline, and periods are put in; so planning
hardly depends on the number of micro-batches, apart from writing the plan down, which is linear,
like making the problem. The checker accepts every plan that is listed. Seconds are wall-clock.

``python benchmarks/pipeline_growth.py`` writes ``results/pipeline_growth.md``, ``.json`` and
``.png``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from milp_plan.run.periodic import lower_bound, plan_periodic
from pages import DASH, provenance, table
from suites import REPOSITORY

from milp_plan.check import verify
from milp_plan.core import Plan
from milp_plan.draw.canvas import drawing_style, new_figure, write_figure
from milp_plan.pipeline import (
    Shop,
    fits,
    pipeline_problem,
    place,
    read_shop,
    times,
    uniform,
    value_of,
)
from milp_plan.planners.experts import WORDS
from milp_plan.run import versions

COSTS, TRANSFER = (10, 12, 7), 1
COUNTS = (16, 32, 64, 128, 256)
SIZES = (*((8, count) for count in COUNTS), (16, 128))
FAMILIES = {"line": 0.75, "dualpipe": 1.0}
"""Placement and its memory: activations per device, as a share of the devices (one more for two
directions)."""


@dataclass(frozen=True)
class Row:
    """One pipeline: sizes, seconds of each step, values in units of time."""

    placement: str
    devices: int
    micro_batches: int
    activations: int
    operators: int
    problem_s: float
    read_s: float
    first_s: float | None
    plan_s: float
    check_s: float
    value: int | None
    expert: int | None
    expert_name: str | None
    bound: int


def best_expert(shop: Shop) -> tuple[int | None, str | None]:
    """Value and name of the best expert schedule that fits."""
    found: list[tuple[int, str]] = []
    for name, expert in WORDS.items():
        words = expert(shop)
        if words is not None and fits(shop, words):
            found.append((value_of(shop, times(shop, words)), name))
    return min(found, default=(None, None))


def measure(placement: str, devices: int, count: int, limit_s: float) -> Row:
    """Plan one pipeline."""
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

    plan = plan_periodic(shop, limit_s, on_better=note)
    planned = lap()
    verdict = None if plan is None else verify(problem, plan)
    checked = lap()
    expert, name = best_expert(shop)
    return Row(
        placement=placement,
        devices=devices,
        micro_batches=count,
        activations=activations,
        operators=len(problem.graph.operators),
        problem_s=made,
        read_s=read,
        first_s=seen[0] if seen else None,
        plan_s=planned,
        check_s=checked,
        value=verdict.value if verdict is not None and verdict.ok else None,
        expert=expert,
        expert_name=name,
        bound=lower_bound(shop),
    )


def page(rows: list[Row], record: dict[str, Any], command: str) -> str:
    """Return the page as Markdown."""
    headings = ["placement", "devices", "micro-batches", "activations", "operators"]
    headings += ["makespan", "expert", "bound"]
    headings += [f"{step}, s" for step in ("problem", "read", "first", "plan", "check")]
    cells = [
        [
            row.placement,
            str(row.devices),
            str(row.micro_batches),
            str(row.activations),
            f"{row.operators:,}",
            DASH if row.value is None else str(row.value),
            DASH if row.expert is None else f"{row.expert} ({row.expert_name})",
            str(row.bound),
            *(
                DASH if entry is None else f"{entry:.1f}"
                for entry in (row.problem_s, row.read_s, row.first_s, row.plan_s, row.check_s)
            ),
        ]
        for row in rows
    ]
    return "\n".join(
        [
            "# Planning time against micro-batches\n",
            provenance(command, [record]),
            f"F, B, W, transfer = {', '.join(map(str, (*COSTS, TRANSFER)))} per stage; memory in "
            "activations of one stage. The bound is head, work and tail of a device; memory may "
            "keep the optimum above it. The expert is the best of all that fit the same memory.\n",
            table(headings, cells),
            "`first`: until the first plan; `plan`: until the search for better ends stopped, "
            "writing the plan down included.\n",
            "![seconds against micro-batches](pipeline_growth.png)\n",
        ]
    )


def draw(rows: list[Row], path: Path) -> None:
    """Seconds against micro-batches, a line per placement and number of devices."""
    with drawing_style():
        figure = new_figure(5.0, 3.2)
        axes = figure.subplots()
        lines: dict[tuple[str, int], list[Row]] = {}
        for row in rows:
            lines.setdefault((row.placement, row.devices), []).append(row)
        for number, ((placement, devices), own) in enumerate(lines.items()):
            counts = [row.micro_batches for row in own]
            colour = f"C{number}"
            label = f"{placement}, {devices} devices"
            axes.plot(counts, [r.plan_s for r in own], "o-", color=colour, label=label)
            first = [r.first_s if r.first_s is not None else float("nan") for r in own]
            axes.plot(counts, first, "o:", color=colour, label=f"{label}, first plan")
        axes.set_xlabel("micro-batches")
        axes.set_ylabel("seconds")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        write_figure(figure, path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per pipeline")
    parser.add_argument("--placements", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", help="DEVICESxMICRO_BATCHES, for example 8x64")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the page."""
    given = parse(arguments)
    sizes = SIZES
    if given.sizes:
        sizes = tuple((int(a), int(b)) for a, b in (size.split("x") for size in given.sizes))
    rows = []
    for placement in given.placements:
        for devices, count in sizes:
            rows.append(measure(placement, devices, count, given.time_limit))
            print(rows[-1], flush=True)
    record = {
        "time_limit_s": given.time_limit,
        "rows": [asdict(row) for row in rows],
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    command = "python benchmarks/pipeline_growth.py"
    if given.time_limit != parse([]).time_limit:
        command += f" --time-limit {given.time_limit:g}"
    stem = given.out / "pipeline_growth"
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(page(rows, record, command), encoding="utf-8")
    draw(rows, stem.with_suffix(".png"))
    print(stem.with_suffix(".md"))
    return 1 if any(row.value is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
