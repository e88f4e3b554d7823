"""Rows of CSV files, read field by field; what is wrong names row and field."""

from __future__ import annotations

from collections.abc import Mapping

from milp_plan.core import Finding


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
        found = repr(self.text(name)) if self.text(name) else "nothing"
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
        return value

    def integer(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number from some least one."""
        value = self.number_of(name, default)
        if value != int(value) or value < least:
            raise self.bad(name, f"a whole number from {least}")
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
