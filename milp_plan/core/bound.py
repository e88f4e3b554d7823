"""Lower bounds and proofs of infeasibility."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the objective.

    Parameters
    ----------
    name
        Short name of the argument, for example ``"critical path"``.
    value
        Exact value; ticks for makespan and bottleneck, bytes for peak memory.
    detail
        What makes the bound large here, in a sentence.
    """

    name: str
    value: int
    detail: str


@dataclass(frozen=True, slots=True)
class Infeasible:
    """A proof in words that no plan exists.

    Parameters
    ----------
    reason
        The proof in a sentence, with names and amounts.
    subjects
        Names of the operators, values or groups concerned.
    needed, available
        Amounts in bytes, where the proof has amounts.
    """

    reason: str
    subjects: tuple[str, ...] = ()
    needed: int | None = None
    available: int | None = None

    def __str__(self) -> str:
        return self.reason
