"""The best schedule of a complete placement under memory limits, by branching on conflicts.

Proof. Every schedule of the tasks keeps some *arcs*: this task begins no earlier than that one is
done. Of all times that keep a set of arcs, and stay within the value that is still of use, one is
nowhere later than any other: the earliest. Where these times break no law, they are a plan. Where
they do, any schedule that keeps the arcs settles what is broken, by more of them. Two tasks that
overlap on a resource run in one order or the other. Of holdings that overflow a device, not all
have an instant in common, so two of them have none (intervals that meet in pairs meet in a point):
one is released, by all its readers, before the other is made. Or one of them is empty: all its
readers are done when its maker begins. Each of these arcs is broken by the earliest times, and
there are finitely many, so a search through all of them ends, and it leaves out no schedule.

Memory alone is a matter of orders. Let the tasks of any plan run one after the other in the order
in which they are done (those that take time before those that take none, then by supply). What a
device holds while x runs so was made by x or tasks done before, and is read by x or tasks done
after, or stays: in the plan, too, it lies there right before x is done. So no device ever holds
more. And in
an order, a task that fits and leaves no device fuller than before can come next: put there it
takes room from none of those it overtakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import inf
from operator import gt

from milp_plan.core import Objective
from milp_plan.core.budget import OutOfTime

from .tasks import NOBODY, Holding, Tasks

Arc = tuple[int, int, int]
"""(a, b, ticks): b begins at least ``ticks`` after a does."""

MOST_DEAD = 50_000
"""Most stored sets of tasks that no order can begin with: each takes memory."""

Look = Callable[[], None]
"""Called at each step of a search; raises an exception to end it."""


def quiet_order(
    tasks: Tasks, limits: Sequence[int | None], look: Look
) -> tuple[list[int], int] | None:
    """Return an order of the tasks within the memory limits and its peak; ``None`` if none is."""
    if _over(tasks.lasting, limits):
        return None
    everything = frozenset(range(len(tasks.ticks)))
    dead: set[frozenset[int]] = set()
    path: list[tuple[int, Iterator[int]]] = []
    done: frozenset[int] = frozenset()
    steps = iter(_next(tasks, done, limits))
    while done != everything:
        look()
        task = next((t for t in steps if done | {t} not in dead), None)
        if task is not None:
            path.append((task, steps))
            done |= {task}
            steps = iter(_next(tasks, done, limits))
            continue
        dead.add(done)
        if not path:
            return None
        if len(dead) > MOST_DEAD:
            raise OutOfTime
        task, steps = path.pop()
        done -= {task}
    order = [task for task, _ in path]
    peak = max(tasks.lasting, default=0)
    for number, task in enumerate(order):
        if tasks.ticks[task]:
            peak = max(peak, *_used(tasks, {*order[: number + 1]}, {*order[:number]}))
    return order, peak


def _next(tasks: Tasks, done: frozenset[int], limits: Sequence[int | None]) -> Sequence[int]:
    """Return tasks that can come next; a single one where waiting is useless."""
    result = []
    resting = _used(tasks, done, done)
    for task in range(len(tasks.ticks)):
        if task in done or not tasks.before[task] <= done:
            continue
        after = done | {task}
        if tasks.ticks[task] and _over(_used(tasks, after, done), limits):
            continue
        left = _used(tasks, after, after)
        if all(a <= b for a, b in zip(left, resting, strict=True)):
            return [task]
        result.append(task)
    return result


def _used(
    tasks: Tasks, begun: frozenset[int] | set[int], done: frozenset[int] | set[int]
) -> list[int]:
    used = list(tasks.persistent)
    for device, size, maker, readers in tasks.holdings:
        if maker in begun and not readers <= done:
            used[device] += size
    return used


def _over(used: Sequence[int], limits: Sequence[int | None]) -> bool:
    return any(limit is not None and u > limit for u, limit in zip(used, limits, strict=True))


class Settling:
    """Search for the least makespan or span of one placement below a value.

    Parameters
    ----------
    tasks
        What is to be scheduled.
    limits
        Bytes of each device, at every instant.
    best
        Only schedules with less are of use; ``None`` for all.
    look
        Called at each step.
    """

    def __init__(
        self, tasks: Tasks, limits: Sequence[int | None], best: int | None, look: Look
    ) -> None:
        self.tasks, self.limits, self.best, self.look = tasks, limits, best, look
        self.span = tasks.problem.objective is Objective.SPAN
        self.starts: list[int] | None = None
        self.rivals = [
            (a, b)
            for a, b in combinations(range(len(tasks.ticks)), 2)
            if tasks.held[a] & tasks.held[b]
        ]
        self.together = [
            (a, b)
            for a in range(tasks.operators)
            for b in range(tasks.operators)
            if a != b and tasks.held[a] & tasks.held[b]
        ]
        self.crowded = self._crowded()

    def _crowded(self) -> list[tuple[int, list[Holding]]]:
        """Return devices whose memory can run out: bytes for holdings, and the holdings."""
        result = []
        for device, limit in enumerate(self.limits):
            here = [holding for holding in self.tasks.holdings if holding[0] == device]
            if limit is not None:
                room = limit - self.tasks.persistent[device]
                if sum(size for _, size, _, _ in here) > room:
                    result.append((room, here))
        return result

    def run(self) -> None:
        """Set ``best`` and ``starts`` to value and starts of the best schedule, if there is any."""
        ticks = self.tasks.ticks
        arcs = [(p, t, ticks[p]) for t, before in enumerate(self.tasks.before) for p in before]
        least = self.tasks.busiest(devices=True) if self.span else 0
        stack = [(arcs, least, [0] * len(ticks))]
        while stack:
            self.look()
            arcs, least, since = stack.pop()
            result = self._narrowest(arcs, least) if self.span else self._shortest(arcs, since)
            if result is None:
                continue
            value, starts = result
            ways = self._overlap(starts)
            if ways is None:
                ways = self._overflow(starts)
            if ways is None:
                self.best, self.starts = value, starts
                continue
            stack += [([*arcs, *more], value, starts) for more in reversed(ways)]

    def _shortest(self, arcs: list[Arc], since: list[int]) -> tuple[int, list[int]] | None:
        """Return makespan and earliest starts from ``since`` on, if below the best value."""
        best = sum(self.tasks.ticks) + 1 if self.best is None else self.best
        latest = [best - 1 - tail for tail in self.tasks.tails]
        starts = self._earliest(arcs, since, latest)
        if starts is None:
            return None
        return max(s + t for s, t in zip(starts, self.tasks.ticks, strict=True)), starts

    def _narrowest(self, arcs: list[Arc], least: int) -> tuple[int, list[int]] | None:
        """Return the least span from ``least`` on and earliest starts, if below the best value.

        Whoever keeps a span keeps a wider one; the width of one after the other always does.
        """
        most = sum(self.tasks.ticks) if self.best is None else self.best - 1
        result = None
        span = least
        while least <= most:
            starts = self._earliest(arcs + self._ties(span), [0] * len(self.tasks.ticks))
            if starts is None:
                least = span + 1
            else:
                result, most = (span, starts), span - 1
            span = (least + most) // 2
        return result

    def _ties(self, span: int) -> list[Arc]:
        """Return arcs that limit the time from the first start to the last stop on a device."""
        return [(a, b, self.tasks.ticks[a] - span) for a, b in self.together]

    def _earliest(
        self, arcs: list[Arc], since: list[int], latest: list[int] | None = None
    ) -> list[int] | None:
        """Return earliest starts from ``since`` on; ``None`` if there are none, or too late.

        Longest paths have fewer arcs than there are tasks: what still grows then grows for ever.
        """
        starts = list(since)
        for _ in range(len(starts) + 1):
            grown = False
            for a, b, length in arcs:
                start = starts[a] + length
                if start > starts[b]:
                    starts[b], grown = start, True
            if latest is not None and any(map(gt, starts, latest)):
                return None
            if not grown:
                return starts
        return None

    def _overlap(self, starts: list[int]) -> list[list[Arc]] | None:
        """Return the orders of the first two tasks that overlap on a resource."""
        ticks, found, first = self.tasks.ticks, None, 0
        for a, b in self.rivals:
            if starts[a] + ticks[a] > starts[b] and starts[b] + ticks[b] > starts[a]:
                when = max(starts[a], starts[b])
                if found is None or when < first:
                    found, first = (a, b), when
        if found is None:
            return None
        a, b = found
        if (starts[b], starts[b] + ticks[b]) < (starts[a], starts[a] + ticks[a]):
            a, b = b, a
        return [[(a, b, ticks[a])], [(b, a, ticks[b])]]

    def _overflow(self, starts: list[int]) -> list[list[Arc]] | None:
        """Return the arcs that resolve the first overflow of a device."""
        ticks = self.tasks.ticks
        for room, here in self.crowded:
            ends = [
                inf if NOBODY in readers else max(starts[r] + ticks[r] for r in readers)
                for *_, readers in here
            ]
            for moment in sorted({starts[maker] for _, _, maker, _ in here}):
                there = [
                    holding
                    for holding, end in zip(here, ends, strict=True)
                    if starts[holding[2]] <= moment < end
                ]
                if sum(size for _, size, _, _ in there) > room:
                    return self._ways_apart(_few(there, room))
        return None

    def _ways_apart(self, holdings: list[Holding]) -> list[list[Arc]]:
        """Yield arcs: a holding is released before another is made, or is empty: before itself."""
        ticks = self.tasks.ticks
        return [
            [(r, maker, ticks[r]) for r in readers if r != maker]
            for *_, readers in holdings
            if NOBODY not in readers
            for maker in {other for _, _, other, _ in holdings}
            if maker not in readers or not ticks[maker]
        ]


def _few(there: list[Holding], room: int) -> list[Holding]:
    """Return a minimal set of holdings that exceeds a limit, the largest first."""
    taken: list[Holding] = []
    for holding in sorted(there, key=lambda holding: -holding[1]):
        taken.append(holding)
        room -= holding[1]
        if room < 0:
            break
    return taken
