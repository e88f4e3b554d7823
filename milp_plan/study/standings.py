"""Our runs of a suite and published figures, as plain data for a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from milp_plan.io.known_file import last_digit
from milp_plan.io.pipeline_file import exact
from milp_plan.io.spec_file import Published, Spec

from .rows import ABSENT, BAD, Row

NO_PLAN, ALONE = "no plan", "alone"
"""Standings without a value of ours, and without a published figure."""


def with_rivals(spec: Spec, rows: Sequence[Row]) -> list[Row]:
    """Return a row per instance, variation, seed and planner of ours, with published figures.

    Parameters
    ----------
    spec
        Says which planners are ours (the first of the suite unless it does), and what others
        report.
    rows
        Rows made by :func:`.rows.rows_of`.
    """
    present = [row for row in rows if row["status"] not in (ABSENT, BAD)]
    ours = spec.ours or tuple(dict.fromkeys(row["planner"] for row in present))[:1]
    standings = []
    for row in rows:
        if row["status"] in (ABSENT, BAD):
            standings.append({**row, "published": [], "planners": {}, **_stand(row, [], spec)})
        elif row["planner"] in ours:
            rivals = _published(spec, row)
            standings.append(
                {
                    **row,
                    "published": [_plain(entry) for entry in rivals],
                    "planners": _others(row, present, spec.compare),
                    **_stand(row, rivals, spec),
                }
            )
    return standings


def _plain(entry: Published) -> dict[str, Any]:
    names = ("method", "value", "seconds", "proved", "counts", "source", "note")
    return {name: msgspec.to_builtins(getattr(entry, name)) for name in names}


def _published(spec: Spec, row: Row) -> list[Published]:
    case = (row["instance"], row["variation"])
    return [entry for entry in spec.published if (entry.instance, entry.variation) == case]


def _others(row: Row, rows: Iterable[Row], compare: str) -> dict[str, float | None]:
    """Return the values of all planners of the suite on the same problem with the same seed."""
    member = "value_float" if compare == "value" else compare
    same = ("file", "variation", "seed")
    return {
        entry["planner"]: entry[member]
        for entry in rows
        if all(entry[name] == row[name] for name in same)
    }


def _stand(row: Row, rivals: Sequence[Published], spec: Spec) -> Row:
    """Return the best published figure, our value divided by it, and who is ahead."""
    values = [entry for entry in rivals if entry.counts and entry.value is not None]
    best = min(values, key=lambda entry: exact(entry.value or 0), default=None)
    stand: Row = {"best_published": None, "best_method": None, "ratio": None}
    if best is not None and best.value is not None:
        stand |= {"best_published": best.value, "best_method": best.method}
    if row["value"] is None or row["verdict"] != "ok":
        return stand | {"standing": NO_PLAN}
    if best is None or best.value is None:
        return stand | {"standing": ALONE}
    value, theirs = Fraction(int(row["value"]), int(row["time_scale"])), exact(best.value)
    if spec.compare != "value":
        value = Fraction(row[spec.compare])
    slack = last_digit(best.value) + exact(spec.tolerance) * theirs
    word = "better" if value < theirs - slack else "worse" if value > theirs + slack else "equal"
    ratio = float(value / theirs) if theirs else None
    return stand | {"ratio": ratio, "standing": word}
