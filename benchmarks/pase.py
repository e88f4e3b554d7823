"""PaSE's five networks on 4 to 64 devices: optimal cost, search time, baselines.

Each row runs in a process of its own, one thread; seconds are CPU seconds, so that other work on
the machine counts little. Costs are modelled, in multiply-adds: "gain" is a ratio of modelled
costs, never a measured speed-up.

``python benchmarks/pase.py`` writes ``results/paper/pase/table.md`` and ``table.json``; what is
known from the paper and from PaSE's program is in ``published.csv`` beside them.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import platform
import resource
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polytope
from pages import DASH, provenance, table
from suites import REPOSITORY

from milp_plan.check.sharding import verify_sharding
from milp_plan.core.sharding import ShardingPlan
from milp_plan.cost.pase import MULTIPLY_ADD_TICKS, pase_tables
from milp_plan.planners.sharding.baselines import data_parallel, experts, greedy
from milp_plan.planners.sharding.elimination import eliminate
from milp_plan.planners.sharding.frontier import plan_breadth_first
from milp_plan.planners.sharding.metropolis import BLOCKS, FLEXFLOW, plan_metropolis
from milp_plan.run import versions
from milp_plan.zoo.pase import NETWORKS, network

PUBLISHED = REPOSITORY / "results" / "paper" / "pase" / "published.csv"
DEVICES = (4, 8, 16, 32, 64)
FRONTIER_CAP = 30_000_000
"""Entries of a table of the breadth-first baseline, 240 MB."""


@dataclass(frozen=True)
class Model:
    """A run of HiGHS: seconds of building and solving, and whether the optimum is the same."""

    seconds: float
    finished: bool
    same: bool
    integral: bool


@dataclass(frozen=True)
class Row:
    """One network on so many devices. Gaps are shares above the optimal cost."""

    network: str
    devices: int
    operators: int
    edges: int
    strategies: int
    pair_entries: int
    optimal: float
    checked: bool
    build_s: float
    search_s: float
    largest: float
    entries: float
    computed: int
    peak_mib: int
    data_parallel: float
    gain: float
    expert: str
    expert_gap: float
    greedy_gap: float
    breadth_first_s: float | None
    breadth_first_log10: float
    flexflow_gap: float
    flexflow_s: float
    blocks_gap: float
    blocks_s: float
    lp: Model | None
    mip: Model | None


def measure(name: str, devices: int, columns: int, limit_s: float) -> Row:
    """Build, search, check, and run the baselines."""
    start = time.process_time()
    graph = network(name)
    problem = pase_tables(graph, devices)
    built = time.process_time()
    found = eliminate(problem)
    searched = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if found.chosen is None or found.value is None or found.value != found.bound:
        raise ValueError(f"{name} on {devices} devices is not solved: {found.reason}")
    written = problem.problem()
    plan = ShardingPlan(written.name, found.chosen, written.fingerprint, found.value)
    best = found.value

    def gap(chosen: tuple[int, ...]) -> float:
        cost = problem.cost(chosen)
        assert cost is not None
        return cost / best - 1

    data = data_parallel(graph, devices)
    known = {expert: gap(choice) for expert, choice in experts(graph, devices).items()}
    expert = min(known, key=lambda one: known[one])
    frontier_start = time.process_time()
    frontier = plan_breadth_first(problem, FRONTIER_CAP)
    frontier_s = time.process_time() - frontier_start
    plan_metropolis(problem, data, proposals=10)  # compiled code is loaded
    marks = [time.process_time()]
    walks = []
    for moves in (FLEXFLOW, BLOCKS):
        walks.append(plan_metropolis(problem, data, moves=moves))
        marks.append(time.process_time())
    entries = sum(problem.pairs[link].cost.size for link in problem.links)
    small = sum(problem.sizes) + entries <= columns
    return Row(
        network=name,
        devices=devices,
        operators=len(problem.operators),
        edges=len(problem.ends),
        strategies=sum(problem.sizes),
        pair_entries=entries,
        optimal=best / MULTIPLY_ADD_TICKS,
        checked=verify_sharding(written, plan).ok,
        build_s=built - start,
        search_s=searched - built,
        largest=found.ordering.largest,
        entries=found.ordering.entries,
        computed=found.computed,
        peak_mib=peak,
        data_parallel=(1 + gap(data)) * best / MULTIPLY_ADD_TICKS,
        gain=1 + gap(data),
        expert=expert,
        expert_gap=known[expert],
        greedy_gap=gap(greedy(problem)),
        breadth_first_s=None if frontier.value is None else frontier_s,
        breadth_first_log10=frontier.log10_largest,
        flexflow_gap=walks[0].value / best - 1,
        flexflow_s=marks[1] - marks[0],
        blocks_gap=walks[1].value / best - 1,
        blocks_s=marks[2] - marks[1],
        lp=modelled(problem, best, False, limit_s) if small else None,
        mip=modelled(problem, best, True, limit_s) if small else None,
    )


def modelled(problem: Any, best: int, integral: bool, limit_s: float) -> Model:
    """Solve the model or its relaxation, and compare with elimination."""
    solved = polytope.solve(problem, integral=integral, limit_s=limit_s)
    seconds = solved.build_s + solved.solve_s
    if solved.value is None or solved.chosen is None:
        return Model(seconds, False, False, False)
    same = abs(solved.value / best - 1) < 1e-7
    if integral:
        same = same and problem.cost(solved.chosen) == best
    return Model(seconds, True, same, solved.integral)


def page(rows: list[Row], published: dict[tuple[str, int], dict[str, str]], record: Any) -> str:
    """Return the page as Markdown."""
    return "\n".join(
        [
            "# PaSE: strategies of five networks\n",
            provenance(record["command"], [record]),
            "The problem of PaSE (Elango, IPDPS 2021) in its cost model: one multiply-add counts "
            "1, 10 TFLOP/s, 16 GB/s, batch 128 (image networks) or 64. Every optimum is proved by "
            "elimination in exact integers and accepted by the checker.\n",
            "## Search time\n",
            "`build`: drawing the network and all cost tables; `search`: ordering, elimination, "
            "plan. Seconds of PaSE's Table I are from another machine (Sandy Bridge); `released` "
            "is the search of PaSE's program, without its building of tables.\n",
            _search(rows, published),
            "`entries`: of all elimination tables, and those computed once equal ones are "
            "shared.\n",
            "## Baselines\n",
            "Share above the optimal cost. The gain over data parallelism is modelled. FlexFlow's "
            "search: 250,000 single moves or PaSE's stopping rule, from data parallelism; block "
            "moves: 250,000 proposals. The breadth-first dynamic programme is PaSE's baseline: "
            f"tables beyond {FRONTIER_CAP:,} entries are refused.\n",
            _baselines(rows),
            "## The same optimum from HiGHS\n",
            "Local polytope as linear relaxation and as model, without reductions, one thread, "
            f"{record['limit_s']:g} s of wall-clock time each.\n",
            _models(rows),
        ]
    )


def _search(rows: list[Row], published: dict[tuple[str, int], dict[str, str]]) -> str:
    headings = ["network", "devices", "strategies", "optimal cost", "build, s", "search, s"]
    headings += ["paper, s", "released, s", "released / (build + search)"]
    headings += ["largest table", "entries", "computed", "peak MiB"]
    cells = []
    for row in rows:
        known = published.get((row.network, row.devices), {})
        released = known.get("released_s") or DASH
        ours = row.build_s + row.search_s
        ratio = f"{float(released) / ours:,.0f}" if _number(released) else DASH
        cells.append(
            [
                row.network,
                str(row.devices),
                f"{row.strategies:,}",
                f"{row.optimal:,.0f}",
                f"{row.build_s:.3f}",
                f"{row.search_s:.3f}",
                known.get("paper_pase_s") or DASH,
                released,
                ratio,
                f"{row.largest:,.0f}",
                f"{row.entries:,.0f}",
                f"{row.computed:,}",
                str(row.peak_mib),
            ]
        )
    return table(headings, cells)


def _baselines(rows: list[Row]) -> str:
    headings = ["network", "devices", "gain over data parallelism", "expert", "expert's gap"]
    headings += ["greedy", "FlexFlow moves", "s", "block moves", "s", "breadth first"]
    cells = []
    for row in rows:
        needed = f"refused: 10^{row.breadth_first_log10:.1f} entries"
        frontier = needed if row.breadth_first_s is None else f"{row.breadth_first_s:.2f} s"
        cells.append(
            [
                row.network,
                str(row.devices),
                f"{row.gain:.3f}",
                row.expert,
                *(f"{share:.2%}" for share in (row.expert_gap, row.greedy_gap, row.flexflow_gap)),
                f"{row.flexflow_s:.2f}",
                f"{row.blocks_gap:.2%}",
                f"{row.blocks_s:.2f}",
                frontier,
            ]
        )
    return table(headings, cells)


def _models(rows: list[Row]) -> str:
    headings = ["network", "devices", "columns", "LP, s", "LP", "model, s", "model", "search, s"]
    cells = []
    for row in rows:
        cells.append(
            [
                row.network,
                str(row.devices),
                f"{row.strategies + row.pair_entries:,}",
                *_said(row.lp, row.lp is not None and row.lp.integral),
                *_said(row.mip, False),
                f"{row.search_s:.3f}",
            ]
        )
    return table(headings, cells)


def _said(run: Model | None, integral: bool) -> tuple[str, str]:
    if run is None:
        return DASH, "not tried"
    if not run.finished:
        return f"{run.seconds:.2f}", "not finished"
    text = "equal" if run.same else "DIFFERENT"
    return f"{run.seconds:.2f}", text + (", integral" if integral else "")


def _number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def read_published(path: Path) -> dict[tuple[str, int], dict[str, str]]:
    """Published figures by network and devices."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as stream:
        lines = [line for line in stream if not line.startswith("#")]
    return {(row["network"], int(row["devices"])): row for row in csv.DictReader(lines)}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--devices", nargs="+", type=int, default=list(DEVICES))
    parser.add_argument("--columns", type=int, default=400_000, help="most columns for HiGHS")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds for HiGHS")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results" / "paper" / "pase")
    return parser.parse_args(arguments)


def measured(tasks: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Rows, each from a fresh process."""
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for task in tasks:
            rows.append(pool.submit(measure, *task).result())
            print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the page."""
    given = parse(arguments)
    rows = measured(
        (name, devices, given.columns, given.time_limit)
        for name in given.networks
        for devices in given.devices
    )
    record = {
        "command": f"python benchmarks/pase.py --columns {given.columns}"
        f" --time-limit {given.time_limit:g}",
        "limit_s": given.time_limit,
        "rows": [asdict(row) for row in rows],
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    published = read_published(PUBLISHED)
    text = json.dumps(record, indent=1) + "\n"
    (given.out / "table.json").write_text(text, encoding="utf-8")
    (given.out / "table.md").write_text(page(rows, published, record), encoding="utf-8")
    print(given.out / "table.md")
    wrong = [run for row in rows for run in (row.lp, row.mip) if run and run.finished]
    return 0 if all(row.checked for row in rows) and all(run.same for run in wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
