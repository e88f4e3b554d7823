"""Sharding and schedule chosen together, against sharding first and schedule after.

The study is ``results/paper/joint/study.toml``: ``milp-plan table results/paper/joint``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from milp_plan.check import verify
from milp_plan.core import Operator, Option, Plan, PlanningProblem
from milp_plan.core.sharding import ShardingProblem
from milp_plan.cost.first import strategies_first
from milp_plan.elimination.repeated import repeated
from milp_plan.elimination.search import eliminate
from milp_plan.report.pages import DASH, amount, share
from milp_plan.run import Outcome, Settings, solve
from milp_plan.zoo import generate

WAYS = ("whole mesh", "any mesh", "ties open")
"""Sharding first: with strategies of the largest mesh, with all, and with every strategy that is in
some cheapest sharding, of which the schedule may choose (more than sharding first allows)."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Plan a case both ways."""
    problem, limit_s = problem_of(case), case["time_limit"]
    first = {}
    best: Outcome[PlanningProblem, Plan] | None = None
    for name in WAYS:
        total, outcome = sharding_first(problem, name, limit_s)
        first[name] = {"total": total, **answer(problem, outcome)}
        if outcome.value is not None and (best is None or outcome.value < (best.value or 0)):
            best = outcome
    start = None if best is None or best.plan is None else replace(best.plan, fingerprint=None)
    joint = solve(problem, Settings(time_limit_s=limit_s, start=start))
    return {
        "name": problem.name,
        "operators": len(problem.graph.operators),
        "options": sum(len(operator.options) for operator in problem.graph.operators),
        "fingerprint": problem.fingerprint,
        "first": first,
        "joint": answer(problem, joint),
        "units": {"time": problem.units.time, "time_scale": problem.units.time_scale},
        "objective": str(problem.objective),
    }


def problem_of(case: Mapping[str, Any]) -> PlanningProblem:
    """Generate the problem of a case."""
    return generate(
        case["architecture"],
        case["cluster"],
        mode=case.get("mode", "inference"),
        batch=case.get("batch", 1),
        granularity=case.get("granularity", "fine"),
        meshes=case["meshes"],
        link=case.get("link"),
        name=case.get("instance"),
    )


def sharding_first(
    problem: PlanningProblem, way: str, limit_s: float
) -> tuple[int, Outcome[PlanningProblem, Plan]]:
    """Cheapest strategies in all, and the best schedule that they leave."""
    largest = max(o.gang for operator in problem.graph.operators for o in operator.options)
    offered = problem
    if way == WAYS[0]:
        offered = _only(problem, lambda _, option: option.gang == largest)
    sharding = strategies_first(offered)
    found = eliminate(repeated(sharding))
    if found.chosen is None or found.value is None or not found.exact:
        raise ValueError(f"{problem.name}: {found.reason or 'no sharding'}")
    starts = sharding.strategies.offsets[:-1].tolist()
    rows = [start + pick for start, pick in zip(starts, found.chosen, strict=True)]
    if way == WAYS[2]:
        rows = [row for row in range(len(sharding.labels)) if _least(sharding, row) == found.value]
    kept = {(sharding.operators[_owner(sharding, row)], sharding.labels[row]) for row in rows}
    left = _only(problem, lambda operator, option: (operator.name, option.name) in kept)
    return found.value, solve(left, Settings(time_limit_s=limit_s))


def _only(problem: PlanningProblem, wanted: Callable[[Operator, Option], bool]) -> PlanningProblem:
    """Return the problem with some of its options."""
    operators = tuple(
        replace(operator, options=tuple(o for o in operator.options if wanted(operator, o)))
        for operator in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))


def _owner(sharding: ShardingProblem, row: int) -> int:
    return int(np.searchsorted(sharding.strategies.offsets, row, side="right")) - 1


def _least(sharding: ShardingProblem, row: int) -> int | None:
    """Least cost of all with one strategy given."""
    owner, table = _owner(sharding, row), sharding.strategies
    allowed = table.allowed.copy()
    allowed[table.offsets[owner] : table.offsets[owner + 1]] = False
    allowed[row] = table.allowed[row]
    return eliminate(repeated(replace(sharding, strategies=replace(table, allowed=allowed)))).value


