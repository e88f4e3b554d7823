"""Steps of coarsening, each with its way back, and the chain of all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from milp_plan.core import Plan, PlanningProblem


class Excess(NamedTuple):
    """Number of operators above the target that a step aims at, and the reason."""

    operators: int
    reason: str


@dataclass(frozen=True)
class Reduction:
    """Result of one step: a problem, a smaller one, and the way back.

    Parameters
    ----------
    name
        Name of the step.
    exact
        Whether both problems have the same optimum. ``False`` means only that every plan of
        ``after`` gives a plan of ``before`` that is no worse.
    before, after
        The two problems.
    undo
        Turns a valid plan of ``after`` into a valid plan of ``before`` whose value is at most
        the value of the plan it came from, for every objective.
    members
        Operator of ``after`` -> the operators of ``before`` it stands for, in running order.
    project
        Turns a plan of ``before`` into one of ``after`` that decides the same, with rough times;
        ``None`` where ``after`` has no such plan.
    excess
        What the step aims at instead of the target; later steps do as well. ``None`` where the
        target does.
    """

    name: str
    exact: bool
    before: PlanningProblem
    after: PlanningProblem
    undo: Callable[[Plan], Plan]
    members: Mapping[str, tuple[str, ...]]
    project: Callable[[Plan], Plan | None]
    excess: Excess | None = None


class ReductionStep(Protocol):
    """A way to make a problem smaller."""

    @property
    def name(self) -> str:
        """Name for tables."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the step keeps the optimum."""
        ...

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Return the result of the step; ``None`` when there is nothing to do."""
        ...


class ReductionRow(NamedTuple):
    """One row of :meth:`Coarsening.table`."""

    step: str
    exact: bool
    operators_before: int
    operators_after: int
    values_before: int
    values_after: int
    excess: str = ""
    """Why the step aims at more operators than the target; empty where it does not."""


@dataclass(frozen=True)
class Coarsening:
    """A coarsening: the original problem, the smallest one, and the steps between.

    Parameters
    ----------
    original
        The problem as it came.
    reductions
        The steps taken, in order.
    """

    original: PlanningProblem
    reductions: tuple[Reduction, ...] = ()

    @property
    def problem(self) -> PlanningProblem:
        """The smallest problem, which is planned."""
        return self.reductions[-1].after if self.reductions else self.original

    @property
    def excess(self) -> Excess | None:
        """The size a step aimed at above the target; ``None`` where none did."""
        return next((r.excess for r in reversed(self.reductions) if r.excess), None)

    @property
    def exact(self) -> bool:
        """Whether every step keeps the optimum, so that bounds of ``problem`` hold for all."""
        return all(reduction.exact for reduction in self.reductions)

    @property
    def members(self) -> dict[str, tuple[str, ...]]:
        """Operator of ``problem`` -> its original operators, in running order."""
        names = [operator.name for operator in self.problem.graph.operators]
        result: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
        for reduction in reversed(self.reductions):
            result = {
                name: tuple(m for part in parts for m in reduction.members[part])
                for name, parts in result.items()
            }
        return result

    def undo(self, plan: Plan) -> Plan:
        """Return a valid plan of ``problem`` as a valid plan of ``original``, no worse."""
        if not self.reductions:
            return plan
        for reduction in reversed(self.reductions):
            plan = reduction.undo(plan)
        return replace(plan, fingerprint=self.original.fingerprint)

    def project(self, plan: Plan) -> Plan | None:
        """Return a plan of ``original`` as one of ``problem`` with the same decisions.

        Its times are rough: it has the sites, options and orders, and is a start once it is
        timed anew. ``None`` where clusters are torn, or no option of theirs does.
        """
        result: Plan | None = plan
        for reduction in self.reductions:
            result = None if result is None else reduction.project(result)
        return result

    def table(self) -> tuple[ReductionRow, ...]:
        """Return the numbers of operators and values before and after each step."""
        return tuple(
            ReductionRow(
                reduction.name,
                reduction.exact,
                len(reduction.before.graph.operators),
                len(reduction.after.graph.operators),
                len(reduction.before.graph.values),
                len(reduction.after.graph.values),
                reduction.excess.reason if reduction.excess else "",
            )
            for reduction in self.reductions
        )
