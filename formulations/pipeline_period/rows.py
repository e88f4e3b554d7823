"""Rows of a repeating pattern of a shop: starts, turns, one period.

Every ``K`` consecutive micro-batches of a route run like the ``K`` before them, one period P
later. A task x is (kind, one of the K); it starts at start[x] + n P for n = 0, 1, ... For two
tasks x, y of one machine, the integer turn[x,y] = q says how many periods lie between them:
exactly y's repetitions n >= -q come after x's repetition 0. The formulation ``pipeline_period``
lists the families; :mod:`.period_rates` looks for the shortest period.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, gcd

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from milp_plan.api import Plan
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import value_of

Task = tuple[int, int]
"""(kind, one of the micro-batches of a period)."""

PLANNER = "pipeline_period"


@dataclass(frozen=True)
class Row:
    """start of the first - start of the second + ticks + P (turns + periods) <= 0 (or the value).

    ``value`` marks rows of the span: their right side is the objective.
    """

    starts: tuple[tuple[int, int], ...]
    turns: tuple[tuple[int, int], ...]
    ticks: int = 0
    periods: int = 0
    value: bool = False


class PeriodRows:
    """Columns and rows of a repeating pattern, in ticks.

    ``column`` gives the start of each task (tasks that mirror each other share one), ``turn`` the
    integer of each ordered pair x < y of tasks of one machine (absent where it is known to be 0).
    """

    def __init__(self, shop: Shop, per_period: int, mirror: bool) -> None:
        self.shop, self.per_period = shop, per_period
        self.images = _mirror(shop) if mirror else {}
        self.tasks = [(k, j) for k in range(len(shop.kinds)) for j in range(per_period)]
        self.column: dict[Task, int] = {}
        for task in self.tasks:
            same = (self.images.get(task[0], task[0]), task[1])
            self.column[task] = self.column.get(same, len(set(self.column.values())))
        self.num_starts = len(set(self.column.values()))
        self.turn: dict[tuple[Task, Task], int] = {}
        self.num_turns = 0
        self._name_turns()
        self.memory: list[tuple[tuple[tuple[int, int], ...], int]] = []
        self._memory()
        self.rows = [*self._precede(), *self._in_order(), *self._turns()]
        self.triangles = list(self._triangles())

    def duration(self, task: Task) -> int:
        """Ticks of a task."""
        return self.shop.kinds[task[0]].duration

    def on(self, machine: int) -> list[Task]:
        """Tasks of a machine."""
        return [(k, j) for k in self.shop.on_machine[machine] for j in range(self.per_period)]

    def pairs(self) -> Iterator[tuple[Task, Task]]:
        """Pairs of tasks of one machine and different kinds."""
        for machine in range(len(self.shop.machines)):
            for x, y in combinations(self.on(machine), 2):
                if x[0] != y[0]:
                    yield x, y

    def _name_turns(self) -> None:
        """Pairs that mirror each other share an integer: they share both starts."""
        known: dict[tuple[int, int], int] = {}
        for x, y in self.pairs():
            ends = (self.column[x], self.column[y])
            if ends not in known and ends[::-1] in known:  # the mirrored pair the other way round
                self.turn[y, x] = known[ends[::-1]]
                continue
            if ends not in known:
                known[ends] = self.num_turns
                self.num_turns += 1
            self.turn[x, y] = known[ends]

    def between(self, x: Task, y: Task) -> tuple[int, int, int]:
        """(column or -1, factor, constant) of turn[x,y], for any two tasks of a machine."""
        if x[0] == y[0]:
            return (-1, 0, 0 if x[1] < y[1] else -1)
        if (x, y) in self.turn:
            return (self.turn[x, y], 1, 0)
        return (self.turn[y, x], -1, -1)

    # -- rows --------------------------------------------------------------------------------

    def _row(self, x: Task, y: Task, ticks: int, turn: tuple[int, int, int], periods: int) -> Row:
        """start[y] >= start[x] + ticks + P (turn + periods)."""
        index, factor, constant = turn
        turns = ((index, factor),) if index >= 0 else ()
        starts = ((self.column[x], 1), (self.column[y], -1))
        return Row(starts, turns, ticks, constant + periods)

    def _precede(self) -> Iterator[Row]:
        for a, b, lag in self.shop.arcs:
            for j in range(self.per_period):
                ticks = self.shop.kinds[a].duration + lag
                yield self._row((a, j), (b, j), ticks, (-1, 0, 0), 0)

    def _in_order(self) -> Iterator[Row]:
        last = self.per_period - 1
        for k, kind in enumerate(self.shop.kinds):
            for j in range(last):
                yield self._row((k, j), (k, j + 1), kind.duration, (-1, 0, 0), 0)
            if last:
                yield self._row((k, last), (k, 0), kind.duration, (-1, 0, 0), -1)

    def _turns(self) -> Iterator[Row]:
        done = set()
        for (x, y), index in self.turn.items():
            if index not in done:
                done.add(index)
                yield self._row(x, y, self.duration(x), (index, 1, 0), 0)
                yield self._row(y, x, self.duration(y), (index, -1, 0), -1)

    def _triangles(self) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
        """Rows in turns alone: sum <= constant."""
        seen = set()
        for machine in range(len(self.shop.machines)):
            for x, y, z in combinations(self.on(machine), 3):
                terms: dict[int, int] = {}
                total = 0
                for sign, pair in ((1, (x, y)), (1, (y, z)), (-1, (x, z))):
                    index, factor, constant = self.between(*pair)
                    total += sign * constant
                    if index >= 0:
                        terms[index] = terms.get(index, 0) + sign * factor
                entries = tuple(sorted((i, f) for i, f in terms.items() if f))
                if entries and (entries, total) not in seen:
                    seen.add((entries, total))
                    yield entries, -total
                    yield tuple((i, -f) for i, f in entries), 1 + total

    def _memory(self) -> None:
        for machine, limit in enumerate(self.shop.limits):
            if limit is None:
                continue
            if limit < 0:  # what lies there all the time does not fit, whatever tasks take
                self.memory.append(((), limit))
            tasks = self.on(machine)
            change = {x: self.shop.kinds[x[0]].alloc - self.shop.kinds[x[0]].free for x in tasks}
            for x in tasks:
                if not self.shop.kinds[x[0]].alloc:
                    continue
                held, terms = self.shop.kinds[x[0]].alloc, dict[int, int]()
                for y in tasks:
                    if y != x and change[y]:
                        index, factor, constant = self.between(x, y)
                        held -= change[y] * constant
                        if index >= 0:
                            terms[index] = terms.get(index, 0) - change[y] * factor
                entries = tuple((i, f) for i, f in terms.items() if f)
                if (entries, limit - held) not in self.memory:
                    self.memory.append((entries, limit - held))

    # -- exact times -------------------------------------------------------------------------

    def least_period(self) -> int:
        """Ticks that no pattern can beat: work of a machine; room of a device (Little's law)."""
        shop, most = self.shop, 1
        for machine, kinds in enumerate(shop.on_machine):
            work = sum(shop.kinds[k].duration for k in kinds)
            most = max(most, work * self.per_period)
            limit = shop.limits[machine]
            if limit:
                held = _held(shop, machine) * self.per_period
                most = max(most, ceil(held / limit - 1e-6))
        return most

    def exact(self, turns: list[int], period: int, extra: list[Row] | None = None) -> list[int]:
        """Earliest starts under these turns; raises :class:`PeriodCycle` where P is too short."""
        arcs = []
        for row in [*self.rows, *(extra or [])]:
            before, after = (c for c, _ in row.starts)
            count = row.periods + sum(turns[i] * f for i, f in row.turns)
            arcs.append((before, after, row.ticks, count))
        starts, cause = [0] * self.num_starts, [-1] * self.num_starts
        for _ in range(self.num_starts + 1):
            moved = -1
            for number, (x, y, ticks, count) in enumerate(arcs):
                begin = starts[x] + ticks + count * period
                if begin > starts[y]:
                    starts[y], cause[y], moved = begin, number, y
            if moved < 0:
                return starts
        raise PeriodCycle(*_cycle(arcs, cause, moved))

    def shortest(self, turns: list[int], period: int) -> int | None:
        """The shortest period at least ``period`` under these turns, if there is one."""
        while True:
            try:
                self.exact(turns, period)
            except PeriodCycle as cycle:
                if cycle.turns >= 0:  # rounded from a solution that was not quite one
                    return None
                period = max(period + 1, -(-cycle.ticks // -cycle.turns))
            else:
                return period

    def between_turns(self) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
        """Rows in turns alone, sum <= constant: triangles and memory, in its largest unit."""
        yield from self.triangles
        for terms, most in self.memory:
            unit = gcd(*(f for _, f in terms)) or 1
            yield tuple((i, f // unit) for i, f in terms), most // unit

    def most_periods(self) -> int:
        """Periods that a micro-batch may take: no more than the schedule, but at least 8."""
        count = max(kind.count for kind in self.shop.kinds)
        return max(8, -(-count // self.per_period) + 1)

    def serial(self) -> int:
        """A period in which the micro-batches of a period run one after the other."""
        kinds, arcs = self.shop.kinds, self.shop.arcs
        ticks = sum(kind.duration for kind in kinds) + sum(lag for _, _, lag in arcs)
        return max(1, self.per_period * ticks)

    # -- schedules ---------------------------------------------------------------------------

    def lasts(self) -> Iterator[tuple[Task, int]]:
        """Tasks that run, and the number of their last repetition."""
        for k, j in self.tasks:
            last = (self.shop.kinds[k].count - 1 - j) // self.per_period
            if last >= 0:
                yield (k, j), last

    def spans(self, value: int) -> Iterator[Row]:
        """The value is no less than from any start to any stop on one device."""
        for x, last in self.lasts():
            machine = self.shop.kinds[x[0]].machine
            for first in self.shop.on_machine[machine] if machine < self.shop.num_devices else ():
                if self.column[x] != self.column[first, 0]:
                    ends = ((self.column[x], 1), (self.column[first, 0], -1))
                    yield Row(ends, (), self.duration(x) - value, last, value=True)

    def times(self, starts: list[int], period: int) -> list[list[int]]:
        """Start of every task of the shop, from those of the pattern."""
        rows = []
        for k, kind in enumerate(self.shop.kinds):
            own = [starts[self.column[k, j]] for j in range(self.per_period)]
            turns = (divmod(number, self.per_period) for number in range(kind.count))
            rows.append([own[j] + n * period for n, j in turns])
        return rows

    def plan(self, starts: list[int], period: int) -> Plan:
        """The pattern unrolled over all micro-batches, not shifted."""
        return self.shop.plan(self.times(starts, period), PLANNER)

    def value(self, starts: list[int], period: int) -> int:
        """Objective of the unrolled schedule, ticks."""
        return value_of(self.shop, self.times(starts, period))

    def read(self, plan: Plan, period: int) -> list[int] | None:
        """Starts of the pattern that a plan repeats; ``None`` if it repeats none."""
        begun = {run.operator: run.start_ticks or 0 for run in plan.runs}
        begun |= {transfer.value: transfer.start_ticks or 0 for transfer in plan.transfers}
        starts = [0] * self.num_starts
        for k, j in self.tasks:
            row = sorted(begun[member] for member in self.shop.kinds[k].members)
            if j >= len(row):
                return None
            starts[self.column[k, j]] = row[j]
        rows = [sorted(begun[member] for member in kind.members) for kind in self.shop.kinds]
        return starts if rows == self.times(starts, period) else None


class PeriodCycle(Exception):
    """Tasks that wait for each other: ticks + P * turns > 0 around a cycle."""

    def __init__(self, ticks: int, turns: int) -> None:
        super().__init__(ticks, turns)
        self.ticks, self.turns = ticks, turns


def sparse(rows: Sequence[Sequence[tuple[int, int]]], width: int) -> csr_array:
    """Sparse rows of (column, factor)."""
    entries = [(number, c, float(f)) for number, row in enumerate(rows) for c, f in row]
    if not entries:
        return csr_array((len(rows), width))
    numbers, columns, data = zip(*entries, strict=True)
    return csr_array((data, (numbers, columns)), shape=(len(rows), width))


def _cycle(arcs: list[tuple[int, int, int, int]], cause: list[int], node: int) -> tuple[int, int]:
    """(ticks, turns) of a cycle among the arcs that last raised each start."""
    for _ in range(len(cause)):
        node = arcs[cause[node]][0]
    at, ticks, turns = node, 0, 0
    while True:
        before, _, length, count = arcs[cause[at]]
        ticks, turns, at = ticks + length, turns + count, before
        if at == node:
            return ticks, turns


def _held(shop: Shop, machine: int) -> float:
    """Least bytes times ticks that one micro-batch of every route takes on a machine."""
    cost = np.zeros(len(shop.kinds))
    constant = 0.0
    for k in shop.on_machine[machine]:
        kind = shop.kinds[k]
        cost[k] = kind.free - kind.alloc
        constant += kind.free * kind.duration
    if not constant:
        return 0.0
    matrix = sparse([((a, 1), (b, -1)) for a, b, _ in shop.arcs], len(shop.kinds))
    right = [-float(shop.kinds[a].duration + lag) for a, _, lag in shop.arcs]
    answer = milp(cost, constraints=LinearConstraint(matrix, -np.inf, np.array(right)))
    return float(answer.fun) + constant if answer.x is not None else 0.0


def _mirror(shop: Shop) -> dict[int, int]:
    """Kind of the second route -> the same kind of the first, where devices can be exchanged.

    There are two routes with kinds of equal names, and exchanging the devices of equal kinds maps
    the shop onto itself without leaving a device where it is.
    """
    routes: dict[int, dict[str, int]] = {}
    for k, kind in enumerate(shop.kinds):
        routes.setdefault(kind.route, {})[kind.name] = k
    if len(routes) != 2 or routes[0].keys() != routes[1].keys():
        return {}
    image: dict[int, int] = {}
    for name, k in routes[0].items():
        one, two = shop.kinds[k], shop.kinds[routes[1][name]]
        alike = (one.duration, one.alloc, one.free) == (two.duration, two.alloc, two.free)
        limits = shop.limits[one.machine] == shop.limits[two.machine]
        if one.machine == two.machine or not alike or not limits:
            return {}
        for a, b in ((one.machine, two.machine), (two.machine, one.machine)):
            if image.setdefault(a, b) != b:
                return {}
    arcs = [
        {(shop.kinds[a].name, shop.kinds[b].name, g) for a, b, g in shop.arcs if a in own.values()}
        for own in routes.values()
    ]
    if arcs[0] != arcs[1]:
        return {}
    return {routes[1][name]: k for name, k in routes[0].items()}
