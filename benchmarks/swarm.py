"""Policies for unequal peers that fail, beside static pipelines and what no policy can exceed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import median
from typing import Any

from swarm_simulation import Policy, Swarm, simulate

SECOND = 1_000
"""Ticks."""

WORK = 10 * SECOND
"""Of a micro-batch at each stage: a peer of speed 10, the slowest, takes a second."""

HORIZON, REPAIR, BALANCE = 1_000 * SECOND, 60 * SECOND, 10 * SECOND


def swarm(seed: int, fail_every: int | None) -> Swarm:
    """Return sixteen peers of speeds one to four at four stages."""
    rng = random.Random(seed)
    speeds = tuple(rng.randint(10, 40) for _ in range(16))
    mean = None if fail_every is None else fail_every * SECOND
    return Swarm(speeds, 4, WORK, HORIZON, mean, REPAIR, BALANCE, 4, seed)


def measure(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run every policy on equal failures; rates are to static pipelines and to the capacity."""
    rows = []
    for seed in range(case["seeds"]):
        problem = swarm(seed, case["fail_every"] or None)
        rows.append({policy: simulate(problem, policy) for policy in Policy})
    best = [row[Policy.BALANCED] for row in rows]
    wired = [row[Policy.WIRED].finished / row[Policy.STATIC].finished for row in rows]
    gains = [row[Policy.BALANCED].finished / row[Policy.STATIC].finished for row in rows]
    return {
        "failures": median(run.failures for run in best),
        "static": median(row[Policy.STATIC].finished for row in rows),
        "wired_gain": median(wired),
        "least_gain": min(gains),
        "gain": median(gains),
        "most_gain": max(gains),
        "capacity_share": median(run.finished / run.most(WORK) for run in best),
        "above": sum(run.finished > run.most(WORK) for row in rows for run in row.values()),
        "moves": median(run.moves for run in best),
    }


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    said = []
    for row in rows:
        name = f"a failure every {row['fail_every']} s" if row["fail_every"] else "no failures"
        if row["above"]:
            said.append(f"{name}: {row['above']} runs above their capacity")
        if row["fail_every"] == 100 and row["least_gain"] < 1.2:
            said.append(f"{name}: {row['least_gain']:.2f} of static pipelines on some seed")
    return said
