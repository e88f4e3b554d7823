"""Resharding: slices of a tensor that go from hosts to hosts, one at a time at each network card.

The problem of Zhuang et al. ("On optimizing the communication of model parallelism", arXiv
2211.05322): who sends which slice, and when. The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.quantity import TICKS_PER_SECOND, Units, ceil_div
from milp_plan.core.shown import ShownPlan

MAX_TOTAL = 2**60
"""Largest sum of all times, ticks: sums stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Card:
    """The network card of a host: it sends one slice at a time, and receives one at a time.

    Parameters
    ----------
    name
        Unique in its problem.
    bytes_per_s
        Rate at which it sends, and at which it receives.
    """

    name: str
    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes that some hosts have and others need.

    Parameters
    ----------
    name
        Unique in its problem.
    size
        Bytes.
    senders
        Cards of the hosts that have it; one of them sends it. Without senders no host has it.
    receivers
        Cards of the hosts that need it; all receive it at once.
    """

    name: str
    size: int
    senders: tuple[str, ...]
    receivers: tuple[str, ...]


@dataclass(frozen=True)
class ReshardingProblem(CheckedProblem):
    """Deliver all slices in as little time as possible.

    Parameters
    ----------
    name
        Name of the instance.
    cards
        Network cards, one for each host.
    slices
        Slices to deliver; there may be none.
    provenance
        Source of the numbers; does not change the problem.

    Raises
    ------
    InputError
        The problem has defects; the error lists all of them.
    """

    name: str
    cards: tuple[Card, ...]
    slices: tuple[Slice, ...]
    provenance: Mapping[str, str] = field(default_factory=dict)

    units = Units()

    @cached_property
    def rates(self) -> Mapping[str, int]:
        """Bytes per second of each card, by name."""
        return {card.name: card.bytes_per_s for card in self.cards}

    @cached_property
    def by_name(self) -> Mapping[str, Slice]:
        """Slices by name."""
        return {entry.name: entry for entry in self.slices}

    def ticks(self, entry: Slice, sender: str) -> int:
        """Return the nanoseconds of a delivery, at the rate of its slowest card, rounded up."""
        rate = min(self.rates[name] for name in (sender, *entry.receivers))
        return ceil_div(entry.size * TICKS_PER_SECOND, rate)

    def least_ticks(self, entry: Slice) -> int:
        """Return the nanoseconds of a delivery by the fastest sender; 0 without senders."""
        return min((self.ticks(entry, sender) for sender in entry.senders), default=0)

    def one_by_one(self) -> ReshardingProblem:
        """Return the problem where every receiver gets a delivery of its own (send and receive)."""
        slices = [
            entry
            if len(entry.receivers) == 1
            else replace(entry, name=f"{entry.name} to {receiver}", receivers=(receiver,))
            for entry in self.slices
            for receiver in entry.receivers
        ]
        return replace(self, slices=tuple(slices))

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield from ((f"card {card.name!r}", card) for card in self.cards)
        yield from ((f"slice {entry.name!r}", entry) for entry in self.slices)

    def _content(self) -> object:
        cards = [(card.name, card.bytes_per_s) for card in self.cards]
        rows = [(s.name, s.size, sorted(s.senders), sorted(s.receivers)) for s in self.slices]
        return self.name, cards, rows

    def _findings(self) -> Iterator[Finding]:
        if not self.cards:
            yield Finding("cards", "none", "at least one", "add a card")
        for what, names in (
            ("card", [card.name for card in self.cards]),
            ("slice", [entry.name for entry in self.slices]),
        ):
            yield from name_findings(what, names)
        for card in self.cards:
            yield from below_findings(f"card {card.name!r}, bytes per second", card.bytes_per_s, 1)
        sound = True
        for entry in self.slices:
            for finding in self._slice_findings(entry):
                sound = False
                yield finding
        if sound and all(card.bytes_per_s > 0 for card in self.cards):
            longest = (
                max((self.ticks(entry, name) for name in entry.senders), default=0)
                for entry in self.slices
            )
            if sum(longest) > MAX_TOTAL:
                expected = f"at most {MAX_TOTAL} ns"
                yield Finding("slices", "more time together", expected, "correct sizes or rates")

    def _slice_findings(self, entry: Slice) -> Iterator[Finding]:
        where = f"slice {entry.name!r}"
        yield from below_findings(f"{where}, bytes", entry.size, 1)
        if not entry.receivers:
            yield Finding(f"{where}, receivers", "none", "at least one", "leave the slice out")
        known = {card.name for card in self.cards}
        for what, names in (("senders", entry.senders), ("receivers", entry.receivers)):
            for name, count in Counter(names).items():
                if count > 1:
                    yield Finding(
                        f"{where}, {what}", f"{name!r} {count} times", "once", "correct it"
                    )
                if name not in known:
                    expected, remedy = "a card of the problem", "correct the name"
                    yield Finding(f"{where}, {what}", repr(name), expected, remedy)
        for name in sorted(set(entry.senders) & set(entry.receivers)):
            expected = "hosts that do not have it"
            remedy = "leave out receivers that have it already"
            yield Finding(f"{where}, receivers", f"{name!r}, also a sender", expected, remedy)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery of a slice to all its receivers: its sender and its times."""

    slice: str
    sender: str
    start: int
    stop: int


@dataclass(frozen=True)
class ReshardingPlan(ShownPlan):
    """A delivery of each slice.

    Parameters
    ----------
    problem
        Name of the problem.
    deliveries
        Deliveries in any order.
    fingerprint, value, planner
        Claims of the planner; the checker recomputes the value.
    """

    problem: str
    deliveries: tuple[Delivery, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
