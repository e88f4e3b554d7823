"""The page of a report, with tables and plots in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from milp_plan import __version__
from milp_plan.core.amounts import DASH
from milp_plan.draw.canvas import LINES, Scale, scale_of
from milp_plan.draw.panels import Axis, Curve, Panel

from .entry import Entry
from .plots import Plots, need_bokeh

_LINES = tuple(colour for colour in LINES if colour != "#000000")
"""Colours that are visible on dark backgrounds as well."""
_MOST_VIOLATIONS = 50
_SECTIONS = (
    ("Settings", "settings"),
    ("Versions", "versions"),
    ("Machine", "machine"),
    ("Bounds", "bounds"),
    ("Baselines", "baselines"),
    ("Seconds", "phases"),
)
"""Members of a record with separate tables."""


@dataclass(frozen=True)
class Part:
    """One run, as text and plots."""

    name: str
    state: str
    verdict_text: str
    violations: Sequence[str]
    explanation: str
    tables: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    plots: Sequence[dict[str, Any]]


def report_text(entries: Sequence[Entry]) -> str:
    """Write the page of one run, or of several next to each other.

    Parameters
    ----------
    entries
        The runs, at least one.

    Raises
    ------
    BackendUnavailableError
        Bokeh is not installed.
    """
    need_bokeh()
    from bokeh.embed import components
    from bokeh.resources import Resources
    from jinja2 import Environment
    from markupsafe import Markup

    progress = list(_progress(entries))
    panels = [progress, *(entry.panels for entry in entries)]
    kinds = ["progress", *(entry.record.get("kind", "") for entry in entries)]
    plots = Plots()
    for kind, found in zip(kinds, panels, strict=True):
        plots.plan(kind, found)
    placed = {
        _name(group, place): plots.plot(kinds[group], panel, _name(group, place))
        for group, found in enumerate(panels)
        for place, panel in enumerate(found)
    }
    script, divs = components(placed) if placed else ("", {})
    shown = [
        [
            {
                "name": _name(group, place),
                "panel": panel,
                "legend": _legend(panel),
                "critical": sum(box.critical for box in panel.boxes),
                "div": Markup(divs[_name(group, place)]),
            }
            for place, panel in enumerate(found)
        ]
        for group, found in enumerate(panels)
    ]
    parts = [_part(entry, plots) for entry, plots in zip(entries, shown[1:], strict=True)]
    names = list(dict.fromkeys(str(entry.record["instance"]) for entry in entries))
    ours = files(__package__)
    environment = Environment(autoescape=True, trim_blocks=True)
    library = Resources(mode="inline", components=["bokeh"]).render() if placed else ""
    return environment.from_string(ours.joinpath("template.html").read_text("utf-8")).render(
        title=", ".join(names),
        style=Markup(ours.joinpath("style.css").read_text("utf-8")),
        glue=Markup(ours.joinpath("glue.js").read_text("utf-8")),
        library=Markup(library),
        plots=Markup(script),
        version=__version__,
        entries=parts,
        progress=shown[0],
        summary=[{"label": label, "cells": cells} for label, cells in _summary(entries, parts)],
    )


def _name(group: int, place: int) -> str:
    """Return the id of a plot: its run, from 1 (0 is the progress of all), and its position."""
    return f"plot-{group}-{place}"


def _legend(panel: Panel) -> dict[str, str]:
    """Return the colours in the plots."""
    drawn = {box.kind for box in panel.boxes}
    return {kind: colour for kind, colour in panel.fills.items() if kind in drawn}


def _scale(record: Mapping[str, Any], largest: int) -> Scale:
    return scale_of(record["unit"], record["ticks_per_unit"], largest)


def _amount(record: Mapping[str, Any], number: int | None) -> str:
    return DASH if number is None else _scale(record, abs(number)).text(number)


def _summary(entries: Sequence[Entry], parts: Sequence[Part]) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the table that compares runs."""
    records = [entry.record for entry in entries]
    yield "instance", [str(record["instance"]) for record in records]
    yield "objective", [str(record["objective"]) for record in records]
    yield "value", [_amount(record, record["value"]) for record in records]
    if len(entries) > 1:
        yield "compared with the first", [_beside(records[0], record) for record in records]
    yield "bound", [_amount(record, record["bound"]) for record in records]
    yield "gap", [DASH if r["gap"] is None else f"{100 * r['gap']:.3g} %" for r in records]
    yield "scope", [str(record.get("scope", DASH)) for record in records]
    yield "proved optimal", ["yes" if record["proved"] else "no" for record in records]
    yield "check", [part.verdict_text for part in parts]
    yield "stopped", [str(record["stop"]) for record in records]
    yield "strategy", [str(record["strategy"]) for record in records]
    yield "formulation", [(r.get("formulation") or {"name": DASH})["name"] for r in records]
    yield "plan by", [str(record.get("planner") or DASH) for record in records]
    yield "seconds", [f"{record['seconds']:.3g}" for record in records]


