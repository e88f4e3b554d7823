"""Errors that users can meet, and their findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of an input.

    Parameters
    ----------
    where
        JSON path, operator or value name inside the file.
    found
        What the input has there.
    expected
        What it should have there.
    remedy
        What the user can do about it.
    file
        Name of the file; empty for a problem built in memory.
    """

    where: str
    found: str
    expected: str
    remedy: str
    file: str = ""

    def __str__(self) -> str:
        place = f"{self.file}: {self.where}" if self.file else self.where
        return f"{place}: found {self.found}, expected {self.expected}; {self.remedy}"


def name_findings(where: str, names: Iterable[str]) -> Iterator[Finding]:
    """Report names that occur more than once; ``where`` says what they name."""
    for name, count in Counter(names).items():
        if count > 1:
            found = f"the name {count} times"
            yield Finding(f"{where} {name!r}", found, "unique names", "rename all but one")


def below_findings(where: str, number: int | Fraction, least: int) -> Iterator[Finding]:
    """Report a number that is below its minimum."""
    if number < least:
        yield Finding(where, str(number), f"at least {least}", "correct it")


class MilpPlanError(Exception):
    """Base class of all errors that this package raises on purpose."""


class InputError(MilpPlanError):
    """An input breaks its format; the error has all findings, not only the first."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))

    def in_file(self, file: str) -> InputError:
        """Return the error with the name of the file in every finding."""
        return InputError(replace(finding, file=file) for finding in self.findings)


class UnusedOptionError(InputError):
    """Options were set that would do nothing; they are not ignored in silence.

    ``where`` of a finding is the option's name in Python.
    """

    def in_file(self, file: str) -> UnusedOptionError:
        """Return the error with the name of the file in every finding."""
        return UnusedOptionError(replace(finding, file=file) for finding in self.findings)

    def named(self, name: Callable[[str], str]) -> UnusedOptionError:
        """Return the error with other names of the options, such as those of the command line."""
        return UnusedOptionError(
            replace(finding, where=name(finding.where)) for finding in self.findings
        )


def unused_option(name: str, value: object, why: str, remedy: str = "leave it out") -> Finding:
    """Return a finding on an option that would do nothing."""
    return Finding(name, str(value), f"no such option here: {why}", remedy)


class UnsupportedProblemError(MilpPlanError):
    """A formulation, planner or bound does not apply to this problem; the message says why."""


class FormulationError(MilpPlanError):
    """A formulation file does not load, or breaks the protocol."""


class FormulationFailureError(FormulationError):
    """A formulation's own code raised or timed out, in words; nothing is known from it.

    Parameters
    ----------
    sentence
        Message: which formulation failed, in which step, and how.
    kind
        ``error``, ``killed``, ``memory_limit`` or ``time_limit``.
    """

    def __init__(self, sentence: str, kind: str) -> None:
        self.kind = kind
        super().__init__(sentence)


class BackendUnavailableError(MilpPlanError):
    """The named solver is not installed."""


class BackendFailureError(MilpPlanError):
    """The solver ended without a usable answer."""


class MissingFacetError(MilpPlanError):
    """A plan lacks a facet, for example its schedule, that an operation needs."""
