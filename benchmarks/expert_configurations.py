"""Configurations that experts published, beside the best by our costs.

What a source prints of a configuration is fixed; what it leaves open is chosen by our costs, for
the experts as for us. We choose among what the framework of the runs offers (`means` of a case).
What ran is priced even where it does not fit by our memory; then it is never near ours.
The rank of the experts' configuration is among those of the space that fit, by the closed form of
the step.

The study is ``results/paper/expert-configurations/study.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any

from training_fit import folder
from training_rows import SETS

from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Configuration
from milp_plan.kinds.training.api import training_problem
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.efficiency import shipped
from milp_plan.kinds.training.exports import refusals
from milp_plan.kinds.training.formats import PLANS
from milp_plan.kinds.training.measured import Measured
from milp_plan.kinds.training.memory import default_reserve
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.result import SearchResult
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import Space
from milp_plan.kinds.training.step import derive, excess_of, least_peaks
from milp_plan.kinds.training.texts import configuration_text

Row = dict[str, Any]

NEAR = 0.03
"""How far above our best the experts' configuration may be."""

UNLIMITED = 10**13
"""Bytes of a device that every configuration fits into."""


def measure(case: Mapping[str, Any]) -> Row:
    """Plan every published run of a case."""
    if "set" not in case:
        problem = training_problem(
            case["model"],
            case["cluster"],
            global_batch=case["batch"],
            sequence=case["sequence"],
            framework=_framework(case),
        )
        rows = [_row(case, problem, _printed(case))]
        tflops = case.get("tflops")
        flops = problem.model_flops / problem.cluster.devices
        rows[0]["measured"] = flops / (tflops * 1e12) if tflops else case["measured_s"]
        return {"rows": rows}
    chosen = SETS[case["set"]]
    if not (folder() / chosen.file).is_file():
        reason = f"no {folder() / chosen.file}: set MILP_PLAN_BENCHMARKS to the public benchmarks"
        return {"stop": "absent", "reason": reason}
    efficiency, rows = shipped(chosen.software), []
    for run, measured in _apart(chosen.read(folder())):
        problem = TrainingProblem(
            *(run.architecture, run.cluster, run.sequence, run.configuration.global_batch),
            reserve_bytes=default_reserve(run.cluster),
            efficiency=efficiency,
            framework=_framework(case),
        )
        rows.append(_row(case, problem, run.configuration) | {"measured": measured})
    return {"rows": rows}


def _framework(case: Mapping[str, Any]) -> str:
    return "megatron" if case.get("megatron") else ""


def _printed(case: Mapping[str, Any]) -> dict[str, Any]:
    return PLANS.fixed_fields([f"{name}={value}" for name, value in case["printed"].items()])


def _apart(runs: Sequence[Measured]) -> list[tuple[Measured, float]]:
    """Return each configuration once, with the median of its measured steps."""
    times: dict[object, list[float]] = {}
    first: dict[object, Measured] = {}
    for run in runs:
        key = (run.architecture, run.cluster, run.sequence, run.configuration)
        first.setdefault(key, run)
        times.setdefault(key, []).append(run.step_s or 0.0)
    return [(run, median(times[key])) for key, run in first.items()]


def _row(
    case: Mapping[str, Any],
    problem: TrainingProblem,
    expert: Configuration | Mapping[str, Any],
) -> Row:
    costs, limit = PlanCosts(problem), case["limit_s"]
    given = PLANS.fixed_fields([f"{name}={value}" for name, value in case.get("means", {}).items()])
    if isinstance(expert, Configuration):
        given |= {name: getattr(expert, name) for name in case.get("same", ())}
        if "open" in case:
            names = (each.name for each in fields(expert) if each.name not in case["open"])
            expert = {name: getattr(expert, name) for name in names}
    refused = refusals(problem)
    if not isinstance(expert, Configuration):
        expert = _filled(problem, {**given, **expert}, limit)
    step = derive(expert, costs.priced(expert))
    found = search(problem, costs, given, Budget(limit), refused)
    space = Space(problem, given, refused)
    rank, count = _rank(space, costs, expert, Budget(limit))
    return {
        **_texts(problem),
        "expert": configuration_text(expert),
        "predicted": step.step_ns / 1e9,
        "excess": excess_of(problem, expert, step.peaks)[0],
        **_ours(found),
        "rank": rank,
        "count": count,
    }


