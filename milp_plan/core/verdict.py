"""What the checker says about a plan. Data, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from .amounts import size_text, time_text
from .quantity import Units, decimal
from .shown import Shown


class Counts(StrEnum):
    """What the amounts of a violation count."""

    THINGS = "things"
    TIME = "time"
    SIZE = "size"

    def text(self, amount: Fraction | int, units: Units) -> str:
        """Write an amount with its unit."""
        if self is Counts.THINGS:
            return f"{amount:,}"
        return (time_text if self is Counts.TIME else size_text)(units, amount)

    def decimal(self, amount: int, units: Units) -> str:
        """Write an amount in the unit of the source, exactly where it ends within 30 digits."""
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
        One sentence.
    needed, available
        Amounts, where the rule has amounts.
    counts
        What they count: ticks, bytes, or things.
    """

    rule: str
    subjects: tuple[str, ...]
    message: str
    needed: int | None = None
    available: int | None = None
    counts: Counts = Counts.THINGS

    def amounts(self, units: Units) -> str:
        """Write both amounts and how far they are apart, in units of the problem; or nothing."""
        if self.needed is None or self.available is None:
            return ""
        pair = (self.needed, self.available, abs(self.needed - self.available))
        needed, available, off = (self.counts.text(amount, units) for amount in pair)
        return f"needed {needed}, available {available}, off by {off}"

    def text(self, units: Units) -> str:
        """Write it for people, amounts in units of the problem."""
        amounts = self.amounts(units)
        return f"{self.rule}: {self.message}" + (f" ({amounts})" if amounts else "")

    def __str__(self) -> str:
        amounts = ""
        if self.needed is not None and self.available is not None:
            amounts = f" (needed {self.needed}, available {self.available})"
        return f"{self.rule}: {self.message}{amounts}"


@dataclass(frozen=True)
class Verdict(Shown):
    """The checker's answer.

    Parameters
    ----------
    violations
        Every broken rule; empty for a valid plan.
    objective
        Name of the objective that was recomputed.
    value
        Recomputed objective, exact; ``None`` when the plan is too broken to have one.
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
