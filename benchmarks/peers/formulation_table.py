"""Every formulation that can model a small problem, beside enumeration and CP-SAT.

Formulations come from the registry: a new one has its rows with the next run of the study. Each
gets the same seconds and threads, no start and no cutoff. The study is
``results/paper/formulations/study.toml``: ``milp-plan table results/paper/formulations``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import coarse

from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.schedule.formats import read
from milp_plan.report.pages import amount, seconds, share
from milp_plan.study.rows import ABSENT

LEAST_S = 0.01
"""Seconds that the time axis begins with."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Solve a small problem, or a coarse problem of a larger one, by every method."""
    with coarse.instance(case) as (file, folder):
        if not file.is_file():
            return coarse.absent(case)
        problem = read(file)
        if "target" in case:
            problem = coarse.coarsened(problem, case)[0].problem
        small = coarse.written(problem, folder)
        methods: dict[str, Row | None] = {
            name: {
                **coarse.uses_model(problem, solver, case)[0],
                "lp_bound": coarse.lp_bound(problem, solver, case),
            }
            for name, solver in coarse.formulations(problem)
        }
        methods[coarse.ENUMERATION] = coarse.enumerated(problem, case)
        found = coarse.learned(problem, case)
        methods[coarse.LEARNING] = None if found is None else found[0]
        methods[coarse.CPSAT] = coarse.by_cpsat(small, case, folder)
        return {
            "name": problem.name,
            "operators": len(problem.graph.operators),
            "devices": len(problem.cluster.devices),
            "binds": coarse.memory_binds(problem),
            "methods": methods,
        }


# -- the page -------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Return a row for each problem and method, and one for each method."""
    there = [row for row in rows if row.get("stop") != ABSENT]
    answers = [_answer(row, name, found) for row in there for name, found in row["methods"].items()]
    return {
        "answers": answers,
        "methods": [_summary(name, there) for name in _methods(there)],
        "problems": len(there),
        "limit": ", ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in there})),
        "absent": "".join(f" Left out: {row['reason']}." for row in rows if row not in there),
    }


def _methods(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["methods"]))


def best(row: Row) -> int | None:
    """Return the least value that any method has on a problem."""
    values = [found["value"] for found in row["methods"].values() if found]
    return min((value for value in values if value is not None), default=None)


def _answer(row: Row, name: str, found: Row | None) -> Row:
    result = found or {}
    shown = {
        member: amount(result.get(member), (1000, "µs"))
        for member in ("lp_bound", "root_bound", "value", "bound")
    }
    ended = "proved" if result.get("proved") else share(result.get("gap"))
    shown["ended"] = ended if found else "does not apply"
    shown["seconds"] = seconds(result.get("seconds"))
    return {**row, "method": name, "found": result, "shown": shown}


def _summary(name: str, rows: list[Row]) -> Row:
    tried = [(row["methods"][name], best(row)) for row in rows if row["methods"].get(name)]
    planned = [(found, least) for found, least in tried if found["value"] is not None]
    return {
        "method": name,
        "applies": len(tried),
        "planned": len(planned),
        "best": sum(found["value"] == least for found, least in planned),
        "proved": sum(found["proved"] for found, _ in tried),
    }


def complaints(rows: list[Row]) -> list[str]:
    """Bounds above a plan of another method, plans that fail the check, methods that failed."""
    messages = []
    for row in rows:
        if row.get("stop") == ABSENT:
            continue
        least = best(row)
        for name, found in row["methods"].items():
            where = f"{row['name']}, {name}"
            if found and least is not None and (found["bound"] or 0) > least:
                messages.append(f"{where}: its bound is above a plan of another method")
            if found and found.get("check", "ok") not in ("ok", "no plan"):
                messages.append(f"{where}: its plan is {found['check']}")
            if found and found.get("failure"):
                messages.append(f"{where}: {found['failure']}")
    return messages


def figures(rows: list[Row]) -> dict[str, Any]:
    """Share of problems proved against time, and share within a gap at the limit."""
    there = [row for row in rows if row.get("stop") != ABSENT]
    return {"profile.png": _profile(there)} if there else {}


def _profile(rows: list[Row]) -> Any:
    limit = max(row["limit"] for row in rows)
    with drawing_style():
        figure = new_figure(7.0, 3.0)
        times, gaps = figure.subplots(1, 2, sharey=True)
        for name in _methods(rows):
            found = [row["methods"].get(name) for row in rows]
            proofs = sorted(max(LEAST_S, f["seconds"]) for f in found if f and f["proved"])
            left = sorted(100 * f["gap"] for f in found if f and f["gap"] is not None)
            for axes, marks, end in ((times, proofs, limit), (gaps, left, 100.0)):
                shares = [100 * (place + 1) / len(rows) for place in range(len(marks))]
                x, y = [0.0, *marks, end], [0.0, *shares, (shares or [0.0])[-1]]
                axes.step(x, y, where="post", label=name)
        times.set_xscale("log")
        times.set_xlim(LEAST_S, limit)
        plain_ticks(times.xaxis)
        times.set_xlabel("seconds to the proof")
        times.set_ylabel("problems, %")
        gaps.set_xscale("symlog", linthresh=1.0)
        gaps.set_xlim(0, 100)
        plain_ticks(gaps.xaxis)
        gaps.set_xlabel("gap at the end at most, %")
        handles, labels = times.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure
