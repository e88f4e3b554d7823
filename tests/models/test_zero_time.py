"""What lasts no time holds nothing: ``operator_schedule`` by itself, held against enumeration.

About half of the options of these problems take no time, many beside others that take some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from milp_plan.backends import Limits, Stop
from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.run import Settings, solve
from milp_plan.run.model import FormulationSolver
from tests.support.anything import optimum, timeless_case
from tests.support.seeds import few

SEEDS, CHUNK = 1000, 10
LIMITS = Limits(time_s=120.0, gap=0.0)
NEAR = 1e-4
"""Part of the optimum by which a solver's tolerances may let a plan be worse."""

pytestmark = pytest.mark.untraced


def agrees(problem: PlanningProblem, best: int | None) -> None:
    answer = (
        FormulationSolver(get("operator_schedule"))
        .with_options({})
        .run(problem, Guide(), LIMITS, Budget(LIMITS.time_s))
    )
    reported = f"{problem.name}: {problem.objective}, {answer.report.stop}, optimum {best}"
    assert answer.disputed == "", f"{reported}: {answer.disputed}"
    if best is None:
        assert (answer.report.stop, answer.plan) == (Stop.INFEASIBLE, None), reported
        return
    assert answer.report.stop is Stop.PROVED, reported
    assert answer.plan is not None, reported
    verdict = verify(problem, answer.plan)
    assert verdict.violations == (), reported
    reported = f"{reported}: value {verdict.value}, bound {answer.bound}"
    assert verdict.value is not None, reported
    assert best <= verdict.value <= best + best * NEAR, reported
    if answer.bound is not None:  # else ticks are too far apart for a proof
        assert answer.bound <= best, reported


@pytest.mark.parametrize(
    "seeds",
    few([range(first, first + CHUNK) for first in range(0, SEEDS, CHUNK)], 6),
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_the_model_alone_agrees_with_enumeration(seeds: Sequence[int]) -> None:
    for seed in seeds:
        problem = timeless_case(seed)
        agrees(problem, optimum(problem))


def grouped(*readers: Option, memory: int) -> PlanningProblem:
    """Return a value of four bytes that its group reads, on one device."""
    operators = (
        Operator("maker", (Option("only", {"A": 0}),), group="g"),
        Operator("reader", readers, group="g"),
    )
    return PlanningProblem(
        "grouped",
        ComputationGraph(operators, (Value("v", "maker", ("reader",), {FULL: 4}),)),
        Cluster((DeviceClass("A", memory),), (Device("d", "A", memory),), ()),
        Objective.PEAK_MEMORY,
    )


def test_a_reader_of_its_group_holds_only_by_an_option_that_takes_time() -> None:
    slow, quick = Option("slow", {"A": 1}), Option("quick", {"A": 0}, workspace_bytes=5)
    agrees(grouped(slow, quick, memory=9), 0)
    agrees(grouped(slow, memory=9), 4)
    agrees(replace(grouped(slow, quick, memory=3), objective=Objective.MAKESPAN), 0)
    agrees(grouped(slow, memory=3), None)


@pytest.mark.parametrize("seed", [69, 179, 200])
def test_starts_that_no_row_mentions_are_decoded(seed: int) -> None:
    settings = Settings(time_limit_s=60.0, formulation="operator_schedule")
    outcome = solve(timeless_case(seed), settings)
    assert (outcome.value, outcome.defects) == (optimum(timeless_case(seed)), ())
