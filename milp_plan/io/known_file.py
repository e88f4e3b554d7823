"""Known values of instances, as TOML. Described in ``instances/formats/suite.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import Finding, InputError

from .files import read_document
from .pipeline_file import Amount, decode_toml, exact
from .wire import Count, Positive, Strict


class KnownValue(Strict):
    """Known values of an instance in one variation.

    Either ``optimum``, an exact number of ticks or bytes that is proved; or ``value``, the value
    of a plan in the unit of the instance's file, rounded as it is written, ``proved`` or not.
    """

    instance: str
    objective: Literal["makespan", "span", "bottleneck", "peak_memory", "latency"]
    source: str
    optimum: Count | None = None
    value: Amount | None = None
    proved: bool = False
    tolerance: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    contiguous: bool = False
    separate_passes: bool = False
    calls: Positive | None = None

    @property
    def case(self) -> tuple[Any, ...]:
        """Instance and variation."""
        return (
            self.instance,
            self.objective,
            self.contiguous,
            self.separate_passes,
            self.calls,
        )

    @property
    def certain(self) -> bool:
        """Whether the value is proved to be optimal."""
        return self.proved or self.optimum is not None

    def range(self, time_scale: int) -> tuple[Fraction, Fraction]:
        """Ticks (or bytes) below which a plan is better, and above which a bound is wrong.

        Apart by the last digit that is written and, below, by the relative ``tolerance`` up to
        which an optimum was proved.
        """
        if self.optimum is not None:
            return Fraction(self.optimum), Fraction(self.optimum)
        assert self.value is not None
        middle, digit = exact(self.value), last_digit(self.value)
        low = middle - digit - exact(self.tolerance) * middle
        return low * time_scale, (middle + digit) * time_scale


class KnownFile(Strict):
    """A list of them."""

    known: tuple[KnownValue, ...] = ()


@dataclass(frozen=True)
class KnownValues:
    """Known values by case; a case may have several sources."""

    entries: tuple[KnownValue, ...]

    def of(self, case: tuple[Any, ...]) -> Iterator[KnownValue]:
        """Return the entries of an instance in a variation."""
        return (entry for entry in self.entries if entry.case == case)


def last_digit(number: float | int) -> Fraction:
    """Return one unit of the last digit of a decimal; 0 for an integer."""
    if isinstance(number, int):
        return Fraction(0)
    exponent = Decimal(repr(number)).as_tuple().exponent
    assert isinstance(exponent, int)
    return Fraction(10) ** exponent


def read_known(path: str | Path) -> KnownValues:
    """Read known values.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    document = read_document(path, "known values (TOML)")
    entries = decode_toml(document, KnownFile).known
    findings = list(_findings(entries))
    if findings:
        raise InputError(findings).in_file(document.file)
    return KnownValues(entries)


def _findings(entries: Iterable[KnownValue]) -> Iterator[Finding]:
    for place, entry in enumerate(entries):
        if (entry.optimum is None) == (entry.value is None):
            found = "neither" if entry.value is None else "both"
            where = f"known[{place}]"
            yield Finding(where, found, "either optimum or value", "keep the one that is meant")
