"""Many sharded models on one cluster: Hydra's list scheduling, its bound, and plans that beat both.

Parts: *order* (chains of units on devices that are alike, by several ranks, over the closed-form
bound), *scaling* (the same twelve jobs on more devices), *spill* (weights that come from a host,
with memory for one shard, two or three) and, where the rank is not enough, *speeds* (devices of two
speeds), *reload* (devices that hold one shard, so that another one costs a store and a load) and
*host* (a host that holds two jobs). Times are in units of the problem; the checker accepts every
plan.

The study is ``results/paper/hydra/study.toml``: ``milp-plan table results/paper/hydra``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from math import sqrt
from statistics import mean, median, stdev
from typing import Any

from milp_plan.kinds.jobs.bounds import jobs_bounds
from milp_plan.kinds.jobs.check import verify_jobs
from milp_plan.kinds.jobs.planners import RANKS, Chains
from milp_plan.kinds.jobs.problem import Job, JobsPlan, JobsProblem, Option, Pool, Unit, Weights
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

TICKS = 1000
"""Of one unit."""

SHARDS = (1, 1, 1, 3, 2, 2, 2)
"""Times of the units of a mini-batch of four shards, whose backward takes twice the forward."""

CLOSE, SURE = 0.02, 2
"""How near to figures of others a mean has to be, or within this many of its standard errors."""

GAIN = 0.05
"""Part by which the median plan has to beat longest remaining time first: two speeds, reloads."""

Row = dict[str, Any]


def batches_of(case: Mapping[str, Any], seed: int) -> JobsProblem:
    """Jobs of mini-batches of four shards; where lengths differ, times by factors from 0.5 to 2."""
    rng = random.Random(seed)
    jobs = []
    for number in range(case["jobs"]):
        ticks = round(TICKS * (rng.uniform(0.5, 2) if case.get("mixed") else 1))
        units = tuple(Unit((Option("shard", "gpu", 1, part * ticks),)) for part in SHARDS)
        jobs.append(Job(f"job{number}", units * case["mini_batches"]))
    return JobsProblem("hydra", (Pool("gpu", case["devices"]),), tuple(jobs))


def jobs_of(case: Mapping[str, Any], devices: int) -> JobsProblem:
    """Jobs of equal units."""
    rho, memory = case.get("rho", 0.0), case.get("memory")
    moved = [Weights(f"w{n}", 1, round(TICKS * rho), round(TICKS * rho / 2)) for n in range(4)]
    jobs = []
    for number in range(case["jobs"]):
        units = tuple(
            Unit((Option("shard", "gpu", 1, TICKS),), f"w{n % 4}" if rho else None)
            for n in range(case["units"])
        )
        jobs.append(Job(f"job{number}", units, 0, 1, tuple(moved) if rho else ()))
    return JobsProblem("hydra", (Pool("gpu", devices, memory),), tuple(jobs))


def two_speeds(seed: int, slowdown: int) -> JobsProblem:
    """Three to six jobs of two to six shards on one fast and two slow devices."""
    rng = random.Random(seed)

    def unit() -> Unit:
        ticks = rng.randint(2, 9)
        return Unit(
            (Option("shard", "fast", 1, ticks), Option("shard", "slow", 1, slowdown * ticks))
        )

    jobs = tuple(
        Job(f"job{number}", tuple(unit() for _ in range(rng.randint(2, 6))))
        for number in range(rng.randint(3, 6))
    )
    return JobsProblem(f"speeds{seed}", (Pool("fast", 1), Pool("slow", 2)), jobs)


def reloads(seed: int) -> JobsProblem:
    """Three jobs of one shard that two or three units use, on two devices that hold one."""
    rng = random.Random(f"reload {seed}")
    jobs = []
    for number in range(3):
        moved = Weights("w", 1, rng.randint(2, 9), rng.randint(1, 5))
        units = tuple(
            Unit((Option("shard", "gpu", 1, rng.randint(2, 9)),), "w")
            for _ in range(rng.randint(2, 3))
        )
        jobs.append(Job(f"job{number}", units, 0, 1, (moved,)))
    return JobsProblem(f"reload{seed}", (Pool("gpu", 2, 1),), tuple(jobs))


def two_at_a_time(seed: int) -> JobsProblem:
    """Five to seven jobs of one to three shards on three devices; the host holds two of them."""
    rng = random.Random(f"host {seed}")
    jobs = []
    for number in range(rng.randint(5, 7)):
        units = tuple(
            Unit((Option("shard", "gpu", 1, rng.randint(2, 9)),)) for _ in range(rng.randint(1, 3))
        )
        jobs.append(Job(f"job{number}", units, host=1))
    return JobsProblem(f"host{seed}", (Pool("gpu", 3),), tuple(jobs), host=2)


def value_of(problem: JobsProblem, plan: JobsPlan) -> int:
    """Value of a plan that breaks no law."""
    verdict = verify_jobs(problem, plan)
    assert verdict.ok, verdict.violations
    assert verdict.value is not None
    return verdict.value


def measure(case: Mapping[str, Any]) -> Row:
    """Measure one case of one part."""
    return {"part": case["part"], **PARTS[case["part"]](case)}


def _order(case: Mapping[str, Any]) -> Row:
    ratios: dict[str, list[float]] = {name: [] for name in RANKS}
    for seed in range(case["seeds"]):
        problem = batches_of(case, seed)
        bound = max(bound.value for bound in jobs_bounds(problem))
        for name, run in RANKS.items():
            ratios[name].append(value_of(problem, run(Chains(problem), seed)) / bound)
    found: Row = {"jobs": case["jobs"], "mix": "0.5-2" if case.get("mixed") else "equal"}
    for rank, known in ratios.items():
        name = rank.replace(" ", "_").replace(",", "")
        found[name] = round(mean(known), 3)
        found[f"{name}_error"] = round(stdev(known) / sqrt(len(known)), 3)
    return found | {f"{name}_there": there for name, there in case["there"].items()}


def _scaling(case: Mapping[str, Any]) -> Row:
    ends = [
        value_of(problem, Chains(problem).longest_first())
        for problem in (jobs_of(case, devices) for devices in (1, case["devices"]))
    ]
    return {"devices": case["devices"], "speed_up": round(ends[0] / ends[1], 2)}


def _spill(case: Mapping[str, Any]) -> Row:
    pure = case["jobs"] * case["units"] * TICKS / case["devices"]
    found: Row = {"rho": case["rho"], "there": case.get("there")}
    for memory, name in enumerate(("one", "two", "three"), 1):
        problem = jobs_of({**case, "memory": memory}, case["devices"])
        plan = Chains(problem).longest_first()
        found[name] = round(value_of(problem, plan) / pure, 3)
        found[f"{name}_peak"] = verify_jobs(problem, plan).components["peak_memory"]
        held = (1 + 1.5 * case["rho"]) / memory
        found[f"{name}_least"] = round(max(1, case["rho"], held), 3)
    found["ratio_three"] = round(found["one"] / found["three"], 3)
    return {**found, "ratio": round(found["one"] / found["two"], 3)}


def _speeds(case: Mapping[str, Any]) -> Row:
    problem = two_speeds(case["seed"], case["slowdown"])
    return {"slowdown": case["slowdown"], **_against_lists(problem, case)}


def _reload(case: Mapping[str, Any]) -> Row:
    return _against_lists(reloads(case["seed"]), case)


def _hosted(case: Mapping[str, Any]) -> Row:
    return _against_lists(two_at_a_time(case["seed"]), case)


def _against_lists(problem: JobsProblem, case: Mapping[str, Any]) -> Row:
    """A whole run beside longest remaining time first."""
    listed = value_of(problem, Chains(problem).longest_first())
    outcome = solve(problem, Settings(time_limit_s=case["limit_s"], threads=1))
    assert outcome.value is not None
    return {
        "seed": case["seed"],
        "jobs": len(problem.jobs),
        "units": sum(len(job.units) for job in problem.jobs),
        "lrtf": listed,
        "value": outcome.value,
        "bound": outcome.bound,
        "gain": round(1 - outcome.value / listed, 4),
        "proved": "yes" if outcome.proved else "no",
    }


PARTS = {
    "order": _order,
    "scaling": _scaling,
    "spill": _spill,
    "speeds": _speeds,
    "reload": _reload,
    "host": _hosted,
}

SETTINGS = {
    "speeds": "one fast device, two slow ones",
    "reload": "devices that hold one shard",
    "host": "a host that holds two jobs",
}
"""Parts in which a whole run stands beside lists, in words."""


def _summary(part: str, rows: list[Row]) -> Row:
    gains = [row["gain"] for row in rows]
    return {
        "setting": SETTINGS[part],
        "count": len(rows),
        "shorter": sum(gain > 0 for gain in gains),
        "median": median(gains),
        "most": max(gains),
        "proofs": sum(row["proved"] == "yes" for row in rows),
    }


def present(rows: list[Row]) -> Row:
    """Rows of each part, and what the page says in words."""
    told: Row = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    told["against"] = [_summary(part, told[part]) for part in SETTINGS if told[part]]
    return told


def _departures(row: Row) -> Iterator[str]:
    """Where a row is further from the other simulation than means of so few seeds can be."""
    if row["part"] == "order":
        for name in [name.removesuffix("_there") for name in row if name.endswith("_there")]:
            ours, there, error = (row[f"{name}{kind}"] for kind in ("", "_there", "_error"))
            if abs(ours - there) > max(CLOSE, SURE * sqrt(2) * error):
                yield f"{row['jobs']} jobs, {row['mix']}, {name}: {ours}, there {there}"
    elif row["part"] == "spill" and row.get("there") is not None:
        if abs(row["ratio_three"] - row["there"]) > CLOSE:
            yield f"spill {row['rho']}: ratio {row['ratio_three']}, there {row['there']}"
        if row["rho"] <= 1 and row["three"] > 1.01:
            yield f"spill {row['rho']}: {row['three']} with room for three"


def complaints(rows: list[Row]) -> list[str]:
    """What does not hold."""
    found = [
        f"spill {row['rho']}: without room to prefetch {row['ratio']} times as long"
        for row in rows
        if row["part"] == "spill" and 0.35 <= row["rho"] <= 0.65 and not 1.5 <= row["ratio"] <= 2
    ]
    for row in rows:
        found += _departures(row)
    found += [
        f"{row['devices']} devices: speed-up {row['speed_up']}"
        for row in rows
        if row["part"] == "scaling" and row["speed_up"] < 0.9875 * row["devices"]
    ]
    found += [
        f"{row['part']} {row['seed']}: lists are better"
        for row in rows
        if row["part"] in SETTINGS and row["gain"] < 0
    ]
    for part in ("speeds", "reload"):
        gains = [row["gain"] for row in rows if row["part"] == part]
        if gains and median(gains) < GAIN:
            found.append(f"{SETTINGS[part]}: median gain {median(gains):.3f}")
    return found
