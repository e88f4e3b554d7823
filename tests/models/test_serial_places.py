"""``serial_places`` keeps the contract and proves what enumeration finds under the serial law."""

from __future__ import annotations

import pytest

from milp_plan.backends import Limits, Stop
from milp_plan.backends.highs import Session
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.protocol import Guide
from tests.support.anything import optimum, serial_case
from tests.support.seeds import few

from .solving import SerialContract, formulation


class TestSerialPlaces(SerialContract):
    reference = "serial_places"
    seeds = range(8)
    least = 16

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        if objective is Objective.LATENCY:
            return planted_serial(seed, calls=1 + seed % 2)
        return planted_serial(seed)


@pytest.mark.parametrize("first", few(range(0, 400, 10), 3))
def test_what_other_formulations_do_not_take_is_proved(first):
    """Workspaces, persistent values of several groups, hosts with and without memory."""
    form, contract, feasible = formulation("serial_places"), TestSerialPlaces(), 0
    options = form.Options()
    with Session() as session:
        for seed in range(first, first + 10):
            problem = serial_case(seed)
            best = optimum(problem)
            model = compile_pyomo(form.build(problem, options, Guide()))
            solved = session.solve(model, Limits(time_s=100.0, gap=0.0))
            assert solved.stop is (Stop.INFEASIBLE if best is None else Stop.PROVED), problem.name
            if best is None:
                continue
            feasible += 1
            _, value = contract.decoded(problem, model, solved.solution)
            assert value <= best * (1 + 1e-5)
            assert value >= best
    assert feasible >= 3
