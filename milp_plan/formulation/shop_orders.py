"""Which tasks of a shop of identical micro-batches may come before which, and when they may start.

All tasks of a kind run in micro-batch order (see :mod:`milp_plan.pipeline.shop`), so the order of
two kinds on a machine is a staircase: if a_i comes before b_j, then a_{i-1} does, and a_i comes
before b_{j+1}. What is certain in every plan of value at most the ceiling is derived here, until
nothing more follows: from precedence, from windows (heads and tails, with the work on a machine
that certainly lies before or after), and from memory. What is left open becomes a column.

Near a known plan only the free tasks are kept. A maximal run of free tasks in a machine's word is
a *stretch*; tasks are reordered within their stretch only. Everything else is a fixed chain, of
which only its longest paths between free tasks remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Objective, Plan
from milp_plan.pipeline import TRANSFER, Shop, words_of

from .protocol import Neighbourhood
from .shop_memory import MachineMemory

NEVER = -(10**15)
"""Distance where there is no path."""

ROUNDS = 12
"""Rounds of derivation at most; each is valid, so stopping early only leaves more columns."""

Matrix = NDArray[np.int64]
Signs = NDArray[np.int8]


class Contradiction(Exception):
    """There is no plan of value at most the ceiling."""


@dataclass
class Stretch:
    """Free tasks of a machine that may be reordered among each other.

    Parameters
    ----------
    machine
        Index of the machine.
    rows
        Kind -> its tasks in the stretch, in micro-batch order.
    before
        Kind -> how many of its tasks come before the stretch.
    signs
        (a, b), a < b -> matrix over their tasks: 1 where a's comes first, -1 where b's does, 0
        where it is open.
    """

    machine: int
    rows: dict[int, list[int]]
    before: dict[int, int]
    signs: dict[tuple[int, int], Signs] = field(default_factory=dict)

    @property
    def tasks(self) -> list[int]:
        """All tasks."""
        return [task for row in self.rows.values() for task in row]

    def sign(self, a: int, b: int) -> Signs:
        """Matrix of two kinds in either order; a copy where it has to be turned."""
        found = self.signs.get((a, b))
        return found if found is not None else -self.signs[b, a].T


class ShopOrders:
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
    names
        Kept tasks as (kind, number).
    number
        The inverse.
    stretches, arcs
        Where orders are open; (u, v, w): v starts at least w ticks after u starts.
    lanes
        Devices that count for the objective: anchors and ends. For the makespan it is one lane.
    heads, tails : shape (lanes, tasks)
        Least time from the lane's anchor to a task's start, and from there to the lane's end.
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
        self.shop, self.ceiling = shop, ceiling
        self.span = shop.objective is Objective.SPAN
        self.num_lanes = shop.num_devices if self.span else 1
        self.memories = {
            machine: MachineMemory(shop, machine)
            for machine, limit in enumerate(shop.limits)
            if limit is not None and memory and shop.on_machine[machine]
        }
        if neighbourhood is None:
            self._keep_all()
        else:
            self._keep_free(neighbourhood)
        self._finish_graph()
        self._open_signs()
        self._derive()

    # -- graph -------------------------------------------------------------------------------

    def _keep_all(self) -> None:
        shop = self.shop
        self.names = [(k, j) for k, kind in enumerate(shop.kinds) for j in range(kind.count)]
        self.number = {name: task for task, name in enumerate(self.names)}
        self.direct: list[list[tuple[int, int]]] = [[] for _ in self.names]
        for (k, j), task in self.number.items():
            self.direct[task] = [(self.number[u], w) for u, w in self._waits(k, j)]
        self.stretches = [
            Stretch(
                machine,
                {k: [self.number[k, j] for j in range(shop.kinds[k].count)] for k in kinds},
                dict.fromkeys(kinds, 0),
            )
            for machine, kinds in enumerate(shop.on_machine)
            if kinds
        ]
        self.anchored = np.full((self.num_lanes, len(self.names)), NEVER, dtype=np.int64)
        self.ended = np.full_like(self.anchored, NEVER)
        self.between = np.full((self.num_lanes, self.num_lanes), NEVER, dtype=np.int64)
        for (k, _), task in self.number.items():
            lane = self.lane_of(k)
            if lane is not None:
                self.anchored[lane, task] = 0
                self.ended[lane, task] = shop.kinds[k].duration

    def _waits(self, k: int, j: int) -> Iterable[tuple[tuple[int, int], int]]:
        """(task before, least time between the starts): precedence and micro-batch order."""
        kinds = self.shop.kinds
        if j:
            yield (k, j - 1), kinds[k].duration
        for a, lag in self.shop.before[k]:
            yield (a, j), kinds[a].duration + lag

    def lane_of(self, kind: int) -> int | None:
        """Lane whose anchor and end a kind's tasks lie between by definition, if any."""
        machine = self.shop.kinds[kind].machine
        if not self.span:
            return 0
        return machine if machine < self.shop.num_devices else None

    def _keep_free(self, neighbourhood: Neighbourhood) -> None:
        """Contract the fixed tasks: their words are a plan's, so longest paths are all they do."""
        shop, plan = self.shop, neighbourhood.plan
        free = free_tasks(shop, plan, neighbourhood.free)
        waits: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {
            (k, j): list(self._waits(k, j))
            for k, kind in enumerate(shop.kinds)
            for j in range(kind.count)
        }
        self.stretches = []
        lines: list[list[tuple[int, int]]] = []
        for machine, word in enumerate(words_of(shop, plan)):
            lines.append(_numbered(word))
            self._cut(machine, lines[-1], free, waits)
        self.names = sorted(free)
        self.number = {name: task for task, name in enumerate(self.names)}
        for stretch in self.stretches:
            stretch.rows = {k: [self.number[k, j] for j in row] for k, row in stretch.rows.items()}
        self._contract(_topological(lines, waits), waits)

    def _cut(
        self,
        machine: int,
        line: list[tuple[int, int]],
        free: set[tuple[int, int]],
        waits: dict[tuple[int, int], list[tuple[tuple[int, int], int]]],
    ) -> None:
        """Cut a machine's line into fixed tasks and stretches of free ones."""
        kinds = self.shop.kinds
        fixed: tuple[int, int] | None = None
        stretch: dict[int, list[int]] = {}
        seen = dict.fromkeys(self.shop.on_machine[machine], 0)
        before = dict(seen)

        def close() -> None:
            if stretch:
                self.stretches.append(Stretch(machine, dict(stretch), dict(before)))
                stretch.clear()
            before.update(seen)

        for k, j in line:
            if (k, j) in free:
                stretch.setdefault(k, []).append(j)
                if fixed is not None:
                    waits[k, j].append((fixed, kinds[fixed[0]].duration))
            else:
                work = sum(kinds[a].duration * len(row) for a, row in stretch.items())
                if fixed is not None:
                    waits[k, j].append((fixed, kinds[fixed[0]].duration + work))
                for a, row in stretch.items():
                    waits[k, j].append(((a, row[-1]), kinds[a].duration))
                fixed = (k, j)
            seen[k] += 1
            if (k, j) not in free:
                close()
        close()

    def _contract(
        self,
        order: list[tuple[int, int]],
        waits: dict[tuple[int, int], list[tuple[tuple[int, int], int]]],
    ) -> None:
        """Longest paths through fixed tasks, from free tasks and anchors, all at once."""
        count, lanes = len(self.names), self.num_lanes
        self.direct = [[] for _ in self.names]
        self.anchored = np.full((lanes, count), NEVER, dtype=np.int64)
        final = np.full((lanes, count + lanes), NEVER, dtype=np.int64)
        rows: dict[tuple[int, int], Matrix] = {}
        for name in order:
            row = np.full(count + lanes, NEVER, dtype=np.int64)
            for earlier, wait in waits[name]:
                known = self.number.get(earlier)
                if known is None:
                    np.maximum(row, rows[earlier] + wait, out=row)
                elif row[known] < wait:
                    row[known] = wait
            lane = self.lane_of(name[0])
            if lane is not None:
                row[count + lane] = max(row[count + lane], 0)
            task = self.number.get(name)
            if task is not None:
                self.anchored[:, task] = row[count:]
                found = np.flatnonzero(row[:count] > NEVER // 2)
                self.direct[task] = [(int(u), int(row[u])) for u in found]
            else:
                rows[name] = row
            if lane is not None:
                duration = self.shop.kinds[name[0]].duration
                if task is not None:
                    final[lane, task] = max(final[lane, task], duration)
                else:
                    np.maximum(final[lane], row + duration, out=final[lane])
        self.ended = final[:, :count]
        self.between = final[:, count:].T  # from anchor, to end

    def _finish_graph(self) -> None:
        kinds = self.shop.kinds
        self.kind = np.array([k for k, _ in self.names], dtype=np.int64)
        self.duration = np.array([kinds[k].duration for k, _ in self.names], dtype=np.int64)
        self.home = {task: stretch for stretch in self.stretches for task in stretch.tasks}

    def _open_signs(self) -> None:
        for stretch in self.stretches:
            kinds = sorted(stretch.rows)
            for n, a in enumerate(kinds):
                for b in kinds[n + 1 :]:
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
        self.order = _kahn(waits)
        self.waits = waits
        later: list[list[tuple[int, int]]] = [[] for _ in waits]
        for v, entries in enumerate(waits):
            for u, w in entries:
                later[u].append((v, w))
        self.heads, self.tails = self.anchored.copy(), self.ended.copy()
        for v in self.order:
            for u, w in waits[v]:
                np.maximum(self.heads[:, v], self.heads[:, u] + w, out=self.heads[:, v])
            others = self._certain(v, 1)
            if len(others) > 1:
                work = _set_bound(self.heads[:, others], self.duration[others])
                np.maximum(self.heads[:, v], work, out=self.heads[:, v])
        for u in reversed(self.order):
            for v, w in later[u]:
                np.maximum(self.tails[:, u], self.tails[:, v] + w, out=self.tails[:, u])
            others = self._certain(u, -1)
            if len(others) > 1:
                rest = self.tails[:, others] - self.duration[others]
                work = _set_bound(rest, self.duration[others]) + self.duration[u]
                np.maximum(self.tails[:, u], work, out=self.tails[:, u])

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

    # -- result ------------------------------------------------------------------------------

    def _floor(self) -> int:
        """Least value: paths, and the work of each stretch between its heads and tails."""
        found = [int(self.between.diagonal().max(initial=0))]
        if self.names:
            found.append(int((self.heads + self.tails).max()))
        for stretch in self.stretches:
            tasks = stretch.tasks
            rest = self.tails[:, tasks] - self.duration[tasks]
            for lane in range(self.num_lanes):
                levels = np.unique(rest[lane])
                for level in levels[levels > NEVER // 2]:
                    chosen = [t for t, r in zip(tasks, rest[lane], strict=True) if r >= level]
                    head = _set_bound(self.heads[lane : lane + 1, chosen], self.duration[chosen])
                    found.append(int(head[0] + level))
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
        self.distance = far


def free_tasks(shop: Shop, plan: Plan, free: frozenset[str]) -> set[tuple[int, int]]:
    """Free operators as (kind, number), numbered by start; transfers with a free end are free."""
    begun = {run.operator: run.start_ns or 0 for run in plan.runs}
    places = {(t.value, "->".join([*t.source, *t.target])): t for t in plan.transfers}
    graph = shop.problem.graph
    found: set[tuple[int, int]] = set()
    for k, kind in enumerate(shop.kinds):
        entries: list[tuple[int, int, bool]] = []
        for position, member in enumerate(kind.members):
            if kind.role == TRANSFER:
                value = graph.value(member)
                moved = value.producer in free or not free.isdisjoint(value.consumers)
                start = places[member, shop.machines[kind.machine]].start_ns or 0
            else:
                moved, start = member in free, begun[member]
            entries.append((start, position, moved))
        found |= {(k, j) for j, (_, _, moved) in enumerate(sorted(entries)) if moved}
    return found


def _numbered(word: Sequence[int]) -> list[tuple[int, int]]:
    seen: dict[int, int] = {}
    line = []
    for kind in word:
        line.append((kind, seen.get(kind, 0)))
        seen[kind] = seen.get(kind, 0) + 1
    return line


def _topological(
    lines: list[list[tuple[int, int]]],
    waits: dict[tuple[int, int], list[tuple[tuple[int, int], int]]],
) -> list[tuple[int, int]]:
    """Every task after all that it waits for; the lines are a plan's, so there is no circle."""
    missing = {name: len(entries) for name, entries in waits.items()}
    later: dict[tuple[int, int], list[tuple[int, int]]] = {name: [] for name in waits}
    for name, entries in waits.items():
        for earlier, _ in entries:
            later[earlier].append(name)
    order = [name for line in lines for name in line if not missing[name]]
    for name in order:  # grows while it is read
        for after in later[name]:
            missing[after] -= 1
            if not missing[after]:
                order.append(after)
    return order


def _kahn(waits: list[list[tuple[int, int]]]) -> list[int]:
    missing = [len(entries) for entries in waits]
    later: list[list[int]] = [[] for _ in waits]
    for v, entries in enumerate(waits):
        for u, _ in entries:
            later[u].append(v)
    order = [v for v, number in enumerate(missing) if not number]
    for u in order:  # grows while it is read
        for v in later[u]:
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    if len(order) < len(waits):
        raise Contradiction("certain orders form a circle")
    return order


def _set_bound(heads: Matrix, work: Matrix) -> Matrix:
    """Earliest end of tasks on one machine, per row of heads: the best head + work from it on."""
    order = np.argsort(heads, axis=1)
    ascending = np.take_along_axis(heads, order, axis=1)
    rest = work[order][:, ::-1].cumsum(axis=1)[:, ::-1]
    return (ascending + rest).max(axis=1)  # type: ignore[no-any-return]


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
