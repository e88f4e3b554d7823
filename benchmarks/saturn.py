"""Jobs with options: Saturn's setting, many jobs, true times that differ, and arrivals.

Parts: *joint* (12 jobs on 8 devices: technique, devices and start together), *growth* (up to 500
jobs on 256 devices, until the gap is 5 %, in processor seconds), *again* (planned again at four
points while true times are off by up to 20 %) and *arrivals* (jobs that come over time, by A-SRPT
and other orders).
Reductions and ratios do not depend on the machine; seconds are wall-clock, loading included;
processor seconds of *growth* are of all threads, without loading: a small problem goes first.

The study is ``results/paper/saturn/study.toml``: ``milp-plan table results/paper/saturn``.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from hydra import value_of
from introspection import Simulation
from peers.environment import peer_python

from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.jobs.planners import FIFO, LONGEST, SRPT, arrivals
from milp_plan.kinds.jobs.problem import (
    Job,
    JobsObjective,
    JobsProblem,
    Option,
    Pool,
    Unit,
)
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

GAP_JOINT, GAP_GROWTH = 0.01, 0.05

SHORTER = 0.39
"""Part by which the published system is shorter than all devices for one job after the other."""

STEEPEST = 1.25
"""Power of the number of jobs with which cost may grow and be called linear."""

THREADS = 2

FEW = 40
"""Jobs up to which the peer has rows of device time, with which it is stronger on few jobs only."""

PEER = Path(__file__).resolve().parent / "peers" / "gangs.py"

PEER_ROW = ("peer_value", "peer_gap", "peer_seconds")

Row = dict[str, Any]


def saturn(seed: int, jobs: int, devices: int, low: float, high: float) -> JobsProblem:
    """Jobs of one to eight hours on one device, T / g^a on g, with a from a range."""
    rng = random.Random(seed)
    counts = [g for g in (1, 2, 4, 8, 16, 32) if g <= min(devices, 8 if devices <= 8 else 32)]
    made = []
    for number in range(jobs):
        alone, power = rng.uniform(1, 8) * 3600, rng.uniform(low, high)
        options = tuple(Option("fsdp", "gpu", g, round(alone / g**power)) for g in counts)
        made.append(Job(f"job{number}", (Unit(options),)))
    return JobsProblem(f"saturn{seed}", (Pool("gpu", devices),), tuple(made))


def poisson(seed: int, load: float, jobs: int = 200, devices: int = 16) -> JobsProblem:
    """Gangs of log-normal times that arrive as a Poisson process."""
    rng = random.Random(seed)
    sizes = [(rng.choice((1, 2, 4, 8)), rng.lognormvariate(0, 1) * 3600) for _ in range(jobs)]
    rate = load * devices * jobs / sum(g * ticks for g, ticks in sizes)
    made, now = [], 0.0
    for number, (g, ticks) in enumerate(sizes):
        now += rng.expovariate(rate)
        unit = Unit((Option("ddp", "gpu", g, max(1, round(ticks))),))
        made.append(Job(f"job{number}", (unit,), round(now)))
    pool = (Pool("gpu", devices),)
    return JobsProblem(f"arrivals{seed}", pool, tuple(made), JobsObjective.COMPLETION)


def peer(problem: JobsProblem, limit_s: float, gap: float) -> Row:
    """What CP-SAT finds and proves in the same time, on as many threads."""
    asked = {
        "pools": {pool.name: pool.devices for pool in problem.pools},
        "jobs": [
            {
                "release": job.release,
                "options": [(o.pool, o.devices, o.ticks) for o in job.units[0].options],
            }
            for job in problem.jobs
        ],
        "limit_s": limit_s,
        "threads": THREADS,
        "gap": gap,
        "work_rows": len(problem.jobs) <= FEW,
    }
    command = [peer_python(), str(PEER)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    gap_there = None if told["value"] is None else 1 - told["bound"] / told["value"]
    return dict(zip(PEER_ROW, (told["value"], gap_there, told["seconds"]), strict=True))


def measure(case: Mapping[str, Any]) -> Row:
    """Measure one case of one part."""
    return {"part": case["part"], "seed": case["seed"], **PARTS[case["part"]](case)}


def _joint(case: Mapping[str, Any]) -> Row:
    problem = saturn(case["seed"], 12, 8, case["low"], case["high"])
    settings = Settings(time_limit_s=case["limit_s"], threads=THREADS)
    began = time.perf_counter()
    outcome = solve(problem, settings)
    seconds = round(time.perf_counter() - began, 1)
    assert outcome.value is not None
    starts = outcome.record["baselines"]
    greedy = min(starts[name] for name in ("fewest devices", "marginal gain", "random"))
    return {
        "powers": f"{case['low']}-{case['high']}",
        "practice": starts["one by one"],
        "greedy": greedy,
        "value": outcome.value,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "seconds": seconds,
        **peer(problem, case["limit_s"], 0.0),
        "shorter": round(1 - outcome.value / starts["one by one"], 4),
        "than_greedy": round(1 - outcome.value / greedy, 4),
    }


def _growth(case: Mapping[str, Any]) -> Row:
    problem = saturn(case["seed"], case["jobs"], case["devices"], 0.55, 0.75)
    settings = Settings(time_limit_s=case["limit_s"], gap=GAP_GROWTH, threads=THREADS)
    solve(saturn(0, 12, case["devices"], 0.55, 0.75), settings)
    began, worked = time.perf_counter(), time.process_time()
    outcome = solve(problem, settings)
    row = {
        "value": outcome.value,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "seconds": round(time.perf_counter() - began, 1),
        "processor": round(time.process_time() - worked, 2),
    }
    late: Row = dict.fromkeys(("late", "late_gap", *PEER_ROW))
    if case["peer"]:
        on = solve(problem, Settings(time_limit_s=case["limit_s"], threads=THREADS))
        late = {"late": on.value, "late_gap": on.gap, **peer(problem, case["limit_s"], 0.0)}
    return {"jobs": case["jobs"], "devices": case["devices"], **row, **late}


def _again(case: Mapping[str, Any]) -> Row:
    problem = saturn(case["seed"], 12, 8, 0.55, 0.75)
    rng = random.Random(case["seed"])
    truth = [Fraction(rng.randint(80, 120), 100) for _ in problem.jobs]
    once = Simulation(problem, truth).run(0)
    simulation = Simulation(problem, truth)
    again = simulation.run(4)
    happened, plan = simulation.happened()
    assert value_of(happened, plan) == again
    return {"once": once, "again": again, "ratio": round(again / once, 3)}


def _arrivals(case: Mapping[str, Any]) -> Row:
    problem = poisson(case["seed"], case["load"])
    rng = random.Random(case["seed"])
    found = {name: value_of(problem, arrivals(problem, name)) for name in (SRPT, FIFO, LONGEST)}
    noisy = [Fraction(rng.randint(70, 130), 100) for _ in problem.jobs]
    told = value_of(problem, arrivals(problem, SRPT, noisy))
    since = sum(job.release for job in problem.jobs)
    best = found[SRPT]
    return {
        "load": case["load"],
        "fifo": round(found[FIFO] / best, 4),
        "longest": round(found[LONGEST] / best, 4),
        "noisy": round(told / best, 4),
        "fifo_wait": round((found[FIFO] - since) / (best - since), 3),
        "longest_wait": round((found[LONGEST] - since) / (best - since), 3),
        "noisy_wait": round((told - since) / (best - since), 3),
    }


PARTS = {"joint": _joint, "growth": _growth, "again": _again, "arrivals": _arrivals}


def present(rows: list[Row]) -> Row:
    """Rows of each part, and what the page says in words."""
    told: Row = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    told["power"] = f"{power(told['growth']):.2f}"
    told["mean_again"] = f"{mean([row['ratio'] for row in told['again']] or [1.0]):.3f}"
    return told


def power(rows: list[Row]) -> float:
    """Power of the number of jobs with which processor seconds grow, by least squares of logs."""
    cost = [(row["jobs"], max(row["processor"], 0.01)) for row in rows]
    if len({jobs for jobs, _ in cost}) < 2:
        return 0.0
    jobs, seconds = np.log(np.array(cost, float)).T
    return float(np.polyfit(jobs, seconds, 1)[0])


def complaints(rows: list[Row]) -> list[str]:
    """What does not hold."""
    found = []
    for row in rows:
        where = f"{row['part']} {row['seed']}"
        if row["part"] == "joint" and row["value"] > row["greedy"]:
            found.append(f"{where}: worse than a greedy start")
        theirs = row.get("peer_value") if row["part"] == "joint" else None
        if theirs is not None and row["value"] > theirs:
            found.append(f"{where}: CP-SAT has {row['peer_value']}, ours {row['value']}")
        if row["part"] == "joint" and (row["gap"] is None or row["gap"] > GAP_JOINT):
            found.append(f"{where}: not proved within {GAP_JOINT:.0%}")
        if row["part"] == "joint" and row["shorter"] < SHORTER:
            found.append(f"{where}: {row['shorter']:.0%} shorter than practice")
        if row["part"] == "growth" and row["gap"] > GAP_GROWTH:
            found.append(f"{where}: gap {row['gap']:.3f}")
        if row["part"] == "arrivals" and min(row["fifo"], row["longest"]) < 1:
            found.append(f"{where}: another order is better")
        if row["part"] == "arrivals" and row["noisy"] > 1.1:
            found.append(f"{where}: predictions that are off cost more than a tenth")
    steepness = power([row for row in rows if row["part"] == "growth"])
    if steepness > STEEPEST:
        found.append(f"cost grows with the power {steepness:.2f} of the jobs")
    again = [row["ratio"] for row in rows if row["part"] == "again"]
    if again and mean(again) > 1:
        found.append("planning again is worse than not")
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Seconds and gap against jobs."""
    own = [row for row in rows if row["part"] == "growth"]
    peers = [row for row in own if row.get("peer_gap") is not None]
    with drawing_style():
        figure = new_figure(6.5, 2.8)
        left, right = figure.subplots(1, 2)
        for number, seed in enumerate(dict.fromkeys(row["seed"] for row in own)):
            mine = [row for row in own if row["seed"] == seed]
            counts = [row["jobs"] for row in mine]
            left.plot(counts, [row["processor"] for row in mine], "o-", color=f"C{number}")
            gaps = [100 * row["gap"] for row in mine]
            right.plot(counts, gaps, "o-", color=f"C{number}", label=f"ours, seed {seed}")
        left.set_ylabel(f"processor s until the gap is {GAP_GROWTH:.0%}")
        far = [100 * row["peer_gap"] for row in peers]
        right.plot([row["jobs"] for row in peers], far, "s:", color="grey", label="CP-SAT")
        right.set_ylabel("gap, %")
        right.legend(frameon=False, fontsize=7)
        for axes in (left, right):
            axes.set_xlabel("jobs, on 256 devices")
            axes.set_ylim(bottom=0)
    return {"growth.png": figure}
