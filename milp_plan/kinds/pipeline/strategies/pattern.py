"""A repeating pattern of a shop, and words with periods of it inserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from milp_plan.core import ComputationGraph, Plan

from ..reading import read_shop
from ..shop import Shop
from ..timing import Deadlock, Words, fits, times, value_of


def shortened(shop: Shop, counts: Sequence[int]) -> Shop:
    """Return the shop with fewer micro-batches.

    Parameters
    ----------
    shop
        A shop of any size.
    counts
        Number of micro-batches per route that remain, the first ones; at least 1 each.

    Returns
    -------
    Shop
        Kinds, machines and limits are those of ``shop``, in the same order.
    """
    names: set[str] = set()
    for kind in shop.kinds:
        names.update(kind.members[: counts[kind.route]])
    graph = shop.problem.graph
    operators = tuple(operator for operator in graph.operators if operator.name in names)
    values = tuple(
        value.read_by(c for c in value.consumers if c in names)
        for value in graph.values
        if value.producer is None or value.producer in names
    )
    name = f"{shop.problem.name} ({'+'.join(map(str, counts))} micro-batches)"
    problem = replace(shop.problem, name=name, graph=ComputationGraph(operators, values))
    short = read_shop(problem)
    assert isinstance(short, Shop), short
    assert [kind.name for kind in short.kinds] == [kind.name for kind in shop.kinds]
    return short


def route_counts(shop: Shop) -> list[int]:
    """Return the number of micro-batches of each route."""
    counts = [0] * (1 + max(kind.route for kind in shop.kinds))
    for kind in shop.kinds:
        counts[kind.route] = kind.count
    return counts


@dataclass(frozen=True)
class Pattern:
    """Starts of the tasks of one period, ticks; the earliest is 0.

    Parameters
    ----------
    period
        Length of a period, ticks.
    starts
        Kind -> starts of ``per_period`` consecutive micro-batches of its route.
    """

    period: int
    starts: tuple[tuple[int, ...], ...]

    @property
    def per_period(self) -> int:
        """Number of micro-batches per period and route."""
        return len(self.starts[0])

    @property
    def latest(self) -> int:
        """Time from which every task repeats itself, ticks."""
        return max(max(row) for row in self.starts)

    @cached_property
    def settling(self) -> int:
        """Number of periods until every task repeats itself."""
        return -(-self.latest // self.period)

    @staticmethod
    def of(shop: Shop, plan: Plan, period: int, per_period: int) -> Pattern:
        """Return the pattern that a plan repeats from its beginning."""
        begun = {run.operator: run.start_ticks or 0 for run in plan.runs}
        begun |= {t.value: t.start_ticks or 0 for t in plan.transfers if t.value not in begun}
        rows = [sorted(begun[m] for m in kind.members)[:per_period] for kind in shop.kinds]
        first = min(min(row) for row in rows)
        begins = [first] * (1 + max(kind.route for kind in shop.kinds))
        for route in range(len(begins)):  # shift by whole periods
            own = [
                row[0] for row, kind in zip(rows, shop.kinds, strict=True) if kind.route == route
            ]
            begins[route] += (min(own) - first) // period * period
        return Pattern(
            period,
            tuple(
                tuple(start - begins[kind.route] for start in row)
                for row, kind in zip(rows, shop.kinds, strict=True)
            ),
        )

    def words(self, shop: Shop, until: int | None = None) -> list[list[int]]:
        """Return words of the unrolled pattern, or of its tasks that start before a time."""
        entries: list[list[tuple[int, int, int]]] = [[] for _ in shop.machines]
        rounds = self.per_period
        for k, kind in enumerate(shop.kinds):
            row, own = entries[kind.machine], self.starts[k]
            for number in range(kind.count):
                start = own[number % rounds] + number // rounds * self.period
                if until is None or start < until:
                    row.append((start, start + kind.duration, k))
        return [[k for _, _, k in sorted(row)] for row in entries]

    def cycle(self, shop: Shop, begin: int) -> list[list[int]]:
        """Return the words of one period from a time on."""
        entries: list[list[tuple[int, int, int]]] = [[] for _ in shop.machines]
        for k, kind in enumerate(shop.kinds):
            for own in self.starts[k]:
                start = begin + (own - begin) % self.period
                entries[kind.machine].append((start, start + kind.duration, k))
        return [[k for _, _, k in sorted(row)] for row in entries]


@dataclass(frozen=True)
class Splice:
    """A short shop that stands for a long one: periods are inserted at a cut.

    Up to the cut each machine has run the same tasks however the short words were improved, so
    an inserted period starts with every micro-batch, and the memory, as in the pattern.

    Parameters
    ----------
    short
        The shop with as many micro-batches modulo the pattern as the long shop.
    cut
        Machine -> number of tasks before the cut.
    cycle
        Machine -> word of one period from the cut.
    words
        Words of the short shop in the pattern's order.
    missing
        Number of periods to insert.
    period
        Length of a period, ticks.
    """

    short: Shop
    cut: tuple[int, ...]
    cycle: tuple[tuple[int, ...], ...]
    words: tuple[tuple[int, ...], ...]
    missing: int
    period: int

    def kept_by(self, words: Words) -> bool:
        """Return whether periods can still be inserted: the tasks before the cut are the same."""
        return not self.missing or all(
            Counter(one[:at]) == Counter(two[:at])
            for one, two, at in zip(words, self.words, self.cut, strict=True)
        )

    def long(self, words: Words, missing: int | None = None) -> list[list[int]]:
        """Return words of the long shop from words of the short one."""
        more = self.missing if missing is None else missing
        if not more:
            return [list(word) for word in words]
        return [
            [*word[:at], *(list(period) * more), *word[at:]]
            for word, at, period in zip(words, self.cut, self.cycle, strict=True)
        ]


SPARE = 4
"""Periods of the short shop in which everything repeats itself."""


def splice(shop: Shop, pattern: Pattern) -> Splice:
    """Remove periods from the middle until the beginning and the end nearly meet."""
    counts = route_counts(shop)
    periods = min(counts) // pattern.per_period
    spare = min(periods, pattern.settling + SPARE)
    less = (periods - spare) * pattern.per_period
    short = shortened(shop, [count - less for count in counts]) if less else shop
    middle = min(pattern.latest, spare * pattern.period)
    middle += max(0, (spare * pattern.period - middle) // (2 * pattern.period)) * pattern.period
    before = pattern.words(short, middle)
    return Splice(
        short,
        tuple(len(word) for word in before),
        tuple(tuple(word) for word in pattern.cycle(short, middle)),
        tuple(tuple(word) for word in pattern.words(short)),
        periods - spare,
        pattern.period,
    )


class Shortener:
    """Short versions of one shop, each made once."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.counts = shop, route_counts(shop)
        self.known: dict[int, Shop] = {0: shop}

    def without(self, micro_batches: int) -> Shop:
        """Return the shop with fewer micro-batches on every route."""
        if micro_batches not in self.known:
            counts = [count - micro_batches for count in self.counts]
            self.known[micro_batches] = shortened(self.shop, counts)
        return self.known[micro_batches]


