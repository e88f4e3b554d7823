"""PaSE's five networks on 4 to 64 devices: optimal cost, search time, baselines.

Each case runs in a process of its own, one thread; seconds are CPU seconds, so that other work on
the machine counts little. Costs are modelled, in multiply-adds: "gain" is a ratio of modelled
costs, never a measured speed-up. Gaps are shares above the optimal cost.

The study is ``results/paper/pase/study.toml``: ``milp-plan table results/paper/pase``.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import Any

import polytope
from frontier import plan_breadth_first
from metropolis import BLOCKS, FLEXFLOW, plan_metropolis
from pase_baselines import data_parallel, experts, greedy
from pase_costs import MULTIPLY_ADD_TICKS, pase_tables
from pase_networks import network

from milp_plan.core.sharding import ShardingPlan
from milp_plan.elimination.search import eliminate
from milp_plan.kinds.sharding.check import verify_sharding

FRONTIER_CAP = 30_000_000
"""Entries of a table of the breadth-first baseline, 240 MB."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Build, search, check, and run the baselines."""
    name, devices, limit_s = case["network"], case["devices"], case["limit_s"]
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
    small = sum(problem.sizes) + entries <= case["columns"]
    return {
        "operators": len(problem.operators),
        "edges": len(problem.ends),
        "strategies": sum(problem.sizes),
        "pair_entries": entries,
        "optimal": best / MULTIPLY_ADD_TICKS,
        "checked": verify_sharding(written, plan).ok,
        "build_s": built - start,
        "search_s": searched - built,
        "largest": found.ordering.largest,
        "entries": found.ordering.entries,
        "computed": found.computed,
        "peak_mib": peak,
        "data_parallel": (1 + gap(data)) * best / MULTIPLY_ADD_TICKS,
        "gain": 1 + gap(data),
        "expert": expert,
        "expert_gap": known[expert],
        "greedy_gap": gap(greedy(problem)),
        "breadth_first_s": None if frontier.value is None else frontier_s,
        "breadth_first_log10": frontier.log10_largest,
        "flexflow_gap": walks[0].value / best - 1,
        "flexflow_s": marks[1] - marks[0],
        "blocks_gap": walks[1].value / best - 1,
        "blocks_s": marks[2] - marks[1],
        "lp": uses_model(problem, best, False, limit_s) if small else None,
        "mip": uses_model(problem, best, True, limit_s) if small else None,
    }


def uses_model(problem: Any, best: int, integral: bool, limit_s: float) -> Row:
    """Solve the model or its relaxation, and compare with elimination."""
    solved = polytope.solve(problem, integral=integral, limit_s=limit_s)
    run = {"seconds": solved.build_s + solved.solve_s, "finished": False, "same": False}
    if solved.value is None or solved.chosen is None:
        return run | {"integral": False}
    same = abs(solved.value / best - 1) < 1e-7
    if integral:
        same = same and problem.cost(solved.chosen) == best
    return run | {"finished": True, "same": same, "integral": solved.integral}


def present(rows: list[Row]) -> Row:
    """Add what the page says in words."""
    for row in rows:
        released = row["published"].get("released_s") or ""
        known = released.replace(".", "", 1).isdigit()
        row["ratio"] = float(released) / (row["build_s"] + row["search_s"]) if known else None
        needed = f"refused: 10^{row['breadth_first_log10']:.1f} entries"
        frontier = row["breadth_first_s"]
        row["breadth_first"] = needed if frontier is None else f"{frontier:.2f} s"
        row["columns_whole"] = row["strategies"] + row["pair_entries"]
        for name in ("lp", "mip"):
            row[f"{name}_said"] = _said(row[name], name == "lp")
    return {"cap": FRONTIER_CAP, "limit_s": rows[0]["limit_s"]}


def _said(run: Row | None, relaxed: bool) -> str:
    if run is None:
        return "not tried"
    if not run["finished"]:
        return "not finished"
    said = "equal" if run["same"] else "DIFFERENT"
    return said + (", integral" if relaxed and run["integral"] else "")


def complaints(rows: list[Row]) -> list[str]:
    """Plans that fail the check, and models with another optimum."""
    found = []
    for row in rows:
        runs = [run for run in (row["lp"], row["mip"]) if run and run["finished"]]
        if not row["checked"] or not all(run["same"] for run in runs):
            found.append(f"{row['network']} on {row['devices']} devices")
    return found
