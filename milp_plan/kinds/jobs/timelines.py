r"""What each device does in a plan of jobs: a bound on the makespan by patterns of lengths.

A *timeline* is what one device runs, one unit after the other. In a plan within C ticks, none of
which starts before s, the lengths on a timeline add up to at most C - s. Let a slot be a whole
number of ticks; whatever lasts d ticks counts as floor(d / slot) slots, and a timeline has at most
K = floor((C - s) / slot) of them. A *pattern* is any list of lengths that fit into K slots.

Choose a price F_p(l) >= 0 for each pool and length, and let W_p be the most that a pattern of the
pool is worth: a dynamic programme over slots. A unit that takes option o adds g_o F_p(l_o) to the
worth of timelines, whatever it is and whenever it runs. So if all units together, each by its
cheapest option that a plan within C can take, are worth more than sum_p G_p W_p, there is no plan
within C. All of this is in whole numbers; prices come from a linear relaxation (Gilmore and Gomory
1961, with options), which need not be right. That gangs start on all devices at once, and that a
job has only one of each of its units, is left out.

The bound on work is the case F(d) = d; functions that are dual feasible are others. What they miss
is that few lengths fit together: of options of more than half the makespan, a device runs one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.quantity import ceil_div

from .bounds import Choice, Sizes

TIMELINES = "timelines"

SLOTS = (96, 192, 384)
"""Slots of a timeline, coarse ones first."""

PRECISION = 2**30
"""Whole numbers that prices are rounded to."""

MOST_CHOICES = 40_000
"""Options of units that differ: beyond it the relaxation takes too long."""

ENOUGH = 1e-6
"""Part by which a pattern has to be worth more than its pool's devices to be of use."""

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Pattern = tuple[tuple[int, int], ...]
"""Lengths in slots, and how often each is there."""


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation says of a makespan.

    Parameters
    ----------
    excluded
        Whether no plan is within it: a proof.
    shares
        For each unit that differs (options by pool, devices and ticks), the part that takes each
        option that is left; empty where it was not solved to the end.
    """

    excluded: bool
    shares: dict[tuple[Choice, ...], dict[Choice, float]] = field(default_factory=dict)


class Timelines:
    """Whether plans of a makespan can be, by what fits on a device.

    Parameters
    ----------
    sizes
        Of the problem.
    slots
        Into which a makespan is cut, at most.
    """

    def __init__(self, sizes: Sizes, slots: int) -> None:
        self.sizes, self.slots = sizes, slots
        self.since = min(job.release for job in sizes.problem.jobs)
        self.devices = np.array([pool.devices for pool in sizes.problem.pools], np.int64)
        self.known: dict[tuple[int, Pattern], None] = {}

    @property
    def possible(self) -> bool:
        """Whether the relaxation is small enough."""
        differing = {choices for kinds in self.sizes.kinds for choices in kinds}
        return sum(map(len, differing)) <= MOST_CHOICES

    def within(self, limit: int, budget: Budget) -> Relaxed:
        """Say whether a plan may be within a number of ticks.

        Parameters
        ----------
        limit
            At least the end of the longest job by its fastest options.
        budget
            Looked at now and then; once it is over, nothing is excluded.
        """
        return _Round(self, limit).run(budget)

    def bound(self, limit: int) -> Bound:
        """Return the bound of a makespan that is excluded."""
        detail = f"lengths that fit on a device, by {self.slots} slots"
        return Bound(TIMELINES, limit + 1, detail)

    def groups(self, limit: int) -> dict[tuple[Choice, ...], int]:
        """Units by the options that are left to them within a number of ticks."""
        found: Counter[tuple[Choice, ...]] = Counter()
        for job, kinds in enumerate(self.sizes.kinds):
            for choices, count in kinds.items():
                found[self.left(job, choices, limit)] += count
        return found

    def left(self, job: int, choices: tuple[Choice, ...], limit: int) -> tuple[Choice, ...]:
        """Return the options of a unit of a job that plans within a number of ticks can take."""
        spare = limit - self.sizes.problem.jobs[job].release - self.sizes.lengths[job]
        least = min(ticks for _, _, ticks in choices)
        return tuple(choice for choice in choices if choice[2] - least <= spare)


class _Round:
    """One makespan: prices from the relaxation, patterns that are worth too much, and again."""

    def __init__(self, owner: Timelines, limit: int) -> None:
        from milp_plan.lp.prices import Covers  # loads the solver

        self.owner, self.devices = owner, owner.devices
        span = limit - owner.since
        self.slot = max(1, ceil_div(span + 1, owner.slots + 1))
        self.length = span // self.slot
        self.groups = owner.groups(limit)
        self.choices = [choice for choices in self.groups for choice in choices]
        self.rows = {
            key: row for row, key in enumerate(sorted({self.row_of(c) for c in self.choices}))
        }
        self.row = np.array([self.rows[self.row_of(c)] for c in self.choices], np.int64)
        self.amount = np.array(
            [gang if ticks >= self.slot else 0 for _, gang, ticks in self.choices], np.int64
        )
        self.first = np.cumsum([0, *map(len, self.groups)])[:-1]
        self.counts = np.array([*self.groups.values()], np.int64)
        group = np.repeat(np.arange(len(self.groups)), [len(choices) for choices in self.groups])
        choices = np.array([group, self.row, self.amount])
        self.covers = Covers(self.counts, choices, self.devices, len(self.rows))
        self.there: set[tuple[int, Pattern]] = set()
        for pool, length in self.rows:
            if length:
                self.add(pool, ((length, self.length // length),))
        for pool, pattern in owner.known:
            fits = sum(length * count for length, count in pattern) <= self.length
            if fits and all((pool, length) in self.rows for length, _ in pattern):
                self.add(pool, pattern)

    def row_of(self, choice: Choice) -> tuple[int, int]:
        """Pool, and length in slots."""
        return choice[0], choice[2] // self.slot

    def add(self, pool: int, pattern: Pattern) -> bool:
        """Add a pattern, unless it is there."""
        if (pool, pattern) in self.there:
            return False
        self.there.add((pool, pattern))
        rows = [self.rows[pool, length] for length, _ in pattern]
        self.covers.add(pool, rows, [count for _, count in pattern])
        return True

    def run(self, budget: Budget) -> Relaxed:
        """Add patterns until there is a proof, or there can be none."""
        while not budget.over:
            found = self.covers.solve(budget.left_s)
            if found is None:
                break
            shares, prices, pools, least = found
            if least <= 1 + ENOUGH:  # some mix of patterns is enough: no prices say otherwise
                return Relaxed(False, self.told(shares))
            excluded, more = self.look(prices, pools)
            if excluded or not more:
                return Relaxed(excluded)
        return Relaxed(False)

    def look(self, prices: Reals, pools: Reals) -> tuple[bool, bool]:
        """Whether prices exclude the makespan, and whether a pattern is worth too much."""
        scale = PRECISION / max(prices.max(), 1e-300)
        whole = np.floor(prices * scale).astype(np.int64)
        room, more = 0, False
        for pool in range(len(self.devices)):
            lengths = [length for own, length in self.rows if own == pool and length]
            if lengths:
                own = np.array([whole[self.rows[pool, length]] for length in lengths], np.int64)
                worth, taken = _worths(np.array(lengths, np.int64), own, self.length)
                room += int(self.devices[pool]) * int(worth[-1])
                price = pools[pool] * scale * (1 + ENOUGH)
                for length, value in zip(lengths, own.tolist(), strict=True):
                    if value + int(worth[self.length - length]) > price:
                        more |= self.enrich(pool, length, lengths, taken)
        needed = np.minimum.reduceat(self.amount * whole[self.row], self.first)
        return sum(map(int.__mul__, needed.tolist(), self.counts.tolist())) > room, more

    def enrich(self, pool: int, length: int, lengths: Sequence[int], taken: Integers) -> bool:
        """Add the pattern of most worth with a length in it; say whether it is new."""
        counts = Counter([length, *_pattern(lengths, taken, self.length - length)])
        pattern = tuple(sorted(counts.items()))
        self.owner.known[pool, pattern] = None
        return self.add(pool, pattern)

    def told(self, shares: Reals) -> dict[tuple[Choice, ...], dict[Choice, float]]:
        """Shares by group and choice."""
        found: dict[tuple[Choice, ...], dict[Choice, float]] = {}
        place = 0
        for choices, count in self.groups.items():
            part = shares[place : place + len(choices)] / count
            found[choices] = dict(zip(choices, part.tolist(), strict=True))
            place += len(choices)
        return found


def _worths(lengths: Integers, own: Integers, slots: int) -> tuple[Integers, Integers]:
    """Most worth of patterns by slots, and what they end with (-1: an idle slot)."""
    worth, taken = np.zeros(slots + 1, np.int64), np.full(slots + 1, -1, np.int64)
    order = np.argsort(lengths)
    lengths, own = lengths[order], own[order]
    for upto in range(1, slots + 1):
        worth[upto] = worth[upto - 1]
        fitting = int(np.searchsorted(lengths, upto, side="right"))
        if fitting:
            found = own[:fitting] + worth[upto - lengths[:fitting]]
            best = int(found.argmax())
            if found[best] > worth[upto]:
                worth[upto], taken[upto] = found[best], order[best]
    return worth, taken


def _pattern(lengths: Sequence[int], taken: Integers, upto: int) -> Iterator[int]:
    while upto > 0:
        if taken[upto] < 0:
            upto -= 1
        else:
            yield lengths[taken[upto]]
            upto -= lengths[taken[upto]]


def settled(
    sizes: Sizes, low: int, value: int | None, budget: Budget
) -> Iterator[tuple[Timelines, int, Relaxed]]:
    """Makespans above a bound, halved up to a value, and what is known of each.

    Parameters
    ----------
    sizes
        Of a problem of makespan.
    low
        A bound that is at least the end of the longest job.
    value
        Of a plan; ``None`` where there is none.
    budget
        Looked at now and then.
    """
    for slots in SLOTS:
        search, high = Timelines(sizes, slots), value
        while search.possible and not budget.over:
            if high is not None and high - low <= low // slots:
                break
            limit = low + max(1, low // 8) if high is None else (low + high - 1) // 2
            found = search.within(limit, budget)
            yield search, limit, found
            low, high = (limit + 1, high) if found.excluded else (low, limit)
        if high is not None and high - search.since <= slots:
            return  # a slot was a tick: finer ones say the same
