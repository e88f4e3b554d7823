"""Answers of verbs about a model on a cluster, and what the checker says of a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from milp_plan.core import Finding, InputError, Units, Verdict

from .problem import ModelOnCluster
from .result import SpaceResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

P = TypeVar("P", bound=ModelOnCluster)
C = TypeVar("C")

GB = 10**9


@dataclass(frozen=True, repr=False)
class Answer(ABC, Generic[P, C]):
    """What a verb about a model on a cluster says: text, a table, a picture.

    Parameters
    ----------
    problem
        What was planned.
    found
        Result of the search.
    because
        Why there is no plan, where that is proved.
    """

    problem: P
    found: SpaceResult[C, Any]
    because: str | None = field(default=None, kw_only=True)

    @property
    def best(self) -> C | None:
        """The best plan with its figures; ``None`` where there is none."""
        return next(iter(self.found.best), None)

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Write the answer for people, line by line."""

    @abstractmethod
    def rows(self) -> Iterator[dict[str, Any]]:
        """List the best plans with their figures, as plain data."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def full_text(self) -> str:
        """Return the answer with all details."""
        return str(self)

    @abstractmethod
    def draw(self) -> Figure:
        """Return a picture of the best plan.

        Raises
        ------
        ValueError
            There is none.
        BackendUnavailableError
            matplotlib is not installed.
        """

    def to_frame(self) -> DataFrame:
        """Return the best plans as a table, one a row."""
        from pandas import DataFrame

        return DataFrame(list(self.rows()))


def seconds(ns: int) -> str:
    """Write a time of a step."""
    value = ns / 1e9
    return f"{value:.3g} s" if value < 100 else f"{value:,.1f} s"


def gigabytes(num_bytes: float) -> str:
    """Write a size in units of 10^9 bytes."""
    return f"{num_bytes / GB:,.1f} GB"


def verdict_text(verdict: Verdict) -> str:
    """Write a verdict for people."""
    if not verdict.ok:
        return "\n".join(violation.text(Units()) for violation in verdict.violations)
    assert verdict.value is not None
    peak = max(amount for name, amount in verdict.components.items() if name.startswith("peak"))
    value = f"{verdict.objective.replace('_', ' ')} {seconds(verdict.value)}"
    return f"valid: {value}, peak {gigabytes(peak)}"


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data."""
    return {
        "valid": verdict.ok,
        "value": verdict.value,
        "components": dict(verdict.components),
        "violations": [asdict(violation) for violation in verdict.violations],
    }


def refuse_broken(verdict: Verdict, member: str) -> None:
    """Refuse a plan that cannot run.

    Raises
    ------
    InputError
        With every rule that it breaks.
    """
    if verdict.value is None:
        broken = "; ".join(violation.message for violation in verdict.violations)
        raise InputError([Finding(member, broken, "one that can run", "correct it")])
