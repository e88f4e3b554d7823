"""Latency bounded from gate to gate.

A *gate* is an operator that every other one comes before or after (:mod:`.gates`).
At a gate the clock restarts: all before it is done no later than the gate, and all after it
starts no sooner than the gate is done, except operators in the gate's own call. So the least time
from gate to gate depends on little: whether each gate is on a host or in a call, how many bytes
their calls hold on either side, and how many calls there are between.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.bound import Bound

from ..serial.gates import Segment, segments
from ..serial.graph import Ints, ragged
from ..serial.ideal_loops import enumerate_ideals
from ..serial.operators import OperatorTables
from ..serial.order import bit_rows, bit_set, unpacked
from .gate_loops import FAR, advance, fill

STEPS = 512
"""Steps of a device's memory, or fewer bytes; the bytes of a call in a segment are rounded down."""

MIDDLE = 6
"""Largest number of calls between two gates that is counted; it stands for any larger one."""

MAX_IDEALS = 20_000
"""Largest number of ideals of one segment: all pairs of them are considered."""

SLICE = 16
"""Number of ideals between two readings of the clock."""


def gate_bound(
    tables: OperatorTables, left: Callable[[], float], incumbent: int | None = None
) -> Bound | None:
    """Return the least time over all gates with the available calls; ``None`` if unknown.

    Proof. Take a plan and two gates a, b one after another, X all between them. Say that a is
    *reached* when it is done on its host, or else at the begin of its call plus what that receives
    and works for a and all before a. We show that from a to b at least the time of the table
    passes, and that memory and calls add up; so the shortest way through the tables is a bound.

    1. The call A of a holds an ideal I of X: what comes before a member of the convex set A, and
       after a, is in A. In the same way the call B of b holds X without an ideal J, and if A is not
       B, I lies in J. If A = B, it holds all of X, and from a to b passes the work of X and b.
    2. A receives nothing that is made after a. It is done no sooner than a is reached plus the work
       of I, plus what it sends: all values made by a and I and read by others. B begins no sooner
       than all it reads from is done, and from its begin to b being reached it receives all values
       made by a and J and read by its members, and works for them. On a host nothing is sent, and
       I is empty; b is done its time later than all it reads from.
    3. Between them the operators G of J but not I run on hosts and in calls that hold nothing else:
       a call with an operator before a and one after it holds a. Nothing of G begins before A, or
       a, is done. Along a path of G, operators on hosts, work in calls, and the value that is sent
       and received at each change come one after another; this gives the times *with any number
       of calls*. Split G into parts with no value between them. A call that holds operators of
       several parts lasts for the work of them all, what it sends from all, and what it receives
       from G, or what nobody else of G or after it reads, for all; within a part that is at least
       the *load* along a path from one that reads nothing of the call to one that no other of the
       call reads from. A part without a call takes its time on hosts. Take the n parts
       that are longer on hosts than what we bound: each has a call. If there are k >= n calls, the
       k parts that are longest on hosts may have them. If not, one call holds operators of n / k of
       the parts, rounded up, and it lasts as long as their loads together. Where one of them is a
       single path, the call is on it: that path takes its own least time, and the loads of the
       others come on top.
    4. Calls between different gates are different, as are A and B. A device holds at most its
       memory, so the bytes of a call from segment to segment, each rounded down, do as well. A
       class counts where its first operator is; that is a part of what its device holds.

    Where a segment has too many ideals, or no time is left, the longest path alone counts, with the
    states A, host, another call, B for each operator. Ticks are divided by a common unit and
    rounded down: all that is used are sums, least and largest times.

    Parameters
    ----------
    tables
        The problem, idle operators merged.
    left
        Seconds left; longest paths take the place of ideals in segments not done by then.
    incumbent
        Ticks of a known plan: values above it are not distinguished.
    """
    passage = _GateTables(tables, incumbent)
    value = passage.run(left)
    if value >= FAR:
        return None
    ideals = "ideals" if passage.exact else "ideals of small parts, and paths of others,"
    detail = f"{ideals} between {len(passage.parts) - 1} gates"
    return Bound("gates", value * passage.unit, detail)


