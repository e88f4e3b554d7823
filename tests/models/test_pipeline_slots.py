"""``pipeline_slots`` keeps the contract, agrees with enumeration, and its relaxation is valid."""

from __future__ import annotations

from typing import ClassVar

import pytest

from milp_plan.api import Objective, Plan, PlanningProblem
from milp_plan.contract import FormulationContract
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.schedule.model.planted import planted_pipeline
from milp_plan.models.registry import get
from tests.support.words import least_value

from .solving import optimise


class TestPipelineSlots(FormulationContract):
    """The inherited contract, on tiny pipelines; enumeration of words is the oracle."""

    reference = "pipeline_slots"
    seeds = range(5)
    least = 5
    quick: ClassVar = {Objective.MAKESPAN: (0, 1, 3, 4), Objective.SPAN: (3,)}

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        if seed in self.quick.get(objective, ()):
            return planted_pipeline(seed, objective)
        return super().planted(seed, objective)

    def optimum(self, problem: PlanningProblem) -> int | None:
        shop = shop_of(problem)
        assert shop is not None
        return least_value(shop)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_it_proves_what_enumeration_finds(seed: int, objective: Objective) -> None:
    problem, _ = planted_pipeline(seed, objective)
    shop = shop_of(problem)
    assert shop is not None
    assert optimise("pipeline_slots", problem).verdict.value == least_value(shop)


def test_what_it_does_not_express_is_said_in_words() -> None:
    formulation = get("pipeline_slots").formulation
    assert formulation is not None
    template, _ = uniform(2, 2, (1, 0, 1))
    instant = pipeline_problem("instant", template, place("line", 2))
    options = formulation.Options()
    assert "lasts no time" in str(formulation.unsupported(instant, options))
    template, _ = uniform(2, 2, (100_000, 99_999, 100_001))
    fine = pipeline_problem("fine", template, place("line", 2))
    assert "columns" in str(formulation.unsupported(fine, options))
    template, _ = uniform(2, 2, (1, 1, 1))
    assert (
        formulation.unsupported(pipeline_problem("u", template, place("line", 2)), options) is None
    )
