"""Rows of CSV files, read field by field; what is wrong names row and field."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from milp_plan.core import Finding, InputError
from milp_plan.io.files import read_document

MOST = 10**15
"""Every number at most, which keeps times and sizes in the range of floats."""

MOST_BLOCKS = 10_000
"""Blocks of a model at most; each is costed and placed on its own."""

SHOWN = 40
"""Characters of a wrong field that are shown."""


def read_rows(path: str | Path, title: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of a CSV file.

    Raises
    ------
    InputError
        No CSV, no row, a column twice, or rows with more fields than there are columns.
    """
    text = read_document(path, title).data.decode("utf-8-sig")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        rows = list(reader)
    except csv.Error as error:
        finding = Finding("rows", str(error), "lines of comma-separated values", "correct the file")
        raise InputError([finding]).in_file(str(path)) from None
    columns = list(reader.fieldnames or ())
    findings = [
        Finding(f"column {name}", f"{count} times", "each column once", "leave one out")
        for name, count in Counter(columns).items()
        if count > 1 and name
    ]
    findings += [
        Finding(
            f"row {number}",
            f"{len(columns) + len(fields[None])} fields",
            f"at most {len(columns)}, one a column",
            "put fields with commas in quotes",
        )
        for number, fields in enumerate(rows, 2)
        if None in fields
    ]
    if findings:
        raise InputError(findings).in_file(str(path))
    return columns, rows


class BadFieldError(Exception):
    """A field that cannot be read, as a finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Row:
    """One row, read field by field."""

    def __init__(self, number: int, fields: Mapping[str, str]) -> None:
        self.number = number
        self.fields = fields

    def text(self, name: str) -> str:
        """Text of a field, empty where there is none."""
        return (self.fields.get(name) or "").strip()

    def bad(self, name: str, expected: str) -> BadFieldError:
        """Error of a field: row, field, what stands there, what is expected."""
        text = self.text(name)
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        found = repr(shown) if text else "nothing"
        return BadFieldError(
            Finding(f"row {self.number}, {name}", found, expected, "correct the row")
        )

    def number_of(self, name: str, default: float | None = None) -> float:
        """A number from 0."""
        text = self.text(name)
        if not text:
            if default is None:
                raise self.bad(name, "a number")
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.bad(name, "a number") from None
        if not 0 <= value < float("inf"):
            raise self.bad(name, "a number from 0")
        if value > MOST:
            raise self.bad(name, f"at most {MOST:.0e}")
        return value

    def integer(
        self, name: str, default: int | None = None, least: int = 1, most: int = MOST
    ) -> int:
        """A whole number from some least one to some most."""
        value = self.number_of(name, default)
        if value != int(value) or value < least:
            raise self.bad(name, f"a whole number from {least}")
        if value > most:
            raise self.bad(name, f"at most {most:,}")
        return int(value)

    def optional(self, name: str) -> float | None:
        """A number, ``None`` where the field is empty."""
        return self.number_of(name) if self.text(name) else None

    def one_of(self, name: str, known: Mapping[str, str], default: str) -> str:
        """One of some words."""
        text = self.text(name).lower() or default
        if text not in known:
            raise self.bad(name, f"one of {', '.join(sorted(known))}")
        return known[text]
