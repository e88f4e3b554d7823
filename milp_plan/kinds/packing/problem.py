"""Address packing: buffers that live for a while, each at an offset of one memory.

The problem of memory planners in compilers (TensorFlow Lite, XLA, MiniMalloc), known as dynamic
storage allocation: lifetimes are given, offsets are sought. The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.shown import ShownPlan


class PackingObjective(StrEnum):
    """The objective of a packing."""

    HEIGHT = "height"
    """The largest offset + size."""


MAX_TOTAL = 2**60
"""Largest time, and largest sum of sizes and alignments: offsets stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer with its lifetime.

    Parameters
    ----------
    name
        Unique in its problem.
    lower, upper
        Half-open lifetime ``[lower, upper)``.
    size
        Number of consecutive addresses.
    alignment
        Divisor of its offset.
    """

    name: str
    lower: int
    upper: int
    size: int
    alignment: int = 1

    def findings(self, where: str) -> Iterator[Finding]:
        """Yield impossible values."""
        for label, number in (("size", self.size), ("alignment", self.alignment)):
            yield from below_findings(f"{where}, {label}", number, 1)
        if self.upper <= self.lower:
            expected = f"more than its lower {self.lower}"
            yield Finding(f"{where}, upper", str(self.upper), expected, "correct it")
        for label, number in (("lower", self.lower), ("upper", self.upper)):
            if abs(number) > MAX_TOTAL:
                expected = f"at most {MAX_TOTAL} in magnitude"
                yield Finding(f"{where}, {label}", str(number), expected, "scale the times down")


@dataclass(frozen=True)
class PackingProblem(CheckedProblem):
    """Give every buffer an offset, so that the highest address in use is as low as possible.

    Parameters
    ----------
    name
        Name of the instance.
    buffers
        Buffers in any order.
    capacity
        Number of addresses; ``None`` without a limit.
    provenance
        Source of the numbers; does not change the problem.

    Raises
    ------
    InputError
        The problem has defects; the error lists all of them.
    """

    name: str
    buffers: tuple[Buffer, ...]
    capacity: int | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "problem", self
        yield from ((f"buffer {entry.name!r}", entry) for entry in self.buffers)

    def _content(self) -> object:
        """Return the buffers, whose order does not matter."""
        rows = sorted((b.name, b.lower, b.upper, b.size, b.alignment) for b in self.buffers)
        return self.capacity, rows

    def _findings(self) -> Iterator[Finding]:
        if not self.buffers:
            yield Finding("buffers", "none", "at least one", "add a buffer")
        yield from name_findings("buffer", (buffer.name for buffer in self.buffers))
        for buffer in self.buffers:
            yield from buffer.findings(f"buffer {buffer.name!r}")
        yield from below_findings("capacity", self.capacity or 0, 0)
        total = sum(buffer.size + buffer.alignment for buffer in self.buffers)
        if total > MAX_TOTAL:
            found = f"sizes and alignments of {total} together"
            yield Finding("buffers", found, f"at most {MAX_TOTAL}", "scale all sizes down")


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer and its first address."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class PackingPlan(ShownPlan):
    """Places of all buffers.

    Parameters
    ----------
    problem
        Name of the problem.
    places
        One place per buffer, with the buffers as the planner knew them.
    value, planner
        Claims of the planner; the checker recomputes the value.
    """

    problem: str
    places: tuple[Place, ...]
    value: int | None = None
    planner: str = ""
