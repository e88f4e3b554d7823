"""Folding of repeated layers: the Transformer of 6 to 96 layers, folded against unfolded.

The idea of TAP (arXiv 2302.00247), which reports searches 20 to 160 times faster than another
system; here both sides are ours, on the same machine and tables. Each case runs in a process of its
own, one thread; seconds are CPU seconds, so that other work on the machine counts little.

The study is ``results/paper/tap/study.toml``: ``milp-plan table results/paper/tap``.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import polytope
from folding import Tied, plan_exact, plan_tied, tie
from folding.tied import model_columns
from pase_costs import pase_tables
from pase_networks import transformer

from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.elimination.repeated import RepeatedProblem
from milp_plan.elimination.search import eliminate
from milp_plan.report.pages import DASH

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Fold, and solve by models or by elimination."""
    if case["by"] == "models":
        return models(case["layers"], case["devices"], case["limit_s"])
    return searches(case["layers"], case["devices"], case["repeats"])


def models(layers: int, devices: int, limit_s: float) -> Row:
    """Fold, and solve both models."""
    problem = pase_tables(transformer(layers=layers), devices)
    best = eliminate(problem).value
    assert best is not None
    folded, tied = _median(lambda: _tied(problem), 3, lambda run: run[0])
    runs: dict[tuple[str, bool], polytope.Solved] = {}
    for integral in (False, True):
        # the first of three short runs also loads the solver
        runs["folded", integral] = _median(
            lambda whole=integral: polytope.solve(tied.problem, integral=whole, limit_s=limit_s),
            3,
            lambda run: run.build_s + run.solve_s,
        )
        runs["unfolded", integral] = polytope.solve(problem, integral=integral, limit_s=limit_s)
    chosen = runs["folded", True].chosen
    if chosen is None:
        raise ValueError(f"the folded model of {layers} layers was not solved")
    cost = problem.cost(tied.expand(chosen))
    assert cost is not None
    whole = runs["unfolded", True]
    seconds = {key: run.build_s + run.solve_s for key, run in runs.items()}
    return {
        "operators": len(problem.operators),
        "classes": len(tied.problem.operators),
        "rounds": tied.rounds,
        "fold_s": folded,
        "unfolded_lp_s": seconds["unfolded", False],
        "unfolded_lp_bound": runs["unfolded", False].value,
        "unfolded_mip_s": seconds["unfolded", True],
        "unfolded_equal": None if whole.chosen is None else problem.cost(whole.chosen) == best,
        "folded_lp_s": seconds["folded", False],
        "folded_integral": runs["folded", False].integral,
        "folded_mip_s": seconds["folded", True],
        "gap": cost / best - 1,
        "build_unfolded_s": whole.build_s,
    }


def _tied(problem: RepeatedProblem) -> tuple[float, Tied]:
    start = time.process_time()
    tied = tie(problem, work=model_columns)
    return time.process_time() - start, tied


def searches(layers: int, devices: int, repeats: int) -> Row:
    """Eliminate with and without folding; medians of several runs."""
    start = time.process_time()
    problem = pase_tables(transformer(layers=layers), devices)
    drawn = time.process_time() - start
    plain = _median(lambda: eliminate(problem), repeats, lambda one: one.seconds)
    exact = _median(
        lambda: plan_exact(problem),
        repeats,
        lambda one: one.detect_s + one.solve_s + one.expand_s,
    )
    chosen, _, _, tied_s = _median(lambda: plan_tied(problem), repeats, lambda one: one[3])
    assert plain.value is not None
    cost = None if chosen is None else problem.cost(chosen)
    return {
        "operators": len(problem.operators),
        "draw_s": drawn,
        "plain_s": plain.seconds,
        "plain_entries": plain.computed,
        "exact_s": exact.detect_s + exact.solve_s + exact.expand_s,
        "detect_s": exact.detect_s,
        "solve_s": exact.solve_s,
        "expand_s": exact.expand_s,
        "exact_entries": exact.work,
        "computed": exact.computed,
        "folds": exact.folds,
        "equal": exact.value == plain.value and problem.cost(exact.chosen or ()) == plain.value,
        "tied_s": tied_s,
        "tied_gap": None if cost is None else cost / plain.value - 1,
    }


