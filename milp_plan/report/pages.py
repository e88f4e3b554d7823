"""Common parts of result pages: Markdown tables, readable amounts, how to make them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter
from typing import Any

from milp_plan.core import amounts
from milp_plan.core.quantity import UNSPECIFIED
from milp_plan.draw.canvas import scale_of

Row = Mapping[str, Any]

DASH, share = amounts.DASH, amounts.share_text
"""Text of unknown entries; format of a share in percent."""


def amount_scale(row: Row) -> tuple[int, str]:
    """Return divisor and unit of the texts of value, bound and best baseline of a record."""
    known = [row.get(key) for key in ("value", "bound", "best_baseline")]
    largest = max((number for number in known if number is not None), default=0)
    scale = scale_of(row.get("unit", UNSPECIFIED), row.get("ticks_per_unit", 1), largest)
    return scale.divisor, scale.unit


def amount(number: int | None, scale: tuple[int, str]) -> str:
    """Return an exact number in a readable unit, with five digits."""
    if number is None:
        return DASH
    divisor, unit = scale
    readable = number / divisor
    before = len(str(int(abs(readable))))
    digits = 0 if divisor == 1 else max(0, 5 - before)
    return f"{readable:,.{digits}f} {unit}".rstrip()


def seconds(number: float | str | None) -> str:
    """Return seconds as text, with more digits below ten; return texts unchanged."""
    if number is None or isinstance(number, str):
        return number or DASH
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], left: int | Sequence[bool] = 1
) -> str:
    """Return a Markdown table; ``left`` is the number or set of left-aligned columns."""
    sides = [place < left for place in range(len(headings))] if isinstance(left, int) else left
    marks = [":---" if side else "---:" for side in sides]
    lines = [list(headings), marks, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def provenance(command: str, rows: Iterable[Row], extra: str = "") -> str:
    """Return how to make a page again, and the versions of its records.

    Every set of versions and every machine that occurs in the records is named.
    """
    records = [row for row in rows if row.get("versions")]
    lines = [f"Generated, do not edit. Made again by:\n\n```\n{command}\n```\n"]
    for versions in _distinct(record["versions"] for record in records):
        text = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
        lines.append(f"- versions: {text}")
    for machine in _distinct(record.get("machine") or {} for record in records):
        if machine:
            lines.append("- machine: " + ", ".join(str(part) for part in machine.values()))
    if extra:
        lines.append(extra)
    return "\n".join(lines) + "\n"


def _distinct(entries: Iterable[Row]) -> list[Row]:
    unique: list[Row] = []
    for entry in entries:
        if entry not in unique:
            unique.append(entry)
    return unique


class Cells(Formatter):
    """Formats of cells: as Python's, what is ``None`` or not there is a dash, and more kinds.

    ``seconds`` and ``share`` as the functions of these names, ``yes`` for truth, ``µs`` for
    nanoseconds to five digits.
    """

    kinds: Mapping[str, Callable[[Any], str]] = {
        "seconds": seconds,
        "share": share,
        "yes": lambda truth: "yes" if truth else "NO",
        "µs": lambda ticks: amount(ticks, (1000, "µs")),
    }

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return a member; ``None`` where a part of its path is missing."""
        try:
            return super().get_field(field_name, args, kwargs)
        except (KeyError, TypeError, IndexError):
            return None, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a member as text."""
        if value is None:
            return DASH
        write = self.kinds.get(format_spec)
        return str(super().format_field(value, format_spec)) if write is None else write(value)


def members(columns: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names of the members that columns show."""
    named = (field for _, text in columns for _, field, _, _ in Formatter().parse(text) if field)
    return {name.partition("[")[0] for name in named}


def study_page(
    title: str,
    about: str,
    tables: Iterable[Any],
    rows: Mapping[str, Sequence[Row]],
    facts: Row,
    *,
    command: str,
    made: Row,
) -> str:
    """Write the page of a study.

    Parameters
    ----------
    title, about
        Title and text above the tables.
    tables
        As in a study's file: ``columns``, ``heading``, ``rows``, ``group``, ``text``, ``before``,
        ``after`` and ``left``.
    rows
        Name -> rows; those measured are named ``""``.
    facts
        Values of names in braces in texts.
    command, made
        Command that makes the page again; versions and machine.

    Raises
    ------
    ValueError
        A column names a member that no row has.
    """
    write = Cells().vformat
    parts = [f"# {title}\n", provenance(command, [made]), write(about.strip(), (), facts) + "\n"]
    for entry in tables:
        chosen = rows[entry.rows]
        absent = members(entry.columns) - {name for row in chosen for name in row}
        if chosen and absent:
            raise ValueError(f"no row has {', '.join(sorted(absent))}")
        if entry.heading:
            parts.append(f"## {write(entry.heading, (), facts)}\n")
        if entry.before:
            parts.append(write(entry.before.strip(), (), facts) + "\n")
        for key in dict.fromkeys(row[entry.group] if entry.group else None for row in chosen):
            own = [row for row in chosen if not entry.group or row[entry.group] == key]
            if key is not None:
                parts.append(f"## {key}\n")
            if entry.text:
                parts.append(write(entry.text.strip(), (), own[0]) + "\n")
            cells = [[write(text, (), row) for _, text in entry.columns] for row in own]
            parts.append(table([heading for heading, _ in entry.columns], cells, entry.left))
        if entry.after:
            parts.append(write(entry.after.strip(), (), facts) + "\n")
    return "\n".join(parts)