def answer(problem: PlanningProblem, outcome: Outcome[PlanningProblem, Plan]) -> Row:
    """What a run found, its plan checked on the problem of the case."""
    plan = None if outcome.plan is None else replace(outcome.plan, fingerprint=None)
    verdict = None if plan is None else verify(problem, plan)
    return {
        "value": None if verdict is None else verdict.value,
        "bound": outcome.bound,
        "bound_name": outcome.bound_name,
        "gap": outcome.gap,
        "stop": str(outcome.stop.value),
        "proved": outcome.proved,
        "check": "no plan" if verdict is None else "ok" if verdict.ok else "fails",
        "planner": outcome.planner,
        "seconds": round(outcome.seconds, 2),
        "runs": [] if plan is None else runs_of(plan),
    }


def runs_of(plan: Plan) -> list[list[Any]]:
    """Operator, option, devices and times of every run, in order of their starts."""
    runs = sorted(plan.runs, key=lambda run: (run.start_ticks or 0, run.placement.devices))
    return [
        [
            run.operator,
            run.placement.option,
            list(run.placement.devices),
            run.start_ticks,
            run.stop_ticks,
        ]
        for run in runs
    ]


def best_first(row: Row) -> Row:
    """Return the better of the plans whose sharding came first."""
    return min(row["first"].values(), key=lambda answer: answer["value"])


def gain(row: Row) -> float:
    """(sharding first - together) / sharding first."""
    before = best_first(row)["value"]
    return float((before - row["joint"]["value"]) / before)


def wrong(row: Row) -> bool:
    """Whether a plan fails the check, or planning together is worse."""
    checks = [answer["check"] for answer in (*row["first"].values(), row["joint"])]
    return any(check != "ok" for check in checks) or gain(row) < 0


def complaints(rows: list[Row]) -> list[str]:
    """Cases with a plan that fails the check, or planned worse together."""
    return [row["name"] for row in rows if wrong(row)]


def present(rows: list[Row]) -> Row:
    """Add what the page says in words, and the plans of cases that are shipped."""
    for row in rows:
        row["network"] = _with(row["architecture"], row.get("granularity"))
        row["machine"] = _with(row["cluster"], row.get("link"))
        row["grid"] = " ".join(row["meshes"])
        row["pass"] = f"{row.get('mode', 'inference')}, batch {row.get('batch', 1)}"
        row["total"] = min(answer["total"] for answer in row["first"].values())
        row["shown"] = {way: _shown(row["first"][way]) for way in WAYS}
        row["proof"] = "proved" if row["joint"]["proved"] else share(row["joint"]["gap"])
        row["gain"] = gain(row)
        checks = {answer["check"] for answer in (*row["first"].values(), row["joint"])}
        row["checks"] = ", ".join(sorted(checks))
    limits = sorted({row["time_limit"] for row in rows}, reverse=True)
    return {
        "cases": len(rows),
        "better": sum(row["gain"] > 0 for row in rows),
        "equal": sum(row["gain"] <= 0 for row in rows),
        "sure": sum(
            row["joint"]["value"] < min(answer["bound"] for answer in row["first"].values())
            for row in rows
        ),
        "limits": " or ".join(f"{limit:g}" for limit in limits),
        "plans": [line for row in rows if row.get("instance") for line in _plans(row)],
    }


def _with(name: str, more: str | None) -> str:
    return f"{name}, {more}" if more else name


def _shown(answer: Row) -> str:
    scale = (1000, "µs")
    bound = "" if answer["proved"] else f" (bound {amount(answer['bound'], scale)})"
    return amount(answer["value"], scale) + bound


def _plans(row: Row) -> list[Row]:
    """Both plans of a case, operator by operator."""
    before = {run[0]: run for run in best_first(row)["runs"]}
    lines = []
    for operator, option, devices, start, _ in row["joint"]["runs"]:
        old = before.get(operator)
        first = (DASH,) * 3 if old is None else _run(*old[1:4])
        both = {"first": first, "joint": _run(option, devices, start)}
        lines.append({"case": f"The plans of `{row['name']}`", "operator": operator, **both})
    return lines


def _run(option: str, devices: list[str], start: int) -> tuple[str, str, str]:
    numbers = " ".join(device.rpartition(".")[2] for device in devices)
    return option, numbers, amount(start, (1000, "µs"))