def _median(run: Callable[[], Any], repeats: int, seconds: Callable[[Any], float]) -> Any:
    found = sorted((run() for _ in range(repeats)), key=seconds)
    return found[len(found) // 2]


def present(rows: list[Row]) -> Row:
    """Split the rows, and add what the page says in words."""
    searched = [row for row in rows if row["by"] == "elimination"]
    uses_model = [row for row in rows if row["by"] == "models"]
    tied = {(row["layers"], row["devices"]): row for row in searched}
    for row in uses_model:
        row.update(_compared(row, tied.get((row["layers"], row["devices"]))))
    growth = "\n".join(
        f"- {devices} devices: seconds grow as depth to the power {exact:.2f} folded "
        f"({join:.2f} for `join` alone), {plain:.2f} unfolded"
        for devices, exact, join, plain in _slopes(searched)
    )
    return {
        "models": uses_model,
        "searches": searched,
        "model_devices": ", ".join(str(d) for d in dict.fromkeys(r["devices"] for r in uses_model)),
        "repeats": searched[0]["repeats"],
        "growth": growth,
    }


def _compared(row: Row, search: Row | None) -> Row:
    """Seconds of the tied problem three ways, and how many times faster each is."""
    late = "" if row["unfolded_equal"] is not None else "> "
    took = {"mip": row["fold_s"] + row["folded_mip_s"], "lp": row["fold_s"] + row["folded_lp_s"]}
    gap = row["gap"]
    if search is not None:
        took["search"] = search["tied_s"]
        gap = max(gap, search["tied_gap"] or 0.0)
    told: Row = {"worst_gap": gap, "search_tied_s": None, "search_faster": None}
    for name, own in took.items():
        told |= {
            f"{name}_tied_s": own,
            f"{name}_faster": f"{late}{row['unfolded_mip_s'] / own:.0f}",
        }
    if not row["folded_integral"]:
        told["lp_faster"] = "not integral"
    relaxed = f"{row['unfolded_lp_s']:.2f}" if row["unfolded_lp_bound"] else "not finished"
    told |= {"unfolded_said": f"{late}{row['unfolded_mip_s']:.2f}", "relaxed_said": relaxed}
    rounds = DASH if row["rounds"] is None else row["rounds"]
    return told | {"classes_said": f"{row['classes']} (rounds {rounds})"}


def _slopes(rows: list[Row]) -> list[tuple[float, ...]]:
    """How seconds grow with depth, per number of devices: slopes of lines through logarithms."""
    found = []
    for devices in sorted({row["devices"] for row in rows}):
        own = [row for row in rows if row["devices"] == devices]
        if len({row["layers"] for row in own}) < 2:
            continue
        depth = [math.log(row["layers"]) for row in own]
        slopes = (
            statistics.linear_regression(depth, [math.log(row[name]) for row in own]).slope
            for name in ("exact_s", "solve_s", "plain_s")
        )
        found.append((devices, *slopes))
    return found


def complaints(rows: list[Row]) -> list[str]:
    """Models and foldings with another optimum."""
    return [
        f"{row['layers']} layers on {row['devices']} devices: another optimum"
        for row in rows
        if row.get("unfolded_equal") is False or row.get("equal") is False
    ]


def figures(rows: list[Row]) -> dict[str, Any]:
    """Seconds against layers: a panel for the models, a panel for elimination."""
    parts = present(rows)
    lines = [
        (
            0,
            "model, unfolded",
            "o-",
            "C3",
            [(r["layers"], r["unfolded_mip_s"]) for r in parts["models"]],
        ),
        (0, "model, tied", "o-", "C0", [(r["layers"], r["mip_tied_s"]) for r in parts["models"]]),
    ]
    for number, devices in enumerate(sorted({row["devices"] for row in parts["searches"]})):
        own = [row for row in parts["searches"] if row["devices"] == devices]
        for name, label, mark in (
            ("plain_s", "unfolded, {} devices", "o:"),
            ("exact_s", "exactly folded, {}", "o-"),
        ):
            points = [(row["layers"], row[name]) for row in own]
            lines.append((1, label.format(devices), mark, f"C{number}", points))
    with drawing_style():
        figure = new_figure(7.2, 3.4)
        panels = figure.subplots(1, 2)
        for panel, label, mark, colour, points in lines:
            panels[panel].plot(*zip(*points, strict=True), mark, color=colour, label=label)
        ticks = sorted({row["layers"] for row in rows})
        for axes, title in zip(
            panels, (f"HiGHS, {parts['model_devices']} devices", "elimination"), strict=True
        ):
            axes.set_title(title)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            plain_ticks(axes.xaxis, axes.yaxis)
            axes.set_xticks(ticks, [str(count) for count in ticks])
            axes.set_xlabel("layers of encoder and of decoder")
            axes.set_ylabel("CPU seconds")
            axes.legend(frameon=False)
    return {"growth.png": figure}
