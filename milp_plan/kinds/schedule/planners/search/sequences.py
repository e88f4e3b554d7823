"""Search over the sequences in which devices, channels and ports take their tasks.

List schedules by events never let a device wait for a more urgent task; here it can. A move takes a
block of a critical path, a stretch of it on one device, channel or port, and moves a task of the
block behind or before another one: no other exchange of two tasks shortens the path. Some moves
place units around the path elsewhere; the other tasks then keep their times as far as possible.

Source: blocks and exchanges at their ends as in E. Nowicki and C. Smutnicki, "A fast taboo search
algorithm for the job shop problem", Management Science 42 (1996); insertions as in E. Balas and A.
Vazacopoulos, "Guided local search with shifting bottleneck for job shop scheduling", Management
Science 44 (1998). Here worse states are accepted as in :mod:`.annealing`, and tasks may hold
several resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.compiled import compiled

from ..decoder import NEVER, Decoder
from ..decoder import layout as at
from ..decoder.holding import static_excess, weigh
from ..decoder.layout import LIMITED, OPERATORS, OPTION, OPTION_PTR, RESOURCES, SITE, Ints
from ..decoder.legs import find_legs, persistent_bytes
from .states import Undo, cluster, draw_option, new_undo, put, some_site, take_back
from .tasks import Tasks, carry_over, in_order, new_tasks, read_tasks, settle
from .units import Units, units_of

HOTTEST, COLDEST = 0.001, 0.00002
"""Relative worsening that is accepted with probability 1/e, at the start and at the end."""

RELOCATE_SHARE = 0.1
"""Part of the moves that place units elsewhere; where no task waits for a resource, all do."""

NEW_PATH_SHARE = 0.2
"""Part of the rejected moves after which another critical path is drawn."""

BLOCK = 400_000
"""Tasks started between two reads of the clock, about."""

MOST_TOGETHER = 6
"""Most units that move together."""


class Sequence(NamedTuple):
    """The state of a search: an order of all tasks, their positions and their starts.

    ``trial`` and ``moved`` are the order and the starts that a move tries. ``path`` and ``via`` are
    a critical path from its end, with the resource that each of its tasks waited for (-1: for a
    value). ``previous`` is the task before on each resource of a task. The rest is work space.
    """

    order: Ints
    place: Ints
    start: Ints
    trial: Ints
    moved: Ints
    path: Ints
    via: Ints
    previous: Ints
    last: Ints
    mark: Ints
    flag: Ints
    aside: Ints
    now: Ints


class BestSchedule(NamedTuple):
    """Site and option of operators and starts of tasks in the best state; an array of its value."""

    site: Ints
    option: Ints
    start: Ints
    value: Ints


class Timed(NamedTuple):
    """A schedule: site and option of operators, starts of all tasks, the value in units."""

    site: Ints
    option: Ints
    start: Ints
    value: int

    def plan(self, decoder: Decoder, planner: str) -> Plan:
        """Return the schedule as a plan."""
        return decoder.fixed(self.site, self.option, self.start, planner)


def _new_sequence(decoder: Decoder, slots: int) -> Sequence:
    tasks, resources = len(decoder.memory.part(at.START)), decoder.memory.size(RESOURCES)
    sizes = [*[tasks] * 7, slots, resources, tasks, resources, tasks, 3]
    return Sequence(*(np.zeros(size, dtype=np.int64) for size in sizes))


# -- critical paths --------------------------------------------------------------------------------


@compiled
def _below(count: int) -> int:
    """Return a random number from 0 to count - 1."""
    return int(np.random.random() * count)


@compiled
def _look_back(tasks: Tasks, k: int, s: Sequence) -> None:
    """Fill the positions, and the task before each task on its resources."""
    s.last[:] = -1
    for i in range(tasks.number[k]):
        task = s.order[i]
        s.place[task] = i
        for j in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            s.previous[j] = s.last[tasks.held[k, j]]
            s.last[tasks.held[k, j]] = task


@compiled
def _trace(tasks: Tasks, k: int, s: Sequence, value: int) -> int:
    """Fill a random critical path from its end; return its number of tasks."""
    task, seen = -1, 0
    for other in range(tasks.number[k]):
        if s.start[other] + tasks.length[k, other] == value:
            seen += 1
            if _below(seen) == 0:
                task = other
    size = 0
    while True:
        s.path[size] = task
        s.via[size] = -1
        size += 1
        begin = s.start[task]
        if begin == 0 or size == len(s.path):
            return size
        reason, resource, seen = -1, -1, 0
        for i in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            other = tasks.before[k, i]
            if s.start[other] + tasks.length[k, other] == begin:
                seen += 1
                if _below(seen) == 0:
                    reason = other
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            other = s.previous[i]
            if other >= 0 and s.start[other] + tasks.length[k, other] == begin:
                seen += 1
                if _below(seen) == 0:
                    reason, resource = other, tasks.held[k, i]
        s.via[size - 1] = resource
        task = reason


# -- moves -----------------------------------------------------------------------------------------


@compiled
def _behind(tasks: Tasks, k: int, s: Sequence, one: int, other: int) -> int:
    """Try a task right behind a later one; return the first position that changes.

    Tasks that follow it, by a value or in another sequence, still follow it. Returns -1 where the
    later task is one of them.
    """
    s.now[0] += 1
    stamp = s.now[0]
    first, end = s.place[one], s.place[other]
    s.mark[one] = stamp
    s.aside[0] = one
    write, many = first, 1
    for at_place in range(first + 1, end + 1):
        task = s.order[at_place]
        follows = False
        for i in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            if s.mark[tasks.before[k, i]] == stamp:
                follows = True
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            if s.flag[tasks.held[k, i]] == stamp:
                follows = True
        if not follows:
            s.trial[write] = task
            write += 1
            continue
        if task == other:
            return -1
        s.mark[task] = stamp
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            s.flag[tasks.held[k, i]] = stamp
        s.aside[many] = task
        many += 1
    for i in range(many):
        s.trial[write + i] = s.aside[i]
    return int(first)


@compiled
def _ahead(tasks: Tasks, k: int, s: Sequence, one: int, other: int) -> int:
    """Try a task right before an earlier one, with all that it follows; as :func:`_behind`."""
    s.now[0] += 1
    stamp = s.now[0]
    first, end = s.place[other], s.place[one]
    write = end
    s.aside[0] = one
    many = 1
    for i in range(tasks.before_ptr[k, one], tasks.before_ptr[k, one + 1]):
        s.mark[tasks.before[k, i]] = stamp
    for at_place in range(end - 1, first - 1, -1):
        task = s.order[at_place]
        follows = s.mark[task] == stamp
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            if s.flag[tasks.held[k, i]] == stamp:
                follows = True
        if not follows:
            s.trial[write] = task
            write -= 1
            continue
        if task == other:
            return -1
        for i in range(tasks.before_ptr[k, task], tasks.before_ptr[k, task + 1]):
            s.mark[tasks.before[k, i]] = stamp
        for i in range(tasks.held_ptr[k, task], tasks.held_ptr[k, task + 1]):
            s.flag[tasks.held[k, i]] = stamp
        s.aside[many] = task
        many += 1
    for i in range(many):
        s.trial[write - i] = s.aside[i]
    return int(first)


@compiled
def _reorder(tasks: Tasks, k: int, s: Sequence, size: int) -> int:
    """Try another order in a block of the critical path; return the first changed position or -1.

    ``now[1]`` becomes the last position that changes.
    """
    s.now[1] = -1
    seen, chosen = 0, -1
    for i in range(size):
        if s.via[i] >= 0:
            seen += 1
            if _below(seen) == 0:
                chosen = i
    if chosen < 0:
        return -1
    late, early = chosen, chosen + 1
    while late > 0 and s.via[late - 1] == s.via[chosen]:
        late -= 1
    while early < size - 1 and s.via[early] == s.via[chosen]:
        early += 1
    draw, length = np.random.random(), early - late
    one, other = early, early - 1  # positions in the path, which runs backwards
    if draw < 0.3:
        one, other = late + 1, late
    elif draw > 0.6:
        one = late + 1 + _below(length)
        other = late + _below(one - late)
    before, after = s.path[one], s.path[other]
    s.now[1] = s.place[after]
    if np.random.random() < 0.5:
        return int(_behind(tasks, k, s, before, after))
    return int(_ahead(tasks, k, s, after, before))


@compiled
def _displace(a: Ints, t: Ints, units: Units, undo: Undo, s: Sequence, size: int) -> None:  # noqa: PLR0917 (compiled)
    """Place units elsewhere or take other options, mostly of operators on the critical path."""
    undo.changed[0] = 0
    operator = _below(t[OPERATORS])
    if np.random.random() < 0.7:
        task = s.path[_below(size)]
        if task < t[OPERATORS]:
            operator = task
    draw = np.random.random()
    if draw < 0.2 and a[t[OPTION_PTR] + operator + 1] - a[t[OPTION_PTR] + operator] > 1:
        draw_option(a, t, undo, operator)
        return
    unit = units.of[operator]
    site = some_site(a, t, units, unit)
    if draw < 0.6:
        put(a, t, units, undo, unit, site)
    elif draw < 0.8:
        count = cluster(a, t, units, undo, unit, 2 + _below(MOST_TOGETHER - 1))
        for i in range(count):
            put(a, t, units, undo, undo.chosen[i], site)
    else:
        other = units.of[_below(t[OPERATORS])]
        here = a[t[SITE] + units.operators[units.ptr[unit]]]
        there = a[t[SITE] + units.operators[units.ptr[other]]]
        put(a, t, units, undo, unit, there)
        put(a, t, units, undo, other, here)


@compiled
def admits(a: Ints, t: Ints) -> bool:
    """Return whether the law allows the placement, and memory every order; fill its legs."""
    if not find_legs(a, t):
        return False
    if not t[LIMITED]:
        return True
    weigh(a, t)
    persistent_bytes(a, t)
    return bool(static_excess(a, t) <= 0)


# -- the search ------------------------------------------------------------------------------------


@compiled
def _save(  # noqa: PLR0917 (compiled)
    a: Ints, t: Ints, tasks: Tasks, k: int, s: Sequence, best: BestSchedule, value: int
) -> None:
    for operator in range(t[OPERATORS]):
        best.site[operator] = a[t[SITE] + operator]
        best.option[operator] = a[t[OPTION] + operator]
    for task in range(tasks.number[k]):
        best.start[task] = s.start[task]
    best.value[0] = value


@compiled
def cool(  # noqa: PLR0917 (compiled)
    a: Ints,
    t: Ints,
    search: tuple[Units, Undo, Tasks, Sequence, BestSchedule],
    temperature: float,
    relocate_share: float,
    count: tuple[int, int],
    value: int,
) -> int:
    """Make moves at one temperature; return the value of the state they end in.

    ``relocate_share`` is the part of the moves that place units elsewhere; below 0 none ever do.
    ``count`` is the seed and the number of moves; ``now[2]`` of the sequence is the row of the
    tasks that belongs to the state.
    """
    units, undo, tasks, s, best = search
    seed, moves = count
    np.random.seed(seed)
    k = s.now[2]
    size = _trace(tasks, k, s, value)
    producer = a[t[at.PRODUCER] : t[at.PRODUCER] + t[at.VALUES]]
    for _ in range(moves):
        worst = int(value * (1.0 - temperature * np.log(1.0 - np.random.random())))
        new, first, got = k, -1, NEVER
        undo.changed[0] = 0
        if np.random.random() >= relocate_share:
            first = _reorder(tasks, k, s, size)
        if first >= 0:
            got = settle(tasks, k, s.trial, first, s.moved, s.last, worst)
        elif s.now[1] < 0 and relocate_share >= 0.0:
            _displace(a, t, units, undo, s, size)
            if undo.changed[0] > 0 and admits(a, t):
                new = 1 - k
                read_tasks(a, t, tasks, new)
                carry_over(tasks, k, t[OPERATORS], producer, s.start, s.aside)
                in_order(tasks, new, s.aside, s.trial)
                got = settle(tasks, new, s.trial, 0, s.moved, s.last, worst)
        s.now[1] = -1
        if got == NEVER:
            take_back(a, t, undo)
            for i in range(tasks.number[k]):
                s.trial[i] = s.order[i]
                s.moved[i] = s.start[i]
            if np.random.random() < NEW_PATH_SHARE:
                size = _trace(tasks, k, s, value)
            continue
        k = new
        s.now[2] = k
        for i in range(tasks.number[k]):
            s.order[i] = s.trial[i]
            s.start[i] = s.moved[i]
        value = got
        _look_back(tasks, k, s)
        size = _trace(tasks, k, s, value)
        if value < best.value[0]:
            _save(a, t, tasks, k, s, best, value)
    return int(value)


class Sequences:
    """A search over sequences for the least makespan, in one thread.

    Parameters
    ----------
    problem
        The problem to plan.
    seed
        Seed of the random choices.

    Attributes
    ----------
    tried
        Number of moves so far.
    value
        Value of the state, in units.
    """

    def __init__(self, problem: PlanningProblem, seed: int = 0) -> None:
        self.decoder = Decoder(problem)
        self.units = units_of(self.decoder.compiled)
        size = self.decoder.size
        self.undo = new_undo(size, len(self.units.ptr) - 1)
        self.tasks = new_tasks(self.decoder)
        self.state = _new_sequence(self.decoder, self.tasks.held.shape[1])
        self.random = np.random.default_rng(seed)
        self.tried, self.value = 0, NEVER
        site, never = np.zeros(size, dtype=np.int64), np.full(1, NEVER, dtype=np.int64)
        self.best_schedule = BestSchedule(site, site.copy(), np.zeros_like(self.state.start), never)

    @property
    def best(self) -> Timed:
        """A copy of the best state."""
        site, option, start, value = self.best_schedule
        return Timed(site.copy(), option.copy(), start.copy(), int(value[0]))

    def forget(self) -> None:
        """Forget the best state: the next one becomes the best."""
        self.best_schedule.value[0] = NEVER

    def begin(self, plan: Plan) -> bool:
        """Start from a plan and return whether every order of its tasks is allowed.

        Where memory binds at its placement, the search would have to check every instant.
        """
        memory, decoder, s = self.decoder.memory, self.decoder, self.state
        placements = {run.operator: run.placement for run in plan.runs}
        decoder.site[:], decoder.option[:] = decoder.place(placements)
        if not admits(memory.a, memory.t):
            return False
        read_tasks(memory.a, memory.t, self.tasks, 0)
        in_order(self.tasks, 0, self._times(plan), s.order)
        count = int(self.tasks.number[0])
        self.value = settle(self.tasks, 0, s.order, 0, s.start, s.last, NEVER)
        s.trial[:count], s.moved[:count] = s.order[:count], s.start[:count]
        s.now[1], s.now[2] = -1, 0
        _look_back(self.tasks, 0, s)
        if self.value < self.best_schedule.value[0]:
            _save(memory.a, memory.t, self.tasks, 0, s, self.best_schedule, self.value)
        return True

    def _times(self, plan: Plan) -> Ints:
        """Return when each task starts in a plan, in units: ticks may not fit into an array."""
        decoder = self.decoder
        compiled_problem, memory = decoder.compiled, decoder.memory
        view = compiled_problem.view
        layouts = list(compiled_problem.layouts)
        sent = {(leg.value, leg.target, leg.layout): leg.start_ticks or 0 for leg in plan.transfers}
        runs = {run.operator: run for run in plan.runs}
        starts = [runs[operator.name].start_ticks or 0 for operator in compiled_problem.operators]
        for leg in range(memory.part(at.LEG_COUNT)[0]):
            value = view.values[memory.part(at.LEG_VALUE)[leg]]
            target = view.site_names[memory.part(at.LEG_TARGET)[leg]]
            layout = layouts[memory.part(at.LEG_LAYOUT)[leg]]
            made = runs[str(value.producer)].stop_ticks or 0
            starts.append(sent.get((value.name, target, layout), made))
        return np.array([ticks // compiled_problem.unit for ticks in starts], dtype=np.int64)

    def run(
        self,
        done: Callable[[], float],
        hot: float = HOTTEST,
        cold: float = COLDEST,
        on_better: Callable[[Timed], object] = lambda _state: None,
        most: int | None = None,
        *,
        relocate_share: float = RELOCATE_SHARE,
    ) -> None:
        """Anneal while ``done`` goes from 0 to 1; parameters as in :meth:`Annealing.run`.

        ``relocate_share`` is the part of the moves that place units elsewhere; below 0 none does.
        """
        usual = max(20, BLOCK // int(self.tasks.number[self.state.now[2]]))
        last = None if most is None else self.tried + most
        while (share := done()) < 1.0:
            block = usual if last is None else min(usual, last - self.tried)
            seed, known = int(self.random.integers(1 << 31)), int(self.best_schedule.value[0])
            self._cool(hot * (cold / hot) ** share, relocate_share, (seed, block))
            self.tried += block
            if self.best_schedule.value[0] < known:
                on_better(self.best)

    def _cool(self, temperature: float, relocate_share: float, count: tuple[int, int]) -> None:
        memory = self.decoder.memory
        search = self.units, self.undo, self.tasks, self.state, self.best_schedule
        self.value = cool(
            memory.a, memory.t, search, temperature, relocate_share, count, self.value
        )

    def load(self) -> None:
        """Compile the loops or read them from disk, without a move; see :meth:`Annealing.load`."""
        if not getattr(cool, "signatures", None):
            self._cool(HOTTEST, RELOCATE_SHARE, (0, 0))
