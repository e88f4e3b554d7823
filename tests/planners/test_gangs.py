"""Every order and option within a makespan: plans that the checker passes, and proofs."""

import random

import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.jobs.check import verify_jobs
from milp_plan.kinds.jobs.planners.gangs import Gangs, suits
from milp_plan.kinds.jobs.problem import Job, JobsObjective, JobsProblem, Option, Pool, Unit
from milp_plan.run import Settings, solve
from tests.support.jobs import optimum, plain


def least(problem):
    """The least makespan, by halving."""
    search, low, high = Gangs(problem), 0, 1
    while search.within(high, Budget()).plan is None:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        answer = search.within(middle, Budget())
        assert answer.none == (answer.plan is None)
        if answer.plan is None:
            low = middle + 1
        else:
            verdict = verify_jobs(problem, answer.plan)
            assert verdict.ok, verdict.violations
            assert verdict.value <= middle
            high = verdict.value
    return low


def wide(seed, jobs=5):
    """Gangs in up to three pools, with releases and ticks of every size."""
    rng = random.Random(f"gangs {seed}")
    scale = rng.choice([3, 50, 10**9, 10**15])
    pools = tuple(Pool(f"p{i}", rng.randint(1, 4)) for i in range(rng.randint(1, 3)))
    made = []
    for number in range(rng.randint(1, jobs)):
        options = []
        for _ in range(rng.randint(1, 4)):
            pool = rng.choice(pools)
            count = rng.randint(1, pool.devices)
            options.append(Option("t", pool.name, count, rng.randint(1, scale)))
        release = rng.choice([0, 0, rng.randint(0, scale)])
        made.append(Job(f"j{number}", (Unit(tuple(options)),), release))
    return JobsProblem(f"wide{seed}", pools, tuple(made))


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 600), marks=pytest.mark.slow)])
def test_the_least_makespan_is_that_of_brute_force(seeds):
    for seed in seeds:
        problem = wide(seed, jobs=4 if seed < 15 else 5)
        assert suits(problem)
        assert least(problem) == optimum(problem), seed


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 600), marks=pytest.mark.slow)])
def test_runs_prove_it(seeds):
    for seed in seeds:
        problem = wide(1000 + seed, jobs=4)
        outcome = solve(problem, Settings(time_limit_s=20, node_limit=1))
        assert outcome.value == outcome.bound == optimum(problem), seed


def saturn(seed, jobs, devices):
    rng = random.Random(seed)
    made = []
    for number in range(jobs):
        alone, power = rng.uniform(1, 8) * 3600, rng.uniform(0.55, 0.75)
        counts = [g for g in (1, 2, 4, 8) if g <= devices]
        options = tuple(Option("f", "gpu", g, round(alone / g**power)) for g in counts)
        made.append(Job(f"job{number}", (Unit(options),)))
    return JobsProblem(f"saturn{seed}", (Pool("gpu", devices),), tuple(made))


def test_ten_jobs_with_four_options_each_are_proved():
    for seed in range(3):
        problem = saturn(seed, 10, 8)
        value = least(problem)
        assert Gangs(problem).within(value - 1, Budget()).none


def test_it_stops_when_its_nodes_or_its_time_are_over():
    problem = saturn(0, 30, 16)
    work = sum(min(o.devices * o.ticks for o in job.units[0].options) for job in problem.jobs)
    tight = -(-work // 16)
    answer = Gangs(problem).within(tight, Budget(), nodes=1)
    assert (answer.plan, answer.none) == (None, False)
    answer = Gangs(problem).within(tight, Budget(0))
    assert (answer.plan, answer.none) == (None, False)


def test_what_it_does_not_suit():
    problem = plain(0)
    assert not suits(plain(0, JobsObjective.COMPLETION))
    instant = Job("now", (Unit((Option("t", problem.pools[0].name, 1, 0),)),))
    assert not suits(JobsProblem("p", problem.pools, (*problem.jobs, instant)))


def test_makespans_beyond_what_is_counted_with_are_left_to_others():
    jobs = tuple(Job(f"j{i}", (Unit((Option("t", "p", 1, 2**57),)),)) for i in range(2))
    problem = JobsProblem("long", (Pool("p", 64),), jobs)
    assert Gangs(problem).within(2**58, Budget()).none is False
