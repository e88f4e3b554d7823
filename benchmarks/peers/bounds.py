"""What each lower bound is worth: the best bound with all of them, and without one.

Bounds are deterministic, so one instance on which the best bound falls is an effect. Three parts
raise windows that other bounds use and are left out in turn, which computes all others anew; every
other bound is left out of the list of what was proved. The study is
``results/ablation-bounds/study.toml``: ``milp-plan table results/ablation-bounds``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import drawn
import numpy as np
import study

from milp_plan.core import PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds import catalogue, tight
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds
from milp_plan.kinds.schedule.formats import read

DRAWN = "drawn:"

Row = dict[str, Any]


def problem_of(case: Mapping[str, Any]) -> PlanningProblem:
    """Return the problem of a case, with its part of the memory."""
    if case["file"].startswith(DRAWN):
        problem = drawn.draw(int(case["file"].removeprefix(DRAWN)))[0]
    else:
        with tempfile.TemporaryDirectory() as folder:
            problem = read(study.instance_file(case["file"], Path(folder)))
    parts = round(100 * case.get("memory", 1))
    return problem if parts == 100 else problem.with_memory_scale(parts, 100)


def _no_times(plain: Any, *_: Any) -> Any:
    size = len(plain.view.frame.names)
    return np.full((size, size), -tight.FAR, dtype=np.int64)


PARTS: dict[str, list[tuple[Any, str, Any]]] = {
    "regions": [
        (catalogue, "known_regions", lambda *_: None),
    ],
    "neighbourhoods": [(tight, "neighbourhood_times", _no_times)],
    "milestones": [(catalogue, "with_milestones", lambda frame: frame)],
}
"""Part -> what stands in for it: module, name, replacement."""


@contextmanager
def without(part: str | None) -> Iterator[None]:
    """Leave a part out."""
    with ExitStack() as stack:
        for module, name, other in PARTS.get(part or "", []):
            stack.enter_context(mock.patch.object(module, name, other))
        yield


def measure(case: Mapping[str, Any]) -> Row:
    """Compute all bounds of an instance, and again without each part of their windows."""
    problem = problem_of(case)
    found: dict[str, Any] = {}
    for part in (None, *PARTS):
        began = time.process_time()
        best: dict[str, int] = {}
        with without(part):
            for bound in all_bounds(problem.variant(name=problem.name), Budget(case["limit"])):
                best[bound.name] = max(bound.value, best.get(bound.name, 0))
        found[part or "all"] = {"bounds": best, "seconds": round(time.process_time() - began, 2)}
    return {
        "name": problem.name,
        "operators": len(problem.graph.operators),
        "devices": len(problem.cluster.devices),
        "found": found,
    }


# -- the page -------------------------------------------------------------------------------------


def lost(row: Row) -> dict[str, float]:
    """Return how far the best bound falls without each bound or part, as a share of it."""
    bounds = row["found"]["all"]["bounds"]
    best = max(bounds.values())
    left = {
        name: max([value for other, value in bounds.items() if other != name], default=0)
        for name in bounds
    }
    left |= {part: max(row["found"][part]["bounds"].values()) for part in PARTS}
    return {name: (best - value) / best if best else 0.0 for name, value in left.items()}


def present(rows: list[Row]) -> Row:
    """Return a row for each bound: on how many instances it is the best, and by how much."""
    losses = [(row, lost(row)) for row in rows]
    names = dict.fromkeys(name for _, own in losses for name in own)
    table = []
    for name in names:
        own = [(row["name"], found[name]) for row, found in losses if name in found]
        better = sorted((part, where) for where, part in own if part > 0)
        table.append({
            "bound": name, "applies": len(own), "better": len(better),
            "most": f"{better[-1][0]:.2%}" if better else "",
            "where": better[-1][1] if better else "",
            "seconds": _seconds(rows, name),
        })  # fmt: skip
    table.sort(key=lambda entry: (-entry["better"], entry["bound"]))
    idle = [entry["bound"] for entry in table if not entry["better"]]
    for row in rows:
        bounds = row["found"]["all"]["bounds"]
        row["by"] = max(bounds, key=bounds.__getitem__)
        row |= {"best": bounds[row["by"]], "seconds": row["found"]["all"]["seconds"]}
        row.setdefault("memory", 1)
    return {
        "bounds": table,
        "instances": len(rows),
        "idle": ", ".join(idle) or "none",
    }


def _seconds(rows: list[Row], name: str) -> str:
    if name not in PARTS:
        return ""
    spent = sum(row["found"]["all"]["seconds"] - row["found"][name]["seconds"] for row in rows)
    return f"{spent:.1f}"
