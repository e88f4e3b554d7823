"""``local_updates`` keeps the contract, and proves what enumeration finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.contract import FormulationContract
from milp_plan.core import Objective
from milp_plan.kinds.local_updates.check import verify_local_updates
from milp_plan.kinds.local_updates.planners import chain_of, orders, step_time
from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem, Stage
from milp_plan.models.validated import compile_source
from tests.support.local_updates import least
from tests.support.planted_local_updates import planted_local_updates
from tests.support.seeds import few

from .solving import formulation, solve_here

LIMITS = Limits(gap=1e-9, gap_abs=1e-9)
FORM = formulation("local_updates")


class TestLocalUpdates(FormulationContract):
    reference = "local_updates"
    seeds = range(4)
    least = 4
    formulation = FORM

    def planted(self, seed, objective):
        assert objective is Objective.MAKESPAN
        return planted_local_updates(seed, 4)

    def verdict(self, problem, plan):
        return verify_local_updates(problem, plan)

    def without_memory(self, problem):
        """Nobody pays for a cut, the first of two stages holds one of two micro-batches."""
        stages = [replace(stage, price=1) for stage in problem.stages]
        stages[0] = replace(stages[0], most=1)
        return replace(problem, stages=tuple(stages), micro_batches=2, budget=0)

    def optimum(self, problem):
        return least(problem)


@pytest.mark.parametrize("seed", few(range(100), 15))
def test_the_model_alone_proves_the_optimum(seed):
    """L4: a hundred tiny problems, against every set of cuts."""
    problem, _ = planted_local_updates(seed)
    value, bound = proved(problem)
    assert value == least(problem)
    assert bound == pytest.approx(value, rel=1e-6)


def proved(problem):
    """Value of the model's plan, and its bound."""
    options, guide = FORM.Options(), Guide()
    compiled = compile_source(FORM.build(problem, options, guide))
    answer = solve_here(compiled, LIMITS)
    plan = FORM.decode(problem, options, guide, compiled.name_values(answer.vector))
    verdict = verify_local_updates(problem, plan)
    assert verdict.ok
    return verdict.value, answer.bound * FORM.scale(problem, options, guide).unit


def test_the_model_from_no_cut_to_every_cut():
    """L4: monotone in the budget; none is 1F1B, one for every boundary is greedy."""
    stages = tuple(Stage(str(k), 20, 40) for k in range(4))
    line = LocalUpdatesProblem("line", stages, 5, 10)
    values = [proved(replace(line, budget=budget))[0] for budget in range(4)]
    assert values == sorted(values, reverse=True)
    chain = chain_of(line)
    assert values[0] == step_time(chain, (), orders(chain, ()))
    assert values[-1] == 3 * (20 + 10) + 5 * (20 + 40)


def test_a_model_that_is_too_large_is_refused():
    problem, _ = planted_local_updates(0)
    assert "the switch rows" in FORM.unsupported(problem, FORM.Options(rows=1))
    assert "local updates" in FORM.unsupported(None, FORM.Options())
