"""Sharding and schedule chosen together, against sharding first and schedule after.

Reads ``cases.toml`` of the folder ``results/paper/joint`` and writes ``table.json`` and
``table.md`` there. ``--resume`` keeps stored rows of the same problems; ``--render`` writes the
page from the stored rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pages import DASH, amount, seconds, share, table, text
from suites import REPOSITORY

from milp_plan.check import verify
from milp_plan.core import Operator, Option, Plan, PlanningProblem
from milp_plan.core.repeated import repeated
from milp_plan.core.sharding import ShardingProblem
from milp_plan.cost import strategies_first
from milp_plan.io import write_atomic
from milp_plan.planners.sharding.elimination import eliminate
from milp_plan.run import Outcome, Settings, solve, versions
from milp_plan.zoo import generate

FOLDER = REPOSITORY / "results" / "paper" / "joint"
CASES, STORED, PAGE = "cases.toml", "table.json", "table.md"
WAYS = ("whole mesh", "any mesh", "ties open")
"""Sharding first: with strategies of the largest mesh, with all, and with every strategy that is in
some cheapest sharding, of which the schedule may choose (more than sharding first allows)."""

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 1 when a plan fails the check or planning together is worse."""
    asked = parse(arguments)
    recipe = tomllib.loads((asked.folder / CASES).read_text(encoding="utf-8"))
    stored = asked.folder / STORED
    old = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"rows": []}
    if asked.render:
        content = old
    else:
        content = {"versions": versions(), "rows": []}
        known = [row for row in old["rows"] if asked.resume and old["versions"] == versions()]
        for case in recipe["cases"]:
            problem = problem_of(case)
            same = [row for row in known if _answers(row, problem)]
            limit = case.get("time_limit", recipe["time_limit"])
            fresh = same[0] if same else row_of(problem, limit)
            content["rows"].append({**fresh, "case": dict(case)})
            write_atomic(stored, json.dumps(content, indent=1).encode() + b"\n")
            _tell(content["rows"][-1])
    write_atomic(asked.folder / PAGE, page(recipe, content).encode())
    print(asked.folder / PAGE)
    return int(any(wrong(row) for row in content["rows"]))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="holds cases.toml")
    parser.add_argument("--resume", action="store_true", help="keep rows that are stored")
    parser.add_argument("--render", action="store_true", help="only write the page")
    return parser.parse_args(arguments)


def _answers(row: Row, problem: PlanningProblem) -> bool:
    return bool(row["fingerprint"] == problem.fingerprint and set(row["first"]) == set(WAYS))


def _tell(row: Row) -> None:
    firsts = ", ".join(f"{name} {answer['value']}" for name, answer in row["first"].items())
    said = f"{row['name']}: {firsts}; together {row['joint']['value']}"
    print(said, file=sys.stderr, flush=True)


# -- one case ------------------------------------------------------------------------------------


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


def row_of(problem: PlanningProblem, limit_s: float) -> Row:
    """Plan a problem both ways."""
    first = {}
    best: Outcome | None = None
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


def sharding_first(problem: PlanningProblem, way: str, limit_s: float) -> tuple[int, Outcome]:
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


def answer(problem: PlanningProblem, outcome: Outcome) -> Row:
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
    runs = sorted(plan.runs, key=lambda run: (run.start_ns or 0, run.placement.devices))
    return [
        [run.operator, run.placement.option, list(run.placement.devices), run.start_ns, run.stop_ns]
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


# -- the page ------------------------------------------------------------------------------------


def page(recipe: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Write the page."""
    rows = content["rows"]
    better = sum(gain(row) > 0 for row in rows)
    limits = {row["case"].get("time_limit", recipe["time_limit"]) for row in rows}
    sure = sum(
        row["joint"]["value"] < min(a["bound"] for a in row["first"].values()) for row in rows
    )
    lines = [f"# {recipe['title']}", "", "Generated, do not edit. Made again by:", ""]
    lines += ["```", "python benchmarks/joint.py", "```", "", recipe["about"].strip(), ""]
    lines += [
        f"{len(rows)} cases: together better in {better}, equal in {len(rows) - better}. In "
        f"{sure} of them no schedule after sharding is as good, by its bound. Times are of one "
        "pass; `better by` compares with the best of those before; bound and gap are of the "
        "problem of the case; seconds are wall clock of planning together, one thread, next to "
        "other runs on the machine, with a "
        f"limit of {' or '.join(map(str, sorted(limits, reverse=True)))} s for each search.",
    ]
    for section in dict.fromkeys(row["case"]["section"] for row in rows):
        chosen = [row for row in rows if row["case"]["section"] == section]
        lines += ["", f"## {section}", "", table(*_cells(chosen), left=4)]
    for row in rows:
        if row["case"].get("instance"):
            lines += ["", *_plans(row)]
    versions_line = ", ".join(f"{k} {v}" for k, v in content["versions"].items() if v)
    return "\n".join([*lines, "", f"Versions: {versions_line}.", ""])


def _cells(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["architecture", "cluster", "meshes", "pass", "operators", "options"]
    heads += ["sharding first: in all", *(f"makespan, {name}" for name in WAYS)]
    heads += ["**together**", "bound", "gap", "better by", "check", "s"]
    lines = []
    for row in rows:
        case, joint, scale = row["case"], row["joint"], (1000, "µs")
        cells = [
            case["architecture"] + (f", {case['granularity']}" if "granularity" in case else ""),
            case["cluster"] + (f", {case['link']}" if "link" in case else ""),
            " ".join(case["meshes"]),
            f"{case.get('mode', 'inference')}, batch {case.get('batch', 1)}",
            text(row["operators"]),
            text(row["options"]),
        ]
        cells.append(amount(min(answer["total"] for answer in row["first"].values()), scale))
        for name in WAYS:
            answer = row["first"][name]
            shown = amount(answer["value"], scale)
            if not answer["proved"]:
                shown += f" (bound {amount(answer['bound'], scale)})"
            cells.append(shown)
        checks = {answer["check"] for answer in (*row["first"].values(), joint)}
        lines.append(
            [
                *cells,
                f"**{amount(joint['value'], scale)}**",
                amount(joint["bound"], scale),
                "proved" if joint["proved"] else share(joint["gap"]),
                share(gain(row)),
                ", ".join(sorted(checks)),
                seconds(joint["seconds"]),
            ]
        )
    return heads, lines


def _plans(row: Row) -> list[str]:
    """Both plans of a case, operator by operator."""
    before = {run[0]: run for run in best_first(row)["runs"]}
    lines = []
    for operator, option, devices, start, _ in row["joint"]["runs"]:
        old = before.get(operator)
        lines.append(
            [
                operator,
                *(_run(old[1], old[2], old[3]) if old else (DASH,) * 3),
                *_run(option, devices, start),
            ]
        )
    heads = ["operator", "sharding first", "devices", "start", "together", "devices", "start"]
    return [
        f"## The plans of `{row['name']}`",
        "",
        "Strategies: what each axis of the mesh splits (`copy`: nothing) and the layout written; "
        "see `docs/sharding-costs.md`.",
        "",
        table(heads, lines, left=3),
    ]


def _run(option: str, devices: list[str], start: int) -> tuple[str, str, str]:
    numbers = " ".join(device.rpartition(".")[2] for device in devices)
    return option, numbers, amount(start, (1000, "µs"))


if __name__ == "__main__":
    sys.exit(main())
