"""Exact optimum of tiny problems by enumeration: the witness every planner is held against.

:func:`brute_force` goes through every joint placement and every choice of transfer sources
(``workload.py``), cheapest lower bound first, and searches the schedules of each exactly.

Why time-ordered schedules suffice for the makespan
---------------------------------------------------
Claim: some optimal plan starts every task at 0 or when a task that began earlier, or another one
of no length, stops. Take an optimal plan with the smallest sum of starts, and let s > 0 be a start
at which no task that began before s stops. Let e < s be the latest stop before s, or 0. Move all
tasks that start at s to e. Nothing stops in (e, s), and only tasks that start at s themselves (and
last no time) stop at s. So (1) their resources are idle during [e, s): a task in the way would
have to stop in (e, s]; (2) their inputs were complete at e already; (3) memory is released only
at stops, so usage does not fall during [e, s), and what the moved tasks add fits there because it
fits right after s, on top of at least as much; and they release earlier than before. The sum of
starts fell and the makespan did not grow: a contradiction. Hence it is enough to decide, at 0 and
at each stop, which tasks start. Tasks of no length come first at each instant: none of them can
depend on a task of positive length that starts at the same instant, and half-open intervals count
memory only while time passes.

Why serial orders suffice for memory
------------------------------------
Run the tasks of any valid plan one after the other in the order of their stops (at equal stops
those of positive length first, then by supply). While task x runs alone, a device holds what x and
the tasks before it have made, less what is read only by tasks before x. In the valid plan all of
that is held just before x stops. At the end each holds its results in either plan. So the serial
plan is valid, and no device ever holds more than it did. Hence peak memory is a search over orders,
and memory admits a placement exactly if it admits an order.

The least span has a search of its own (``span.py``): there a device may start late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate

from milp_plan.core import MemoryLaw, Objective, Plan, PlanningProblem

from .remember import remembered
from .span import least_span
from .workload import Expander, Workload, joint_placements

Running = tuple[tuple[int, int], ...]
"""(stop, task) of each task that runs."""


@remembered
def brute_force(problem: PlanningProblem) -> tuple[int, Plan] | None:
    """Return the optimum and a plan that reaches it; ``None`` if there is no plan."""
    found = []
    for load in workloads(problem):
        if problem.memory_law is MemoryLaw.STATIC and not load.fits(load.static_usage()):
            continue
        found.append((_lower_bound(load), len(found), load))
    found.sort()
    best: tuple[int, Plan] | None = None
    for bound, _, load in found:
        if best is not None and bound >= best[0]:
            break
        best = _solve(load, None if best is None else best[0]) or best
    return best


def workloads(problem: PlanningProblem) -> Iterator[Workload]:
    """Yield every joint placement that values can be routed through, with every choice of ways."""
    expand = Expander(problem)
    for placement in joint_placements(problem):
        yield from expand(placement)


def _lower_bound(load: Workload) -> int:
    if load.problem.objective is Objective.BOTTLENECK:
        return load.busiest()
    if load.problem.objective is Objective.MAKESPAN:
        return Timetable(load).bound(0, 0, ())
    if load.problem.objective is Objective.SPAN:
        return load.busiest(load.devices)
    if load.problem.memory_law is MemoryLaw.STATIC:
        return max(load.static_usage())
    return _quietest_bound(load)


def _quietest_bound(load: Workload) -> int:
    """Lower bound on the peak: what each task that takes time needs beside it."""
    return max(map(max, _besides(load)))


def _besides(load: Workload) -> list[list[int]]:
    """Bytes that must be there at some instant: at the end, and beside each task."""
    timed = [task for task, ticks in enumerate(load.durations) if ticks]
    return [load.lasting(), *(_beside(load, task) for task in timed)]


def _beside(load: Workload, task: int) -> list[int]:
    """Bytes that a task makes, reads or works in: they are there while it runs."""
    used = list(load.persistent)
    for buffer in load.buffers:
        if buffer.readers >> task & 1:
            used[buffer.device] += buffer.bytes
    return used


def _solve(load: Workload, cutoff: int | None) -> tuple[int, Plan] | None:
    """Return the best plan of one workload if its value is below the cutoff."""
    objective, static = load.problem.objective, load.problem.memory_law is MemoryLaw.STATIC
    if static:
        load = load._replace(limits=(None,) * len(load.limits))
    if not load.problem.needs_schedule:
        return load.busiest(), load.plan([None] * len(load.durations))
    if objective is Objective.MAKESPAN:
        return _shortest(load, cutoff)
    if objective is Objective.SPAN:
        return _narrowest(load, cutoff)
    quiet = quietest_order(
        load, cutoff if objective is Objective.PEAK_MEMORY and not static else None
    )
    if quiet is None:
        return None
    value = {
        Objective.BOTTLENECK: load.busiest(),
        Objective.PEAK_MEMORY: max(load.static_usage()) if static else quiet[0],
    }[objective]
    return value, load.plan(serial_starts(load, quiet[1]))


def _shortest(load: Workload, cutoff: int | None) -> tuple[int, Plan] | None:
    timetable = Timetable(load)
    if timetable.tight and quietest_order(load) is None:
        return None
    found = timetable.search(cutoff)
    return found and (found[0], load.plan(found[1]))


def _narrowest(load: Workload, cutoff: int | None) -> tuple[int, Plan] | None:
    if quietest_order(load) is None:
        return None
    found = least_span(load, cutoff)
    return found and (found[0], load.plan(found[1]))


def serial_starts(load: Workload, order: list[int]) -> list[int]:
    """Start of each task when they run one after the other in this order."""
    stops = accumulate((load.durations[task] for task in order), initial=0)
    starts = dict(zip(order, stops, strict=False))
    return [starts[task] for task in range(len(order))]


def quietest_order(load: Workload, cutoff: int | None = None) -> tuple[int, list[int]] | None:
    """Return the order of tasks with the smallest peak, if within memory and below the cutoff.

    A step that stays below the peak and leaves no device fuller is taken at once: moved to the
    front of any order, its outputs take no more and what it releases no less than now.
    """
    besides = _besides(load)
    floor = max(map(max, besides))
    if not all(map(load.fits, besides)) or (cutoff is not None and floor >= cutoff):
        return None
    heap = [(floor, 0, 0)]
    last: dict[int, int] = {0: -1}
    reached = {0: floor}
    while heap:
        peak, missing, done = heappop(heap)
        if done == load.everything:
            return peak, _walk_back(last, done)
        if peak > reached[done]:
            continue
        for task, higher in _steps(load, done, peak):
            after = done | 1 << task
            if (cutoff is None or higher < cutoff) and reached.get(after, higher + 1) > higher:
                reached[after], last[after] = higher, task
                heappush(heap, (higher, missing - 1, after))
    return None


def _steps(load: Workload, done: int, peak: int) -> list[tuple[int, int]]:
    """Tasks worth running next, each with the peak after it."""
    resting = load.usage(done, done)
    steps = []
    for task in startable(load, done, done):
        after = done | 1 << task
        used = load.usage(after, done) if load.durations[task] else load.persistent
        if not load.fits(used):
            continue
        higher = max(peak, *used)
        left = load.usage(after, after)
        if higher == peak and all(a <= b for a, b in zip(left, resting, strict=True)):
            return [(task, peak)]
        steps.append((task, higher))
    return steps


def _walk_back(last: dict[int, int], done: int) -> list[int]:
    order = []
    while done:
        order.append(last[done])
        done ^= 1 << last[done]
    return order[::-1]


def startable(load: Workload, started: int, done: int) -> list[int]:
    """List the tasks that are not started and whose predecessors are all done."""
    return [
        task
        for task, before in enumerate(load.before)
        if not started >> task & 1 and not before & ~done
    ]


class Timetable:
    """Time-ordered depth-first search over the schedules of one workload."""

    def __init__(self, load: Workload) -> None:
        self.load = load
        self.durations = load.durations
        tasks = range(len(load.durations))
        self._preds = [[p for p in tasks if load.before[i] >> p & 1] for i in tasks]
        self._order = _in_turn(load.before)
        self._tails = list(load.durations)
        for i in reversed(self._order):
            for p in self._preds[i]:
                self._tails[p] = max(self._tails[p], load.durations[p] + self._tails[i])
        self._lanes = []
        for bit in range(max(load.resources).bit_length()):
            lane = [i for i in tasks if load.resources[i] >> bit & 1 and load.durations[i]]
            if len(lane) > 1:
                self._lanes.append(lane)

    @cached_property
    def tight(self) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
        """(persistent bytes, limit, buffers) of each device whose memory could ever run out."""
        return _tight_part(self.load)

    @cached_property
    def _rivals(self) -> list[int]:
        """Masks of the tasks that want a resource of each task."""
        held = self.load.resources
        return [
            sum(1 << j for j, other in enumerate(held) if j != i and mine & other)
            for i, mine in enumerate(held)
        ]

    def bound(self, now: int, done: int, running: Running) -> int:
        """Lower bound on the makespan: longest chains, and what each lane still has to carry."""
        free = {task: stop for stop, task in running}
        bound = max((stop + self._tails[i] - self.durations[i] for stop, i in running), default=now)
        heads: dict[int, int] = {}
        for i in self._order:
            if done >> i & 1 or i in free:
                continue
            head = now
            for p in self._preds[i]:
                ready = free.get(p, now)
                if p in heads:
                    ready = heads[p] + self.durations[p]
                head = max(head, ready)
            heads[i] = head
            bound = max(bound, head + self._tails[i])
        for lane in self._lanes:
            rest = [i for i in lane if i in heads]
            if rest:
                idle = max((free[i] for i in lane if i in free), default=now)
                first = max(idle, min(heads[i] for i in rest))
                after = min(self._tails[i] - self.durations[i] for i in rest)
                bound = max(bound, first + sum(self.durations[i] for i in rest) + after)
        return bound

    def search(self, cutoff: int | None) -> tuple[int, list[int]] | None:
        """Return the shortest makespan and the starts, if it is below the cutoff."""
        self._best = float("inf") if cutoff is None else cutoff
        self._starts = [0] * len(self.durations)
        self._found: list[int] | None = None
        self._earliest: dict[tuple[int, Running], int] = {}
        self._instant(0, 0, ())
        return None if self._found is None else (int(self._best), self._found)

    def _instant(self, now: int, done: int, running: Running) -> None:
        """Decide everything that starts now."""
        busy = 0
        for _, task in running:
            busy |= self.load.resources[task]
        for reached in self._pass_instantly(done, busy, running):
            for task in range(len(self.durations)):
                if (reached & ~done) >> task & 1:
                    self._starts[task] = now
            started = reached
            for _, task in running:
                started |= 1 << task
            if not self._fits(started, reached):
                continue  # what a task without length has made lasts and has no room yet
            if reached == self.load.everything:
                if now < self._best:
                    self._best, self._found = now, list(self._starts)
                return
            ready = [i for i in startable(self.load, started, reached) if self.durations[i]]
            self._choose(now, reached, running, started, busy, ready)

    def _pass_instantly(self, done: int, busy: int, running: Running) -> list[int]:
        """Masks of done tasks after any of the tasks without length ran now, largest first."""
        begun = sum(1 << task for _, task in running)
        seen = {done}
        stack = [done]
        while stack:
            mask = stack.pop()
            for task in startable(self.load, mask | begun, mask):
                after = mask | 1 << task
                free = not self.load.resources[task] & busy
                if free and not self.durations[task] and after not in seen:
                    seen.add(after)
                    stack.append(after)
        masks = sorted(seen, key=lambda mask: (-mask.bit_count(), mask))
        return masks if self.tight else masks[:1]

    def _choose(
        self, now: int, done: int, running: Running, started: int, busy: int, ready: list[int]
    ) -> None:
        """Start the first ready task or leave it for later, then go on with the others."""
        if not ready:
            self._advance(done, running)
            return
        task, others = ready[0], ready[1:]
        after = started | 1 << task
        held = self.load.resources[task]
        if not held & busy and self._fits(after, done):
            self._starts[task] = now
            longer = (*running, (now + self.durations[task], task))
            self._choose(now, done, longer, after, busy | held, others)
            if not self.tight and not self._rivals[task] & ~started:
                return  # nobody else wants its resources, so waiting cannot help
        self._choose(now, done, running, started, busy, others)

    def _fits(self, started: int, done: int) -> bool:
        for base, limit, buffers in self.tight:
            used = base
            for size, maker, readers in buffers:
                if started >> maker & 1 and readers & ~done:
                    used += size
            if used > limit:
                return False
        return True

    def _advance(self, done: int, running: Running) -> None:
        """Go on to the next stop."""
        if not running:
            return  # nothing runs and nothing started: nothing will ever change
        now = min(running)[0]
        for stop, task in running:
            if stop == now:
                done |= 1 << task
        rest = tuple(sorted(entry for entry in running if entry[0] > now))
        state = (done, tuple((stop - now, task) for stop, task in rest))
        if self._earliest.get(state, now + 1) <= now:
            return  # the same future was explored from here or earlier
        self._earliest[state] = now
        if self.bound(now, done, rest) < self._best:
            self._instant(now, done, rest)


def _in_turn(before: Sequence[int]) -> list[int]:
    """Tasks in an order in which each comes after all that it waits for."""
    order: list[int] = []
    done, left = 0, list(range(len(before)))
    while left:
        ready = [task for task in left if not before[task] & ~done]
        assert ready, "tasks wait for each other"
        order += ready
        done |= sum(1 << task for task in ready)
        left = [task for task in left if not done >> task & 1]
    return order


def _tight_part(load: Workload) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    tight = []
    for device, limit in enumerate(load.limits):
        buffers = [(b.bytes, b.maker, b.readers) for b in load.buffers if b.device == device]
        base = load.persistent[device]
        if limit is not None and base + sum(size for size, _, _ in buffers) > limit:
            tight.append((base, limit, buffers))
    return tight
