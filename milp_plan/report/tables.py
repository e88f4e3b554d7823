"""The overview of many runs: one row per instance, as Markdown or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from milp_plan.core.amounts import DASH, amount_text

from .pages import seconds, share, table

if TYPE_CHECKING:
    import pandas

Row = Mapping[str, Any]
"""The record of a run on one instance; a missing key counts as ``None``."""

UNITS = (
    "Amounts in the unit of the instance; gap: what lies between value and bound, relative to the "
    "value."
)
"""Note below the overview."""

PHASES = ("read", "coarsen", "build", "hand_over", "solve", "decode", "polish", "check")
"""Usual phases in order; other phases follow by name."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: key of the row, heading, how a known entry is written, and its alignment.

    ``write`` is ``None`` for amounts, which are written in the unit of their row.
    """

    key: str
    heading: str
    write: Callable[[Any], str] | None
    numeric: bool = True


def _whole(number: int) -> str:
    return f"{number:,}"


COLUMNS = (
    Column("instance", "instance", str, numeric=False),
    Column("operators", "operators", _whole),
    Column("coarse_operators", "coarse", _whole),
    Column("objective", "objective", str, numeric=False),
    Column("value", "value", None),
    Column("best_baseline", "best baseline", None),
    Column("baseline_name", "baseline", str, numeric=False),
    Column("improvement", "better by", share),
    Column("bound", "bound", None),
    Column("bound_name", "bound by", str, numeric=False),
    Column("gap", "gap", share),
    Column("stop", "stop", str, numeric=False),
    Column("verdict", "verdict", str, numeric=False),
    Column("planner", "planner", str, numeric=False),
    Column("seconds", "seconds", seconds),
)
"""Columns of the overview; the times of the phases follow."""


UNIT_KEYS = ("unit", "ticks_per_unit")
"""Members of a record with the units of its amounts, for JSON, where amounts stay exact."""


def overview(rows: Iterable[Row]) -> pandas.DataFrame:
    """Return run records as a frame, a row for each.

    Columns have type object, so that integers stay exact and an unknown entry stays ``None``.

    Parameters
    ----------
    rows
        Dictionaries with the keys of :data:`COLUMNS` and ``phases``, a mapping from the name of
        a phase to its seconds. ``improvement`` is computed: ``(baseline - value) / baseline``.
    """
    import pandas

    keys, entries = _entries([dict(row) for row in rows])
    return pandas.DataFrame(
        {key: pandas.Series([entry.get(key) for entry in entries], dtype=object) for key in keys},
        columns=keys,
    )


def median_gap(rows: Iterable[Row]) -> tuple[float | None, int, int]:
    """Return the median of the known gaps, their number, and the number of rows."""
    every = [_known(row.get("gap")) for row in rows]
    gaps = [gap for gap in every if gap is not None]
    return (median(gaps) if gaps else None), len(gaps), len(every)


def median_line(rows: Iterable[Row]) -> str:
    """Return the median gap in a sentence, with the number of rows without a gap."""
    gap, known, total = median_gap(rows)
    missing = f", {total - known} without a gap" if known < total else ""
    plural = "" if total == 1 else "s"
    return f"Median gap: {DASH if gap is None else share(gap)} ({total} instance{plural}{missing})"


def to_markdown(rows: Iterable[Row]) -> str:
    """Return the overview as a Markdown table and the line of the median gap."""
    known = list(rows)
    keys, entries = _entries(known)
    columns = [*COLUMNS]
    for key in keys[len(COLUMNS) :]:
        columns.append(Column(key, key.removesuffix("_s").replace("_", " ") + " s", seconds))
    texts = [
        [_text(column, entry.get(column.key), row) for column in columns]
        for entry, row in zip(entries, known, strict=True)
    ]
    sides = [not column.numeric for column in columns]
    lines = table([column.heading for column in columns], texts, sides)
    return f"{lines}\n{median_line(known)}. {UNITS}\n"


def to_json(rows: Iterable[Row]) -> str:
    """Return the overview as JSON: ``rows`` and ``median_gap``; unknown entries are null."""
    known = list(rows)
    keys, entries = _entries(known)
    gap, counted, total = median_gap(known)
    content = {
        "rows": [
            {key: entry.get(key) for key in keys} | {key: row.get(key) for key in UNIT_KEYS}
            for entry, row in zip(entries, known, strict=True)
        ],
        "median_gap": gap,
        "rows_with_gap": counted,
        "num_rows": total,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _known(entry: Any) -> Any:
    """Return an entry; ``None`` for NaN or infinity."""
    return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def _entries(rows: Sequence[Row]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the keys of the columns, and the entries of each row by key."""
    known = {phase for row in rows for phase in row.get("phases") or {}}
    phases = [phase for phase in PHASES if phase in known] + sorted(known.difference(PHASES))
    made = []
    for row in rows:
        entries = {column.key: _known(row.get(column.key)) for column in COLUMNS}
        value, baseline = entries["value"], entries["best_baseline"]
        if value is not None and baseline:
            entries["improvement"] = (baseline - value) / baseline
        times = row.get("phases") or {}
        made.append(entries | {f"{phase}_s": _known(times.get(phase)) for phase in phases})
    return [*(column.key for column in COLUMNS), *(f"{phase}_s" for phase in phases)], made


def _text(column: Column, entry: Any, row: Row) -> str:
    if entry is None:
        return DASH
    if column.write is not None:
        return column.write(entry)
    if row.get("unit") is None:  # an old record: what the number counts is not known
        return f"{entry:,}"
    return amount_text(row["unit"], row["ticks_per_unit"], entry)
