"""The formulation of offload lanes keeps the contract, against enumeration."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.contract import FormulationContract, Instance
from milp_plan.core import Objective, PlanningProblem
from tests.models import offload_cases
from tests.support.brute import brute_force


class TestPipelineOffload(FormulationContract):
    reference = "pipeline_offload"
    least = 6

    def instances(self) -> Iterator[Instance]:
        for objective in (Objective.MAKESPAN, Objective.SPAN):
            yield from offload_cases.instances(objective)

    def optimum(self, problem: PlanningProblem) -> int | None:
        if problem.objective is not Objective.MAKESPAN:
            return None  # enumeration knows makespans
        found = brute_force(problem)
        assert found is not None
        return found[0]
