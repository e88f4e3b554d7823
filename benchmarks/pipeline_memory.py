"""A pipeline under memory limits: all stays, forward passes run again, activations leave, or both.

One stage per device, input and weight gradients apart. For every limit four problems are planned,
one after the other; each begins from the plans of those that allow less, which are plans of it as
well. Bounds are carried the other way: what no plan with both can beat, none with one can.

The study is ``results/paper/pipeline-memory/study.toml``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Plan
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model
from milp_plan.run import Settings, solve

WAYS = {
    "none": (False, False),
    "recompute": (True, False),
    "offload": (False, True),
    "both": (True, True),
}
"""Name -> whether forward passes may run again, and whether there are lanes to a host."""


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Plan one row, each way; times and peaks are the checker's."""
    model = Model.from_share(tuple(case["times"]), case["send"])
    plain = Case(model, case["stages"], case["micro_batches"], memory=case["memory"])
    row: dict[str, Any] = {}
    known: list[Plan] = []
    for name, (recompute, offload) in WAYS.items():
        lane = case["lane"] if offload else None
        built = build(replace(plain, recompute=recompute, lane=lane))
        settings = Settings(time_limit_s=case["limit_s"], seed=case["seed"], hints=tuple(known))
        answer = solve(built.problem, settings)
        row[name] = row[f"{name}_peak"] = None
        if answer.plan is not None:
            verdict = verify(built.problem, answer.plan)
            assert verdict.ok, verdict.violations
            devices = range(case["stages"])
            row[name] = verdict.value
            row[f"{name}_peak"] = max(verdict.components[f"peak_memory d{d}"] for d in devices)
            row[f"{name}_again"] = len(answer.plan.runs) - len(built.problem.graph.operators)
            hosts = built.problem.cluster.hosts
            row[f"{name}_away"] = sum(t.target[0] in hosts for t in answer.plan.transfers)
            known.append(answer.plan)
        row[f"{name}_bound"] = answer.bound or 0
    for name in ("recompute", "offload"):
        row[f"{name}_bound"] = max(row[f"{name}_bound"], row["both_bound"])
    row["none_bound"] = max(row["none_bound"], row["recompute_bound"], row["offload_bound"])
    return row


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what is proved."""
    for row in rows:
        for name in WAYS:
            row[f"{name}_proved"] = row[name] == row[f"{name}_bound"]
    proved = sum(row[f"{name}_proved"] for row in rows for name in WAYS)
    return {"cells": len(rows) * len(WAYS), "proved": proved, "limit_s": rows[0]["limit_s"]}


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    said = []
    for row in rows:
        cell = f"lane {row['lane']}, memory {row['memory']}"
        if any(row[name] is None for name in WAYS):
            said.append(f"{cell}: no plan with one of the methods")
            continue
        alone = row["recompute"], row["offload"]
        if row["both"] > min(alone):
            said.append(f"{cell}: both methods together are slower than one of them")
        if max(alone) > row["none"]:
            said.append(f"{cell}: a method is slower than none")
        for name in WAYS:
            if row[f"{name}_peak"] > row["memory"]:
                said.append(f"{cell}: {name} holds {row[f'{name}_peak']}")
            if row[f"{name}_bound"] > row[name]:
                said.append(f"{cell}: {name}: bound {row[f'{name}_bound']} above {row[name]}")
    return said
