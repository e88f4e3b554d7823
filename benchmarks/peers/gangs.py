"""Gangs with options by CP-SAT: an optional interval for each option, one cumulative per pool.

Where it is asked for, a row for each pool says that its device time is enough: CP-SAT does not see
that by itself, proves much more with it, and finds worse plans of hundreds of jobs.
A program of its own: reads a problem as JSON from standard input, writes value, bound and seconds.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ortools.sat.python import cp_model


def solved(asked: dict[str, Any]) -> dict[str, Any]:
    """Least makespan of jobs, each a list of options (pool, devices, ticks), with releases."""
    model = cp_model.CpModel()
    longest = [max(ticks for _, _, ticks in job["options"]) for job in asked["jobs"]]
    horizon = max(job["release"] for job in asked["jobs"]) + sum(longest)
    makespan = model.new_int_var(0, horizon, "makespan")
    loads: dict[str, tuple[list[Any], list[int]]] = {pool: ([], []) for pool in asked["pools"]}
    work: dict[str, list[Any]] = {pool: [] for pool in asked["pools"]}
    for number, job in enumerate(asked["jobs"]):
        begin = model.new_int_var(job["release"], horizon, f"begin {number}")
        chosen = []
        for place, (pool, devices, ticks) in enumerate(job["options"]):
            taken = model.new_bool_var(f"taken {number} {place}")
            span = model.new_optional_interval_var(
                begin, ticks, begin + ticks, taken, f"run {number} {place}"
            )
            loads[pool][0].append(span)
            loads[pool][1].append(devices)
            work[pool].append(devices * ticks * taken)
            model.add(makespan >= begin + ticks).only_enforce_if(taken)
            chosen.append(taken)
        model.add_exactly_one(chosen)
    for pool, (spans, devices) in loads.items():
        model.add_cumulative(spans, devices, asked["pools"][pool])
        if asked["work_rows"]:
            model.add(sum(work[pool]) <= asked["pools"][pool] * makespan)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = asked["limit_s"]
    solver.parameters.num_workers = asked["threads"]
    solver.parameters.relative_gap_limit = asked["gap"]
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    known = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return {
        "value": round(solver.objective_value) if known else None,
        "bound": round(solver.best_objective_bound),
        "seconds": round(solver.wall_time, 2),
    }


if __name__ == "__main__":
    print(json.dumps(solved(json.load(sys.stdin))))
