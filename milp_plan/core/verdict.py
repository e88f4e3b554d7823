"""Verdicts of the checker on plans: data, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from .amounts import size_text, time_text
from .quantity import Units, decimal
from .shown import Shown


class Counts(StrEnum):
    """What an amount counts."""

    THINGS = "things"
    TIME = "time"
    SIZE = "size"

    def text(self, amount: Fraction | int, units: Units) -> str:
        """Return an amount as text with its unit."""
        if self is Counts.THINGS:
            return f"{amount:,}"
        return (time_text if self is Counts.TIME else size_text)(units, amount)

    def decimal(self, amount: int, units: Units) -> str:
        """Return an amount in the unit of the source, exactly where it ends within 30 digits."""
        scales = {Counts.TIME: units.time_scale, Counts.SIZE: units.size_scale}
        return decimal(Fraction(amount, scales.get(self, 1)))


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Parameters
    ----------
    rule
        Short name of the rule, for example ``"exclusion"``.
    subjects
        Names of the operators, values, devices or channels concerned.
    message
        The violation in a sentence.
    needed, available
        Amounts, where the rule has amounts.
    counts
        What the amounts count: ticks, bytes, or things.
    """

    rule: str
    subjects: tuple[str, ...]
    message: str
    needed: int | None = None
    available: int | None = None
    counts: Counts = Counts.THINGS

    def amounts(self, units: Units) -> str:
        """Return both amounts and their difference as text; empty where there are none."""
        if self.needed is None or self.available is None:
            return ""
        pair = (self.needed, self.available, abs(self.needed - self.available))
        needed, available, off = (self.counts.text(amount, units) for amount in pair)
        return f"needed {needed}, available {available}, off by {off}"

    def text(self, units: Units) -> str:
        """Return rule and message as text, with amounts in units of the problem."""
        amounts = self.amounts(units)
        return f"{self.rule}: {self.message}" + (f" ({amounts})" if amounts else "")

    def __str__(self) -> str:
        amounts = ""
        if self.needed is not None and self.available is not None:
            amounts = f" (needed {self.needed}, available {self.available})"
        return f"{self.rule}: {self.message}{amounts}"


@dataclass(frozen=True)
class Verdict(Shown):
    """The checker's verdict on a plan.

    Parameters
    ----------
    violations
        Every broken rule; empty for a valid plan.
    objective
        Name of the objective that was recomputed.
    value
        Exact, recomputed objective; ``None`` if the plan is too broken to have one.
    components
        Named parts of the recomputation: makespan, peak memory and busy time per device, ...
    """

    violations: tuple[Violation, ...]
    objective: str
    value: int | None
    components: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations
