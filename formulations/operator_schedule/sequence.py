"""Which pairs of tasks a model has to order, and in which direction it may.

Without a neighbourhood these are all pairs that can meet on a resource and that neither precedence
nor time windows order. Within one, tasks that are not free keep the order of the known plan, and
free tasks are ordered only against what runs near them in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from milp_plan.api import (
    Guide,
    Neighbourhood,
    Objective,
    Placement,
    Plan,
    PlanningProblem,
    ScheduleSets,
    needed_routes,
)

from .columns import Columns
from .units import horizon, time_unit


def fixed_placements(
    groups: Mapping[str, tuple[str, ...]], neighbourhood: Neighbourhood | None
) -> dict[str, Placement]:
    """Placements that a neighbourhood keeps (none without one)."""
    if neighbourhood is None:
        return {}
    tied = {
        name
        for members in groups.values()
        if not neighbourhood.free.issuperset(members)
        for name in members
    }
    return {
        run.operator: run.placement
        for run in neighbourhood.plan.runs
        if run.operator not in neighbourhood.free or run.operator in tied
    }


def guided_sets(problem: PlanningProblem, guide: Guide) -> ScheduleSets:
    """Return the sets of a problem as far as a guide asks for them.

    With the placements that its neighbourhood keeps, and without what no plan can use whose
    makespan is at most its cutoff.
    """
    fixed = fixed_placements(problem.graph.groups, guide.neighbourhood)
    within = guide.cutoff if problem.objective is Objective.MAKESPAN else None
    return ScheduleSets(problem, fixed, within)


def counted_sets(sets: ScheduleSets, guide: Guide) -> ScheduleSets:
    """Return the sets a model counts with: in steps where its times would have too wide a range.

    Peak memory depends on order alone. The tasks of any valid plan, run one after the other in the
    order of their stops, hold no more at any time: when a task runs alone, what lies there was made
    before it and is still read, and in the plan all of that lay there just before the task stopped.
    """
    problem = sets.problem
    if problem.objective is not Objective.PEAK_MEMORY:
        return sets
    if time_unit(sets, horizon(sets, guide)) == sets.tick:
        return sets
    fixed = fixed_placements(problem.graph.groups, guide.neighbourhood)
    return ScheduleSets(problem, fixed, steps=True)


@dataclass(frozen=True, slots=True)
class Interval:
    """When a task runs in the known plan."""

    start_ns: int
    stop_ns: int


def intervals(sets: ScheduleSets, plan: Plan) -> dict[str, Interval]:
    """Task name -> when it runs in a plan; absent transfers last no time after their producer.

    Where the sets count steps: when it runs if all tasks do one after the other.
    """
    found = {run.operator: Interval(run.start_ns or 0, run.stop_ns or 0) for run in plan.runs}
    begun = {(t.value, t.target, t.layout): t for t in plan.transfers}
    needed = needed_routes(sets, {run.operator: run.placement for run in plan.runs})
    for task in sets.transfers:
        if task.name in needed:
            transfer = begun[needed[task.name][0].key]
            found[task.name] = Interval(transfer.start_ns or 0, transfer.stop_ns or 0)
        else:
            stop = found[task.producer].stop_ns
            found[task.name] = Interval(stop, stop)
    return _one_by_one(sets, found) if sets.steps else found


def _one_by_one(sets: ScheduleSets, times: Mapping[str, Interval]) -> dict[str, Interval]:
    """Steps of tasks in the order of their stops; of those that last no time, suppliers first."""
    place = {name: number for number, name in enumerate(sets.operators)}
    supply = {task.name: (place[task.producer], 1) for task in sets.transfers}
    supply |= {name: (number, 0) for name, number in place.items()}

    def turn(name: str) -> tuple[int, bool, tuple[int, int]]:
        interval = times[name]
        return interval.stop_ns, interval.start_ns == interval.stop_ns, supply[name]

    found: dict[str, Interval] = {}
    step = 0
    for name in sorted(times, key=turn):
        begin, step = step, step + (times[name].stop_ns > times[name].start_ns)
        found[name] = Interval(begin, step)
    return found


class Sequence:
    """Pairs of tasks to order.

    Parameters
    ----------
    columns
        Columns of the model.
    names
        Tasks, in the model's order.
    neighbourhood
        Where to look; ``None`` means everywhere.
    """

    def __init__(
        self, columns: Columns, names: list[str], neighbourhood: Neighbourhood | None
    ) -> None:
        self.columns = columns
        self.held = {name: columns.holds(name) for name in names}
        self.names = names
        self.free: frozenset[str] | None = None
        self.known: dict[str, Interval] = {}
        if neighbourhood is not None:
            self.known = intervals(columns.sets, neighbourhood.plan)
            self.free = frozenset(n for n in names if self._is_free(n, neighbourhood.free))

    def _is_free(self, name: str, free: frozenset[str]) -> bool:
        task = self.columns.task.get(name)
        if task is None:
            return name in free
        return task.producer in free or not free.isdisjoint(task.consumers)

    def pairs(self) -> dict[tuple[str, str], list[str]]:
        """(first, second) -> resources they may meet on, each unordered pair once."""
        found: dict[tuple[str, str], list[str]] = {}
        chosen = combinations(self.names, 2) if self.free is None else self._near_pairs()
        for first, second in chosen:
            common = [r for r in self.held[first] if r in self.held[second]]
            ordered = self.columns.surely_before
            if common and not ordered(first, second) and not ordered(second, first):
                found[first, second] = common
        return found

    def _near_pairs(self) -> Iterator[tuple[str, str]]:
        """Free with free; free with fixed ones nearby; fixed neighbours on one resource."""
        assert self.free is not None
        position = {name: number for number, name in enumerate(self.names)}
        found: dict[tuple[str, str], None] = {}

        def add(first: str, second: str) -> None:
            if position[first] > position[second]:
                first, second = second, first
            found[first, second] = None

        free = [name for name in self.names if name in self.free]
        for first, second in combinations(free, 2):
            add(first, second)
        low, high = self._window()
        for chain in self._chains().values():
            for first, second in pairwise(chain):
                add(first, second)
            near = [n for n in chain if self._meets(n, low, high)]
            left = [n for n in chain if self.known[n].stop_ns <= low and n not in near]
            right = [n for n in chain if self.known[n].start_ns >= high and n not in near]
            for other in [*left[-1:], *near, *right[:1]]:
                for name in free:
                    add(name, other)
        yield from found

    def _meets(self, name: str, low: int, high: int) -> bool:
        return self.known[name].stop_ns > low and self.known[name].start_ns < high

    def _window(self) -> tuple[int, int]:
        """Time span of the free operators in the known plan."""
        assert self.free is not None
        spans = [self.known[n] for n in self.names if n in self.free and n not in self.columns.task]
        low = min((span.start_ns for span in spans), default=0)
        return low, max((span.stop_ns for span in spans), default=0)

    def _chains(self) -> dict[str, list[str]]:
        """Resource -> tasks that are not free and hold it, in the order of the known plan."""
        assert self.free is not None
        chains: dict[str, list[str]] = {}
        for name in self.names:
            if name not in self.free:
                for resource in self.held[name]:
                    chains.setdefault(resource, []).append(name)
        for chain in chains.values():
            chain.sort(key=lambda n: (self.known[n].start_ns, self.known[n].stop_ns))
        return chains

    def decided(self, first: str, second: str) -> bool | None:
        """Whether the known plan's order of a pair is kept: True for first before second."""
        if self.free is None or (first in self.free and second in self.free):
            return None
        if first not in self.free and second not in self.free:
            return self._known_before(first, second)
        low, high = self._window()
        other = second if first in self.free else first
        return None if self._meets(other, low, high) else self._known_before(first, second)

    def _known_before(self, first: str, second: str) -> bool:
        one, two = self.known[first], self.known[second]
        return (one.stop_ns, one.start_ns) <= (two.start_ns, two.stop_ns)
