"""Folding of repeated layers: the Transformer of 6 to 96 layers, folded against unfolded.

The idea of TAP (arXiv 2302.00247), which reports searches 20 to 160 times faster than another
system; here both sides are ours, on the same machine and tables. Each row runs in a process of its
own, one thread; seconds are CPU seconds, so that other work on the machine counts little.

``python benchmarks/tap.py`` writes ``results/paper/tap/table.md``, ``table.json`` and
``growth.png``.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polytope
from pages import DASH, provenance, table
from suites import REPOSITORY

from milp_plan.core.repeated import RepeatedProblem
from milp_plan.cost.pase import pase_tables
from milp_plan.draw.canvas import drawing_style, new_figure, write_figure
from milp_plan.planners.sharding.elimination import eliminate
from milp_plan.planners.sharding.folding import Tied, plan_exact, plan_tied, tie
from milp_plan.planners.sharding.folding.tied import model_columns
from milp_plan.run import versions
from milp_plan.zoo.pase import transformer

LAYERS = (6, 12, 24, 48, 96)
MODEL_DEVICES = 4
"""Devices for which the models are solved; the unfolded ones are out of reach for many more."""
SEARCH_DEVICES = (4, 16, 32)


@dataclass(frozen=True)
class ModelRow:
    """HiGHS on the unfolded and on the tied tables. Seconds build and solve; gaps are shares."""

    layers: int
    devices: int
    operators: int
    classes: int
    rounds: int | None
    fold_s: float
    unfolded_lp_s: float
    unfolded_lp_bound: float | None
    unfolded_mip_s: float
    unfolded_equal: bool | None
    folded_lp_s: float
    folded_integral: bool
    folded_mip_s: float
    gap: float
    build_unfolded_s: float


@dataclass(frozen=True)
class SearchRow:
    """Elimination on the unfolded, tied, and exactly folded problem."""

    layers: int
    devices: int
    operators: int
    draw_s: float
    plain_s: float
    plain_entries: float
    exact_s: float
    detect_s: float
    solve_s: float
    expand_s: float
    exact_entries: float
    computed: int
    folds: tuple[tuple[int, int], ...]
    equal: bool
    tied_s: float
    tied_gap: float


def models(layers: int, devices: int, limit_s: float) -> ModelRow:
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
    return ModelRow(
        layers=layers,
        devices=devices,
        operators=len(problem.operators),
        classes=len(tied.problem.operators),
        rounds=tied.rounds,
        fold_s=folded,
        unfolded_lp_s=seconds["unfolded", False],
        unfolded_lp_bound=runs["unfolded", False].value,
        unfolded_mip_s=seconds["unfolded", True],
        unfolded_equal=None if whole.chosen is None else problem.cost(whole.chosen) == best,
        folded_lp_s=seconds["folded", False],
        folded_integral=runs["folded", False].integral,
        folded_mip_s=seconds["folded", True],
        gap=cost / best - 1,
        build_unfolded_s=whole.build_s,
    )


def _tied(problem: RepeatedProblem) -> tuple[float, Tied]:
    start = time.process_time()
    tied = tie(problem, work=model_columns)
    return time.process_time() - start, tied


def searches(layers: int, devices: int, repeats: int) -> SearchRow:
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
    return SearchRow(
        layers=layers,
        devices=devices,
        operators=len(problem.operators),
        draw_s=drawn,
        plain_s=plain.seconds,
        plain_entries=plain.computed,
        exact_s=exact.detect_s + exact.solve_s + exact.expand_s,
        detect_s=exact.detect_s,
        solve_s=exact.solve_s,
        expand_s=exact.expand_s,
        exact_entries=exact.work,
        computed=exact.computed,
        folds=exact.folds,
        equal=exact.value == plain.value and problem.cost(exact.chosen or ()) == plain.value,
        tied_s=tied_s,
        tied_gap=math.nan if cost is None else cost / plain.value - 1,
    )


def _median(run: Callable[[], Any], repeats: int, seconds: Callable[[Any], float]) -> Any:
    found = sorted((run() for _ in range(repeats)), key=seconds)
    return found[len(found) // 2]


def page(model_rows: list[ModelRow], rows: list[SearchRow], record: Any) -> str:
    """Return the page as Markdown."""
    return "\n".join(
        [
            "# Folding repeated layers\n",
            provenance("python benchmarks/tap.py", [record]),
            "The Transformer of PaSE with so many encoder and decoder layers.\n",
            "## Tied folding and the model\n",
            f"On {MODEL_DEVICES} devices. Operators of one class take one strategy; classes by "
            "kind and rounds of refinement, chosen by predicted work. HiGHS on the local polytope "
            "of both, one thread, no reductions. Times faster: the unfolded model's seconds over "
            "those of the tied problem solved as a model, by its relaxation (which is the "
            "optimum where it is integral), and by elimination; each counts `fold`, which is "
            "classing and adding up tables. Tied: medians of several runs. `gap`: cost of the "
            "expanded plans above the proved optimum of the unfolded problem.\n",
            _models(model_rows, rows),
            "A large ratio says as much about the unfolded model as about folding: elimination "
            "of the unfolded problem, below, needs a fraction of a second.\n",
            "## Exact folding and elimination\n",
            "Blocks are found in the graph, eliminated once, and joined by powers of their "
            "transfer matrices; layers may choose differently. Equal optima in every row. `find` "
            "looks at every operator and is linear, `join` is logarithmic, `expand` writes the "
            "plan. Seconds without drawing the network and its tables; median of "
            f"{record['repeats']} runs.\n",
            _searches(rows),
            _exponents(rows),
            "![seconds against layers](growth.png)\n",
        ]
    )


def _models(rows: list[ModelRow], searched: list[SearchRow]) -> str:
    tied = {(row.layers, row.devices): row for row in searched}
    headings = ["layers", "operators", "classes", "fold, s", "unfolded model, s", "LP, s"]
    headings += ["tied model, s", "times faster", "tied LP, s", "times faster"]
    headings += ["tied elimination, s", "times faster", "gap"]
    cells = []
    for row in rows:
        late = "" if row.unfolded_equal is not None else "> "
        took = [row.fold_s + row.folded_mip_s, row.fold_s + row.folded_lp_s]
        gaps = [row.gap]
        search = tied.get((row.layers, row.devices))
        if search is not None:
            took.append(search.tied_s)
            gaps.append(search.tied_gap)
        pairs = [(f"{own:.3f}", f"{late}{row.unfolded_mip_s / own:.0f}") for own in took]
        pairs += [(DASH, DASH)] * (3 - len(pairs))
        if not row.folded_integral:
            pairs[1] = (pairs[1][0], "not integral")
        cells.append(
            [
                str(row.layers),
                f"{row.operators:,}",
                f"{row.classes} (rounds {DASH if row.rounds is None else row.rounds})",
                f"{row.fold_s:.3f}",
                f"{late}{row.unfolded_mip_s:.2f}",
                f"{row.unfolded_lp_s:.2f}" if row.unfolded_lp_bound else "not finished",
                *(cell for pair in pairs for cell in pair),
                f"{max(gaps):.4%}",
            ]
        )
    return table(headings, cells)


def _searches(rows: list[SearchRow]) -> str:
    headings = ["layers", "devices", "operators", "tables, s", "elimination, s", "folded, s"]
    headings += ["find, s", "join, s", "expand, s", "entries, unfolded", "folded", "same optimum"]
    headings += ["tied, s", "tied gap"]
    cells = [
        [
            str(row.layers),
            str(row.devices),
            f"{row.operators:,}",
            f"{row.draw_s:.3f}",
            f"{row.plain_s:.3f}",
            f"{row.exact_s:.3f}",
            f"{row.detect_s:.3f}",
            f"{row.solve_s:.3f}",
            f"{row.expand_s:.3f}",
            f"{row.plain_entries:,.0f}",
            f"{row.computed:,}",
            "yes" if row.equal else "NO",
            f"{row.tied_s:.3f}",
            f"{row.tied_gap:.4%}",
        ]
        for row in rows
    ]
    return table(headings, cells)


def _exponents(rows: list[SearchRow]) -> str:
    """How seconds grow with depth: slopes of lines through the logarithms."""
    said = []
    for devices in sorted({row.devices for row in rows}):
        own = [row for row in rows if row.devices == devices]
        if len({row.layers for row in own}) < 2:
            continue
        depth = [math.log(row.layers) for row in own]
        slopes = [
            statistics.linear_regression(depth, [math.log(of(row)) for row in own]).slope
            for of in (lambda row: row.exact_s, lambda row: row.solve_s, lambda row: row.plain_s)
        ]
        said.append(
            f"- {devices} devices: seconds grow as depth to the power {slopes[0]:.2f} folded "
            f"({slopes[1]:.2f} for `join` alone), {slopes[2]:.2f} unfolded\n"
        )
    return "".join(said)


def draw(model_rows: list[ModelRow], rows: list[SearchRow], path: Path) -> None:
    """Seconds against layers: a panel for the models, a panel for elimination."""
    with drawing_style():
        figure = new_figure(7.2, 3.4)
        left, right = figure.subplots(1, 2)
        depth = [row.layers for row in model_rows]
        unfolded = [row.unfolded_mip_s for row in model_rows]
        left.plot(depth, unfolded, "o-", color="C3", label="model, unfolded")
        tied = [row.fold_s + row.folded_mip_s for row in model_rows]
        left.plot(depth, tied, "o-", color="C0", label="model, tied")
        left.set_title(f"HiGHS, {MODEL_DEVICES} devices")
        for number, devices in enumerate(sorted({row.devices for row in rows})):
            own = [row for row in rows if row.devices == devices]
            layers, colour = [row.layers for row in own], f"C{number}"
            plain = [row.plain_s for row in own]
            right.plot(layers, plain, "o:", color=colour, label=f"unfolded, {devices} devices")
            exact = [row.exact_s for row in own]
            right.plot(layers, exact, "o-", color=colour, label=f"exactly folded, {devices}")
        right.set_title("elimination")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(LAYERS, [str(count) for count in LAYERS])
            axes.set_xlabel("layers of encoder and of decoder")
            axes.set_ylabel("CPU seconds")
            axes.legend(frameon=False)
        write_figure(figure, path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", nargs="+", type=int, default=list(LAYERS))
    parser.add_argument("--devices", nargs="+", type=int, default=list(SEARCH_DEVICES))
    parser.add_argument("--repeats", type=int, default=5, help="runs of elimination")
    parser.add_argument("--time-limit", type=float, default=900.0, help="seconds for each model")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results" / "paper" / "tap")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the page."""
    given = parse(arguments)
    spawn = multiprocessing.get_context("spawn")
    model_rows, rows = [], []
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for devices in given.devices:
            for layers in given.layers:
                rows.append(pool.submit(searches, layers, devices, given.repeats).result())
                print(rows[-1], flush=True)
        for layers in given.layers:
            task = pool.submit(models, layers, MODEL_DEVICES, given.time_limit)
            model_rows.append(task.result())
            print(model_rows[-1], flush=True)
    record = {
        "limit_s": given.time_limit,
        "repeats": given.repeats,
        "models": [asdict(row) for row in model_rows],
        "searches": [asdict(row) for row in rows],
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1) + "\n"
    (given.out / "table.json").write_text(text, encoding="utf-8")
    (given.out / "table.md").write_text(page(model_rows, rows, record), encoding="utf-8")
    draw(model_rows, rows, given.out / "growth.png")
    print(given.out / "table.md")
    wrong = [row for row in model_rows if row.unfolded_equal is False]
    return 1 if wrong or not all(row.equal for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
