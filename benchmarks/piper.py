"""Piper's problem: every listed configuration planned exactly, beside the published code.

Needs the benchmark's files in ``$MILP_PLAN_BENCHMARKS/piper``. Seconds are wall clock and CPU,
compiled loops being loaded before.

The study is ``results/paper/piper/study.toml``: ``milp-plan table results/paper/piper``.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

from milp_plan.io.public_data import VARIABLE
from milp_plan.kinds.hybrid.check import verify_hybrid
from milp_plan.kinds.hybrid.planners import plan_exactly, plan_uniformly
from milp_plan.run import read

INFEASIBLE = "infeasible"
SAME = 1e-6
"""Relative difference to which published values, printed to nine digits, are compared."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Plan a configuration, and split it uniformly."""
    _, problem = read(Path(os.environ.get(VARIABLE, "."), "piper", case["file"]), changes_of(case))
    plan_exactly(problem, case["time_limit"])  # loads compiled loops
    began, worked = time.perf_counter(), time.process_time()
    answer = plan_exactly(problem, case["time_limit"])
    spent, worked = time.perf_counter() - began, time.process_time() - worked
    began = time.perf_counter()
    even = plan_uniformly(problem)
    even_s = time.perf_counter() - began
    verdict = None if answer.plan is None else verify_hybrid(problem, answer.plan)
    value = None if verdict is None or verdict.value is None else verdict.value
    scale = problem.units.time_scale
    stages = [] if answer.plan is None else answer.plan.stages
    split = None if even is None else verify_hybrid(problem, even[0]).value
    return {
        "value": INFEASIBLE if answer.infeasible else None if value is None else value / scale,
        "bound": None if answer.infeasible else answer.bound,
        "proved": answer.infeasible or answer.complete,
        "check": "no plan" if verdict is None else "ok" if verdict.ok else "violated",
        "stages": [[len(s.choices), s.data, s.tensor] for s in stages],
        "down_sets": answer.down_sets,
        "seconds": round(spent, 3),
        "cpu_seconds": round(worked, 3),
        "even": INFEASIBLE if split is None else split / scale,
        "even_seconds": round(even_s, 3),
    }


def changes_of(case: Mapping[str, Any]) -> Row:
    """What a case asks of its file, as ``milp-plan solve`` would."""
    changes = {name: case[name] for name in ("devices", "micro_batches")}
    changes |= {name: amount_of(case[name]) for name in ("memory", "bandwidth")}
    return changes | ({f"no_{case['without']}": True} if "without" in case else {})


def amount_of(text: str) -> Fraction:
    """Bytes of an amount such as ``1.5GiB``."""
    number, gibi, _ = text.partition("GiB")
    return Fraction(number) * 2**30 if gibi else Fraction(text.removesuffix("B"))


def standing(ours: float | str | None, published: Mapping[str, Any] | None) -> str:
    """``better``, ``equal`` or ``worse`` than a published value; ``alone`` where there is none."""
    if published is None:
        return "alone"
    theirs = published["value"]
    if ours is None or (ours == INFEASIBLE) != (theirs == INFEASIBLE):
        return "better" if theirs == INFEASIBLE and ours is not None else "worse"
    if ours == INFEASIBLE or abs(ours - theirs) <= SAME * theirs:
        return "equal"
    return "better" if ours < theirs else "worse"


def present(rows: list[Row]) -> Row:
    """Compare with what is published, and add what the page says in words."""
    for row in rows:
        row.setdefault("piper", None)
        row["against"] = standing(row["value"], row["piper"])
        row["even_against"] = standing(row["even"], row.get("uniform"))
        row["off"] = row.get("without", "")
        row["proof"] = "proved" if row["proved"] else f"bound {_value(row['bound'])}"
        row["parts"] = _stages(row["stages"])
        for name in ("value", "even"):
            row[f"{name}_said"] = _value(row[name])
        for name in ("piper", "uniform"):
            row[f"{name}_said"] = _value((row.get(name) or {}).get("value"))
    known = [row["against"] for row in rows if row["against"] != "alone"]
    return {
        "cases": len(rows),
        "proved": sum(row["proved"] for row in rows),
        "known": len(known),
        "counts": _counts(known),
        "splits": _counts([row["even_against"] for row in rows]),
        "same": SAME,
    }


def complaints(rows: list[Row]) -> list[str]:
    """Cases that the checker disputes, or that are worse than a published value."""
    return [
        f"{row['file']}, {row['memory']} x {row['devices']}: {row['against']}, {row['check']}"
        for row in rows
        if row["against"] == "worse" or row["check"] == "violated"
    ]


def _counts(standings: list[str]) -> str:
    counted = Counter(standings)
    return ", ".join(f"{counted[word]} {word}" for word in ("better", "equal", "worse"))


def _value(entry: float | str | None) -> str | None:
    return entry if entry is None or isinstance(entry, str) else f"{entry:.9g}"


def _stages(stages: list[list[int]]) -> str:
    """Write stages as layers x data degree x tensor degree; alike ones in a row are counted."""
    runs = [(stage, len(list(alike))) for stage, alike in groupby(stages)]
    texts = [
        "x".join(map(str, s)) + (f" ({count} times)" if count > 1 else "") for s, count in runs
    ]
    more = [f"... {len(stages)} in all"] if len(texts) > 6 else []
    return ", ".join(texts[:6] + more)
