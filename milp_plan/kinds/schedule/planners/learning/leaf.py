"""Leaves of the search: the schedule of a complete decision, or clauses against it.

Proof. Starts at a leaf are the least that the decided orders allow, and transfers begin as early as
possible. Transfers that overlap on a channel or port become two tasks, one of which stops before
the other starts wherever they share a channel or port. Holdings that overflow a device: intervals
that meet in pairs have an instant in common. So in every plan that has them on one device, or on
another with no more memory, one of them is read for the last time before the maker of another
starts. The leaf violates these clauses, so it does not come again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import inf

from milp_plan.core import CommunicationModel

from ..enumeration.tasks import NOBODY, Tasks
from .network import Literal, no
from .reading import Key, Reading

MOST_PAIRS = 60
"""Most pairs of transfers that one leaf orders."""

Item = tuple[int, tuple[int, ...], int | None, int | None]
"""Bytes, units that must be where they are, maker and last reader (tasks; ``None``: always)."""


class Leaf:
    """One complete decision.

    Parameters
    ----------
    reading
        The problem in the network, whose variables have their least values.
    tasks
        Tasks of the placement.
    places
        Device of each unit.
    """

    def __init__(self, reading: Reading, tasks: Tasks, places: list[int]) -> None:
        self.reading, self.tasks, self.places = reading, tasks, places
        net = reading.net
        self.early = [net.least(start[0]) for start in reading.start]
        for route, served in tasks.sent:
            maker = reading.maker(route.value)
            known = [self._known(route.value, w) for w in self._units(served)]
            self.early.append(max([self._stop(maker), *known]))
        self.clashes: list[tuple[int, int]] = []
        self.late: list[int] = []
        self.overflow: list[tuple[int, list[Item]]] = []

    def _units(self, served: Iterable[str]) -> list[int]:
        """Return the units of operators."""
        return sorted({self.reading.unit[self.reading.index[name]] for name in served})

    def _known(self, value: str, unit: int) -> int:
        """Return the least start of a transfer that is a task of the network, else 0."""
        task = self.reading.transfers.get((value, unit))
        return 0 if task is None else self.reading.net.least(task[0][0])

    def _stop(self, task: int) -> int:
        return self.early[task] + self.tasks.ticks[task]

    def starts(self) -> list[int] | None:
        """Return the starts of all tasks; ``None`` where they break a law."""
        turns = self._by_deadline()
        if turns is not None and not self._overflows(turns):
            return turns
        self.overflow = []
        self.clashes = list(self._find_clashes())
        if self.clashes:
            return None
        self.late = self._late()
        if self.late:
            return None
        self.overflow = self._overflows(self.early)
        return None if self.overflow else self.early

    def _by_deadline(self) -> list[int] | None:
        """Return starts with transfers one after the other, the most urgent first, if possible."""
        starts, free = list(self.early), dict[str, int]()
        waiting = [
            (starts[task], self._deadline(task), task)
            for task in range(self.tasks.operators, len(starts))
        ]
        for start, deadline, task in sorted(waiting):
            held = self.tasks.held[task]
            begin = max([start, *(free.get(resource, 0) for resource in held)])
            if begin > deadline:
                return None
            starts[task] = begin
            for resource in held:
                free[resource] = begin + self.tasks.ticks[task]
        return starts

    def _deadline(self, task: int) -> int:
        """Return the latest start of a transfer."""
        _, served = self.tasks.sent[task - self.tasks.operators]
        first = min(self.early[self.reading.index[name]] for name in served)
        return first - self.tasks.ticks[task]

    def _late(self) -> list[int]:
        """Return transfers that come too late for a reader."""
        return [
            task
            for task in range(self.tasks.operators, len(self.early))
            if self.early[task] > self._deadline(task)
        ]

    def _find_clashes(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of transfers that overlap on a channel or port."""
        count, tasks = 0, self.tasks
        for a, b in combinations(range(tasks.operators, len(self.early)), 2):
            shared = tasks.held[a] & tasks.held[b]
            if shared and self._stop(a) > self.early[b] and self._stop(b) > self.early[a]:
                count += 1
                if count <= MOST_PAIRS:
                    yield a, b

    # -- memory ----------------------------------------------------------------------------------

    def _overflows(self, starts: list[int]) -> list[tuple[int, list[Item]]]:
        """Return devices that overflow at an instant, each with holdings that do not fit."""
        tasks, overflows = self.tasks, []
        stops = [start + ticks for start, ticks in zip(starts, tasks.ticks, strict=True)]
        for device, entry in enumerate(tasks.problem.cluster.devices):
            limit = entry.memory_bytes
            if limit is None:
                continue
            here = [holding for holding in tasks.holdings if holding[0] == device]
            if tasks.persistent[device] + sum(size for _, size, _, _ in here) <= limit:
                continue
            ends = [
                inf if NOBODY in readers else max(stops[r] for r in readers) for *_, readers in here
            ]
            for moment in sorted({starts[maker] for _, _, maker, _ in here} | {0}):
                there = [
                    (holding, end)
                    for holding, end in zip(here, ends, strict=True)
                    if starts[holding[2]] <= moment < end
                ]
                total = tasks.persistent[device] + sum(holding[1] for holding, _ in there)
                if total > limit:
                    items = [*self._lasting(device)]
                    for (_, size, maker, readers), _ in there:
                        last = None
                        if NOBODY not in readers:
                            last = max(readers, key=lambda reader: stops[reader])
                        items.append((size, self._owners(maker, last), maker, last))
                    overflows.append((device, _overflowing(items, limit)))
                    break
        return overflows

    def _lasting(self, device: int) -> Iterator[Item]:
        """Yield the persistent values on a device, each with a unit that reads it there."""
        reading = self.reading
        for value, units in reading.persistent.items():
            here = [u for u in units if self.places[u] == device]
            if here:
                yield reading.persistent_bytes[value], (here[0],), None, None

    def _owners(self, maker: int, last: int | None) -> tuple[int, ...]:
        """Return the units of operators and of both ends of transfers."""
        units: set[int] = set()
        for task in (maker, *(() if last is None else (last,))):
            units.update(self._ends(task))
        return tuple(sorted(units))

    def _ends(self, task: int) -> tuple[int, ...]:
        if task < self.tasks.operators:
            return (self.reading.unit[task],)
        _, served = self.tasks.sent[task - self.tasks.operators]
        return self.reading.unit[self._maker(task)], self._units(served)[0]

    # -- clauses for the network -----------------------------------------------------------------

    def add_clauses(self) -> None:
        """Add tasks and clauses that this leaf violates to the network."""
        for a, b in self.clashes:
            self._separate(a, b)
        for task in self.late:
            route, served = self.tasks.sent[task - self.tasks.operators]
            for unit in self._units(served):
                self.reading.transfer(route.value, unit)
        for device, items in self.overflow:
            self._make_room(device, items)

    def _key(self, task: int) -> Key:
        """Return an operator's number, or the value of a transfer and a unit it goes to."""
        if task < self.tasks.operators:
            return task
        route, served = self.tasks.sent[task - self.tasks.operators]
        units = self._units(served)
        for unit in units:
            self.reading.transfer(route.value, unit)
        return route.value, max(units, key=lambda unit: self._known(route.value, unit))

    def _separate(self, a: int, b: int) -> None:
        """Require that one transfer stops before the other starts if they share a channel."""
        reading = self.reading
        one, other = self._key(a), self._key(b)
        (u, w), (x, y) = self._between(one), self._between(other)
        literals = [reading.before(one, other), reading.before(other, one)]
        channel = self.tasks.problem.cluster.communication is CommunicationModel.CHANNEL
        first, second = (self.tasks.sent[t - self.tasks.operators][0] for t in (a, b))
        literals.append(no(reading.apart(u, w)))
        literals.append(no(reading.apart(x, y)))
        alike = []
        if channel or first.source == second.source:
            alike.append((u, x))
        if channel or first.source != second.source:
            alike.append((w, y))
        if first.value == second.value:
            literals.append(no(reading.apart(w, y)))
        for pair in alike:
            both = reading.together(*pair)
            if both is not None:
                literals.append(no(both))
        reading.net.clause(literals)

    def _between(self, key: Key) -> tuple[int, int]:
        """Return the units that a transfer leaves and goes to."""
        assert not isinstance(key, int)
        value, unit = key
        return self.reading.unit[self.reading.maker(value)], unit

    def _make_room(self, device: int, items: list[Item]) -> None:
        """Require that one holding ends before another begins, or that some are elsewhere."""
        reading = self.reading
        orders: list[Literal] = []
        timed = [(maker, last) for _, _, maker, last in items if maker is not None]
        for (_, last), (maker, _) in product(timed, timed):  # for one alone the order is empty
            if last is not None:
                orders += self._before(last, maker)
        cluster = self.tasks.problem.cluster
        room = cluster.devices[device].memory_bytes
        assert room is not None
        for d, entry in enumerate(cluster.devices):
            if entry.memory_bytes is not None and entry.memory_bytes <= room:
                literals = list(orders)
                for _, units, *ends in items:
                    if ends == [None, None]:
                        literals.append(no(reading.on(units[0], d)))
                    for end in ends:
                        literals += [] if end is None else self._elsewhere(end, device, d)
                reading.net.clause(literals)

    def _elsewhere(self, task: int, device: int, other: int) -> list[Literal]:
        """Return literals, one of which holds if a task does not use ``other`` as ``device``."""
        reading = self.reading
        if task < self.tasks.operators:
            return [no(reading.on(reading.unit[task], other))]
        u, w = self._ends(task)
        if self.places[u] == device:  # leaves it
            return [no(reading.on(u, other)), reading.on(w, other)]
        return [no(reading.on(w, other)), reading.on(u, other)]

    def _before(self, first: int, second: int) -> list[Literal]:
        """Return the literal that one task precedes another; nothing where that is impossible."""
        reading, operators = self.reading, self.tasks.operators
        late = first == second
        if second < operators:  # the first task, or its maker, may need what the second makes
            name = reading.names[first if first < operators else self._maker(first)]
            late = late or name in reading.graph.descendants[reading.names[second]]
        if late and self._least(first) + self._least(second) > 0:
            return []
        return [reading.before(self._key(first), self._key(second))]

    def _least(self, task: int) -> int:
        """Return the least duration of a task over all places."""
        if task < self.tasks.operators:
            return min(self.reading.ticks[task].values())
        value = self.tasks.sent[task - self.tasks.operators][0].value
        return min(ticks for ticks in self.reading.send_ticks(value).values() if ticks is not None)

    def _maker(self, task: int) -> int:
        """Return the number of the operator whose value is sent."""
        return self.reading.maker(self.tasks.sent[task - self.tasks.operators][0].value)


def _overflowing(items: list[Item], limit: int) -> list[Item]:
    """Return a minimal set of items that exceeds a limit, the largest first."""
    taken: list[Item] = []
    left = limit
    for item in sorted(items, key=lambda item: -item[0]):
        taken.append(item)
        left -= item[0]
        if left < 0:
            break
    for item in reversed(taken[:-1]):
        if left + item[0] < 0:
            taken.remove(item)
            left += item[0]
    return taken
