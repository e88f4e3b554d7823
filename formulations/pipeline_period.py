r"""A repeating pattern of a pipeline: the shortest period, then the shortest schedule with it.

Every ``K`` consecutive micro-batches of a route run like the ``K`` before them, one period P later
(modulo scheduling). A task x is (kind, one of the K); it starts at start[x] + n P for n = 0, 1, ...
For two tasks x, y of one machine, the integer turn[x,y] = q says how many periods lie between
them: exactly y's repetitions n >= -q come after x's repetition 0.

==============  ==================================================================================
``precede``     start[y] >= start[x] + d[x] + lag, for each arc within a micro-batch
``in_order``    start[k,j+1] >= start[k,j] + d[k];  start[k,0] + P >= start[k,K-1] + d[k]
``turns``       d[x] <= start[y] - start[x] - P turn[x,y] <= P - d[y]
``triangles``   turn[x,y] + turn[y,z] <= turn[x,z] <= turn[x,y] + turn[y,z] + 1
``memory``      alloc[x] - sum_y (alloc[y] - free[y]) turn[x,y] <= limit, at each allocating x
``makespan``    makespan >= start[x] + P (repetitions of x - 1) + d[x]; a span per device alike
==============  ==================================================================================

Bytes on a device change only at its own tasks, and what is allocated in a period is released in a
period; so the number of repetitions of y before one of x, up to a constant that cancels, is
-turn[x,y], and the memory rows are exact however many stages a device runs. At the ends of the
schedule there are fewer repetitions, hence no more bytes.

Divided by P all rows are linear in the rate 1/P too: one model finds the shortest period for K
without a scan, and the turns of its solution determine P exactly, as the largest ratio of length
and turns on a cycle. With P known, the model minimises the objective of the schedule.

Source: this project; the model is the cyclic shop's (Hanen and Munier 1995; the form in 1/P:
Brucker and Kampmeyer 2008), with memory as linear rows in the turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, gcd

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import block_array, csr_array, identity

from milp_plan.api import (
    Card,
    FormulationError,
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    Scale,
    Shop,
    Values,
    read_shop,
    value_of,
)

Task = tuple[int, int]
"""(kind, one of the micro-batches of a period)."""


@dataclass(frozen=True)
class Options:
    """Switches of the formulation."""

    micro_batches: int = field(
        default=1, metadata={"help": "micro-batches per period and route (1 to 3 are useful)"}
    )
    period: int = field(default=0, metadata={"help": "ticks of a period; 0: the shortest"})
    search_s: float = field(
        default=20.0, metadata={"help": "seconds to look for the shortest period"}
    )
    mirror: bool = field(
        default=True, metadata={"help": "opposite routes do the same on opposite devices"}
    )
    even: int = field(
        default=0,
        metadata={"help": "1 or 2: every device (every other) runs one cycle, a far smaller model"},
    )


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


class Pattern:
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
        """Earliest starts under these turns; raises :class:`_Cycle` where P is too short."""
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
        raise _Cycle(*_cycle(arcs, cause, moved))

    def shortest(self, turns: list[int], period: int) -> int | None:
        """The shortest period at least ``period`` under these turns, if there is one."""
        while True:
            try:
                self.exact(turns, period)
            except _Cycle as cycle:
                if cycle.turns >= 0:  # rounded from a solution that was not quite one
                    return None
                period = max(period + 1, -(-cycle.ticks // -cycle.turns))
            else:
                return period

    # -- the search for the shortest period --------------------------------------------------

    def search(self, seconds: float, even: int = 0) -> list[tuple[int, list[int]]]:
        """Patterns of the shortest period for K: (period, turns) each, the first is the shortest.

        One model in the rate 1/P. With the rate known, two more patterns are looked for: the
        shortest way through for a micro-batch, and one whose last tasks come as late as they can
        (at the end of a schedule they fill gaps). ``even`` looks among :meth:`even` patterns; of
        others only one is looked for, because each takes long.
        """
        model = _Rates(self, even)
        found: list[tuple[int, list[int]]] = []
        for late in (None, 0.0, 0.5) if even else (None,):
            turns = model.solve(found[0][0] if found else 0, late or 0.0, seconds)
            period = None if turns is None else self.shortest(turns, model.least)
            if turns is not None and period is not None:
                found.append((period, turns))
            if not found:
                break
        return sorted(found, key=lambda entry: entry[0])

    def even(self, stride: int) -> tuple[csr_array, NDArray[np.float64], NDArray[np.int64]] | None:
        """Starts and turns = matrix @ columns + constant, in periods, for even patterns.

        Stages in a row (:meth:`runs`) start in equal steps along the machines, and every
        ``stride``-th machine runs its tasks in the same cycle: start = first + machine / stride *
        (step + whole), with one step for all runs and a whole number of periods for each. Then
        turns are linear in the machine too, and the number of integers does not depend on how many
        there are.
        """
        runs = list(self.runs())
        home = [sorted(self.shop.kinds[k].machine for k in run) for run in runs]
        if any(machines != home[0] for machines in home) or self.images:
            return None
        rounds, place = self.per_period, [kind.machine for kind in self.shop.kinds]
        group = {
            (k, j): (number * stride + place[k] % stride) * rounds + j
            for number, run in enumerate(runs)
            for k in run
            for j in range(rounds)
        }
        size = len(runs) * stride * rounds
        entries: list[tuple[int, int, float]] = []
        pairs: dict[tuple[int, int], int] = {}
        shift = np.zeros(self.num_starts + self.num_turns)
        for x in self.tasks:
            row, own, at = self.column[x], group[x], float(place[x[0]] // stride)
            entries += [(row, own, 1.0), (row, size + own, at)]
            entries.append((row, 2 * size + place[x[0]] % stride, at))
        for (x, y), index in self.turn.items():
            row, at = self.num_starts + index, float(place[x[0]] // stride)
            ends, sign = (group[x], group[y]), 1.0
            if ends not in pairs and ends[::-1] in pairs:
                sign, shift[row], ends = -1.0, -1.0, ends[::-1]
            column = 2 * size + stride + pairs.setdefault(ends, len(pairs))
            entries += [(row, column, sign)]
            entries += [(row, size + ends[1], sign * at), (row, size + ends[0], -sign * at)]
        rows, columns, data = zip(*entries, strict=True)
        whole = np.array([0] * size + [1] * size + [0] * stride + [1] * len(pairs))
        return csr_array((data, (rows, columns)), shape=(len(shift), len(whole))), shift, whole

    def runs(self) -> Iterator[list[int]]:
        """Kinds of one role in a row, on machines in equal steps."""
        kinds, heads = self.shop.kinds, self.shop.heads
        roles: dict[tuple[int, str], list[int]] = {}
        for k, kind in enumerate(kinds):
            roles.setdefault((kind.route, kind.role), []).append(k)
        for members in roles.values():
            members.sort(key=lambda k: (heads[k], k))
            run = members[:1]
            for k in members[1:]:
                step = kinds[k].machine - kinds[run[-1]].machine
                before = kinds[run[-1]].machine - kinds[run[-2]].machine if len(run) > 1 else step
                if step == before and step:
                    run.append(k)
                else:
                    yield run
                    run = [k]
            yield run

    def most_periods(self) -> int:
        """Periods that a micro-batch may take: no more than the schedule, but at least 8."""
        count = max(kind.count for kind in self.shop.kinds)
        return max(8, -(-count // self.per_period) + 1)

    def serial(self) -> int:
        """A period in which the micro-batches of a period run one after the other."""
        kinds, arcs = self.shop.kinds, self.shop.arcs
        return self.per_period * (sum(k.duration for k in kinds) + sum(lag for _, _, lag in arcs))

    # -- schedules ---------------------------------------------------------------------------

    def lasts(self) -> Iterator[tuple[Task, int]]:
        """Tasks that run, and the number of their last repetition."""
        for k, j in self.tasks:
            last = (self.shop.kinds[k].count - 1 - j) // self.per_period
            if last >= 0:
                yield (k, j), last

    def spans(self, period: int, value: int) -> Iterator[Row]:
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
        return self.shop.plan(self.times(starts, period), FORMULATION.card.name)

    def value(self, starts: list[int], period: int) -> int:
        """Objective of the unrolled schedule, ticks."""
        return value_of(self.shop, self.times(starts, period))

    def read(self, plan: Plan, period: int) -> list[int] | None:
        """Starts of the pattern that a plan repeats; ``None`` if it repeats none."""
        begun = {run.operator: run.start_ns or 0 for run in plan.runs}
        begun |= {transfer.value: transfer.start_ns or 0 for transfer in plan.transfers}
        starts = [0] * self.num_starts
        for k, j in self.tasks:
            row = sorted(begun[member] for member in self.shop.kinds[k].members)
            if j >= len(row):
                return None
            starts[self.column[k, j]] = row[j]
        rows = [sorted(begun[member] for member in kind.members) for kind in self.shop.kinds]
        return starts if rows == self.times(starts, period) else None


class _Rates:
    """The pattern divided by its period: columns are starts, turns, the rate, the way through."""

    def __init__(self, pattern: Pattern, even: int) -> None:
        self.pattern, self.least = pattern, pattern.least_period()
        n, q = pattern.num_starts, pattern.num_turns
        self.most = most = float(pattern.most_periods())
        self.into, self.shift = csr_array(identity(n + q)), np.zeros(n + q)
        self.whole = np.array([0] * n + [1] * q)
        found = pattern.even(even) if even else None
        self.possible = not even or found is not None
        if found is not None:
            self.into, self.shift, self.whole = found
        ends = [((pattern.column[x], 1),) for x in pattern.tasks]
        others = [*pattern.triangles, *_scaled(pattern.memory)]
        blocks: list[tuple[csr_array, list[float], list[float], float]] = [
            (
                _matrix(
                    [(*r.starts, *((n + i, f) for i, f in r.turns)) for r in pattern.rows], n + q
                ),
                [float(row.ticks) for row in pattern.rows],
                [-float(row.periods) for row in pattern.rows],
                0.0,
            ),
            (
                _matrix([[(n + i, f) for i, f in terms] for terms, _ in others], n + q),
                [0.0] * len(others),
                [float(limit) for _, limit in others],
                0.0,
            ),
            (_matrix(ends, n + q) * -1.0, [0.0] * len(ends), [0.0] * len(ends), 0.0),
            (
                _matrix(ends, n + q),
                [float(pattern.duration(x)) for x in pattern.tasks],
                [0.0] * len(ends),
                -1.0,
            ),
        ]
        rows, right = [], []
        self.sinks = [not pattern.shop.after[k] for k, _ in pattern.tasks]
        for body, ticks, limits, through in blocks:
            ways = np.full(len(ticks), through)
            if through and not all(self.sinks):
                ways[self.sinks] = -2.0  # what comes last may come later
            rate = np.array(ticks)[:, None] / self.least
            rows.append([body @ self.into, csr_array(rate), csr_array(ways[:, None])])
            right.append(np.array(limits) - body @ self.shift)
        self.rows = LinearConstraint(csr_array(block_array(rows)), -np.inf, np.concatenate(right))
        last = [
            pattern.column[x] for x, sink in zip(pattern.tasks, self.sinks, strict=True) if sink
        ]
        self.last = (_matrix([((c, 1),) for c in last], n + q) @ self.into).sum(axis=0) / len(last)
        low = np.full(len(self.whole), -most - 1) if even else np.array([0.0] * n + [-most - 1] * q)
        self.low, self.high = low, np.full(len(self.whole), most)

    def solve(self, period: int, late: float, seconds: float) -> list[int] | None:
        """Turns of the shortest period; or of the best pattern for a period that is known."""
        if not self.possible:
            return None
        width, rate = len(self.whole), self.least / period if period else 0.0
        cost = np.append(-late * self.last if period else np.zeros(width), [-1.0, float(rate > 0)])
        if not period:
            cost[-1] = 0.0
        answer = milp(
            cost,
            integrality=np.append(self.whole, [0, 0]),
            bounds=Bounds(
                np.append(self.low, [rate or self.least / self.pattern.serial(), 0.0]),
                np.append(self.high, [rate or 1.0, 4 * self.most]),
            ),
            constraints=self.rows,
            options={"time_limit": seconds, "mip_rel_gap": 0.02 if period else 1e-7},
        )
        if answer.x is None or answer.x[width] <= 0:
            return None
        found = np.where(self.whole, np.round(answer.x[:width]), answer.x[:width])
        return [round(v) for v in (self.into @ found + self.shift)[self.pattern.num_starts :]]


class _Cycle(Exception):
    """Tasks that wait for each other: ticks + P * turns > 0 around a cycle."""

    def __init__(self, ticks: int, turns: int) -> None:
        super().__init__(ticks, turns)
        self.ticks, self.turns = ticks, turns


def _matrix(rows: Sequence[Sequence[tuple[int, int]]], width: int) -> csr_array:
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


def _scaled(
    rows: list[tuple[tuple[tuple[int, int], ...], int]],
) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
    """Rows of bytes, divided by what their factors have in common."""
    for terms, most in rows:
        unit = gcd(*(f for _, f in terms)) or 1
        yield tuple((i, f // unit) for i, f in terms), most // unit


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
    matrix = _matrix([((a, 1), (b, -1)) for a, b, _ in shop.arcs], len(shop.kinds))
    right = [-float(shop.kinds[a].duration + lag) for a, _, lag in shop.arcs]
    answer = linprog(cost, A_ub=matrix, b_ub=right, bounds=(0, None))
    return float(answer.fun) + constant if answer.status == 0 else 0.0


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


class PipelinePeriod:
    """Schedules that repeat themselves: the best of them is a plan, not the optimum."""

    card = Card(
        name="pipeline_period",
        title="The shortest repeating pattern of a pipeline, unrolled over all micro-batches",
        source="this project; cyclic shops: Hanen and Munier 1995, Brucker and Kampmeyer 2008",
        objectives=(Objective.MAKESPAN, Objective.SPAN),
        exact=False,
    )
    Options = Options

    def unsupported(self, problem: PlanningProblem, options: Options) -> str | None:
        """Only shops of identical micro-batches repeat themselves."""
        shop = read_shop(problem)
        return shop if isinstance(shop, str) else None

    def fastest(self, problem: PlanningProblem, options: Options) -> list[tuple[int, Plan]]:
        """Shortest periods, ticks, each with a plan that repeats itself; empty if none is found."""
        pattern = _pattern(problem, options)
        found = pattern.search(options.search_s, options.even)
        return [(period, pattern.plan(pattern.exact(t, period), period)) for period, t in found]

    def build(self, problem: PlanningProblem, options: Options, guide: Guide) -> pyo.ConcreteModel:
        """Write the model for the given or the shortest period.

        A known plan's value cuts nothing off: what is decoded may still be shifted left.
        """
        pattern = _pattern(problem, options)
        period = options.period
        if not period:
            found = pattern.search(options.search_s, options.even)
            period = found[0][0] if found else pattern.serial()
        return _model(pattern, period, guide)

    def scale(self, problem: PlanningProblem, options: Options, guide: Guide) -> Scale:
        """Objectives count in what all times have in common."""
        return Scale(_unit(_shop(problem)))

    def decode(
        self, problem: PlanningProblem, options: Options, guide: Guide, values: Values
    ) -> Plan:
        """Round the turns, give every task its earliest start under them, and unroll."""
        pattern = _pattern(problem, options)
        unit = _unit(pattern.shop)
        period = round(values["period"][None] * unit)
        turns = [round(values["turn"][i]) for i in range(pattern.num_turns)]
        worst = round(values["value"][None] * unit)
        for value in range(worst, worst + period + 1):
            rows = list(pattern.spans(period, value)) if problem.objective is Objective.SPAN else []
            try:
                return pattern.plan(pattern.exact(turns, period, rows), period)
            except _Cycle as cycle:
                if not rows:
                    raise FormulationError(f"no pattern of period {period}: {cycle}") from None
        raise FormulationError(f"no pattern of period {period} and span {worst}")

    def encode(
        self, problem: PlanningProblem, options: Options, model: pyo.ConcreteModel, plan: Plan
    ) -> Values | None:
        """Complete start from a plan that repeats itself with the model's period."""
        pattern: Pattern = model.pattern
        period, unit = model.ticks, _unit(pattern.shop)
        starts = pattern.read(plan, period)
        if starts is None or max(starts) > period * pattern.most_periods():
            return None
        turns = [0] * pattern.num_turns
        for (x, y), index in pattern.turn.items():
            ahead = starts[pattern.column[y]] - starts[pattern.column[x]]
            turns[index] = ahead // period - (ahead % period < pattern.duration(x))
        try:
            pattern.exact(turns, period)
        except _Cycle:
            return None
        value = max(pattern.value(starts, period), round(pyo.value(model.value.lb) * unit))
        return {
            "start": {i: ticks / unit for i, ticks in enumerate(starts)},
            "turn": dict(enumerate(turns)),
            "period": {None: period / unit},
            "value": {None: value / unit},
        }


