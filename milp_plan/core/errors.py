"""The errors a user can meet, and the findings they carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an input.

    Parameters
    ----------
    where
        JSON path, operator or value name inside the file.
    found
        What stands there.
    expected
        What should stand there.
    remedy
        What the user can do about it.
    file
        The file it stands in; empty for a problem built in memory.
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
    """List names that stand more than once; ``where`` is what has them."""
    for name, count in Counter(names).items():
        if count > 1:
            found = f"the name {count} times"
            yield Finding(f"{where} {name!r}", found, "unique names", "rename all but one")


def below_findings(where: str, number: int | Fraction, least: int) -> Iterator[Finding]:
    """List a number that is below the least there can be."""
    if number < least:
        yield Finding(where, str(number), f"at least {least}", "correct it")


class MilpPlanError(Exception):
    """Base class of every error this package raises on purpose."""


class InputError(MilpPlanError):
    """An input is not what its format says; carries every finding, not only the first."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))

    def in_file(self, file: str) -> InputError:
        """Return the same findings, each naming the file it was found in."""
        return InputError(replace(finding, file=file) for finding in self.findings)


class UnusedOptionError(InputError):
    """Options that would do nothing where they were given; nothing is dropped in silence.

    The place of a finding is the option's name as Python writes it.
    """

    def in_file(self, file: str) -> UnusedOptionError:
        """Return the same findings, each naming the file it was found in."""
        return UnusedOptionError(replace(finding, file=file) for finding in self.findings)

    def named(self, name: Callable[[str], str]) -> UnusedOptionError:
        """Return the same findings with the options written as a door writes them."""
        return UnusedOptionError(
            replace(finding, where=name(finding.where)) for finding in self.findings
        )


def unused_option(name: str, value: object, why: str, remedy: str = "leave it out") -> Finding:
    """Return the finding that an option would do nothing."""
    return Finding(name, str(value), f"no such option here: {why}", remedy)


class UnsupportedProblemError(MilpPlanError):
    """A formulation, planner or bound does not apply to this problem; says why."""


class FormulationError(MilpPlanError):
    """A formulation file does not load, or breaks the protocol."""


class FormulationFailureError(FormulationError):
    """A formulation's own code raised or timed out, in words; nothing is known from it.

    Parameters
    ----------
    sentence
        Which formulation, in what step, and how.
    kind
        ``error``, ``killed``, ``memory_limit`` or ``time_limit``.
    """

    def __init__(self, sentence: str, kind: str) -> None:
        self.kind = kind
        super().__init__(sentence)


class BackendUnavailableError(MilpPlanError):
    """The named solver is not installed here."""


class BackendFailureError(MilpPlanError):
    """The solver ended without an answer that can be used."""


class MissingFacetError(MilpPlanError):
    """A plan lacks a facet (for example its schedule) that the question needs."""
