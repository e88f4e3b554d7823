"""A chain of twelve layers with too little memory: run again, wait on a host, or both.

Forward operators last 1, backward ones 2; each layer leaves one unit for the next layer and for its
own backward operator, and there is one channel to the host and one back. All times count in halves,
so that a transfer of 1.5 is exact.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    Plan,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import best_bound
from milp_plan.kinds.schedule.planners.memory import fit
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.models.registry import get
from milp_plan.run.model import FormulationSolver, make_options

LAYERS, HALVES = 12, 2
FORWARD, BACKWARD = 1, 2
WAYS = {"recompute": (True, False), "offload": (False, True), "both": (True, True)}
SECONDS = 300.0
"""For each way; all of them end long before."""


def chain(
    memory: int, transfer: float, ways: tuple[bool, bool], num_layers: int = LAYERS
) -> PlanningProblem:
    """Return the problem of one cell of the table; ``ways`` are recomputation and a host."""
    recompute, offload = ways
    layers = range(1, num_layers + 1)
    operators = [
        Operator(f"F{i}", (Option("o", {"d": FORWARD * HALVES}),), recomputable=recompute)
        for i in layers
    ]
    operators += [
        Operator(f"B{i}", (Option("o", {"d": BACKWARD * HALVES}),), kind="backward-input")
        for i in reversed(layers)
    ]
    wire = {FULL: round(transfer * HALVES)}
    values = []
    for i in layers:
        readers = (f"F{i + 1}", f"B{i}") if i < num_layers else (f"B{i}",)
        values.append(Value(f"a{i}", f"F{i}", readers, {FULL: 1}, wire))
        if i > 1:
            values.append(Value(f"g{i}", f"B{i}", (f"B{i - 1}",), {FULL: 0}))
    ends = (("d", "host"), ("host", "d")) if offload else ()
    cluster = Cluster(
        (DeviceClass("d", memory), DeviceClass("host", None, host=True)),
        (Device("d", "d", memory), Device("host", "host", None)),
        tuple(Channel(a, b, 0, 10**9) for a, b in ends),
    )
    return PlanningProblem("chain", ComputationGraph(tuple(operators), tuple(values)), cluster)


def least_recomputed(memory: int, layers: int = LAYERS) -> int:
    """Least time of the chain where values may be made again and nothing leaves.

    Proof: while an operator runs, the layers of which a copy lies on the device are a set of at
    most ``memory``; it holds what the operator reads and what it makes. Between operators copies
    can only go. The device runs one operator at a time, so a plan lasts at least as long as its
    operators together, and these are a path of the search below, which goes through all sets.
    """
    heap = [(0, layers, 0)]
    seen: set[tuple[int, int]] = set()
    while heap:
        time, left, held = heappop(heap)
        if not left:
            return time
        if (left, held) in seen:
            continue
        seen.add((left, held))
        if held >> left & 1:
            heappush(heap, (time + BACKWARD, left - 1, held & ~(1 << left)))
        for layer in range(1, layers + 1):
            if held >> layer & 1 or (layer > 1 and not held >> (layer - 1) & 1):
                continue
            after = held | 1 << layer
            if after.bit_count() <= memory:
                heappush(heap, (time + FORWARD, left, after))
                continue
            for gone in range(1, layers + 1):
                if held >> gone & 1 and gone != layer - 1:
                    heappush(heap, (time + FORWARD, left, after & ~(1 << gone)))
    raise ValueError(f"{memory} units are too few")


def settled(problem: PlanningProblem, plan: Plan) -> tuple[Plan, int]:
    """Ask the exact model for better plans until there is none; the best, and its bound or 0."""
    found = get("memory_slots")
    solver = FormulationSolver(found, make_options(found, {}))
    while True:
        cutoff = plan.stop_ticks - 1
        answer = solver.run(problem, Guide(cutoff), Limits(time_s=SECONDS), Budget(SECONDS))
        if answer.report.stop is Stop.INFEASIBLE and not answer.doubt:
            return plan, cutoff + 1
        if answer.plan is None or answer.value is None or answer.value > plan.stop_ticks:
            return plan, answer.bound or 0
        if answer.value == answer.bound:
            return answer.plan, answer.bound
        if answer.value == plan.stop_ticks:
            return plan, answer.bound or 0
        plan = answer.plan


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Plan one row, each way; times and peaks are the checker's."""
    row: dict[str, Any] = {}
    for name, ways in WAYS.items():
        problem = chain(case["memory"], case["transfer"], ways)
        plain = problem.without_memory_saving
        roomy = plain.variant(cluster=plain.cluster.with_memory({"d": None}))
        start, _ = best_plan(roomy)
        assert start is not None
        found = fit(problem, start, Budget(SECONDS))
        bound = best_bound(problem).value / HALVES
        if name == "recompute":
            bound = max(bound, least_recomputed(case["memory"]))
        row[name] = row[f"{name}_peak"] = None
        if found is not None:
            plan, least = settled(problem, found.plan())
            bound = max(bound, least / HALVES)
            verdict = verify(problem, plan)
            assert verdict.ok, verdict.violations
            assert verdict.value is not None
            row[name] = verdict.value / HALVES
            row[f"{name}_peak"] = verdict.components["peak_memory d"]
        row[f"{name}_bound"] = bound
        row[f"{name}_proved"] = row[name] == bound
    return row


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what is proved."""
    proved = sum(row[f"{name}_proved"] for row in rows for name in WAYS)
    return {"cells": len(rows) * len(WAYS), "proved": proved}


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    said = []
    for row in rows:
        cell = f"transfer {row['transfer']}, memory {row['memory']}"
        values = [row[name] for name in WAYS]
        if None in values:
            said.append(f"{cell}: no plan with one of the methods")
            continue
        if values[2] > min(values[:2]):
            said.append(f"{cell}: both methods together are slower than one of them")
        for name, value in zip(WAYS, values, strict=True):
            if value > row[f"known_{name}"]:
                said.append(f"{cell}: {name} takes {value}, {row[f'known_{name}']} is known")
            if row[f"{name}_peak"] > row["memory"]:
                said.append(f"{cell}: {name} holds {row[f'{name}_peak']}")
    return said
