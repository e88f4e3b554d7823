"""The two-stage method: coarse problems of an instance, the exact stage on them, and the way back.

Two studies share this script: ``results/paper/two-stage`` (instances, sizes and kinds of
coarsening, with runs of the whole product beside them) and ``results/paper/coarse-exact`` (the
exact stage against CP-SAT on the same coarse problems). A case with ``part = "runs"`` plans the
whole instance: by the two stages alone, and by the default run. Every other case makes one coarse
problem, solves it by the exact stage and by CP-SAT, and expands the exact stage's plan.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import coarse
import study

from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.strategies.compaction import compact
from milp_plan.report.pages import amount, share
from milp_plan.study.rows import ABSENT

MEASURED = study.ROOT / "results" / "peers" / "table.json"
"""Values that longer runs reached; with ``known.csv``, the best known ones."""

TWO_STAGE = ("--two-stage",)
WORSE = 0.01
"""Part of CP-SAT's value by which the exact stage may be worse."""

COLUMNS = 3
"""Panels beside each other."""

COLOURS = {coarse.STAGES: "C0", coarse.PAIRWISE: "C1", coarse.GUIDED: "C2"}
RUNS = {"lists": "best list", "alone": "two stages alone", "default": "default run"}

Row = dict[str, Any]
Case = Mapping[str, Any]


def measure(case: Case) -> Row:
    """Measure a case of either sort."""
    with coarse.instance(case) as (file, folder):
        if not file.is_file():
            return coarse.absent(case)
        problem = read(file)
        row = {
            "name": problem.name,
            "operators": len(problem.graph.operators),
            "devices": len(problem.cluster.devices),
            "binds": coarse.memory_binds(problem),
        }
        if case.get("part") == "runs":
            return row | _runs(file, case, folder)
        return row | _coarse(problem, case, folder)


def _runs(file: Path, case: Case, folder: Path) -> Row:
    """Plan the whole instance by the two stages alone, and by the default run."""
    alone, by_stages = study.solve(file, {**case, "options": TWO_STAGE}, folder)
    default, about = study.solve(file, dict(case), folder)
    return {
        "lists": coarse.best_list(by_stages["baselines"], about["baselines"]),
        "stages": by_stages["stages"],
        "alone": alone,
        "default": default,
        "bound": about["bound"],
    }


def _coarse(problem: PlanningProblem, case: Case, folder: Path) -> Row:
    """Make the coarse problem, solve it by both methods, expand."""
    coarsening, start = coarse.coarsened(problem, case)
    small = coarsening.problem
    exact, plan = coarse.staged(small, case, start)
    expanded = None
    if plan is not None and exact["value"] is not None:
        expanded = _expanded(problem, coarsening.undo(plan))
    return {
        "clusters": len(small.graph.operators),
        "start": None if start is None else start.value,
        "exact": exact,
        "expanded": expanded,
        "cpsat": coarse.by_cpsat(coarse.written(small, folder), case, folder),
    }


def _expanded(problem: PlanningProblem, plan: Plan) -> int | None:
    """Value of an expanded plan with every task as early as its order allows."""
    plans = [plan, compact(problem, plan)]
    verdicts = [verify(problem, each) for each in plans if each is not None]
    return min((v.value for v in verdicts if v.ok and v.value is not None), default=None)


# -- the page -------------------------------------------------------------------------------------


def present(rows: list[Row]) -> Row:
    """Add what the page shows of each row; return its two lists of rows and its sentences."""
    there = [row for row in rows if row.get("stop") != ABSENT]
    runs = [row for row in there if row.get("part") == "runs"]
    smalls = [row for row in there if row.get("part") != "runs"]
    known = best_known(rows)
    for row in there:
        row["known"] = known.get(row["file"])
    for row in runs:
        _show_run(row)
    lists = {row["file"]: row["lists"] for row in runs}
    for row in smalls:
        _show_coarse(row, lists.get(row["file"]))
    return {
        "runs": runs,
        "smalls": smalls,
        "count": len(smalls),
        "formulation": coarse.EXACT,
        "options": " ".join(TWO_STAGE),
        "targets": _listed(row["target"] for row in smalls),
        "limit": _listed(row["limit"] for row in smalls),
        "run_limit": _listed(row["limit"] for row in runs),
        "absent": "".join(f" {row['reason']}." for row in rows if row not in there),
        **_of_runs(runs),
        **_of_smalls(smalls),
    }


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in sorted(set(numbers)))


