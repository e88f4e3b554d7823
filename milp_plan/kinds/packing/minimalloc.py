"""Buffers and packings as CSV: the format of MiniMalloc.

Source: https://github.com/google/minimalloc, Apache-2.0 (Moffitt, ASPLOS 2023). Described in
``instances/formats/packing.md``.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from milp_plan.core import Finding, InputError
from milp_plan.io.csv_text import csv_rows
from milp_plan.io.defects import in_words
from milp_plan.io.files import Document, read_document

from .problem import Buffer, PackingPlan, PackingProblem, Place

TITLE = "buffers of MiniMalloc (CSV)"

_NAMES = {
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    "end": "upper",
}
"""Other names of columns; ``end`` is the last instant of a lifetime, so upper is one more."""

_NEEDED = ("id", "lower", "upper", "size")
_COLUMNS = (*_NEEDED, "alignment", "gaps", "offset")
_LONGEST = 19
"""Number of digits of the largest number of 64 bits."""

_PROVENANCE = {"format": "https://github.com/google/minimalloc"}


@dataclass(frozen=True)
class _Table:
    """Rows of a file: line number -> column -> text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[int, Mapping[str, str]], ...]
    header: tuple[str, ...]

    @property
    def after(self) -> bool:
        """Whether a lifetime ends after its last instant, not with it."""
        return "end" in self.header

    @property
    def words(self) -> Mapping[str, str]:
        """Column -> its name in the file."""
        return dict(zip(self.columns, self.header, strict=True))


def can_read(document: Document) -> bool:
    """Return whether the first line names most of the columns of buffers, and no places."""
    columns = _header(document)
    return len(columns & set(_NEEDED)) > 2 and "offset" not in columns


def is_packing(document: Document) -> bool:
    """Return whether the first line names the columns of a packing."""
    return {"id", "offset"} <= _header(document)


def read(document: Document) -> PackingProblem:
    """Read buffers; name and capacity are in the file's name, ``NAME.CAPACITY.csv``.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    try:
        table = _table(document, _NEEDED)
        name, capacity = _name(document.path)
        with in_words(table.words):
            buffers = tuple(place.buffer for place in _places(table, {}))
            return PackingProblem(name, buffers, capacity, _PROVENANCE)
    except InputError as error:
        raise error.in_file(document.file) from None


def to_csv(problem: PackingProblem) -> bytes:
    """Return the buffers of a problem; its capacity is part of the file's name."""
    return _text([Place(buffer, 0) for buffer in problem.buffers], placed=False)


def read_packing(path: str | Path, problem: PackingProblem) -> PackingPlan:
    """Read a packing: buffers with a column ``offset``.

    Parameters
    ----------
    path
        The file.
    problem
        Its problem, which supplies lifetimes and sizes where the file has no such columns.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them. The law is not checked here.
    """
    document = read_document(path, "a packing: buffers with a column offset (CSV)")
    try:
        table = _table(document, ("id", "offset"))
        with in_words(table.words):
            places = _places(table, {b.name: b for b in problem.buffers})
        return PackingPlan(problem.name, places)
    except InputError as error:
        raise error.in_file(document.file) from None


def packing_text(plan: PackingPlan) -> bytes:
    """Return a packing as MiniMalloc prints it: the buffers with a column ``offset``."""
    return _text(plan.places, placed=True)


def _header(document: Document) -> set[str]:
    """Return the columns by their usual names."""
    line = document.data.lstrip().split(b"\n", 1)[0].decode(errors="replace")
    names = [name.strip() for name in line.split(",")]
    return {_NAMES.get(name, name) for name in names}


def _name(path: Path) -> tuple[str, int | None]:
    """Return name and capacity, from ``NAME.CAPACITY.csv``."""
    stem = path.name.removesuffix(".gz").removesuffix(".csv")
    name, dot, number = stem.rpartition(".")
    if dot and name and number.isascii() and number.isdigit() and len(number) <= _LONGEST:
        return name, int(number)
    return stem, None


