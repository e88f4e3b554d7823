"""Values of a framework's file, read with every defect collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from milp_plan.core import Finding, InputError


@dataclass
class Findings:
    """Defects of one file."""

    file: str
    found: list[Finding] = field(default_factory=list)

    def add(self, name: str, found: object, expected: str, remedy: str = "correct it") -> None:
        """Note a defect of a field."""
        self.found.append(Finding(name, str(found), expected, remedy))

    def positive(self, name: str, text: object) -> int:
        """Return a whole number of at least 1; 1, and a defect, for anything else."""
        if isinstance(text, int) and not isinstance(text, bool) and text >= 1:
            return text
        if isinstance(text, str) and text.isascii() and text.isdigit() and 1 <= len(text) <= 9:
            number = int(text)
            if number >= 1:
                return number
        self.add(name, repr(text), "a whole number of at least 1")
        return 1

    def one_of(self, name: str, found: object, values: Sequence[str]) -> str:
        """Return a text that is allowed; the first one, and a defect, for anything else."""
        if found in values:
            return str(found)
        self.add(name, repr(found), f"one of {', '.join(values)}")
        return values[0]

    def share(self, name: str, whole: int, part: int, of: str) -> int:
        """Return how often a part goes into a number; 1, and a defect, if it does not."""
        if whole % part == 0 and whole >= part:
            return whole // part
        self.add(name, whole, f"a multiple of {part}, {of}")
        return 1

    def same(self, name: str, found: object, expected: object, of: str) -> None:
        """Note a defect where a value is not that of the problem."""
        if found != expected:
            self.add(name, found, f"{expected}, {of}", "correct the file or the command")

    def done(self) -> None:
        """Raise if anything was noted."""
        if self.found:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise what was noted."""
        raise InputError(self.found).in_file(self.file)
