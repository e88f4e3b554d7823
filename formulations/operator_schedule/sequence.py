"""Which pairs of tasks a model has to order, and when tasks run in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from milp_plan.api import (
    Guide,
    Objective,
    Plan,
    PlanningProblem,
    ScheduleSets,
    needed_routes,
)

from .columns import Columns
from .units import horizon, time_unit


def guided_sets(problem: PlanningProblem, guide: Guide) -> ScheduleSets:
    """Return the sets of a problem without what no plan up to the guide's cutoff can use."""
    within = guide.cutoff if problem.objective is Objective.MAKESPAN else None
    return ScheduleSets(problem, within)


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
    return ScheduleSets(problem, steps=True)


@dataclass(frozen=True, slots=True)
class Interval:
    """When a task runs in a plan."""

    start_ticks: int
    stop_ticks: int


def intervals(sets: ScheduleSets, plan: Plan) -> dict[str, Interval]:
    """Task name -> when it runs in a plan; absent transfers last no time after their producer.

    Where the sets count steps: when it runs if all tasks do one after the other.
    """
    found = {run.operator: Interval(run.start_ticks or 0, run.stop_ticks or 0) for run in plan.runs}
    begun = {(t.value, t.target, t.layout): t for t in plan.transfers}
    needed = needed_routes(sets, {run.operator: run.placement for run in plan.runs})
    for task in sets.transfers:
        if task.name in needed:
            transfer = begun[needed[task.name][0].key]
            found[task.name] = Interval(transfer.start_ticks or 0, transfer.stop_ticks or 0)
        else:
            stop = found[task.producer].stop_ticks
            found[task.name] = Interval(stop, stop)
    return _one_by_one(sets, found) if sets.steps else found


def _one_by_one(sets: ScheduleSets, times: Mapping[str, Interval]) -> dict[str, Interval]:
    """Steps of tasks in the order of their stops; of those that last no time, suppliers first."""
    place = {name: number for number, name in enumerate(sets.operators)}
    supply = {task.name: (place[task.producer], 1) for task in sets.transfers}
    supply |= {name: (number, 0) for name, number in place.items()}

    def turn(name: str) -> tuple[int, bool, tuple[int, int]]:
        interval = times[name]
        return interval.stop_ticks, interval.start_ticks == interval.stop_ticks, supply[name]

    found: dict[str, Interval] = {}
    step = 0
    for name in sorted(times, key=turn):
        begin, step = step, step + (times[name].stop_ticks > times[name].start_ticks)
        found[name] = Interval(begin, step)
    return found


class Sequence:
    """Pairs of tasks to order.

    Parameters
    ----------
    columns
        Variables of the model.
    names
        Tasks, in the model's order.

    Attributes
    ----------
    held
        Task -> resource -> variables whose sum says whether the task holds it.
    """

    def __init__(self, columns: Columns, names: list[str]) -> None:
        self.columns, self.names = columns, names
        self.held = {name: columns.holds(name) for name in names}

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield pairs that may meet on a resource and that precedence does not order."""
        ordered = self.columns.surely_before
        for first, second in combinations(self.names, 2):
            meet = not self.held[first].keys().isdisjoint(self.held[second])
            if meet and not ordered(first, second) and not ordered(second, first):
                yield first, second
