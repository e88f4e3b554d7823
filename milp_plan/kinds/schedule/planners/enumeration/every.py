"""The best plan of a tiny problem under any objective: every placement and its schedules.

Placements are sorted by a bound on their schedules: the critical path or the busiest device or
channel for the makespan, the busiest device for the span, the bytes held at the end for the peak.
Those that may be better than the best known plan are scheduled exactly (see :mod:`.settling`). The
bottleneck depends on the placement alone, so there any schedule will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from milp_plan.core import MemoryLaw, Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget, OutOfTime

from .settling import Settling, quiet_order
from .sizes import is_tiny
from .tasks import Tasks, all_tasks, joint_placements

EVERY_PLAN = "every plan"

MOST_ROWS = 10_000
"""Most placements, with a choice of sources, that are stored at once."""

MOST_STEPS = 60_000
"""Most steps of all searches together in a repeatable run."""


class EveryPlan:
    """Search through every plan of a problem that :meth:`suits`.

    Parameters
    ----------
    problem
        Tiny.
    known
        Value of the best known plan; the search is for better ones.

    Attributes
    ----------
    best
        Least value of a plan so far; ``None`` if there is no plan.
    complete
        Whether the search is complete: ``best`` is then the optimum, and ``None`` means that
        there is no plan.
    """

    def __init__(self, problem: PlanningProblem, known: int | None = None) -> None:
        self.problem, self.best = problem, known
        self.complete = False
        self.static = problem.memory_law is MemoryLaw.STATIC
        limits = [device.memory_bytes for device in problem.cluster.devices]
        self.limits: list[int | None] = [None] * len(limits) if self.static else limits
        self.steps = 0

    suits = staticmethod(is_tiny)

    def plans(self, budget: Budget, steps: int | None = None) -> Iterator[Plan]:
        """Yield better and better plans until the search is complete or a limit ends it."""
        self._budget, self._most = budget, steps
        try:
            rows = sorted(self._rows(), key=lambda row: row[0])
            for bound, tasks in rows:
                if self.best is not None and bound >= self.best:
                    break
                plan = self._better(tasks)
                if plan is not None:
                    yield plan
        except OutOfTime:
            return
        self.complete = True

    def _count_step(self) -> None:
        self.steps += 1
        if self._most is not None and self.steps > self._most:
            raise OutOfTime
        if not self.steps % 16:
            self._budget.check()

    def _rows(self) -> Iterator[tuple[int, Tasks]]:
        """Yield bound and tasks of placements that may be better, for every choice of sources."""
        memory = [device.memory_bytes for device in self.problem.cluster.devices]
        rows = 0
        for placement in joint_placements(self.problem):
            for tasks in all_tasks(self.problem, placement):
                self._count_step()
                used = tasks.static_bytes if self.static else tasks.lasting
                if all(m is None or u <= m for u, m in zip(used, memory, strict=True)):
                    bound = self._bound(tasks)
                    if self.best is None or bound < self.best:
                        rows += 1
                        if rows > MOST_ROWS:
                            raise OutOfTime
                        yield bound, tasks

    def _bound(self, tasks: Tasks) -> int:
        """Return a lower bound on the value of every schedule of these tasks."""
        objective = self.problem.objective
        if objective is Objective.MAKESPAN:
            return max([*tasks.tails, tasks.busiest()])
        if objective is Objective.SPAN:
            return tasks.busiest(devices=True)
        if objective is Objective.BOTTLENECK:
            return tasks.busiest()
        return max(tasks.static_bytes if self.static else tasks.lasting)

    def _better(self, tasks: Tasks) -> Plan | None:
        """Return the best plan of these tasks if it is better than the best known one."""
        objective = self.problem.objective
        if not self.problem.needs_schedule:
            return self._improved(tasks, self._bound(tasks), None)
        peak = objective is Objective.PEAK_MEMORY and not self.static
        quiet = quiet_order(tasks, self._below() if peak else self.limits, self._count_step)
        if quiet is None:
            return None
        if objective in (Objective.MAKESPAN, Objective.SPAN):
            settling = Settling(tasks, self.limits, self.best, self._count_step)
            settling.run()
            if settling.starts is None or settling.best is None:
                return None
            return self._improved(tasks, settling.best, settling.starts)
        while peak:
            self.best = quiet[1]
            lower = quiet_order(tasks, self._below(), self._count_step)
            if lower is None:
                break
            quiet = lower
        value = quiet[1] if peak else self._bound(tasks)
        return self._improved(tasks, value, tasks.one_by_one(quiet[0]))

    def _below(self) -> list[int | None]:
        """Return memory limits of devices under which the peak is below the best one."""
        if self.best is None:
            return self.limits
        return [self.best - 1 if m is None else min(m, self.best - 1) for m in self.limits]

    def _improved(self, tasks: Tasks, value: int, starts: Sequence[int] | None) -> Plan:
        self.best = value
        return tasks.plan(starts, EVERY_PLAN)
