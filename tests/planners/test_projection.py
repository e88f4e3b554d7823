"""Plans as starts of coarser problems: the same sites and orders, and never without reason none."""

from __future__ import annotations

import random

import pytest

from milp_plan.check import verify
from milp_plan.coarsen import coarsen
from milp_plan.core import Plan
from milp_plan.planners import PLANNERS
from milp_plan.planners.projection import coarsen_along, projected
from tests.support.plans import planted
from tests.support.training import random_training


def orders(plan: Plan) -> dict[str, list[str]]:
    """Operators of each device in the order in which they run there."""
    rows: dict[str, list[tuple[int, int, str]]] = {}
    for run in plan.runs:
        for device in run.devices:
            assert run.start_ns is not None
            assert run.stop_ns is not None
            rows.setdefault(device, []).append((run.start_ns, run.stop_ns, run.operator))
    return {device: [name for _, _, name in sorted(row)] for device, row in rows.items()}


@pytest.mark.parametrize("seed", range(8))
def test_the_coarse_problem_has_the_plan(seed: int) -> None:
    rng = random.Random(f"along {seed}")
    batches = rng.randint(1, 3)
    problem = random_training(seed, rng.randint(3, 5), batches=batches, branches=seed % 3)
    plan = PLANNERS[rng.choice(["list_topological", "heft", "list_critical_path"])](problem)
    assert plan is not None
    found = coarsen_along(problem, plan, len(problem.graph.operators) // 2)
    assert found is not None
    coarsening, start = found
    assert len(coarsening.problem.graph.operators) < len(problem.graph.operators)
    assert verify(coarsening.problem, start).ok
    back = coarsening.undo(start)
    assert verify(problem, back).ok
    assert {r.operator: r.placement for r in back.runs} == {
        r.operator: r.placement for r in plan.runs
    }
    assert orders(back) == orders(plan)
    assert plan.stop_ns <= back.stop_ns <= start.stop_ns or back.stop_ns <= plan.stop_ns


def test_plans_of_gangs_layouts_and_tight_memory() -> None:
    """Few operators: where clusters do not fit there is none, else it is valid and comes back."""
    found = 0
    for seed in range(100):
        case = planted(seed)
        if not case.problem.needs_schedule or not case.plan.has_schedule:
            continue
        along = coarsen_along(case.problem, case.plan, 2)
        if along is not None:
            found += 1
            coarsening, start = along
            back = coarsening.undo(start)
            assert verify(coarsening.problem, start).ok
            assert verify(case.problem, back).ok
            sites = {run.operator: run.devices for run in case.plan.runs}
            long = {r.operator for r in case.plan.runs if r.start_ns != r.stop_ns}
            assert all(sites[r.operator] == r.devices for r in back.runs if r.operator in long)
    assert found > 30


def test_no_start_where_a_cluster_is_torn() -> None:
    torn = 0
    for seed in range(20):
        case = planted(seed)
        if case.plan.has_schedule:
            coarsening = coarsen(case.problem, 2)
            spread = {r.operator: r.devices for r in case.plan.runs if r.start_ns != r.stop_ns}
            rows = [
                {spread[name] for name in members if name in spread}
                for members in coarsening.members.values()
            ]
            if any(len(row) > 1 for row in rows):
                torn += 1
                assert projected(coarsening, case.plan) is None
    assert torn > 3