def _shop(problem: PlanningProblem) -> Shop:
    shop = read_shop(problem)
    if isinstance(shop, str):
        raise FormulationError(f"{problem.name}: {shop}")
    return shop


def _pattern(problem: PlanningProblem, options: Options) -> Pattern:
    mirror = options.mirror and not options.even
    return Pattern(_shop(problem), max(1, options.micro_batches), mirror)


def _unit(shop: Shop) -> int:
    """Ticks that all durations and lags have in common."""
    return gcd(*(k.duration for k in shop.kinds), *(lag for _, _, lag in shop.arcs)) or 1


def _model(pattern: Pattern, period: int, guide: Guide) -> pyo.ConcreteModel:
    """The pattern with a period that is known, and its schedule's value."""
    m = pyo.ConcreteModel("pipeline_period")
    m.pattern, m.ticks = pattern, period
    unit = _unit(pattern.shop)
    most = pattern.most_periods()
    m.start = pyo.Var(range(pattern.num_starts), bounds=(0, most * period / unit))
    m.turn = pyo.Var(range(pattern.num_turns), bounds=(-most - 1, most), domain=pyo.Integers)
    m.period = pyo.Var(bounds=(period / unit, period / unit))
    m.value = pyo.Var(bounds=(max(0, guide.bound or 0) / unit, None))
    m.rows = pyo.ConstraintList()
    m.rows.add(m.period >= period / unit)
    span = pattern.shop.objective is Objective.SPAN
    for row in [*pattern.rows, *(pattern.spans(period, 0) if span else ())]:
        body = sum(f * m.start[c] for c, f in row.starts)
        body += sum(f * period / unit * m.turn[i] for i, f in row.turns)
        if row.value:
            body -= m.value
        m.rows.add(body + row.ticks / unit + row.periods * m.period <= 0)
    if not span:
        m.makespan = pyo.ConstraintList()
        for x, last in pattern.lasts():
            stop = m.start[pattern.column[x]] + pattern.duration(x) / unit
            m.makespan.add(stop + last * m.period - m.value <= 0)
    m.between = pyo.ConstraintList()
    for terms, limit in [*pattern.triangles, *_scaled(pattern.memory)]:
        if terms:
            m.between.add(sum(f * m.turn[i] for i, f in terms) <= limit)
        elif limit < 0:
            m.between.add(m.value <= -1)  # a task that alone is too large
    m.objective = pyo.Objective(expr=m.value)
    return m


FORMULATION = PipelinePeriod()