def _beside(first: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return the difference to the value of the first run on the same problem."""
    same = all(first[name] == record[name] for name in ("fingerprint", "objective"))
    if not same or not first["value"] or record["value"] is None:
        return DASH
    return f"{100 * (record['value'] - first['value']) / first['value']:+.3g} %"


def _part(entry: Entry, plots: Sequence[dict[str, Any]]) -> Part:
    verdict, record = entry.verdict, entry.record
    violations: list[str] = []
    if verdict is None:
        proof = record.get("infeasible_because")
        state = "broken"
        verdict_text = f"infeasible: {proof}" if proof else f"no plan ({record['stop']})"
    elif verdict.ok:
        state = "valid"
        verdict_text = f"valid: {verdict.objective} {_amount(record, verdict.value)}"
    else:
        number = len(verdict.violations)
        state, verdict_text = "broken", f"not valid: {number} violation{'' if number == 1 else 's'}"
        violations = [str(violation) for violation in verdict.violations[:_MOST_VIOLATIONS]]
        if number > _MOST_VIOLATIONS:
            violations.append(f"and {number - _MOST_VIOLATIONS} more")
    explained = entry.explanation if verdict is not None and verdict.ok else ""
    return Part(entry.name, state, verdict_text, violations, explained, list(_tables(entry)), plots)


def _tables(entry: Entry) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    if entry.kind is not None:
        rows = entry.kind.rows(entry.problem)
        yield "Instance", [(label, text) for label, text in rows]
    for heading, member in _SECTIONS:
        members = entry.record.get(member)
        if isinstance(members, Mapping) and members:
            yield heading, [(str(name), _plain(item)) for name, item in members.items()]


def _plain(item: Any) -> str:
    if item is None:
        return DASH
    if isinstance(item, bool):
        return "yes" if item else "no"
    return f"{item:,}" if isinstance(item, int) else str(item)


def _progress(entries: Sequence[Entry]) -> Iterator[Panel]:
    """Yield a panel for each problem, with incumbents and bounds of its runs over time."""
    problems: dict[tuple[Any, Any], list[Entry]] = {}
    for entry in entries:
        problem = (entry.record["fingerprint"], entry.record["objective"])
        problems.setdefault(problem, []).append(entry)
    for found in problems.values():
        panel = _curves(found)
        if panel.curves:
            yield panel


def _curves(entries: Sequence[Entry]) -> Panel:
    record = entries[0].record
    known = [point["incumbent"] for entry in entries for point in entry.record["trace"]]
    bounds = [point["bound"] for entry in entries for point in entry.record["trace"]]
    largest = max((abs(number) for number in (*known, *bounds) if number is not None), default=0)
    scale = _scale(record, largest)
    curves = []
    for place, entry in enumerate(entries):
        colour = _LINES[place % len(_LINES)]
        for member, limit in (("incumbent", False), ("bound", True)):
            points = _steps(entry.record, member, scale)
            if points:
                name = member if len(entries) == 1 else f"{entry.name}: {member}"
                curves.append(Curve(name, points, colour, limit))
    title = f"{record['instance']}: {record['objective']}"
    elapsed = Axis("seconds of the run", Scale(1, ""))
    return Panel(title, elapsed, Axis(str(record["objective"]), scale), curves=curves)


def _steps(record: Mapping[str, Any], member: str, scale: Scale) -> list[tuple[float, float]]:
    """Return times at which a number changed, and the end of the run, with the numbers."""
    points: list[tuple[float, float]] = []
    for point in record["trace"]:
        if point[member] is not None and (not points or scale(point[member]) != points[-1][1]):
            points.append((float(point["seconds"]), scale(point[member])))
    if points and record["seconds"] > points[-1][0]:
        points.append((float(record["seconds"]), points[-1][1]))
    return points
