"""What the pages of results share: Markdown tables, readable amounts, how to make them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DASH = "—"
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def amount_scale(row: Mapping[str, Any]) -> tuple[int, str]:
    """(divisor, unit) in which the value, bound and baseline of a record are readable.

    Parameters
    ----------
    row
        A record: ``value``, ``bound``, ``best_baseline``, ``objective`` and ``units``.
    """
    known = [row.get(key) for key in ("value", "bound", "best_baseline")]
    largest = max((number for number in known if number is not None), default=0)
    units = row.get("units") or {}
    if row.get("objective") == "peak_memory":
        return _fitting(_SIZES, largest) if units.get("size") == "bytes" else (1, "")
    if units.get("time") == "ns" and units.get("time_scale") == 1:
        return _fitting(_TIMES, largest)
    unit = units.get("time", "unspecified")
    return units.get("time_scale", 1), "" if unit == "unspecified" else unit


def _fitting(units: Sequence[tuple[int, str]], largest: int) -> tuple[int, str]:
    return next((entry for entry in units if largest >= entry[0]), units[-1])


def amount(number: int | None, scale: tuple[int, str]) -> str:
    """Write an exact number in a readable unit, to five digits."""
    if number is None:
        return DASH
    divisor, unit = scale
    readable = number / divisor
    before = len(str(int(abs(readable))))
    digits = 0 if divisor == 1 else max(0, 5 - before)
    return f"{readable:,.{digits}f} {unit}".rstrip()


def share(number: float | None) -> str:
    """Write a share in percent."""
    return DASH if number is None else f"{number:.2%}"


def seconds(number: float | None) -> str:
    """Write seconds, finer below ten."""
    if number is None:
        return DASH
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def text(entry: Any) -> str:
    """Write anything else; what is not known is a dash."""
    return DASH if entry is None or entry == "" else str(entry)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first ``left`` columns are aligned to the left."""
    marks = [":---" if place < left else "---:" for place in range(len(headings))]
    lines = [list(headings), marks, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def provenance(command: str, rows: Iterable[Mapping[str, Any]], extra: str = "") -> str:
    """Say how to make a page again, and with what its records were made.

    Every set of versions and every machine that occurs in the records is named.
    """
    records = [row for row in rows if row.get("versions")]
    lines = [f"Generated, do not edit. Made again by:\n\n```\n{command}\n```\n"]
    for versions in _distinct(record["versions"] for record in records):
        said = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
        lines.append(f"- versions: {said}")
    for machine in _distinct(record.get("machine", {}) for record in records):
        lines.append("- machine: " + ", ".join(str(part) for part in machine.values()))
    if extra:
        lines.append(extra)
    return "\n".join(lines) + "\n"


def _distinct(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        if entry not in found:
            found.append(entry)
    return found