def best_known(rows: Iterable[Row]) -> dict[str, int]:
    """Return the best value known of each file: from ``results/peers`` and these rows."""
    found: dict[str, int] = {}

    def take(file: str, value: Any) -> None:
        if value is not None:
            found[file] = min(found.get(file, int(value)), int(value))

    for row in json.loads(MEASURED.read_text())["rows"]:
        for tool in ("ours", "peer"):
            take(row["file"], row[tool]["value"])
    for row in rows:
        take(row["file"], row.get("published", {}).get("value"))
        take(row["file"], row.get("expanded"))
        for run in ("alone", "default"):
            take(row["file"], row.get(run, {}).get("value"))
    return found


def _show_run(row: Row) -> None:
    values = {"lists": row["lists"], **{n: row[n]["value"] for n in ("alone", "default")}}
    shown = {name: amount(value, study.SCALE) for name, value in values.items()}
    row["over"] = {name: _over(value, row["known"]) for name, value in values.items()}
    shown |= {f"{name}_over": share(over) for name, over in row["over"].items()}
    shown |= {name: amount(row[name], study.SCALE) for name in ("known", "bound")}
    sizes = ", ".join(str(stage["clusters"]) for stage in row["stages"])
    row["shown"] = shown | {
        "sizes": sizes,
        "checks": f"{row['alone']['check']}, {row['default']['check']}",
    }


def _show_coarse(row: Row, lists: int | None) -> None:
    exact, cpsat = row["exact"], row["cpsat"] or {}
    row["over"] = {"expanded": _over(row["expanded"], row["known"])}
    row["under_lists"] = None if lists is None else _best(row) is not None and _best(row) <= lists
    row["shown"] = {
        "start": amount(row["start"], study.SCALE),
        "expanded": amount(row["expanded"], study.SCALE),
        "expanded_over": share(row["over"]["expanded"]),
        "ahead": share(study.less_by(exact["value"], cpsat.get("value"))),
    }
    row["tight"] = "yes" if row["binds"] else "no"
    for name, found in (("exact", exact), ("cpsat", cpsat)):
        for member in ("root_bound", "value", "bound"):
            row["shown"][f"{name}_{member}"] = amount(found.get(member), study.SCALE)
        ended = "proved" if found.get("proved") else share(found.get("gap"))
        row["shown"][f"{name}_gap"] = ended if found else "does not apply"


def _best(row: Row) -> Any:
    """Best value known of a coarse problem."""
    values = [row["start"], row["exact"]["value"], (row["cpsat"] or {}).get("value")]
    return min((value for value in values if value is not None), default=None)


def _over(value: int | None, known: int | None) -> float | None:
    """How much a value is above the best known one, as a part of that."""
    return None if value is None or not known else (value - known) / known


def _of_runs(runs: list[Row]) -> Row:
    alone = [row["over"]["alone"] for row in runs if row["over"]["alone"] is not None]
    listed = [row for row in runs if row["lists"] is not None]
    under = sum((row["alone"]["value"] or math.inf) <= row["lists"] for row in listed)
    return {
        "instances": len(runs),
        "planned": sum(row["alone"]["value"] is not None for row in runs),
        "alone_median": share(median(alone) if alone else None),
        "alone_worst": share(max(alone, default=None)),
        "listed": len(listed),
        "under_lists": under,
    }


def _of_smalls(rows: list[Row]) -> Row:
    """Sentences on the exact stage beside CP-SAT, and on what clusters lose."""
    theirs = [row for row in rows if row["cpsat"] and row["cpsat"]["proved"]]
    pairs = [row for row in rows if row["cpsat"] and row["cpsat"]["value"] is not None]
    close = [
        row
        for row in pairs
        if (row["exact"]["value"] or math.inf) <= (1 + WORSE) * row["cpsat"]["value"]
    ]
    both = sum(row["exact"]["proved"] for row in theirs)
    sixty = [row for row in rows if row.get("target") == 60 and row["under_lists"] is not None]
    best = {}
    for row in sixty:
        best[row["file"]] = best.get(row["file"], False) or row["under_lists"]
    return {
        "proved_theirs": len(theirs),
        "proved_both": both,
        "proved_ours": sum(row["exact"]["proved"] for row in rows),
        "proved_share": share(both / len(theirs) if theirs else None),
        "pairs": len(pairs),
        "close": len(close),
        "close_share": share(len(close) / len(pairs) if pairs else None),
        "sizes": f"{min((row['clusters'] for row in rows), default=0)} to "
        f"{max((row['clusters'] for row in rows), default=0)}",
        "tight": sum(row["binds"] for row in rows),
        "sixty": len(best),
        "sixty_under": sum(best.values()),
    }


