"""Checkmate's rounding: what is kept is there, what fits is valid, nothing beats the optimum."""

import random

import pytest

from milp_plan.kinds.rematerialisation.check import verify_rematerialisation
from milp_plan.kinds.rematerialisation.rounding import NAME, completed, two_phase_rounding
from milp_plan.kinds.rematerialisation.stages import Staged
from milp_plan.run.kinds import kind_of
from tests.support.rematerialisation import drawn, least
from tests.support.seeds import few


@pytest.mark.parametrize("seed", range(60))
def test_what_is_to_be_kept_is_made_and_everything_has_its_inputs(seed):
    problem, rng = drawn(seed), random.Random(seed)
    count = len(problem.computations)
    kept = {(t, i) for t in range(count) for i in range(t) if rng.random() < 0.5}
    plan = completed(problem, kept)
    runs = set(plan.runs)
    for stage, operator in plan.runs:
        for source in problem.inputs[operator]:
            assert (stage, source) in runs | kept
    for stage, operator in kept:
        assert {(stage - 1, operator)} & (runs | kept)
    everything = completed(problem, {(t, i) for t in range(count) for i in range(t)})
    assert everything == Staged.of(problem, ())


@pytest.mark.parametrize("seed", few(range(40), 4))
def test_a_rounded_plan_is_valid_and_no_better_than_the_optimum(seed):
    problem = drawn(seed, once=0.1)
    found = two_phase_rounding(problem, 0)
    if found is None:
        return
    verdict = verify_rematerialisation(problem, found)
    assert verdict.ok
    assert verdict.value >= least(problem)


def test_rounding_is_a_heuristic_of_the_kind_and_finds_something():
    problem = drawn(4)
    planner = kind_of(problem).heuristics()[NAME]
    found = planner(problem, 0)
    assert verify_rematerialisation(problem, found).ok
