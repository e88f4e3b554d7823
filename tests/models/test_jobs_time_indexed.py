"""The time-indexed formulation of jobs keeps the contract; every plan is a solution of it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from formulations.jobs_time_indexed.dual_feasible import dual_feasible
from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract
from milp_plan.kinds.jobs.blocks import blocks_of, grid_of
from milp_plan.kinds.jobs.bounds import jobs_obstacle
from milp_plan.kinds.jobs.check import verify_jobs
from milp_plan.kinds.jobs.planners import RANKS, STARTS, Chains, JobTables, in_turn
from milp_plan.kinds.jobs.problem import Job, JobsObjective, JobsProblem, Option, Pool, Unit
from milp_plan.run import Settings, solve
from tests.support.jobs import chains, optimum, plain
from tests.support.seeds import few

from .solving import formulation, solve_here

NAME = "jobs_time_indexed"
FEW = 40
"""Slots of a problem that is solved to the end."""


def fine(seed, objective):
    """Return a problem whose slots divide all times, so that its model depends on no cutoff."""
    make = (plain, chains)[seed % 2]
    for draw in itertools.count():
        problem = replace(make(seed + 1000 * draw, objective), host=None)
        fits = jobs_obstacle(problem) is None and blocks_of(problem).serial
        grid = grid_of(problem, 96, None) if fits else None
        if grid is not None and grid.exact and grid.count < FEW:
            return problem
    raise AssertionError


class TestJobsTimeIndexed(FormulationContract):
    reference = NAME
    least = 16

    def planted(self, seed, objective):
        problem = fine(seed, objective)
        return problem, in_turn(problem)

    def verdict(self, problem, plan):
        return verify_jobs(problem, plan)

    def optimum(self, problem):
        return optimum(problem)


def plans_of(problem):
    """Yield plans of some planners."""
    yield in_turn(problem)
    if problem.plain:
        tables = JobTables(problem)
        yield from (tables.plan(make(tables, 0), "") for make in STARTS.values())
    elif Chains(problem).possible:
        yield from (run(Chains(problem), 0) for run in RANKS.values())


@pytest.mark.parametrize("minimise", [False, True])
@pytest.mark.parametrize("first", few(range(0, 40, 4), 1))
def test_every_plan_up_to_the_cutoff_is_a_solution(first, minimise):
    """But one whose first job begins in the second half, where it may run backwards instead."""
    form, starts, mirrored = formulation(NAME), 0, 0
    for seed, objective, make in itertools.product(
        range(first, first + 4), JobsObjective, (plain, chains)
    ):
        problem = make(seed, objective, least=seed % 2)
        if jobs_obstacle(problem) is not None:
            continue
        slots = random.Random(seed).choice((3, 10, 96))
        options = form.Options(slots=slots, minimise=minimise)
        for plan in plans_of(problem):
            value = verify_jobs(problem, plan).value
            guide = Guide(value + seed % 3)
            model = form.build(problem, options, guide)
            values = form.encode(problem, options, model, plan)
            if values is None:
                mirrored += 1
                assert problem.plain, problem.name
                continue
            starts += 1
            vector = model.vector(values)
            assert model.violation(vector)[0] < 1e-6, problem.name
            scale = form.scale(problem, options, guide)
            assert model.cost @ vector * scale.unit <= value * (1 + 1e-9)
    assert starts > 3 * mirrored


@pytest.mark.parametrize("seed", few(range(24), 8))
def test_slots_that_divide_all_times_are_exact(seed):
    """Without a host and weights, where all lasts some time: the plan has the model's value."""
    form = formulation(NAME)
    for objective in JobsObjective:
        problem = fine(2 * seed, objective)
        guide, options = Guide(), form.Options()
        model = form.build(problem, options, guide)
        answer = solve_here(model, Limits(gap=1e-9))
        assert answer.stop is Stop.PROVED
        plan = form.decode(problem, options, guide, model.name_values(answer.vector))
        value = verify_jobs(problem, plan).value
        assert value == optimum(problem)
        if objective is JobsObjective.COMPLETION:
            assert value == round(answer.objective * form.scale(problem, options, guide).unit)


def test_without_slots_or_options_that_fit_it_does_not_apply():
    form, problem = formulation(NAME), plain(0)
    assert form.unsupported(problem, form.Options()) is None
    assert "slot" in form.unsupported(problem, form.Options(slots=0))
    none = JobsProblem("n", (Pool("p", 1, 1),), (Job("j", (Unit((Option("t", "p", 1, 1, 2),)),)),))
    assert "no option that fits" in form.unsupported(none, form.Options())


@pytest.mark.parametrize("only", [False, True])
def test_it_is_asked_by_its_name(only):
    problem = fine(4, JobsObjective.MAKESPAN)
    settings = Settings(30, formulation=NAME, options={"slots": 20}, only=only, threads=1)
    outcome = solve(problem, settings)
    assert (outcome.value, outcome.proved, outcome.defects) == (optimum(problem), True, ())


def test_dual_feasible_functions_are():
    rng, strong = random.Random(1), 0
    for _ in range(200):
        whole = rng.randint(1, 30)
        lengths = sorted({rng.randint(1, whole) for _ in range(6)})
        for image in dual_feasible(lengths, whole):
            for count in range(1, 5):
                for chosen in itertools.combinations_with_replacement(lengths, count):
                    if sum(chosen) <= whole:
                        assert sum(image[n] for n in chosen) <= 1
            strong += any(image[n] * whole > n for n in lengths)
    assert strong > 200