def _filled(problem: TrainingProblem, fixed: Mapping[str, Any], limit: float) -> Configuration:
    """Return the best configuration with these values; one that does not fit if none does."""
    refused = refusals(problem)
    for cluster in (problem.cluster, problem.cluster.with_memory(UNLIMITED)):
        wide = replace(problem, cluster=cluster)
        found = search(wide, PlanCosts(wide), fixed, Budget(limit), refused)
        if found.best:
            return found.best[0].configuration
    raise ValueError(f"no configuration of {problem.name} with {fixed}")


def _texts(problem: TrainingProblem) -> Row:
    size = f"{problem.sequence:,} x {problem.global_batch:,}"
    return {"model": problem.architecture.name, "devices": problem.cluster.name, "size": size}


def _ours(found: SearchResult) -> Row:
    best = found.best[0] if found.best else None
    other = found.unrestricted
    return {
        "ours": best.step_ns / 1e9 if best else None,
        "choice": configuration_text(best.configuration) if best else None,
        "any": other.step_ns / 1e9 if other else None,
        "finished": found.finished,
        "gap": found.gap,
    }


def _rank(
    space: Space, costs: PlanCosts, expert: Configuration, budget: Budget
) -> tuple[int | None, int]:
    """Place of the experts' configuration among those that fit, and how many there are in all.

    No place where time does not suffice.
    """
    value, count, before = costs.step(expert).total_ns, 0, 0
    for each in space:
        if space.refused(each):
            continue
        count += 1
        if max(costs.least_ns(each), costs.evenly_ns(each)) >= value:
            continue
        if budget.over:
            return None, count
        if excess_of(space.problem, each, (costs.first_peak(each),))[0] > 0:
            continue
        peaks = least_peaks(each, costs.priced(each))
        fits = excess_of(space.problem, each, peaks)[0] <= 0
        before += fits and costs.step(each).total_ns < value
    return 1 + before, count


def present(rows: list[Row]) -> Row:
    """One line a published run, and how many of them meet the aims."""
    lines = [
        {"set": row.get("set", row.get("source")), **each}
        for row in rows
        for each in row.get("rows", ())
    ]
    for line in lines:
        line["error"] = _over(line.get("predicted"), line["measured"])
        line["ratio"] = _over(line.get("predicted"), line.get("ours"))
        group = [each["measured"] for each in lines if _group(each) == _group(line)]
        line["slower"] = _over(line["measured"], min(group))
        line["lacks"] = max(0, line.get("excess", 0)) / 1e9
        near = line["ratio"] is not None and line["ratio"] <= NEAR and line["gap"] == 0
        line["met"] = (near and not line["lacks"]) or line["slower"] > NEAR
        line["place"] = f"{line['rank']} of {line['count']:,}" if line.get("rank") else None
        line["proof"] = "proved" if line.get("gap") == 0 else _percent(line.get("gap"))
    errors = {
        name: [
            abs(line["error"])
            for line in lines
            if line["set"] == name and line["error"] is not None
        ]
        for name in dict.fromkeys(line["set"] for line in lines)
    }
    return {
        "lines": lines,
        "sets": [
            {
                "set": name,
                "runs": len(values),
                "error": median(values) if values else None,
                "met": sum(line["met"] for line in lines if line["set"] == name),
            }
            for name, values in errors.items()
        ],
        "met": sum(line["met"] for line in lines),
        "runs": len(lines),
        "share": f"{sum(line['met'] for line in lines) / max(1, len(lines)):.0%}",
        "missing": "; ".join(row["reason"] for row in rows if row.get("stop")) or "none",
    }


def _group(line: Row) -> tuple[str, ...]:
    """What runs have in common among which one chooses."""
    return (line["set"], line["model"], line["devices"], line["size"])


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base - 1


def _percent(gap: float | None) -> str | None:
    return None if gap is None else f"gap {100 * gap:.2f} %"


def complaints(rows: list[Row]) -> list[str]:
    """Say which experts' configuration is faster than ours although ours is proved best."""
    return [
        f"{each['model']} on {each['devices']}: the experts' is faster than what is proved best"
        for row in rows
        for each in row.get("rows", ())
        if each.get("gap") == 0 and each["predicted"] < each["ours"] and each["excess"] <= 0
    ]
