"""``pipeline_order`` proves what enumerating all words finds, and each of its rules is needed."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

from milp_plan.api import Objective, Plan, PlanningProblem, Shop
from milp_plan.core import CommunicationModel
from milp_plan.formulation.contract import FormulationContract
from milp_plan.formulation.planted import planted_pipeline
from milp_plan.pipeline import pipeline_problem, place, shop_of, uniform
from tests.support.words import least_value

from .solving import optimise

NAME = "pipeline_order"


class TestPipelineOrder(FormulationContract):
    """The inherited contract, on tiny pipelines; enumeration of words is the oracle."""

    reference = NAME
    seeds = range(9)
    least = 18

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        if objective in self.formulation.card.objectives:
            return planted_pipeline(seed, objective)
        return super().planted(seed, objective)


def tiny(family: str, micro_batches: int, **options: object) -> PlanningProblem:
    """A pipeline on two devices with uneven times."""
    objective = options.pop("objective", Objective.MAKESPAN)
    caps = options.pop("memory", None)
    channels = options.pop("channels", False)
    devices = options.pop("devices", 2)
    chunks = {"v": 2, "interleaved": 2}.get(family, 1)
    times = options.pop("times", (3, 5, 2))
    template, activation = uniform(devices, micro_batches, times, chunks=chunks, **options)  # type: ignore[arg-type]
    if channels:
        template = dataclasses.replace(template, transfers=CommunicationModel.CHANNEL)
    memory = None if caps is None else int(caps * activation)  # type: ignore[operator]
    return pipeline_problem(
        f"{family}-{micro_batches}", template, place(family, devices), memory_bytes=memory,  # type: ignore[arg-type]
        objective=objective,  # type: ignore[arg-type]
    )  # fmt: skip


def shop(problem: PlanningProblem) -> Shop:
    found = shop_of(problem)
    assert found is not None
    return found


CASES = [
    ("line", 2, {"memory": 1}),
    ("line", 2, {"transfer": 4}),
    ("line", 3, {"memory": 2}),
    ("line", 3, {"memory": 1.5, "freed_at_backward": Fraction(1, 2), "transfer": 1}),
    ("line", 3, {"transfer": 4, "channels": True}),
    ("line", 2, {"devices": 3, "memory": 1, "times": (1, 1, 1)}),
    ("line", 2, {"devices": 3, "memory": 2, "transfer": 1}),
    ("v", 2, {"joint_backward": True}),
    ("v", 2, {"joint_backward": True, "memory": 1.5, "transfer": 1}),
    ("v", 2, {"joint_backward": True, "memory": 1.5, "transfer": 1, "channels": True}),
    ("interleaved", 2, {"joint_backward": True, "memory": 1.5}),
    ("dualpipe", 2, {"memory": 1}),
    ("dualpipe", 2, {"transfer": 1, "memory": 2}),
    ("dualpipe", 2, {"transfer": 2, "channels": True}),
    ("dualpipe", 4, {"joint_backward": True, "memory": 2, "times": (1, 1, 1)}),
]


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
@pytest.mark.parametrize(("family", "micro_batches", "options"), CASES)
def test_the_model_proves_the_optimum(
    family: str, micro_batches: int, options: dict[str, object], objective: Objective
) -> None:
    problem = tiny(family, micro_batches, objective=objective, **options)
    found = optimise(NAME, problem)
    assert found.verdict.ok, found.verdict.violations
    assert found.verdict.value == least_value(shop(problem))
