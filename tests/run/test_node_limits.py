"""Runs under a node limit take the way they would take without one, as far."""

from __future__ import annotations

import pytest

from milp_plan.core import PlanningProblem
from milp_plan.io.plan_file import plan_to_json
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model
from milp_plan.run import Settings, solve
from milp_plan.zoo import TRAPS

pytestmark = pytest.mark.untraced

TRAP = next(trap.problem for trap in TRAPS if trap.problem.name == "depth-first-saves-memory")
STASHES = build(Case(Model.from_share((1, 1, 1)), 2, 3, memory=2, lane=1)).problem


@pytest.mark.parametrize(("problem", "way"), [(TRAP, "order"), (STASHES, "stash")])
def test_a_node_limit_keeps_the_way_and_the_proof(problem: PlanningProblem, way: str) -> None:
    first, again = (solve(problem, Settings(node_limit=50)) for _ in range(2))
    assert first.record["strategy"] == way
    assert first.proved
    assert first.value == again.value
    assert plan_to_json(first.plan) == plan_to_json(again.plan)


@pytest.mark.slow
def test_searches_of_stashes_end_by_their_number() -> None:
    problem = build(Case(Model.from_share((1, 2, 1)), 4, 6, memory=2, recompute=True)).problem
    first, again = (solve(problem, Settings(node_limit=1)) for _ in range(2))
    assert first.record["stashing"] == again.record["stashing"]
    assert first.record["stashing"]["rounds"] > 0
    assert plan_to_json(first.plan) == plan_to_json(again.plan)
