"""The model of chains of devices: its contract, against enumeration."""

from __future__ import annotations

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.models.contract import FormulationContract
from milp_plan.models.planted_serial import planted_serial
from tests.support.serial_brute import brute_serial


class TestContiguousLoad(FormulationContract):
    reference = "contiguous_load"
    seeds = range(6)
    least = 6

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        assert objective is Objective.BOTTLENECK
        return planted_serial(seed, contiguous=True)

    def optimum(self, problem: PlanningProblem) -> int | None:
        found = brute_serial(problem)
        assert found is not None
        return found[0]
