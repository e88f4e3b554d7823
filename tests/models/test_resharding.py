"""``resharding`` keeps the contract by slots and by order, and proves what enumeration finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.contract import FormulationContract
from milp_plan.core import Objective
from milp_plan.kinds.resharding.check import verify_resharding
from milp_plan.models.validated import compile_source
from tests.support.planted_resharding import planted_resharding
from tests.support.resharding import least
from tests.support.seeds import few

from .solving import formulation, solve_here

LIMITS = Limits(gap=1e-9, gap_abs=1e-9)
FORM = formulation("resharding")


class TestResharding(FormulationContract):
    reference = "resharding"
    seeds = range(4)
    least = 4
    formulation = FORM

    def planted(self, seed, objective):
        assert objective is Objective.MAKESPAN
        return planted_resharding(seed, 4)

    def verdict(self, problem, plan):
        return verify_resharding(problem, plan)

    def without_memory(self, problem):
        lost = replace(problem.slices[0], senders=())
        return replace(problem, slices=(lost, *problem.slices[1:]))

    def optimum(self, problem):
        return least(problem)


class TestByOrder(TestResharding):
    seeds = range(1, 7, 2)
    least = 3

    def make_options(self):
        return FORM.Options(times="order")


@pytest.mark.parametrize("times", ["slots", "order"])
@pytest.mark.parametrize("seed", few(range(100), 12))
def test_the_model_alone_proves_the_optimum(seed, times):
    problem, _ = planted_resharding(seed, 4, 1)
    options, guide = FORM.Options(times=times), Guide()
    model = FORM.build(problem, options, guide)
    compiled = compile_source(model)
    answer = solve_here(compiled, LIMITS)
    plan = FORM.decode(problem, options, guide, compiled.name_values(answer.vector))
    verdict = verify_resharding(problem, plan)
    best = least(problem)
    assert verdict.ok
    assert verdict.value == best
    unit = FORM.scale(problem, options, guide).unit
    assert answer.bound * unit == pytest.approx(best, rel=1e-6)
