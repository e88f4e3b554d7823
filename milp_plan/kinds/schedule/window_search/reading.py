"""Plans from solutions of a window's model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Plan

from ..planners.indexed import indexed
from .jobs import Job
from .model import Model
from .rows import ONE, Terms
from .scope import FIXED
from .timeline import Key, timed

Link = tuple[int | Key, int | Key]
"""Two tasks, the first before the second."""


class WindowPlan(NamedTuple):
    """The plan of a solution, and its makespan in the model, in ticks."""

    plan: Plan | None
    claimed: float


def read(model: Model, vector: NDArray[np.float64]) -> WindowPlan:
    """Return the plan of a solution, with exact times."""
    return Reading(model, vector).window_plan()


class Reading:
    """A solution, its placements and its order.

    Parameters
    ----------
    model
        The model that was solved.
    vector : shape (num_columns,)
        Its solution.
    """

    def __init__(self, model: Model, vector: NDArray[np.float64]) -> None:
        self.model, self.timeline, self.scope = model, model.timeline, model.scope
        self.numbers: list[float] = vector.tolist()
        self.spots = list(self.timeline.spots)
        for operator, table in model.placing.places.items():
            self.spots[operator] = max(table, key=lambda spot: self.value({table[spot]: 1.0}))
        self.names = {job.name: self._name(job) for job in model.work.everything}

    def value(self, terms: Terms) -> float:
        """Return the value of terms."""
        return sum(e if c == ONE else e * self.numbers[c] for c, e in terms.items())

    def window_plan(self) -> WindowPlan:
        """Return the plan and the model's makespan."""
        n, view, clock = len(self.spots), self.model.view, self.model.clock
        fixed = {
            journey.key: self.timeline.exact(number)
            for number, journey in enumerate(self.timeline.journeys)
            if self.scope.state[n + number] == FIXED
        }
        after = [*self._chains(), *self._positions(), *self._pairs()]
        exact = indexed(view.problem)
        spots = [exact.spot(number, spot.placement) for number, spot in enumerate(self.spots)]
        plan = timed(exact, spots, fixed, after, self._hints())
        claimed = self.numbers[self.model.makespan] * clock.unit + clock.origin
        return WindowPlan(plan, claimed * view.tick)

    def _task_name(self, task: int) -> int | Key:
        """Return the name of a fixed task."""
        n = len(self.spots)
        return task if task < n else self.timeline.journeys[task - n].key

    def _name(self, job: Job) -> int | Key | None:
        """Return the task that a job is under the placement; ``None`` if it is none."""
        name = job.name
        if isinstance(name, int):
            return name
        if len(name) == 3:
            return name
        value, reader = name
        view = self.model.view
        legs = view.legs_between(value, self.spots[view.producer[value]], self.spots[reader])
        return (value, legs[0].target, legs[0].layout) if legs else None

    def _chains(self) -> Iterator[Link]:
        """Yield the order of fixed tasks on each resource."""
        for resource in range(self.model.view.num_resources):
            yield from pairwise(map(self._task_name, self.model.work.lane(resource).tasks))

    def _positions(self) -> Iterator[Link]:
        """Yield the order of jobs among fixed tasks."""
        for gap, bits in self.model.gaps:
            name = self.names[gap.job.name]
            if name is None or self.value(gap.job.holds[gap.resource]) < 0.5:
                continue
            lane = self.model.work.lane(gap.resource).tasks
            here = gap.low + sum(self.numbers[bit] < 0.5 for bit in bits)
            if here:
                yield self._task_name(lane[here - 1]), name
            if here < len(lane):
                yield name, self._task_name(lane[here])

    def _pairs(self) -> Iterator[Link]:
        """Yield the order of jobs on common resources."""
        for one, other, first, common in self.model.decided:
            ends = self.names[one.name], self.names[other.name]
            if ends[0] is None or ends[1] is None:
                continue
            if all(min(self.value(one.holds[r]), self.value(other.holds[r])) < 0.5 for r in common):
                continue
            ahead = first is not None and (first == ONE or self.numbers[first] > 0.5)
            yield (ends[0], ends[1]) if ahead else (ends[1], ends[0])

    def _hints(self) -> dict[int | Key, float]:
        """Return the start of every task in the solution, as far as the model has it."""
        clock, heads = self.model.clock, self.model.work.heads
        hints: dict[int | Key, float] = {
            self._task_name(task): float(heads[task])
            for task in np.flatnonzero(self.scope.state == FIXED).tolist()
        }
        for task, column in self.model.fixed_columns.items():
            hints[self._task_name(task)] = self.numbers[column] * clock.unit + clock.origin
        for job in self.model.work.everything:
            name = self.names[job.name]
            if name is not None:
                hints[name] = float(job.head)
                if job.column >= 0:
                    hints[name] = self.numbers[job.column] * clock.unit + clock.origin
        return hints
