"""What a bound and a proof of infeasibility say, and how long computing them may take."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A number no plan can beat.

    Parameters
    ----------
    name
        Short name of the argument, for example ``"critical path"``.
    value
        Exact; ticks for makespan and bottleneck, bytes for peak memory.
    detail
        One sentence: what makes it bite here.
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
        One sentence with names and amounts.
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


class OutOfTime(Exception):
    """A bound was given up before it was finished; nothing is known from it."""


class Deadline:
    """A point in time after which a bound gives up.

    Parameters
    ----------
    seconds
        From now; ``None`` never ends.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._stop = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, possibly infinite, never negative."""
        return float("inf") if self._stop is None else max(0.0, self._stop - time.monotonic())

    def check(self) -> None:
        """Raise :class:`OutOfTime` when the time is up."""
        if self._stop is not None and time.monotonic() > self._stop:
            raise OutOfTime