def steady(
    shops: Shortener, expert: Callable[[Shop], Words | None], per_period: int
) -> Splice | None:
    """Return the repeating part of an expert schedule, if it has one.

    The expert plans a short shop, and one with a period more: each machine's longer word must be
    the shorter one with something inserted.

    Parameters
    ----------
    shops
        Short versions of a shop of any size.
    expert
        Function that returns words for any number of micro-batches.
    per_period
        Micro-batches per period and route.
    """
    devices = shops.shop.num_devices
    spare = max(0, min(shops.counts) - 2 * devices - SPARE) // per_period
    short = shops.without(spare * per_period)
    words = expert(short)
    if words is None or not fits(short, words):
        return None
    own = tuple(tuple(word) for word in words)
    if not spare:
        return Splice(short, (), (), own, 0, 0)
    more = shops.without((spare - 1) * per_period)
    longer = expert(more)
    if longer is None:
        return None
    starts = times(short, words)
    value = value_of(short, starts)
    cuts, cycles = [], []
    for machine, (one, two) in enumerate(zip(words, longer, strict=True)):
        kinds = short.on_machine[machine]
        at = sum(1 for k in kinds for start in starts[k] if 2 * start < value)
        position = _put_in(one, two, at)
        if position is None:
            return None
        cuts.append(position)
        cycles.append(tuple(two[position : position + len(two) - len(one)]))
    period = value_of(more, times(more, longer)) - value
    return Splice(short, tuple(cuts), tuple(cycles), own, spare, period)


def _put_in(one: Sequence[int], two: Sequence[int], near: int) -> int | None:
    """Return where ``two`` is ``one`` with an insertion, as near to a position as possible."""
    least, most = len(one), 0
    while most < len(one) and one[most] == two[most]:
        most += 1
    while least > 0 and one[least - 1] == two[least - 1 + len(two) - len(one)]:
        least -= 1
    return min(max(near, least), most) if least <= most else None


def value_or_none(shop: Shop, words: Words) -> int | None:
    """Return the value of words; ``None`` where they deadlock or do not fit."""
    try:
        return value_of(shop, times(shop, words)) if fits(shop, words) else None
    except Deadlock:
        return None
