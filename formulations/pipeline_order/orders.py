"""Which tasks of a shop of identical micro-batches may come before which, and when they may start.

All tasks of a kind run in micro-batch order (see :mod:`.shop`), so the order of
two kinds on a machine is a staircase: if a_i comes before b_j, then a_{i-1} does, and a_i comes
before b_{j+1}. What is certain in every plan of value at most the ceiling is derived here, until
nothing more follows: from precedence, from windows (heads and tails, with the work on a machine
that certainly lies before or after), and from memory. What is left open becomes a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from milp_plan.api import Neighbourhood
from milp_plan.kinds.pipeline.shop import Shop

from .graph import NEVER, Matrix, ShopGraph, Signs, Stretch, in_order
from .memory import MachineMemory

ROUNDS = 6
"""Rounds of derivation at most; each is valid, so stopping early only leaves more columns."""


class Contradiction(Exception):
    """There is no plan of value at most the ceiling."""


class ShopOrders(ShopGraph):
    """What is certain about the order of tasks in plans worth finding.

    Parameters
    ----------
    shop
        The problem.
    ceiling
        Only plans of at most this value are looked for, ticks.
    neighbourhood
        Where to look; ``None`` means everywhere.
    memory
        Whether to respect the machines' memory.

    Attributes
    ----------
    arcs
        (u, v, w): v starts at least w ticks after u starts; what follows from others is left out.
    heads, tails : shape (lanes, tasks)
        Least time from a lane's anchor to a task's start, and from there to the lane's end.
    floor
        Least value, ticks.

    Raises
    ------
    Contradiction
        There is no such plan.
    """

    def __init__(
        self,
        shop: Shop,
        ceiling: int,
        neighbourhood: Neighbourhood | None = None,
        memory: bool = True,
    ) -> None:
        super().__init__(shop, neighbourhood)
        self.ceiling = ceiling
        self.memories = {
            machine: MachineMemory(shop, machine)
            for machine, limit in enumerate(shop.limits)
            if limit is not None and memory and shop.on_machine[machine]
        }
        if memory and any(limit is not None and limit < 0 for limit in shop.limits):
            raise Contradiction("what lies on a device all the time does not fit")
        self._open_signs()
        self._derive()

    def _open_signs(self) -> None:
        for stretch in self.stretches:
            for a, b in combinations(sorted(stretch.rows), 2):
                shape = (len(stretch.rows[a]), len(stretch.rows[b]))
                stretch.signs[a, b] = np.zeros(shape, dtype=np.int8)

    # -- derivation --------------------------------------------------------------------------

    def _derive(self) -> None:
        for _ in range(ROUNDS):
            self._propagate()
            before = self.num_open
            self._by_paths()
            self._by_windows()
            self._by_memory()
            if self.num_open == before:
                break
        else:
            self._propagate()
        self.floor = self._floor()
        if self.floor > self.ceiling:
            raise Contradiction(f"no plan takes less than {self.floor}")
        self._reduce()

    @property
    def num_open(self) -> int:
        """Pairs whose order is open."""
        return sum(int((s == 0).sum()) for t in self.stretches for s in t.signs.values())

    def _all_waits(self) -> list[list[tuple[int, int]]]:
        """Direct waits, and those of certain orders: staircases need one per step only."""
        waits = [list(entries) for entries in self.direct]
        for stretch in self.stretches:
            for (a, b), signs in stretch.signs.items():
                for first, second, sign in ((a, b, signs), (b, a, -signs.T)):
                    step = sign == 1
                    step[:-1] &= sign[1:] != 1
                    step[:, 1:] &= sign[:, :-1] != 1
                    for i, j in np.argwhere(step):
                        u, v = stretch.rows[first][i], stretch.rows[second][j]
                        waits[v].append((u, int(self.duration[u])))
        return waits

    def _propagate(self) -> None:
        """Heads and tails along the certain order."""
        waits = self._all_waits()
        self.order = in_order(range(len(waits)), dict(enumerate(waits)))
        if len(self.order) < len(waits):
            raise Contradiction("certain orders form a circle")
        self.waits = waits
        work: list[int] = self.duration.tolist()
        later: list[list[tuple[int, int]]] = [[] for _ in waits]
        for v, entries in enumerate(waits):
            for u, w in entries:
                later[u].append((v, w))
        self.heads, self.tails = np.empty_like(self.anchored), np.empty_like(self.ended)
        earlier = [self._certain(task, 1) for task in range(len(waits))]
        behind = [self._certain(task, -1) for task in range(len(waits))]
        for lane in range(self.num_lanes):
            heads: list[int] = self.anchored[lane].tolist()
            for v in self.order:
                for u, w in waits[v]:
                    heads[v] = max(heads[v], heads[u] + w)
                heads[v] = max(heads[v], _end([(heads[t], work[t]) for t in earlier[v]]))
            tails: list[int] = self.ended[lane].tolist()
            for u in reversed(self.order):
                for v, w in later[u]:
                    tails[u] = max(tails[u], tails[v] + w)
                rest = [(tails[t] - work[t], work[t]) for t in behind[u]]
                tails[u] = max(tails[u], _end(rest) + work[u])
            self.heads[lane], self.tails[lane] = heads, tails

    def _certain(self, task: int, sign: int) -> list[int]:
        """Tasks of its stretch that certainly come before (1) or after (-1) a task."""
        stretch, kind = self.home[task], int(self.kind[task])
        own = stretch.rows[kind]
        place = own.index(task)
        found = list(own[:place] if sign == 1 else own[place + 1 :])
        for other, row in stretch.rows.items():
            if other != kind:
                column = stretch.sign(other, kind)[:, place]
                found += [t for t, s in zip(row, column.tolist(), strict=True) if s == sign]
        return found

    def _by_paths(self) -> None:
        """A path from one task to another orders them."""
        reach = [0] * len(self.names)
        for v in self.order:
            mask = 1 << v
            for u, _ in self.waits[v]:
                mask |= reach[u]
            reach[v] = mask
        for stretch in self.stretches:
            for (a, b), signs in stretch.signs.items():
                for i, j in np.argwhere(signs == 0):
                    u, v = stretch.rows[a][i], stretch.rows[b][j]
                    if reach[v] >> u & 1:
                        signs[i, j] = 1
                    elif reach[u] >> v & 1:
                        signs[i, j] = -1
                _stairs(signs)

    def slack(self, first: Sequence[int], second: Sequence[int]) -> Matrix:
        """Most ticks by which second's start can lie after first's stop, for all pairs.

        Negative: first cannot come before second.
        """
        stop = self.heads[:, first] + self.duration[first]
        room = self.ceiling - self.tails[:, second][:, None, :] - stop[:, :, None]
        known = (self.heads[:, first] > NEVER // 2)[:, :, None] & (
            self.tails[:, second] > NEVER // 2
        )[:, None, :]
        return np.where(known, room, -NEVER).min(axis=0)  # type: ignore[no-any-return]

    def window(self, task: int) -> tuple[int, int]:
        """Earliest and latest start since the anchor of the task's lane.

        A transfer that nothing behind it limits starts, in some best plan, when its producer or
        the transfer before it stops: within the ceiling and the work of its channel.
        """
        machine = self.shop.kinds[int(self.kind[task])].machine
        lane = self.lane(machine)
        tail = int(self.tails[lane, task])
        if tail < 0:
            tail = int(self.duration[task]) - self.shop.work[machine]
        return max(0, int(self.heads[lane, task])), self.ceiling - tail

    def _by_windows(self) -> None:
        """Heads and tails leave no room for one of the orders."""
        for stretch in self.stretches:
            for (a, b), signs in stretch.signs.items():
                one, two = stretch.rows[a], stretch.rows[b]
                never = self.slack(one, two) < 0
                always = self.slack(two, one).T < 0
                if (never & (signs == 1)).any() or (always & (signs == -1)).any():
                    raise Contradiction("a certain order has no room")
                if (never & always).any():
                    raise Contradiction("two tasks have no room in either order")
                signs[never], signs[always] = -1, 1
                _stairs(signs)

    def _by_memory(self) -> None:
        """An order that leaves too little memory at the start of a task is impossible."""
        for stretch in self.stretches:
            memory = self.memories.get(stretch.machine)
            if memory is None:
                continue
            for kind, row in stretch.rows.items():
                if not self.shop.kinds[kind].alloc:
                    continue
                for place in range(len(row)):
                    self._tighten(stretch, memory, kind, place)
            for signs in stretch.signs.values():
                _stairs(signs)

    def counts(self, stretch: Stretch, kind: int, place: int) -> tuple[dict[int, int], ...]:
        """Least and most tasks of each kind of the machine before a task of a stretch."""
        low = dict(stretch.before)
        low[kind] += place
        high = dict(low)
        for other, row in stretch.rows.items():
            if other != kind:
                column = stretch.sign(other, kind)[:, place]
                low[other] += int((column == 1).sum())
                high[other] += len(row) - int((column == -1).sum())
        return low, high

    def _tighten(self, stretch: Stretch, memory: MachineMemory, kind: int, place: int) -> None:
        low, high = self.counts(stretch, kind, place)
        if not memory.fits(kind, low, high):
            raise Contradiction("memory does not suffice")
        for other in stretch.rows:
            if other == kind or low[other] == high[other]:
                continue
            while low[other] < high[other] and not memory.fits(
                kind, low, {**high, other: low[other]}
            ):
                low[other] += 1
            while low[other] < high[other] and not memory.fits(
                kind, {**low, other: high[other]}, high
            ):
                high[other] -= 1
            column = np.zeros(len(stretch.rows[other]), dtype=np.int8)
            column[: low[other] - stretch.before[other]] = 1
            column[high[other] - stretch.before[other] :] = -1
            if (other, kind) in stretch.signs:
                _merge(stretch.signs[other, kind][:, place], column)
            else:
                _merge(stretch.signs[kind, other][place], -column)

    def sign(self, u: int, v: int) -> int:
        """1 where u comes before v in their stretch, -1 where after it, 0 where that is open."""
        stretch = self.home[u]
        a, b = int(self.kind[u]), int(self.kind[v])
        return stretch.order(a, stretch.rows[a].index(u), b, stretch.rows[b].index(v))

    # -- result ------------------------------------------------------------------------------

    def _floor(self) -> int:
        """Least value: paths, and the work of each stretch between its heads and tails."""
        found = [int(self.between.diagonal().max(initial=0))]
        if self.names:
            found.append(int((self.heads + self.tails).max()))
        for stretch in self.stretches:
            tasks = stretch.tasks
            work: list[int] = self.duration[tasks].tolist()
            for lane in range(self.num_lanes):
                heads = self.heads[lane, tasks].tolist()
                rest = (self.tails[lane, tasks] - self.duration[tasks]).tolist()
                for level in {r for r in rest if r >= 0}:
                    chosen = [
                        (h, w) for h, w, r in zip(heads, work, rest, strict=True) if r >= level
                    ]
                    found.append(_end(chosen) + level)
        return max(found)

    def _reduce(self) -> None:
        """Leave out waits that follow from others."""
        count = len(self.names)
        far = np.full((count, count), NEVER, dtype=np.int64)  # far[v, u]: from u to v
        self.arcs: list[tuple[int, int, int]] = []
        for v in self.order:
            best: dict[int, int] = {}
            for u, w in self.waits[v]:
                best[u] = max(best.get(u, w), w)
            before = list(best)
            waits = np.array([best[u] for u in before], dtype=np.int64)
            if before:
                through = far[before][:, before].T + waits  # from u, through another, to v
                np.fill_diagonal(through, NEVER)
                keep = through.max(axis=1) < waits
                self.arcs += [
                    (u, v, w) for u, w, k in zip(before, waits.tolist(), keep, strict=True) if k
                ]
                far[v] = (far[before] + waits[:, None]).max(axis=0)
            far[v, v] = 0
            # a wait of its own is at least as long as any path that ends with it
            for u, w in best.items():
                far[v, u] = max(far[v, u], w)


def _end(tasks: Iterable[tuple[int, int]]) -> int:
    """Earliest end of (head, work) on one machine: the best head + work from it on."""
    now = NEVER
    for head, work in sorted(tasks):
        now = max(now, head) + work
    return now


def _stairs(signs: Signs) -> None:
    """Complete a staircase: a_i before b_j holds for all smaller i and larger j."""
    yes = np.logical_or.accumulate((signs == 1)[::-1], axis=0)[::-1]
    yes = np.logical_or.accumulate(yes, axis=1)
    no = np.logical_or.accumulate(signs == -1, axis=0)
    no = np.logical_or.accumulate(no[:, ::-1], axis=1)[:, ::-1]
    if (yes & no).any():
        raise Contradiction("certain orders contradict each other")
    signs[yes], signs[no] = 1, -1


def _merge(known: Signs, more: Signs) -> None:
    if (known * more == -1).any():
        raise Contradiction("memory contradicts a certain order")
    np.copyto(known, more, where=more != 0)
