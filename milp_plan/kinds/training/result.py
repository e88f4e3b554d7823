"""Results of searches: the best of a space, what does not fit, and how far a search went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import msgspec

from .configuration import Configuration

C = TypeVar("C")
M = TypeVar("M")

KEPT = 3
"""Plans in a result, the best first, each with other degrees."""


@dataclass
class SpaceResult(Generic[C, M]):
    """Result of a search of a space.

    Parameters
    ----------
    best
        Up to :data:`KEPT` plans of different degrees, the best first.
    bound_ns
        Nothing in the space is better; ``None`` where nothing is known, or nothing fits.
    considered
        Members of the space that were listed.
    misses
        Some that do not fit, the least excess first.
    finished
        Whether the whole space was searched.
    interrupted
        Whether an interruption ended the search.
    """

    best: list[C] = field(default_factory=list)
    bound_ns: int | None = None
    considered: int = 0
    misses: list[M] = field(default_factory=list)
    finished: bool = False
    interrupted: bool = False

    @classmethod
    def of(cls, outcome: Any) -> Self:
        """Return the result that the record of a run has."""
        proved = {"finished": outcome.infeasible_reason is not None}
        return msgspec.convert(outcome.record.get("search", proved), cls)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration with its exact value and memory.

    Parameters
    ----------
    configuration
        What it is.
    step_ns
        Time of a step.
    peaks
        Most memory at any instant on the devices of each pipeline stage.
    host_peaks
        Most memory of the host for each of these devices; empty where nothing is there.
    """

    configuration: Configuration
    step_ns: int
    peaks: tuple[int, ...]
    host_peaks: tuple[int, ...] = ()

    @property
    def degrees(self) -> tuple[int, ...]:
        """Return what distinguishes plans in the result."""
        c = self.configuration
        return (c.tensor, c.context, c.expert, c.pipeline, c.micro_batch)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A configuration of which chunks were timed.

    Parameters
    ----------
    least_ns
        Lower bound on its step.
    permille
        Memory of the fullest device, of what it may use; at least.
    """

    least_ns: int
    permille: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A configuration that was replayed and needs more memory than there is.

    Parameters
    ----------
    configuration
        What it is.
    step_ns
        Time of its step.
    excess_bytes
        Memory that the worst stage lacks on each device.
    stage
        That stage.
    """

    configuration: Configuration
    step_ns: int
    excess_bytes: int
    stage: int


@dataclass
class SearchResult(SpaceResult[Candidate, Miss]):
    """Result of a search of configurations.

    Parameters
    ----------
    best, bound_ns, considered, misses, finished, interrupted
        As of :class:`SpaceResult`; misses would be faster than the best, and were all replayed.
    timed, replayed
        Configurations of which chunks were timed, and those replayed.
    refused
        Configurations in the space that the framework to plan for cannot run.
    unrestricted
        The best of these, if it is faster than the best.
    compared
        Whether all of these were searched for it.
    reasons
        Why the framework cannot run that one.
    with_host
        A plan that uses the memory of hosts, where none fits without it.
    alternatives
        Of the configurations whose chunks were timed, the first ones, for a picture.
    """

    timed: int = 0
    replayed: int = 0
    refused: int = 0
    unrestricted: Candidate | None = None
    compared: bool = True
    reasons: tuple[str, ...] = ()
    with_host: Candidate | None = None
    alternatives: list[Alternative] = field(default_factory=list)

    @property
    def gap(self) -> float | None:
        """How far the best is above the bound, as a part of its value."""
        if not self.best or self.bound_ns is None:
            return None
        value = self.best[0].step_ns
        return (value - self.bound_ns) / value
