"""The shipped formulations keep the contract that every formulation inherits."""

from __future__ import annotations

from milp_plan.contract import FormulationContract
from milp_plan.core import PlanningProblem
from tests.support.brute import brute_force


class _Known(FormulationContract):
    """The contract, with enumeration as the oracle."""

    def optimum(self, problem: PlanningProblem) -> int | None:
        found = brute_force(problem)
        assert found is not None
        return found[0]


class TestOperatorSchedule(_Known):
    reference = "operator_schedule"
    seeds = range(3)
    least = 6


class TestResourceLoad(_Known):
    reference = "resource_load"
    seeds = range(6)
    least = 6
