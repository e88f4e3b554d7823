"""Tasks of a shop that may move, and what the fixed ones between them come to.

Near a known plan only the free tasks are kept. A maximal run of free tasks in a machine's word is
a *stretch*; tasks are reordered within their stretch only. Everything else is a fixed chain, of
which only its longest paths between free tasks remain. Without a plan everything is free and each
machine is one stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from milp_plan.api import Neighbourhood, Objective, Plan
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import words_of

NEVER = -(10**15)
"""Distance where there is no path."""

Matrix = NDArray[np.int64]
Signs = NDArray[np.int8]
Name = tuple[int, int]
"""A task: its kind and its number among the kind's tasks."""
T = TypeVar("T")
Waits = dict[Name, list[tuple[Name, int]]]
"""Task -> (task before it, least time between the two starts)."""


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

    def order(self, a: int, i: int, b: int, j: int) -> int:
        """Sign of the i-th task of a in the stretch against the j-th of b."""
        if a == b:
            return 1 if i < j else -1
        return int(self.signs[a, b][i, j]) if (a, b) in self.signs else -int(self.signs[b, a][j, i])


class ShopGraph:
    """Kept tasks of a shop and the least times between their starts.

    Parameters
    ----------
    shop
        The problem.
    neighbourhood
        Where to look; ``None`` means everywhere.

    Attributes
    ----------
    names, number
        Kept tasks, and the position of each.
    direct
        Task -> (task before it, least time between the starts).
    stretches, home
        Where orders are open, and the stretch of each task.
    anchored, ended : shape (lanes, tasks)
        Least time from a lane's anchor to a task's start, and from there to the lane's end, over
        fixed tasks only. Lanes are the devices for the span, and one lane for the makespan.
    between : shape (lanes, lanes)
        From anchor to end over fixed tasks only.
    """

    def __init__(self, shop: Shop, neighbourhood: Neighbourhood | None = None) -> None:
        self.shop = shop
        self.span = shop.objective is Objective.SPAN
        self.num_lanes = shop.num_devices if self.span else 1
        self.stretches: list[Stretch] = []
        if neighbourhood is None:
            self._keep_all()
        else:
            self._keep_free(neighbourhood)
        kinds = shop.kinds
        self.kind = np.array([k for k, _ in self.names], dtype=np.int64)
        self.duration = np.array([kinds[k].duration for k, _ in self.names], dtype=np.int64)
        self.home = {task: stretch for stretch in self.stretches for task in stretch.tasks}

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

    def lane(self, machine: int) -> int:
        """Lane whose anchor a machine's starts count from: of a channel, the source's."""
        if not self.span:
            return 0
        if machine < self.shop.num_devices:
            return machine
        return self.shop.machines.index(self.shop.machines[machine].split("->")[0])

    def label(self, task: int) -> str:
        """Name of a kept task: the operator's, or the value's with the channel that it takes."""
        kind, number = self.names[task]
        entry = self.shop.kinds[kind]
        name = entry.members[number]
        if entry.machine < self.shop.num_devices:
            return name
        return f"{name} on {self.shop.machines[entry.machine]}"

    def _keep_free(self, neighbourhood: Neighbourhood) -> None:
        """Contract the fixed tasks: their words are a plan's, so longest paths are all they do."""
        shop, plan = self.shop, neighbourhood.plan
        free = free_tasks(shop, plan, neighbourhood.free)
        waits: Waits = {
            (k, j): list(self._waits(k, j))
            for k, kind in enumerate(shop.kinds)
            for j in range(kind.count)
        }
        self.stretches = []
        lines: list[list[tuple[int, int]]] = []
        for machine, word in enumerate(words_of(shop, plan)):
            lines.append(numbered(word))
            self._cut(machine, lines[-1], free, waits)
        self.names = sorted(free)
        self.number = {name: task for task, name in enumerate(self.names)}
        for stretch in self.stretches:
            stretch.rows = {k: [self.number[k, j] for j in row] for k, row in stretch.rows.items()}
        self._contract(in_order((name for line in lines for name in line), waits), waits)

    def _cut(
        self,
        machine: int,
        line: list[tuple[int, int]],
        free: set[tuple[int, int]],
        waits: Waits,
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
        waits: Waits,
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


def free_tasks(shop: Shop, plan: Plan, free: frozenset[str]) -> set[tuple[int, int]]:
    """Free operators as (kind, number), numbered by start; transfers with a free end are free."""
    begun = {run.operator: run.start_ticks or 0 for run in plan.runs}
    places = {(t.value, "->".join([*t.source, *t.target])): t for t in plan.transfers}
    graph = shop.problem.graph
    found: set[tuple[int, int]] = set()
    for k, kind in enumerate(shop.kinds):
        entries: list[tuple[int, int, bool]] = []
        for position, member in enumerate(kind.members):
            if kind.is_transfer:
                value = graph.value(member)
                moved = value.producer in free or not free.isdisjoint(value.consumers)
                start = places[member, shop.machines[kind.machine]].start_ticks or 0
            else:
                moved, start = member in free, begun[member]
            entries.append((start, position, moved))
        found |= {(k, j) for j, (_, _, moved) in enumerate(sorted(entries)) if moved}
    return found


def numbered(word: Sequence[int]) -> list[tuple[int, int]]:
    """Tasks of a word."""
    seen: dict[int, int] = {}
    line = []
    for kind in word:
        line.append((kind, seen.get(kind, 0)))
        seen[kind] = seen.get(kind, 0) + 1
    return line


def in_order(names: Iterable[T], waits: Mapping[T, Iterable[tuple[T, int]]]) -> list[T]:
    """Every task after all that it waits for; none of a circle, nor what waits for one."""
    missing = {name: len(list(waits[name])) for name in names}
    later: dict[T, list[T]] = {name: [] for name in missing}
    for name in missing:
        for earlier, _ in waits[name]:
            later[earlier].append(name)
    order = [name for name, number in missing.items() if not number]
    for name in order:  # grows while it is read
        for after in later[name]:
            missing[after] -= 1
            if not missing[after]:
                order.append(after)
    return order
