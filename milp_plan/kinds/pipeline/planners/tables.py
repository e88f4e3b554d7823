"""Constant tables of a beam search over one :class:`~.arrays.Arrays`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..template import FORWARD, WEIGHT
from .arrays import Arrays

Array = NDArray[Any]

NEVER = -(1 << 60)
"""Tail of a task that does not exist."""


class BeamTables:
    """Links between kinds, memory rules, tails and work, as arrays.

    Times are 32-bit where every schedule worth looking at ends before 2^27 ticks, else 64-bit.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.kinds, self.machines = len(arrays.kinds), len(arrays.machines)
        self.total = int(arrays.count.sum())
        lags = sum(lag * int(arrays.count[b]) for _, b, lag in arrays.arcs)
        small = int(arrays.duration @ arrays.count) + lags < 1 << 27
        self.type: type[np.signedinteger[Any]] = np.int32 if small else np.int64
        self.far = 1 << 29 if small else 1 << 60
        self.duration = arrays.duration.astype(self.type)
        self.machine = np.array(arrays.machine)
        self.number = arrays.count.astype(np.int32)
        self.mean = max(1.0, float(arrays.duration @ arrays.count) / self.total)
        table = tail_table(arrays)
        self.least = int(max(table[k, 0] + head for k, head in enumerate(arrays.heads)))
        self.tails = np.maximum(table, -self.far).astype(self.type).ravel()
        self.row = np.arange(self.kinds) * table.shape[1]
        self._links()
        self._rules()
        self._loads()
        self.ring = self._ring()

    def _links(self) -> None:
        """Direct predecessors and successors of every kind, padded with -1."""
        before: list[list[tuple[int, int]]] = [[] for _ in range(self.kinds)]
        after: list[list[int]] = [[] for _ in range(self.kinds)]
        for a, b, lag in self.arrays.direct:
            before[b].append((a, lag))
            after[a].append(b)
        self.before = np.full((max(map(len, before)), self.kinds), -1)
        self.lag = np.zeros(self.before.shape, dtype=self.type)
        self.after = np.full((max(map(len, after)), self.kinds), -1)
        for k in range(self.kinds):
            for i, (a, lag) in enumerate(before[k]):
                self.before[i, k], self.lag[i, k] = a, lag
            for i, b in enumerate(after[k]):
                self.after[i, k] = b

    def _rules(self) -> None:
        """Memory rules: columns of sums over started tasks, and what each may be at most.

        Columns: bytes held by each machine with takers; bytes of the shallow stages of each
        guard; how far each guard's deepest kind is ahead of its last releaser; micro-batches in
        flight from the holder to the last releaser of each pair in :attr:`flights`.
        """
        arrays = self.arrays
        net = arrays.alloc - arrays.free
        taking = [
            k
            for k, m in enumerate(arrays.machine)
            if arrays.alloc[k] > 0 and arrays.limits[m] is not None
        ]
        machines = sorted({arrays.machine[k] for k in taking})
        place = {k: i for i, k in enumerate(taking)}
        room = [self._room(k) for k in taking]
        guards = arrays.guards
        columns = [np.where(self.machine == m, net, 0) for m in machines]
        for guard in guards:
            member = np.zeros(self.kinds, dtype=bool)
            member[list(guard.shallow)] = True
            columns.append(np.where(member, net, 0))
        columns += [self._ahead(guard.deepest, guard.last) for guard in guards]
        self.flights = self._flights()
        columns += [self._ahead(first, last) for first, last in self.flights]
        self.change = np.array(columns, dtype=np.int64).reshape(-1, self.kinds).T.copy()
        self.holds = np.isin(np.arange(self.kinds), arrays.holders)
        self.takers = np.array(taking, dtype=np.int64)
        self.taker_column = np.array([machines.index(arrays.machine[k]) for k in taking], dtype=int)
        self.most = tuple(
            min(int(self.number[k]), room[place[k]] // int(arrays.alloc[k]) + 1)
            for k, _ in self.flights
        )
        self.room = np.array(room, dtype=np.int64)
        self.guarded = np.array([place[guard.kind] for guard in guards], dtype=int)
        self.guard_room = np.array(
            [room[place[guard.kind]] - guard.reserve for guard in guards], dtype=np.int64
        )
        self.passable = np.array([guard.passable for guard in guards], dtype=bool)
        self.flight_place = np.array([place[first] for first, _ in self.flights], dtype=int)
        ends = np.cumsum([len(machines), len(guards), len(guards), len(self.flights)])
        self.guard_columns, self.pass_columns, self.flight_columns = (
            slice(int(a), int(b)) for a, b in pairwise(ends)
        )

    def _ahead(self, one: int, other: int) -> Array:
        """Return the column that counts tasks of one kind less those of another."""
        column = np.zeros(self.kinds, dtype=np.int64)
        column[one] += 1
        column[other] -= 1
        return column

    def _room(self, kind: int) -> int:
        """Return the most bytes held when the kind starts: later tasks of its stage fit."""
        arrays = self.arrays
        limit = arrays.limits[arrays.machine[kind]]
        assert limit is not None
        held, need = -int(arrays.free[kind]), 0
        if kind in arrays.releasers:
            for j in sorted(arrays.descendants[kind] - {kind}):
                if arrays.group(j) == arrays.group(kind):
                    need = max(need, held + int(arrays.alloc[j]))
                    held += int(arrays.alloc[j] - arrays.free[j])
        return limit - int(arrays.alloc[kind]) - need

    def _flights(self) -> list[tuple[int, int]]:
        """Return (holder, its last releaser): the first of every route, and all with a guard."""
        arrays = self.arrays
        guarded = {guard.kind for guard in arrays.guards}
        for route in {arrays.group(k)[0] for k in arrays.holders}:
            holders = [k for k in arrays.holders if arrays.group(k)[0] == route]
            guarded.add(min(holders, key=lambda k: (arrays.heads[k], k)))
        pairs = [(k, arrays.releasers[k]) for k in sorted(guarded)]
        return [(k, chain[-1]) for k, chain in pairs if chain]

    def _loads(self) -> None:
        arrays = self.arrays
        static = machine_tails(arrays)
        self.sorted = np.argsort(self.machine, kind="stable")
        self.bounds = np.searchsorted(self.machine[self.sorted], np.arange(self.machines))
        self.offset = np.array([-release for release in arrays.releases], dtype=self.type)
        self.last = np.array(
            [min(static[k] for k in ks) for ks in arrays.on_machine], dtype=self.type
        )
        self.work = np.array(
            [sum(int(self.duration[k] * self.number[k]) for k in ks) for ks in arrays.on_machine],
            dtype=self.type,
        )
        names = [arrays.shop.kinds[k].role for k in arrays.kinds]
        roles = {FORWARD: 0, WEIGHT: 2}
        self.role = np.array([roles.get(n, 1 if n.startswith("backward") else 3) for n in names])

    def _ring(self) -> int:
        """Return the most tasks by which a kind can be ahead of its successor: memory limits it."""
        arrays = self.arrays
        size = 1
        for a, b, _ in arrays.direct:
            least = int(arrays.count[a])
            for i in arrays.holders:
                limit = arrays.limits[arrays.machine[i]]
                chain = arrays.releasers[i]
                if not chain or limit is None or a not in arrays.descendants[i]:
                    continue
                if chain[-1] in arrays.descendants[b]:
                    least = min(least, limit // int(arrays.free[chain[-1]]) + 1)
            size = max(size, least)
        return size


def machine_tails(arrays: Arrays) -> list[int]:
    """Return kind -> least time from its stop to the end; ends count from the machine's release."""
    tails = [-arrays.releases[m] for m in arrays.machine]
    for k in reversed(range(len(tails))):
        for b, lag in arrays.after[k]:
            tails[k] = max(tails[k], lag + int(arrays.duration[b]) + tails[b])
    return tails


def tail_table(arrays: Arrays) -> NDArray[np.int64]:
    """Return tails of all tasks: least times from their starts to the end of the schedule.

    They look ahead for the beam search: they know a micro-batch's way to its end, the work that
    must still follow on every machine on that way, and that a device at its memory limit starts a
    forward pass only after an older activation was released (the arc from the release of
    micro-batch n to the start of micro-batch n + limit).

    Returns
    -------
    array
        ``[kind, n]``: every schedule in which task n of the kind starts at t has value at least
        t plus this, ticks; :data:`NEVER` where there is no such task.
    """
    most = int(arrays.count.max())
    table = np.full((len(arrays.kinds), most + 1), NEVER, dtype=np.int64)
    static = machine_tails(arrays)
    ahead = _work_ahead(arrays, static)
    waits = _memory_arcs(arrays)
    for n in reversed(range(most)):
        for k in reversed(range(len(arrays.kinds))):
            count = int(arrays.count[k])
            if n >= count:
                continue
            own = int(arrays.duration[k])
            best = max(work * (count - n) + tail for work, tail in ahead[k])
            best = max(best, own + int(table[k, n + 1]))
            for b, lag in arrays.after[k]:
                best = max(best, own + lag + int(table[b, n]))
            for kind, blocked in waits[k]:
                best = max(best, own + int(table[kind, blocked[n]]))
            table[k, n] = best
    return table


def _work_ahead(arrays: Arrays, static: list[int]) -> list[list[tuple[int, int]]]:
    """Kind -> (work per micro-batch that is not before it on its machine, tail after that)."""
    ahead = []
    for k, machine in enumerate(arrays.machine):
        here = [j for j in arrays.descendants[k] if arrays.machine[j] == machine]
        work, rows = 0, []
        for j in sorted(here, key=lambda j: -static[j]):
            work += int(arrays.duration[j])
            rows.append((work, static[j]))
        ahead.append(rows)
    return ahead


def _memory_arcs(arrays: Arrays) -> list[list[tuple[int, list[int]]]]:
    """Return kind -> (holder, first task of it that cannot start before task n of the kind ends).

    With c releases of a kind done before task q of its holder starts, kinds before it in the
    micro-batch may have been released q times at most and kinds after it c times at most.
    """
    arcs: list[list[tuple[int, list[int]]]] = [[] for _ in arrays.kinds]
    for i in arrays.holders:
        limit = arrays.limits[arrays.machine[i]]
        assert limit is not None
        size, count = int(arrays.alloc[i]), int(arrays.count[i])
        chain = arrays.releasers[i]
        for place, j in enumerate(chain):
            early = sum(int(arrays.free[q]) for q in chain[:place]) + int(arrays.free[i])
            late = sum(int(arrays.free[q]) for q in chain[place:])
            blocked = []
            for n in range(count):
                q = n
                while q < count and (q + 1) * size - q * early - n * late <= limit:
                    q += 1
                blocked.append(max(q, n + 1))
            arcs[j].append((i, blocked))
    return arcs