def _table(document: Document, needed: Sequence[str]) -> _Table:
    rows = csv_rows(document.data.decode(), "buffers (CSV)", document.file)
    lines = [(line, [cell.strip() for cell in row]) for line, row in rows]
    header = lines[0][1]
    columns = tuple(_NAMES.get(name, name) for name in header)
    findings = list(_header_findings(columns, needed))
    if findings:
        raise InputError(findings)
    findings = [
        Finding(f"line {line}", f"{len(cells)} cells", str(len(columns)), "one for each column")
        for line, cells in lines[1:]
        if len(cells) != len(columns)
    ]
    if findings:
        raise InputError(findings)
    named = tuple((line, dict(zip(columns, cells, strict=True))) for line, cells in lines[1:])
    return _Table(columns, named, tuple(header))


def _header_findings(columns: Sequence[str], needed: Sequence[str]) -> Iterator[Finding]:
    for name, count in Counter(columns).items():
        if name not in _COLUMNS:
            expected = f"one of the columns {', '.join(_COLUMNS)}"
            yield Finding("line 1", f"column {name!r}", expected, "remove the column")
        elif count > 1:
            yield Finding("line 1", f"{count} columns {name!r}", "one", "remove the others")
    for name in needed:
        if name not in columns:
            yield Finding("line 1", f"no column {name!r}", f"columns {', '.join(needed)}", "add it")


def _places(table: _Table, known: Mapping[str, Buffer]) -> tuple[Place, ...]:
    findings: list[Finding] = []
    first: dict[str, int] = {}
    places = []
    for line, row in table.rows:
        numbers = {}
        for column in table.columns:
            if column in ("id", "gaps"):
                continue
            try:
                numbers[column] = _integer(row[column])
            except ValueError:
                where = f"line {line}, {column}"
                findings.append(Finding(where, repr(row[column]), "an integer", "correct it"))
        if row["id"] in first:
            found = f"{row['id']!r} a second time, after line {first[row['id']]}"
            findings.append(Finding(f"line {line}, id", found, "unique names", "rename one"))
        first.setdefault(row["id"], line)
        if row.get("gaps"):
            remedy = "give each part of the lifetime a buffer of its own"
            findings.append(Finding(f"line {line}, gaps", repr(row["gaps"]), "none", remedy))
        buffer = _buffer(row["id"], numbers, known, table.after)
        if len(numbers) == _counted(table):
            findings += _of_row(table, row, buffer.findings(f"line {line}"))
        places.append(Place(buffer, numbers.get("offset", 0)))
    if findings:
        raise InputError(findings)
    return tuple(places)


def _of_row(
    table: _Table, row: Mapping[str, str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Translate findings on ``upper`` for a file that gives the last instant."""
    for finding in findings:
        if table.after and finding.where.endswith(", upper"):
            early = finding.expected.startswith("more than")
            expected = f"at least its {table.words['lower']}" if early else finding.expected
            yield replace(finding, found=row["upper"], expected=expected)
        else:
            yield finding


def _counted(table: _Table) -> int:
    return sum(column not in ("id", "gaps") for column in table.columns)


def _buffer(
    name: str, numbers: Mapping[str, int], known: Mapping[str, Buffer], after: bool
) -> Buffer:
    """Return the buffer of a row, completed by the known one."""
    other = known.get(name, Buffer(name, 0, 1, 1))
    upper = numbers["upper"] + after if "upper" in numbers else other.upper
    return Buffer(
        name,
        numbers.get("lower", other.lower),
        upper,
        numbers.get("size", other.size),
        numbers.get("alignment", other.alignment),
    )


def _integer(text: str) -> int:
    """Read plain digits, with an optional sign; raise ``ValueError`` otherwise."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > _LONGEST:
        raise ValueError(text)
    return int(text)


def _text(places: Sequence[Place], *, placed: bool) -> bytes:
    aligned = any(place.buffer.alignment != 1 for place in places)
    columns = [*_NEEDED, *(["alignment"] if aligned else []), *(["offset"] if placed else [])]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for place in places:
        b = place.buffer
        row = {"id": b.name, "lower": b.lower, "upper": b.upper, "size": b.size}
        row |= {"alignment": b.alignment, "offset": place.offset}
        writer.writerow([row[column] for column in columns])
    return stream.getvalue().encode()