class _GateTables:
    """Tables of all segments, and the least times through them."""

    def __init__(self, tables: OperatorTables, incumbent: int | None) -> None:
        self.tables = tables
        self.parts = segments(tables)
        ticks = [t for pair in (tables.work, tables.host_work) for t in pair if t is not None]
        ticks += [value.ticks for value in tables.values]
        most = sum(ticks) + sum(len(value.readers) * value.ticks for value in tables.values)
        if incumbent is not None:
            most = min(most, incumbent)
        self.unit = max(1, gcd(*ticks) if ticks else 1)
        if most // self.unit >= FAR:
            self.unit = -(-most // (FAR - 1))
        self.most = most // self.unit
        memory = tables.graph.memory
        self.memory = memory
        self.steps = 1 if memory is None else max(1, min(STEPS, memory))
        self.size = [0] * len(tables)
        for kind, members in enumerate(tables.members):
            if members:
                self.size[members[0]] += tables.size[kind]
        large = [memory is not None and tables.size[kind] > memory for kind in tables.class_of]
        self.work = [
            FAR if out or t is None else self.units(t)
            for t, out in zip(tables.work, large, strict=True)
        ]
        self.host = [FAR if t is None else self.units(t) for t in tables.host_work]
        self.exact = True

    def units(self, ticks: int) -> int:
        """Return ticks in units, rounded down and capped."""
        return min(ticks // self.unit, FAR)

    def cells(self, held: int) -> int:
        """Bytes of a call in steps of memory, rounded down; more than there are if too many."""
        if self.memory is None or held == 0:
            return 0
        return self.steps + 1 if held > self.memory else held * self.steps // self.memory

    def run(self, left: Callable[[], float]) -> int:
        """Return the least time; whatever takes longer than the known plan is left out."""
        state = np.full((self.tables.num_places + 1, self.steps + 2), FAR, dtype=np.int64)
        state[0, -1] = 0
        for part in self.parts:
            between = _Between(self, part)
            room = self.most - int(state.min())
            table = None if left() <= 0 else between.by_ideals(room, left)
            self.exact = self.exact and table is not None
            table = between.by_paths() if table is None else table
            state = advance(state, table, between.whole, between.through)
        return int(state[:, -1].min())


@dataclass
class _Between:
    """One segment in units of time and steps of memory."""

    passage: _GateTables
    part: Segment
    work: list[int] = field(init=False)
    host: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.work = [self.passage.work[i] for i in self.part.members]
        self.host = [self.passage.host[i] for i in self.part.members]
        last = self.part.last
        self.last_work = FAR if last is None else self.passage.work[last]
        self.last_host = 0 if last is None else self.passage.host[last]
        self.sizes = [self.passage.size[i] for i in self.part.members]
        self.last_size = 0 if last is None else self.passage.size[last]

    @property
    def through(self) -> int:
        """Time from one gate to the other in a call with both."""
        return min(sum(self.work) + self.last_work, FAR)

    @property
    def whole(self) -> int:
        """Steps of memory of such a call from the first gate on."""
        return self.passage.cells(sum(self.sizes) + self.last_size)

    @property
    def table(self) -> Ints:
        """Return a table in which nothing is known to be possible."""
        calls, steps = min(MIDDLE, self.passage.tables.num_places + 1), self.passage.steps
        return np.full((calls + 1, steps + 2, steps + 2), FAR, dtype=np.int64)

    def by_ideals(self, most: int, left: Callable[[], float]) -> Ints | None:
        """Return the table from pairs of ideals; ``None`` if too many, or out of time."""
        bits = self.ideals
        if bits is None:
            return None
        inside = unpacked(bits, len(self.part)).astype(np.bool_)
        first, second = self._ends(inside)
        held = [self.passage.cells(int(size)) for size in inside @ _objects(self.sizes)]
        rest = sum(self.sizes) + self.last_size
        beyond = [self.passage.cells(rest - int(s)) for s in inside @ _objects(self.sizes)]
        cells = np.array(held, dtype=np.int64), np.array(beyond, dtype=np.int64)
        count = len(self.part)
        parts = tuple(np.zeros(count + 1, dtype=np.int64) for _ in range(12))
        lists = tuple(np.zeros(count + 1, dtype=np.int64) for _ in range(3))
        table = self.table
        made = np.zeros(len(table), dtype=np.int64)
        ends = first, second, self.last_host
        for begin in range(0, len(bits), SLICE):
            if left() <= 0:
                return None
            rows = begin, min(begin + SLICE, len(bits))
            fill(self._inner, (bits, inside), ends, cells, rows, most, table, parts, lists, made)
        return table

    @cached_property
    def ideals(self) -> NDArray[np.uint64] | None:
        """Ideals between the gates, in order of their size, or ``None``."""
        count = len(self.part)
        sources = ((u for u, _, _ in edges if u >= 0) for edges in self.part.before[:count])
        before = bit_rows(map(bit_set, sources), count)
        rows = np.zeros((MAX_IDEALS, before.shape[1]), dtype=np.uint64)
        many = enumerate_ideals(before, count, rows)
        return None if many < 0 else rows[:many]

    def _ends(self, inside: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return times of the first call after its gate, of the second up to its gate, by ideal."""
        cut = np.zeros(len(inside), dtype=np.int64)
        for ticks, source, readers in self.part.values:
            own = [reader for reader in readers if reader < len(self.part)]
            apart = np.full(len(inside), len(own) < len(readers), dtype=np.bool_)
            apart |= ~inside[:, own].all(axis=1)
            if source >= 0:
                apart &= inside[:, source]
            cut[apart] = np.minimum(cut[apart] + self.passage.units(ticks), FAR)
        first, second = cut.copy(), np.minimum(cut + self.last_work, FAR)
        for v, work in enumerate(self.work):
            first[inside[:, v]] = np.minimum(first[inside[:, v]] + work, FAR)
            second[~inside[:, v]] = np.minimum(second[~inside[:, v]] + work, FAR)
        return first, second

    @cached_property
    def _inner(self) -> tuple[Ints, ...]:
        """Arrays of the operators for the loops."""
        part, units = self.part, self.passage.units
        count = len(part)
        made = [0] * count
        for ticks, source, _ in part.values:
            if source >= 0:
                made[source] = min(made[source] + units(ticks), FAR)
        before, after = part.before[:count], part.after
        ptr, sources = ragged([[u for u, _, _ in edges] for edges in before])
        costs = [units(every) for edges in before for _, every, _ in edges]
        alone = [units(ticks) for edges in before for _, _, ticks in edges]
        after_ptr, reader = ragged([[w if w < count else -1 for w, _, _ in e] for e in after])
        sent = [units(every) for edges in after for _, every, _ in edges]
        return (
            *_arrays(self.work, self.host, made),
            ptr,
            sources,
            *_arrays(costs, alone),
            after_ptr,
            reader,
            *_arrays(sent),
        )

    def by_paths(self) -> Ints:
        """Return the table from longest paths alone."""
        table = self.table
        steps, column = self.passage.steps, self.passage.cells(self.last_size)
        for row in (0, steps + 1):
            second, host = self._longest(row == 0)
            table[0, row, -1] = min(host, FAR)
            if column <= steps:
                table[0, row, column] = min(second, FAR)
        return table

    def _longest(self, in_call: bool) -> tuple[int, int]:
        """Return the least times at which the next gate can be reached, in a call and on a host."""
        units = self.passage.units
        work, host = [*self.work, self.last_work], [*self.host, self.last_host]
        times: list[tuple[int, int, int, int]] = []
        gate = (0, FAR, FAR, FAR) if in_call else (FAR, 0, FAR, FAR)
        ends: Sequence[Sequence[tuple[int, int, int]]] = self.part.before
        if self.part.last is None:  # the end of the graph reads from all, at no cost
            ends = [*ends[:-1], [(v, 0, 0) for v in range(len(self.part))]]
        for v, edges in enumerate(ends):
            starts = [gate[0], 0, 0, 0]
            for u, ticks, _ in edges:
                a, h, d, b = gate if u < 0 else times[u]
                cost = units(ticks)
                sent = min(a + cost, h, d + cost)
                starts[0] = max(starts[0], a)
                starts[1] = max(starts[1], sent)
                starts[2] = max(starts[2], min(sent + cost, d))
                starts[3] = max(starts[3], min(sent + cost, b))
            lasts = (work[v], host[v], work[v], work[v])
            times.append(
                tuple(min(s + t, FAR) for s, t in zip(starts, lasts, strict=True))  # type: ignore[arg-type]
            )
        return times[-1][3], times[-1][1]


def _arrays(*lists: Sequence[int]) -> tuple[Ints, ...]:
    return tuple(np.array(entries, dtype=np.int64) for entries in lists)


def _objects(sizes: Sequence[int]) -> NDArray[np.object_]:
    array = np.zeros(len(sizes), dtype=object)
    array[:] = sizes
    return array
