"""Copies that a probe of the timetable uses: those made so far and those still to be made."""

from __future__ import annotations

from dataclasses import dataclass

from .indexed import Leg, Spot


@dataclass(slots=True)
class Probe:
    """Where an operator could go: its start and stop, and when the transfers it needs start."""

    spot: Spot
    start: int
    stop: int
    transfers: list[tuple[Leg, int]]


@dataclass(slots=True)
class Copy:
    """A copy that a transfer makes. ``until`` is the last stop of a reader placed so far."""

    leg: Leg
    stop: int
    until: int
    open: bool = True


class Supply:
    """Copies and transfers that one probe needs."""

    __slots__ = ("arriving", "extended", "missing", "ready")

    def __init__(self) -> None:
        self.ready = 0
        self.missing: list[tuple[int, int, Leg]] = []
        self.extended: list[Copy] = []
        self.arriving: dict[int, int] = {}

    def extended_bytes(self, device: int) -> int:
        """Return the bytes of copies that were closed and must be kept for longer."""
        if not self.extended:
            return 0
        return sum(copy.leg.bytes for copy in self.extended if device in copy.leg.target)


def share_resource(one: Leg, other: Leg) -> bool:
    """Return whether two transfers may not run at the same time."""
    return any(resource in other.resources for resource in one.resources)
