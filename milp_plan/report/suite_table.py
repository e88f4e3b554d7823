"""Tables over suites as Markdown and CSV: our values and published figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .pages import DASH, seconds, share, table

Row = Mapping[str, Any]

WORDS = ("better", "equal", "worse")

NOTE = """\
Values and bounds are in the unit of the instance's file. Values are recomputed from the plan alone
in exact integers; the bound is on the whole problem, and gap = (value − bound) / value. Seconds are
wall clock until the run ended, and until the best plan was found. *Ratio* = ours / best published;
*equal* means equal to the digits that are published."""

HEADINGS = {
    "planner": "planner",
    "seconds": "s",
    "seconds_to_best": "s to best",
    "found_by": "found by",
    "best_published": "best published",
    "added_time_percent": "added time, %",
    "added_time_percent_bound": "bound, %",
    "verdict": "check",
    "standing": "ours is",
}
TEXTS = ("instance", "file", "variation", "planner", "proved", "stop", "verdict", "found_by")


def suite_markdown(
    title: str,
    about: str,
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    headings: Mapping[str, str],
    group: str,
    digits: int,
    notes: Sequence[str],
    command: str,
    provenance: str,
) -> str:
    """Return the table.

    Parameters
    ----------
    title, about, notes
        Texts above and below the table.
    rows
        Rows made by ``milp_plan.study.standings``.
    columns, headings
        Columns that are shown, and their headings where different from their names.
    group
        Member by which rows stand in sections; ``"none"`` for one section.
    digits
        Significant digits of values.
    command, provenance
        Command that makes the table again, and the versions of its records.
    """
    lines = [f"# {title}", "", "Generated, do not edit. Made again by:", "", "```", command, "```"]
    lines += ["", about.strip(), "", NOTE, "", _summary(rows), "", provenance]
    keys = [None] if group == "none" else list(dict.fromkeys(row[group] for row in rows))
    for key in keys:
        chosen = [row for row in rows if key is None or row[group] == key]
        lines += ["", f"## {key}", ""] if key else [""]
        lines += _table(chosen, columns, headings, digits)
    lines += _remarks(rows, notes)
    return "\n".join(lines) + "\n"


def _table(
    rows: Sequence[Row], columns: Sequence[str], headings: Mapping[str, str], digits: int
) -> list[str]:
    shown = [column for column in columns if _is_known(rows, column)]
    heads = [headings.get(column, _heading(column)) for column in shown]
    cells = ([cell(row, column, digits) for column in shown] for row in rows)
    return table(heads, cells, [column in TEXTS for column in shown]).splitlines()


def _is_known(rows: Sequence[Row], column: str) -> bool:
    """Return whether a section has an entry in a column of published figures."""
    return ":" not in column or any(cell(row, column, 8) != DASH for row in rows)


def _heading(column: str) -> str:
    kind, _, name = column.partition(":")
    if name:
        return f"{name}, s" if kind == "seconds" else name
    return HEADINGS.get(column, column)


def cell(row: Row, column: str, digits: int) -> str:
    """Write one cell."""
    kind, _, name = column.partition(":")
    if name:
        return _foreign(row, kind, name, digits)
    if column == "value" and row["status"] != "done":
        return str(row["status"])
    writers: dict[str, Callable[[Any], str]] = {
        "gap": share,
        "added_time_percent": percent,
        "added_time_percent_bound": percent,
        "ratio": lambda ratio: f"{ratio:.4f}",
        "seconds": seconds,
        "seconds_to_best": seconds,
    }
    if column in ("value", "bound"):
        amount = row[f"{column}_float"]
        text = _number(amount, digits)
        return f"**{text}**" if column == "value" and amount is not None else text
    if column == "proved":
        return _proof(row)
    entry = row[column]
    if entry is None or entry == "":
        return DASH
    if column == "best_published":
        return f"{_number(entry, digits)} ({row['best_method']})"
    return writers.get(column, str)(entry)


def _proof(row: Row) -> str:
    """Say how good a plan is known to be, where it is as good as was asked for."""
    if row["proved"]:
        return "proved"
    return f"within {100 * row['gap_asked']:g} %" if row["stop"] == "proved" else DASH


def _foreign(row: Row, kind: str, name: str, digits: int) -> str:
    if kind == "planner":
        return _number(row["planners"].get(name), digits)
    for entry in row["published"]:
        if entry["method"] == name and entry[kind] is not None:
            if kind == "seconds":
                return seconds(entry[kind])
            marks = "" if entry["counts"] else "*"
            return f"{_number(entry[kind], digits)}{marks}"
    return DASH


def _number(number: float | None, digits: int) -> str:
    return DASH if number is None else f"{number:,.{digits}g}"


def percent(number: float) -> str:
    """Write what is in percent already."""
    return f"{number:.4f}"


def _summary(rows: Sequence[Row]) -> str:
    runs = [row for row in rows if row["status"] not in ("absent", "bad")]
    checked = sum(row["verdict"] == "ok" for row in runs)
    proved = sum(bool(row["proved"]) for row in runs)
    near = sum(not row["proved"] and row["stop"] == "proved" for row in runs)
    others = f", {near} more optimal within the gap asked for" if near else ""
    sentences = [
        f"{len(runs)} runs: {checked} plans pass the check, {proved} are proved optimal{others}."
    ]
    gone = len(rows) - len(runs)
    if gone:
        sentences.append(f"{gone} instances are absent or cannot be read.")
    counts = [sum(row["standing"] == word for row in runs) for word in WORDS]
    if any(counts):
        spelt = ", ".join(f"{count} {word}" for count, word in zip(counts, WORDS, strict=True))
        above = [
            row
            for row in runs
            if row["best_published"] is not None
            and row["bound_float"] is not None
            and row["best_published"] > row["bound_float"]
            and row["standing"] != "equal"
        ]
        ahead = sum(row["standing"] == "better" for row in above)
        sentences.append(
            f"Against the best published value: {spelt}. Where that is above our bound and not "
            f"equal ({len(above)} runs), ours is better in {ahead}."
        )
    return " ".join(sentences)


def _remarks(rows: Sequence[Row], notes: Sequence[str]) -> list[str]:
    lines = []
    errors = [row for row in rows if row["error"]]
    if errors:
        lines += ["", "Without an answer:", ""]
        lines += [f"- `{row['file']}` {row['variation']}: {row['error']}" for row in errors]
    if notes:
        lines += ["", "Notes:", "", *(f"- {note}" for note in notes)]
    published = [entry for row in rows for entry in row["published"]]
    sources = dict.fromkeys(
        (entry["method"], entry["source"], entry["note"], entry["counts"]) for entry in published
    )
    if sources:
        lines += ["", "Sources of published figures (* keeps other rules and is no rival):", ""]
    for method, source, note, counts in sources:
        lines.append(f"- {method}{'' if counts else '*'}: {source}{f'; {note}' if note else ''}")
    return lines


def suite_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Write rows as CSV: every member of a run, then two columns per published method."""
    methods = list(dict.fromkeys(entry["method"] for row in rows for entry in row["published"]))
    own = [*columns, "best_published", "best_method", "ratio", "standing"]
    planners = list(dict.fromkeys(name for row in rows for name in row["planners"]))
    heads = [*own, *(f"planner:{name}" for name in planners)]
    heads += [f"{kind}:{method}" for method in methods for kind in ("value", "seconds")]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        known = {entry["method"]: entry for entry in row["published"]}
        cells = [row.get(name) for name in own]
        cells += [row["planners"].get(name) for name in planners]
        cells += [known.get(m, {}).get(kind) for m in methods for kind in ("value", "seconds")]
        writer.writerow(["" if entry is None else entry for entry in cells])
    return buffer.getvalue()
