"""Ideals of operators, and the fastest path through them call by call.

The calls of a plan run one after another in some order; the operators done after each call are
an ideal (it contains all predecessors of its operators). A *label* of an ideal is a path to it: the
calls made, the end of each operator that is still read from, and the latest end of all others. It
is dominated by a label that is nowhere later and can still make the same calls: any completion of
one completes the other.

A class is *open* in an ideal with some of its operators. With one call per device none may be that
a call holds operators of. With two, the first call that leaves classes open keeps its device for a
second one, which has to end them all; their bytes fit together. Labels say who holds each open
class, hosts or which of the first calls, and those that are alike in this are compared. With more
calls per device classes are ignored, as are waits of one device's calls for each other, and bytes
beyond the steps of :mod:`.stock`: with several calls per device the fastest path is a bound, and
its plan may not fit.

Source: ideals as states are those of Tarnawski et al. (NeurIPS 2020, section 5.1); the labels with
vectors of times, which make calls side by side exact, are this project's.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .graph import Floats, Ints, ragged
from .operators import HOST, OperatorTables
from .stock import Stock, separate

MAX_LIVE = 60
"""Largest number of operators of one ideal that may still be read from."""

MAX_GATES = 40
"""Largest number of gates; the paths from each to the end take a search."""

MAX_INCOMPARABLE = 0.05
"""Largest share of operators that are incomparable with a gate."""

MAX_OPEN = 60
"""Largest number of classes with operators inside and outside of one ideal."""

SLICE = 64
"""Number of ideals between two readings of the clock."""


@dataclass(frozen=True)
class Lattice:
    """Ideals by number, the empty one first, in order of their size.

    Parameters
    ----------
    sets
        Ideals as bit sets of operators.
    next_ptr, next_op, next_set
        Operators that may come next, and the ideal with each of them.
    live_ptr, live
        Operators of each ideal that are read from outside it.
    """

    sets: tuple[int, ...]
    next_ptr: Ints
    next_op: Ints
    next_set: Ints
    live_ptr: Ints
    live: Ints


def lattice(tables: OperatorTables, cap: int) -> Lattice | None:
    """Return all ideals, or ``None`` if there are more than ``cap`` or too much is live in one."""
    before = [sum(1 << s for s in entry) for entry in tables.before]
    after = [sum(1 << s for s in entry) for entry in tables.after]
    number: dict[int, int] = {0: 0}
    sets, free = [0], [[i for i, entry in enumerate(before) if not entry]]
    next_ptr, next_op, next_set = [0], [], []
    live_ptr, live = [0], []
    at = 0
    while at < len(sets):
        now = sets[at]
        for i in free[at]:
            then = now | 1 << i
            if then not in number:
                if len(sets) >= cap:
                    return None
                number[then] = len(sets)
                sets.append(then)
                more = [r for r in tables.after[i] if before[r] & ~then == 0]
                free.append([j for j in free[at] if j != i] + more)
            next_op.append(i)
            next_set.append(number[then])
        next_ptr.append(len(next_op))
        free[at] = []
        following = [i for i in _bits(now) if after[i] & ~now]
        if len(following) > MAX_LIVE:
            return None
        live += following
        live_ptr.append(len(live))
        at += 1

    def numbers(entries: Sequence[int]) -> Ints:
        return np.array(entries, dtype=np.int64)

    return Lattice(
        tuple(sets),
        numbers(next_ptr),
        numbers(next_op),
        numbers(next_set),
        numbers(live_ptr),
        numbers(live),
    )


def _bits(number: int) -> list[int]:
    bits = []
    while number:
        low = number & -number
        bits.append(low.bit_length() - 1)
        number ^= low
    return bits


@dataclass(frozen=True)
class LabelResult:
    """Result of a search through the ideals.

    Parameters
    ----------
    value
        Least latency, in the unit of the source; infinite if none is below the limit.
    bound
        Lower bound on all plans, or on those below the limit.
    places
        Place of each operator of the best plan, with a device for each call.
    labels
        Number of labels that were stored.
    """

    value: float
    bound: float
    places: Ints | None
    labels: int


class LabelSearch:
    """Searches through the ideals of a problem.

    *Gates* are a chain of operators with few incomparable ones. The fastest path from a
    gate to the end, for each number of calls, bounds the labels before it; so the paths from
    the last gates are computed first.

    Proof of that bound: let A be a gate, B the operators after it, and take any plan. Keep of it
    the operators of B alone, in their calls, and the classes that lie in B; let all others be done
    at time 0, and what they made cost nothing. That is a plan for B, which needs some time R, no
    less than the least for its number of calls. Everything in B waits for A. So if A is in no call
    with operators of B, all of these start when A is done, and the plan takes at least the end of A
    and R. If a call S holds A and some of B, then S does those as well as the operators before A
    that it holds one after another, and nothing else of B starts before S is done: from the start
    of S, what S does and receives for operators before A, and then R, come one after another. The
    same holds for a call all of whose operators come before A: A waits for it.

    Parameters
    ----------
    tables
        The problem.
    ideals
        Ideals of its operators.
    hosted
        Operators that must be on a host.
    gates
        Chain of gates; chosen by default.
    """

    def __init__(
        self,
        tables: OperatorTables,
        ideals: Lattice,
        hosted: NDArray[np.bool_] | None = None,
        gates: Sequence[int] | None = None,
    ) -> None:
        self.tables, self.ideals, self.most = tables, ideals, tables.num_places
        self.stock = separate(self.most, tables.calls)
        self.memory = float("inf") if tables.graph.memory is None else float(tables.graph.memory)
        work = tables.float_work.copy()
        if hosted is not None:
            work[hosted] = np.inf
        size = np.zeros(len(tables))
        for kind, members in enumerate(tables.members):
            if members:
                size[members[0]] += tables.size[kind]
        self.operators = work, tables.float_host_work, size
        self.values = (*_packed(tables), *ragged([value.readers for value in tables.values]))
        count = len(ideals.sets)
        self.member = np.zeros((count, len(tables)), dtype=np.bool_)
        for number, now in enumerate(ideals.sets):
            self.member[number, _bits(now)] = True
        self.gates = _gates(tables) if gates is None else list(gates)
        self.reached = np.full((len(self.gates), self.most + 1), np.inf)
        inside = self.member[:, self.gates] if self.gates else np.ones((count, 0), dtype=np.bool_)
        self.gate_of = inside.sum(axis=1).astype(np.int64)  # they are in order
        self.bounds = np.zeros((len(self.gates) + 1, self.most + 1))
        self.rest = self._rest()
        self.bounds[:-1] = self.rest[-1, self.gates][:, None]
        self.path = self._paths(self.values[0])
        self.together = [np.array(m) for m in tables.members if len(m) > 1 and tables.calls <= 2]
        self.classes = self._classes(0)
        if np.max(np.diff(self.classes[1])) > MAX_OPEN:
            self.together.clear()
            self.classes = self._classes(0)
        self.holders = int(np.max(np.diff(self.classes[1]), initial=0))
        self.widest = int(np.max(np.diff(ideals.live_ptr), initial=0)) + 1 + self.holders
        number_of = {now: number for number, now in enumerate(ideals.sets)}
        every = (1 << len(tables)) - 1
        down, up = tables.closures
        self.starts = [number_of[every & ~up[gate]] for gate in self.gates]
        self.before_gate = np.full(len(tables), len(self.gates), dtype=np.int64)
        for row in range(len(self.gates) - 1, -1, -1):
            self.before_gate[[self.gates[row], *_bits(down[self.gates[row]])]] = row

    def _rest(self) -> Floats:
        tables = self.tables
        fastest = np.minimum(self.operators[0], self.operators[1])
        times = np.full((len(self.gates) + 1, len(tables)), -np.inf)  # not before the gate
        times[-1] = 0.0
        for row, gate in enumerate(self.gates):
            times[row, gate] = 0.0
        for row in range(len(times)):
            for i in reversed(tables.order):
                for reader in tables.after[i]:
                    far = times[row, reader] + fastest[reader]
                    times[row, i] = max(times[row, i], far)
        return times

    def _paths(self, cost: Floats) -> Floats:
        from .lattice_loops import measure

        path = np.zeros(len(self.ideals.live))
        measure(
            self._ideals(),
            self.member,
            self.gate_of,
            self.rest,
            self.operators,
            (cost, *self.values[1:]),
            path,
        )
        return path

    def _classes(self, begin: int) -> tuple[Ints, Ints, Ints]:
        """Return the class of each operator and open classes of each ideal, from ``begin`` on."""
        groups = [members for members in self.together if not self.member[begin, members].any()]
        kind = np.full(len(self.tables), -1, dtype=np.int64)
        for number, members in enumerate(groups):
            kind[members] = number
        done = [self.member[:, members] for members in groups]
        ideal, opened = np.nonzero(
            np.stack([some.any(axis=1) & ~some.all(axis=1) for some in done], axis=1)
            if done
            else np.zeros((len(self.member), 0), dtype=np.bool_)
        )
        ends = np.cumsum(np.bincount(ideal, minlength=len(self.member)))
        return kind, np.append(0, ends).astype(np.int64), opened.astype(np.int64)

    def _ideals(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        ideals = self.ideals
        return ideals.next_ptr, ideals.next_op, ideals.next_set, ideals.live_ptr, ideals.live

    def learn(
        self,
        value: float,
        width: int,
        room: int,
        left: Callable[[], float],
        hints: Floats | None = None,
    ) -> None:
        """Compute the fastest paths from the gates, the last gate first.

        Paths that cannot be part of a plan below ``value`` are left out.

        Parameters
        ----------
        value
            Latency of a known plan, in the unit of the source; infinite without one.
        width
            Largest number of labels per ideal and number of calls. Bounds hold for any.
        room
            Largest number of labels altogether.
        left
            Seconds left.
        hints
            Times of known paths from each gate, by number of calls.
        """
        head = heads(self.tables, self.operators)
        tail = self.rest[-1]
        for row in range(len(self.gates) - 1, -1, -1):
            gate, begin = self.gates[row], self.starts[row]
            if left() <= 0:
                self.bounds[row] = tail[gate]
                continue
            cost = self.values[0].copy()
            cost[self.member[begin][self.values[1]]] = 0.0
            limit = np.full(self.most + 1, value - head[gate])
            if hints is not None:
                limit = np.minimum(limit, hints[row])
            else:
                quick = self._search(self.stock, begin, cost, limit, 1, room, left)
                limit = np.minimum(limit, quick.best)
                self.reached[row] = quick.best
            limit = limit * (1 + 1e-9) + 1e-12
            full = self._search(self.stock, begin, cost, limit, width, room, left)
            self.reached[row] = np.minimum(self.reached[row], full.best)
            known = np.minimum(np.minimum(full.best, full.dropped), limit)
            known = np.minimum.accumulate(known) * (1 - 2e-9)
            self.bounds[row] = np.maximum(np.maximum(known, tail[gate]), self.bounds[row])

    def run(
        self,
        limit: float,
        width: int,
        room: int,
        left: Callable[[], float],
        stock: Stock | None = None,
    ) -> LabelResult:
        """Search for the fastest path below a limit, in the unit of the source.

        ``stock`` says which calls may be made; by default ``self.stock``, which counts them.
        """
        limits = np.full(self.most + 1, -np.inf)
        limits[-1] = limit
        labels = self._search(stock or self.stock, 0, self.values[0], limits, width, room, left)
        value = float(labels.best.min())
        bound = min(value, float(labels.dropped[-1]), limit)
        if labels.last < 0:
            return LabelResult(np.inf, bound, None, labels.labels)
        places = np.full(len(self.tables), HOST, dtype=np.int64)
        label, ideal, facts, call = labels.last, len(self.ideals.sets) - 1, labels.facts, 0
        while label >= 0 and ideal > 0:
            before, came, called = (int(fact) for fact in facts[label, [2, 3, 5]])
            if called:
                places[self.member[ideal] & ~self.member[came]] = call * self.tables.calls
                call += 1
            label, ideal = before, came
        return LabelResult(value, bound, places, labels.labels)

    def _search(  # noqa: PLR0917
        self,
        stock: Stock,
        begin: int,
        cost: Floats,
        limit: Floats,
        width: int,
        room: int,
        left: Callable[[], float],
    ) -> _LabelsFound:
        from .lattice_loops import drop_all, search

        count = len(self.ideals.sets)
        times = np.empty((room, self.widest), dtype=np.float64)
        # state, next label of the ideal, label and ideal before, calls made, whether by a call
        facts = np.empty((room, 6), dtype=np.int64)
        tokens = np.empty((room, self.holders), dtype=np.int64)
        rank = np.empty(room, dtype=np.float64)
        head = np.full(count, -1, dtype=np.int64)
        times[0] = 0.0
        facts[0] = (0, -1, -1, -1, 0, 0)
        rank[0] = 0.0
        head[begin] = 0
        store = times, facts, rank, head, tokens
        classes = self.classes if begin == 0 else self._classes(begin)
        dropped = np.full(self.most + 1, np.inf)
        path = self.path if cost is self.values[0] else self._paths(cost)
        guide = self.gate_of, path, self.bounds, self.before_gate
        used, at = 1, begin
        while at < count - 1 and left() > 0:
            stop = min(count - 1, at + SLICE)
            used = search(
                self._ideals(),
                self.operators,
                (cost, *self.values[1:]),
                classes,
                guide,
                self.memory,
                (stock.made, stock.after, stock.covers),
                limit,
                width,
                store,
                dropped,
                (at, stop),
                used,
            )
            at = stop
        if at < count - 1:
            drop_all(store, at, guide, dropped)
        best, last = np.full(self.most + 1, np.inf), -1
        label = int(head[count - 1])
        while label >= 0:
            number = int(facts[label, 4])
            if times[label, 0] < best.min():
                last = label
            best[number] = min(best[number], times[label, 0])
            label = int(facts[label, 1])
        return _LabelsFound(np.minimum.accumulate(best), dropped, last, facts, int(used))


@dataclass(frozen=True)
class _LabelsFound:
    best: Floats
    dropped: Floats
    last: int
    facts: Ints
    labels: int


def _packed(tables: OperatorTables) -> tuple[Floats, Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return cost, source and number of readers of values; those of each operator as arrays."""
    read: list[list[int]] = [[] for _ in range(len(tables))]
    for number, value in enumerate(tables.values):
        for reader in value.readers:
            read[reader].append(number)
    source = np.array([value.source for value in tables.values], dtype=np.int64)
    count = np.array([len(value.readers) for value in tables.values], dtype=np.int64)
    return (tables.float_costs, source, count, *ragged(tables.made_by), *ragged(read))


def heads(tables: OperatorTables, operators: tuple[Floats, ...]) -> Floats:
    """Return the longest path of least times up to the end of each operator."""
    fastest = np.minimum(operators[0], operators[1])
    times = np.zeros(len(tables))
    for i in tables.order:
        times[i] = max((times[source] for source in tables.before[i]), default=0.0) + fastest[i]
    return times


def _gates(tables: OperatorTables) -> list[int]:
    """Return a chain of operators with few incomparable ones."""
    down, up = tables.closures
    most = MAX_INCOMPARABLE * len(tables)

    def incomparable(i: int) -> int:
        return len(tables) - 1 - up[i].bit_count() - down[i].bit_count()

    chosen: list[int] = []
    ranked = sorted((i for i in tables.order if up[i]), key=lambda i: (incomparable(i), down[i]))
    step = len(tables) / MAX_GATES
    for i in ranked:
        if incomparable(i) > most:
            break
        if all(
            (up[i] | down[i]) >> j & 1 and abs(down[i].bit_count() - down[j].bit_count()) >= step
            for j in chosen
        ):
            chosen.append(i)
    return sorted(chosen, key=lambda i: down[i].bit_count())
