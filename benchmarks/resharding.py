"""Published cases of resharding, and random ones of unequal tiles: heuristics beside the optimum.

Times are parts of the time that the whole tensor takes through one card.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from milp_plan.kinds.resharding.planners import LOAD_ONLY, RANDOMISED, load_only, randomised
from milp_plan.kinds.resharding.problem import Card, ReshardingProblem
from milp_plan.kinds.resharding.tiles import Mesh, Tile, slices_between, tiles
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

BYTES, RATE = 4, 4 * 10**9
"""Bytes of an element, and of a second: an element takes a nanosecond."""

SECONDS = 10.0
"""For each case."""


def case_problem(row: Mapping[str, str]) -> tuple[ReshardingProblem, int]:
    """Return a published case and the time of its whole tensor through one card.

    Parameters
    ----------
    row
        Meshes, tensor and layouts in words.
    """
    shape = tuple(map(int, row["tensor"].split("x")))
    sides = []
    for side, letter in (("source", "a"), ("target", "b")):
        hosts, devices = map(int, row[f"{side}_mesh"].split("x"))
        mesh = Mesh(tuple(f"{letter}{number}" for number in range(hosts)), devices)
        words = ["R"] * len(shape)
        pattern = r"axis (\d+) in \d+ over (mesh axis (\d)|both mesh axes)"
        for axis, _, over in re.findall(pattern, row[f"{side}_layout"]):
            words[int(axis)] = f"S{over}" if over else "S01"
        sides.append((mesh, tiles(shape, mesh, words, side)))
    (a, before), (b, after) = sides
    cards = tuple(Card(host, RATE) for host in (*a.hosts, *b.hosts))
    slices = tuple(slices_between(before, after, BYTES))
    whole = 1
    for extent in shape:
        whole *= extent
    return ReshardingProblem(f"case-{row['case']}", cards, slices), whole


def random_problem(seed: int, hosts: int = 4) -> tuple[ReshardingProblem, int]:
    """Return a tensor in unequal tiles, each with one or two copies, on hosts before and after."""
    rng, shape = Random(seed), (1200, 900)
    before, after = ([f"{side}{i}" for i in range(hosts)] for side in "ab")
    found = []
    for names in (before, after):
        parts = [_cuts(rng, extent, rng.randint(1, 3)) for extent in shape]
        boxes = [(first, second) for first in parts[0] for second in parts[1]]
        copies = [(box, name) for box in boxes for name in rng.sample(names, rng.randint(1, 2))]
        found.append([Tile(name, box) for box, name in copies])
    cards = tuple(Card(name, RATE) for name in (*before, *after))
    slices = tuple(slices_between(*found, BYTES))
    return ReshardingProblem(f"random-{seed}", cards, slices), shape[0] * shape[1]


def _cuts(rng: Random, extent: int, parts: int) -> list[tuple[int, int]]:
    at = [0, *sorted(rng.sample(range(1, extent), parts - 1)), extent]
    return list(itertools.pairwise(at))


def _row(problem: ReshardingProblem, whole: int) -> dict[str, Any]:
    """Values of the heuristics and of a run."""
    outcome = solve(problem, Settings(time_limit_s=SECONDS))
    assert outcome.value is not None
    assert outcome.bound is not None
    heuristics = {LOAD_ONLY: load_only(problem), RANDOMISED: randomised(problem)}
    values = {name: plan.value / whole for name, plan in heuristics.items() if plan and plan.value}
    return {
        "slices": len(problem.slices),
        "load_only": values[LOAD_ONLY],
        "randomised": values[RANDOMISED],
        "value": outcome.value / whole,
        "bound": outcome.bound / whole,
        "proved": outcome.proved,
        "seconds": outcome.seconds,
    }


def measure(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the tables: a published case, or a number of random problems together."""
    if "seeds" in case:
        rows = [_row(*random_problem(seed)) for seed in range(case["seeds"])]
        gains = [row["randomised"] / row["value"] for row in rows]
        return {
            "above": sum(row["value"] > row["randomised"] for row in rows),
            "better": sum(row["value"] < row["randomised"] for row in rows),
            "proved": sum(row["proved"] for row in rows),
            "slices": f"{min(r['slices'] for r in rows)} to {max(r['slices'] for r in rows)}",
            "median_gain": median(gains),
            "most_gain": max(gains),
            "load_only_gain": median(row["load_only"] / row["value"] for row in rows),
            "widest_gap": max(1 - row["bound"] / row["value"] for row in rows),
        }
    file = Path(os.environ.get("MILP_PLAN_BENCHMARKS", "")) / "resharding" / "cases.csv"
    with file.open(encoding="utf-8") as lines:
        (row,) = (row for row in csv.DictReader(lines) if row["case"] == str(case["case"]))
    return _row(*case_problem(row))


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Split published cases from random ones."""
    published = [row for row in rows if "case" in row]
    return {
        "published": published,
        "random": [row for row in rows if "seeds" in row],
        "proved_cases": sum(row["proved"] for row in published),
        "all_cases": len(published),
    }


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    said = [f"case {row['case']}: not proved" for row in rows if not row["proved"]]
    said += [
        f"case {row['case']}: {row['value']} instead of {row['known']}"
        for row in rows
        if "case" in row and row["value"] != row["known"]
    ]
    return said + [f"{row['above']} random ones above greedy" for row in rows if row.get("above")]
