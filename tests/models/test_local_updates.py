"""``local_updates`` keeps the contract, and proves what enumeration finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.check.local_updates import verify_local_updates
from milp_plan.core import Objective
from milp_plan.models.contract import FormulationContract
from milp_plan.models.modelling import compile_source
from milp_plan.models.planted_local_updates import planted_local_updates
from tests.support.local_updates import least
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

    def starved(self, problem):
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
    options, guide = FORM.Options(), Guide()
    compiled = compile_source(FORM.build(problem, options, guide))
    answer = solve_here(compiled, LIMITS)
    plan = FORM.decode(problem, options, guide, compiled.name_values(answer.vector))
    verdict = verify_local_updates(problem, plan)
    best = least(problem)
    assert verdict.ok
    assert verdict.value == best
    scale = FORM.scale(problem, options, guide)
    assert answer.bound * scale.unit == pytest.approx(best, rel=1e-6)


def test_a_model_that_is_too_large_is_refused():
    problem, _ = planted_local_updates(0)
    assert "the switch rows" in FORM.unsupported(problem, FORM.Options(rows=1))
    assert "local updates" in FORM.unsupported(None, FORM.Options())
