"""Step times of pipelines with local updates beside 1F1B; what less exact gradients may cost."""

from __future__ import annotations

from typing import Any

from first_come import first_come

from milp_plan.kinds.local_updates.planners import Chain, best_cuts, orders, step_time
from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem, Stage

SCALE = 20
"""Ticks of a forward pass; backward takes two of them, the input gradient alone one."""

IN_FLIGHT = 3
"""Micro-batches at a stage where devices take what came first."""


def chain(case: dict[str, Any], head: float) -> Chain:
    """Return equal stages."""
    parts = (SCALE, 2 * SCALE, round(head * SCALE), SCALE)
    rows = tuple((ticks,) * case["stages"] for ticks in parts)
    return Chain(*rows, round(case["transfer"] * SCALE), case["batches"])


def problem(case: dict[str, Any], head: float, budget: int) -> LocalUpdatesProblem:
    """Return the choice of at most this many cuts of equal stages."""
    stages = tuple(
        Stage(str(place), SCALE, 2 * SCALE, round(head * SCALE)) for place in range(case["stages"])
    )
    transfer = round(case["transfer"] * SCALE)
    return LocalUpdatesProblem("chain", stages, case["batches"], transfer, budget)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Speed-ups over 1F1B: the factor of steps up to which local updates win."""
    every = frozenset(range(case["stages"] - 1))
    row: dict[str, Any] = {}
    for head in (0.0, 0.15, 0.3):
        one = chain(case, head)
        plain = step_time(one, (), orders(one, ()))
        greedy = step_time(one, every, orders(one, every, final_head=True))
        row[f"greedy_{round(100 * head)}"] = plain / greedy
    one = chain(case, 0.15)
    plain = step_time(one, (), orders(one, ()))
    how = {"overlapping": True, "final_head": True}
    row["overlapping_15"] = plain / step_time(one, every, orders(one, every, **how))
    row["first_come_15"] = plain / step_time(one, every, first_come(one, IN_FLIGHT))
    least = (case["stages"] - 1) * (SCALE + one.transfer)
    least += case["batches"] * (4 * SCALE + one.head[0])
    row["overlapping_most"] = plain / least
    for budget in (1, 2, 3, case["stages"] - 1):
        found = best_cuts(problem(case, 0.15, budget))
        assert found is not None
        assert found.value is not None
        name = "any" if budget > 3 else str(budget)
        row[f"cuts_{name}"] = plain / found.value
        row[f"where_{name}"] = ", ".join(found.cuts)
    row.setdefault("cuts_any", row["cuts_3"])
    row.setdefault("where_any", row["where_3"])
    return row


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    said = []
    for row in rows:
        name = f"{row['stages']} stages, {row['batches']} micro-batches"
        for key in ("greedy_0", "greedy_15", "greedy_30"):
            if abs(row[key] - row[f"known_{key}"]) > 0.02:
                said.append(f"{name}: {key} {row[key]:.3f}, {row['known_' + key]} is known")
        first, known = row["first_come_15"], row["known_overlapping_15"]
        if abs(first - known) > 0.02:
            said.append(f"{name}: first come {first:.3f}, {known} is known")
        if row["overlapping_15"] < first:
            said.append(f"{name}: overlapping is slower than what came first")
        if row["overlapping_15"] > row["overlapping_most"] + 1e-9:
            said.append(f"{name}: overlapping is faster than can be")
        if not row["cuts_1"] <= row["cuts_2"] <= row["cuts_3"] <= row["cuts_any"]:
            said.append(f"{name}: more cuts are slower")
    return said
