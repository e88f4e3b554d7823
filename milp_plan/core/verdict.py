"""What the checker says about a plan. Data, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
        Amounts, in ticks or bytes, where the rule has amounts.
    """

    rule: str
    subjects: tuple[str, ...]
    message: str
    needed: int | None = None
    available: int | None = None

    def __str__(self) -> str:
        amounts = ""
        if self.needed is not None and self.available is not None:
            amounts = f" (needed {self.needed}, available {self.available})"
        return f"{self.rule}: {self.message}{amounts}"


@dataclass(frozen=True)
class Verdict:
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
