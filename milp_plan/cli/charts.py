"""``plot KIND``: pictures of the runs of a suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Finding, InputError

from .bench import open_suite
from .output import note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from milp_plan.report.comparison import Panel

Run = tuple[dict[str, Any], dict[str, Any] | None]
"""A row of a suite, and the outcome it comes from."""


def draw_chart(kind: str, sources: Sequence[Path], store_folder: Path, output: Path) -> None:
    """Draw one of :data:`CHARTS` about suites, or records that ``milp-plan solve`` wrote.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    InputError
        A source is not what its format says, or there is no run to draw.
    """
    runs = [run for source in sources for run in _runs(source, store_folder)]
    known = [run for run in runs if run[1] is not None]
    if not known:
        remedy = "milp-plan bench run it first"
        names = ", ".join(map(str, sources))
        raise InputError([Finding("runs", "none with a result", "at least one", remedy, names)])
    if len(known) < len(runs):
        note(f"{len(runs) - len(known)} of {len(runs)} runs have no result yet, or failed")
    title = ", ".join(dict.fromkeys(path.name.removesuffix(".toml") for path in sources))
    from milp_plan.draw.canvas import write_figure

    write_figure(CHARTS[kind](runs, title), output)


def _runs(source: Path, store_folder: Path) -> list[Run]:
    """Read the runs of a suite from the store, or one record of ``solve``."""
    if source.suffix == ".json":
        return [_record(source)]
    from milp_plan.study.rows import row_of

    expansion, store = open_suite(source, store_folder)
    runs: list[Run] = []
    for task in expansion.tasks:
        record = store.load(task.key)
        runs.append((row_of(task, record), None if record is None else record["outcome"]))
    return runs


def _record(path: Path) -> Run:
    from milp_plan.io.record_file import read_record

    outcome = read_record(path)
    scale = str(outcome["ticks_per_unit"])
    row = {
        "instance": outcome["instance"],
        "file": outcome["instance"],
        "variation": "",
        "planner": (outcome.get("formulation") or {"name": outcome["strategy"]})["name"],
        "seed": outcome["settings"]["seed"],
        "unit": outcome["unit"],
        "time_scale": scale,
        "value": outcome["value"],
        "gap": outcome["gap"],
        "proved": outcome["proved"],
        "status": "done",
        "value_float": None if outcome["value"] is None else outcome["value"] / int(scale),
    }
    return row, outcome


def _title(row: dict[str, Any]) -> str:
    return f"{row['instance']}, {row['variation']}" if row["variation"] else str(row["instance"])


def _value_time(runs: Sequence[Run], title: str) -> Figure:
    from milp_plan.report import comparison

    by_problem: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row, outcome in runs:
        if outcome is not None:
            by_problem.setdefault(_title(row), []).append((row, outcome))
    panels = [_panel(name, found) for name, found in by_problem.items()]
    return comparison.value_time(panels, title)


def _panel(title: str, runs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> Panel:
    """Return incumbents and bounds of the runs on one problem, in one unit."""
    from milp_plan.draw.canvas import scale_of
    from milp_plan.report import comparison

    known = [point["incumbent"] for _, outcome in runs for point in outcome["trace"]]
    largest = max((number for number in known if number is not None), default=0)
    scale = scale_of(runs[0][0]["unit"], int(runs[0][0]["time_scale"]), largest)

    def amount(number: int | None) -> float | None:
        return None if number is None else scale(number)

    curves = []
    for row, outcome in runs:
        trace = [
            (p["seconds"], amount(p["incumbent"]), amount(p["bound"])) for p in outcome["trace"]
        ]
        curves.append(comparison.Curve(row["planner"], trace, outcome["seconds"]))
    return comparison.Panel(title, scale.unit, curves)


def _profile(runs: Sequence[Run], title: str) -> Figure:
    from milp_plan.report import comparison

    problems = list(dict.fromkeys((r["file"], r["variation"], r["seed"]) for r, _ in runs))
    planners = list(dict.fromkeys(row["planner"] for row, _ in runs))
    values: dict[str, list[float | None]] = {name: [None] * len(problems) for name in planners}
    for row, _ in runs:
        place = problems.index((row["file"], row["variation"], row["seed"]))
        values[row["planner"]][place] = row["value_float"]
    return comparison.performance_profile(values, title)


def _gap(runs: Sequence[Run], title: str) -> Figure:
    from milp_plan.report import comparison

    bars = []
    for row, outcome in runs:
        why = ""
        if outcome is None:
            why = str(row["status"])
        elif row["value"] is None:
            why = "infeasible" if outcome["infeasible_because"] else "no plan"
        elif row["gap"] is None:
            continue  # a heuristic alone: it has no bound
        bars.append(
            comparison.Gap(_title(row), row["planner"], row["gap"], bool(row["proved"]), why)
        )
    if not any(bar.gap is not None for bar in bars):
        remedy = "run both stages as well"
        raise InputError([Finding("runs", "none with a bound", "at least one", remedy, title)])
    return comparison.gaps(bars, title)


CHARTS: dict[str, Callable[[Sequence[Run], str], Figure]] = {
    "value-time": _value_time,
    "performance-profile": _profile,
    "gap": _gap,
}
"""Kinds of pictures about many runs."""
