"""Schedules in which operators may run again and values may wait on hosts.

A plan of the problem without either is a plan here as well; the steps start from those.
"""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core import Plan, PlanningProblem
from milp_plan.planners import best_plan

from ..way import Step, Way

BASELINE_SHARE = 0.1
"""Part of the time limit that baselines may take."""


class MemoryWay(Way[PlanningProblem, Plan]):
    """The way for problems with recomputable operators or hosts."""

    name = "memory"

    @classmethod
    def unsuited(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Every problem in which each operator runs once, on devices alone."""
        return None if problem.has_memory_ways else "nothing may run again or wait on a host"

    def steps(self) -> Iterable[Step]:
        """Proofs, then plans that do without."""
        return (
            Step("obstacle", self.ledger.look_for_obstacle),
            Step("bounds", self.ledger.find_bounds, always=True),
            Step("baselines", self.find_baselines, always=True),
        )

    def find_baselines(self) -> None:
        """Every heuristic, on the problem without memory ways."""
        ledger, budget = self.ledger, self.ledger.budget
        with budget.phase("baselines"):
            _, ledger.baselines = best_plan(
                ledger.problem,
                seed=ledger.settings.seed,
                budget=budget.part("baselines", BASELINE_SHARE),
                on_plan=lambda plan: ledger.offer(plan, plan.planner, "baselines"),
                on_defect=ledger.fail,
            )