def complaints(rows: list[Row]) -> list[str]:
    """Plans that fail the check, proofs that contradict each other, models that failed."""
    messages = []
    for row in rows:
        if row.get("stop") == ABSENT:
            continue
        where = f"{row['name']}, {row.get('part') or row['target']} {row.get('kind', '')}".strip()
        for tool in ("alone", "default", "cpsat"):
            check = (row.get(tool) or {}).get("check", "ok")
            if check not in ("ok", "no plan"):
                messages.append(f"{where}: the plan of {tool} is {check}")
        exact, cpsat = row.get("exact"), row.get("cpsat")
        if exact and exact["failure"]:
            messages.append(f"{where}: the exact stage failed: {exact['failure']}")
        if exact and exact["value"] is not None and row["expanded"] is None:
            messages.append(
                f"{where}: the plan of the coarse problem does not expand to a valid one"
            )
        for ours, theirs in ((exact, cpsat), (cpsat, exact)) if exact and cpsat else ():
            if (ours["bound"] or 0) > (theirs["value"] or math.inf):
                messages.append(f"{where}: a bound of one method is above a plan of the other")
    return messages


def figures(rows: list[Row]) -> dict[str, Any]:
    """Values over the best known one: of runs, a line each; and of plans against clusters."""
    there = [row for row in rows if row.get("stop") != ABSENT]
    runs = [row for row in there if row.get("part") == "runs"]
    smalls = [row for row in there if row.get("part") != "runs"]
    found = {"runs.png": _strips(runs, smalls)} if runs else {}
    return found | ({"clusters.png": _curves(smalls)} if smalls else {})


def _strips(runs: list[Row], smalls: list[Row]) -> Any:
    """A line for each instance, with a mark for each way to plan it."""
    with drawing_style():
        figure = new_figure(6.5, 0.3 * len(runs) + 1.4)
        axes = figure.subplots()
        for number, row in enumerate(runs):
            marks = {RUNS[name]: over for name, over in row["over"].items()}
            expanded = [
                small["over"]["expanded"]
                for small in smalls
                if small["file"] == row["file"] and small["over"]["expanded"] is not None
            ]
            marks["best expanded"] = min(expanded, default=None)
            for place, (name, over) in enumerate(marks.items()):
                if over is not None:
                    style = {"color": f"C{place}", "marker": "sD^o"[place]}
                    axes.plot(100 * over, -number, linestyle="", label=name, **style)
        axes.set_yticks([-number for number in range(len(runs))], [row["name"] for row in runs])
        axes.set_xlabel("above the best known value, %")
        axes.grid(axis="y", color="0.9")
        axes.axvline(0, color="grey", linewidth=0.8)
        _legend(figure, 4)
    return figure


def _curves(rows: list[Row]) -> Any:
    """A panel for each instance: plans against the number of clusters, a line for each kind."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    lines = math.ceil(len(names) / COLUMNS)
    with drawing_style():
        figure = new_figure(2.6 * COLUMNS, 2.0 * lines + 0.6)
        every = figure.subplots(lines, COLUMNS, squeeze=False).flat
        for name, axes in zip(names, every, strict=False):  # names first: no panel more is taken
            own = [row for row in rows if row["name"] == name]
            for kind in dict.fromkeys(row["kind"] for row in own):
                found = [(row["clusters"], row["expanded"]) for row in own if row["kind"] == kind]
                points = sorted((x, y / study.SCALE[0]) for x, y in found if y is not None)
                if points:
                    axes.plot(*zip(*points, strict=True), "o-", color=COLOURS[kind], label=kind)
            if own[0]["known"]:
                known = own[0]["known"] / study.SCALE[0]
                axes.axhline(known, color="grey", linestyle=":", label="best known")
            axes.set_title(name, fontsize=7)
            plain_ticks(axes.yaxis)
        for axes in list(every):
            axes.set_visible(False)
        figure.supxlabel("clusters")
        figure.supylabel(f"expanded plan, {study.SCALE[1]}")
        _legend(figure, 4)
    return figure


def _legend(figure: Any, columns: int) -> None:
    """Put one legend of all panels above them."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    handles, labels = list(found.values()), list(found)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
