"""``flexible_job_shop`` keeps the contract and proves what enumeration proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.backends import Limits, Stop
from milp_plan.check import verify
from milp_plan.contract import FormulationContract
from milp_plan.core import (
    FULL,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    Plan,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.model.planted import planted_with_plan
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.run.model import FormulationSolver
from tests.support.anything import schedule_case
from tests.support.brute import brute_force

NAME = "flexible_job_shop"
LIMITS = Limits(time_s=60.0, gap=0.0)


def plain(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem with one option for each operator, whole values and enough memory."""

    def alone(operator: Operator) -> Operator:
        first = replace(operator.options[0], gang=1, reads={}, writes={})
        return replace(operator, options=(first,))

    def whole(value: Value) -> Value:
        size = {FULL: max(value.bytes.values(), default=0)}
        return replace(value, bytes=size, transfer_bytes={}, reshard_ticks={})

    graph = problem.graph
    return replace(
        problem,
        graph=replace(
            graph,
            operators=tuple(map(alone, graph.operators)),
            values=tuple(map(whole, graph.values)),
        ),
        cluster=problem.cluster.with_memory(dict.fromkeys(problem.cluster.device_names)),
        objective=Objective.MAKESPAN,
        memory_law=MemoryLaw.INSTANT,
    )


class TestFlexibleJobShop(FormulationContract):
    """The inherited contract, with enumeration as the oracle."""

    reference = NAME
    seeds = range(6)
    least = 6

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        problem = plain(planted_with_plan(seed, objective)[0])
        plan = PLANNERS["list_topological"](problem)
        assert plan is not None
        return problem, plan

    def optimum(self, problem: PlanningProblem) -> int | None:
        found = brute_force(problem)
        return None if found is None else found[0]


@pytest.mark.parametrize("seeds", [range(first, first + 5) for first in range(0, 30, 5)], ids=str)
def test_the_model_alone_proves_the_optimum(seeds: range) -> None:
    solver = FormulationSolver(get(NAME)).with_options({})
    for seed in seeds:
        problem = plain(schedule_case(seed))
        assert solver.unsupported(problem) is None
        best = brute_force(problem)
        guide = Guide(cutoff=None if best is None else best[0])
        answer = solver.run(problem, guide, LIMITS, Budget(LIMITS.time_s))
        if best is None:
            assert answer.plan is None, f"seed {seed}"
            continue
        assert answer.report.stop is Stop.PROVED, f"seed {seed}"
        assert answer.plan is not None, f"seed {seed}"
        verdict = verify(problem, answer.plan)
        assert verdict.violations == (), f"seed {seed}"
        assert (verdict.value, answer.bound) == (best[0], best[0]), f"seed {seed}"


def with_options(problem: PlanningProblem, *options: Option) -> PlanningProblem:
    """Return the problem whose first operator has these options."""
    first, *others = problem.graph.operators
    operators = (replace(first, options=options), *others)
    return replace(problem, graph=replace(problem.graph, operators=operators))


def test_what_the_model_leaves_out_is_named() -> None:
    problem = plain(schedule_case(0))
    option = problem.graph.operators[0].options[0]
    little = problem.cluster.with_memory(dict.fromkeys(problem.cluster.device_names, 1))
    larger = with_options(problem, replace(option, workspace_bytes=2))
    left_out = {
        "several options": with_options(problem, option, replace(option, name="other")),
        "memory rows": replace(larger, cluster=little),
        "makespan": replace(problem, objective=Objective.SPAN),
        "no runs again, no hosts": problem.with_host(1, 1),
    }
    solver = FormulationSolver(get(NAME)).with_options({})
    for word, other in left_out.items():
        assert word in (solver.unsupported(other) or ""), word
