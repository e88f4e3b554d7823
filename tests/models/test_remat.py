"""Formulations of rematerialisation keep the contract and find what enumeration finds."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations

import pytest

from formulations.remat_lazy_memory.rows import Watch, Watched
from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract
from milp_plan.kinds.rematerialisation.check import usage, verify_rematerialisation
from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.kinds.rematerialisation.stages import Staged
from tests.support.planted_rematerialisation import planted_remat
from tests.support.rematerialisation import ask_scipy, drawn, least, least_paged, powered
from tests.support.seeds import few

from .solving import formulation, limits_for, solve_here

NAMES = ("remat_staged", "remat_retention", "remat_backbone")


class _Contract(FormulationContract):
    seeds = range(6)
    least = 6

    def planted(self, seed, objective):
        problem, plan = planted_remat(seed)
        if objective is RematerialisationObjective.ADDED_ENERGY:
            problem = powered(problem, seed)
        return problem, replace(plan, fingerprint=problem.fingerprint)

    def verdict(self, problem, plan):
        return verify_rematerialisation(problem, plan)

    def optimum(self, problem):
        if problem.host is None:
            return least(problem)
        return least_paged(problem) if len(problem.computations) < 6 else None


class TestStaged(_Contract):
    reference = "remat_staged"


class TestRetention(_Contract):
    reference = "remat_retention"


class TestBackbone(_Contract):
    reference = "remat_backbone"
    seeds = range(12)


class TestLazyMemory(_Contract):
    reference = "remat_lazy_memory"


def staged_plans(problem, most=None):
    """Yield the staged plans of a problem."""
    computations = problem.computations
    pairs = [(t, i) for t in range(len(computations)) for i in range(t) if computations[i].again]
    for chosen in chain.from_iterable(combinations(pairs, k) for k in range(len(pairs) + 1)):
        counts = [sum(i == place for _, i in chosen) for place in range(len(computations))]
        if most is None or max(counts) < most:
            yield Staged.of(problem, chosen)


def value_of(problem, plan):
    return verify_rematerialisation(problem, plan.plan("")).value


def least_staged(problem, most=None):
    """Return the least added time of staged plans, of the law alone."""
    verdicts = (
        verify_rematerialisation(problem, plan.plan("")) for plan in staged_plans(problem, most)
    )
    return min((verdict.value for verdict in verdicts if verdict.ok), default=None)


def solved(name, problem, **switches):
    """Return the value of the model's plan, ``None`` without one; checker and solver must agree."""
    form, guide = formulation(name), Guide()
    options = form.Options(**switches)
    model, scale = form.build(problem, options, guide), form.scale(problem, options, guide)
    answer = solve_here(model, limits_for(scale))
    if answer.vector is None:
        return None
    plan = form.decode(problem, options, guide, model.name_values(answer.vector))
    verdict = verify_rematerialisation(problem, plan)
    assert verdict.ok, verdict.violations
    assert answer.objective * scale.unit == pytest.approx(verdict.value, rel=1e-6, abs=1e-6)
    return verdict.value


@pytest.mark.parametrize("seed", few(range(120), 25))
def test_staged_and_retention_find_the_least_of_all_staged_plans(seed):
    problem = drawn(seed, 5, once=0.1)
    expected = least_staged(problem)
    assert solved("remat_staged", problem) == solved("remat_retention", problem) == expected
    if seed % 5 == 0:
        assert solved("remat_retention", problem, intervals=2) == least_staged(problem, 2)


@pytest.mark.parametrize("seed", few(range(200), 40))
def test_backbone_is_between_staged_plans_and_the_greedy(seed):
    problem = drawn(seed, once=0.1)
    optimum, staged = least(problem), solved("remat_retention", problem)
    found = solved("remat_backbone", problem, depth=6)
    assert optimum is not None or staged is None
    if staged is not None:
        assert optimum <= staged
    if found is not None:
        assert staged is not None
        assert staged <= found
    if problem.budget >= problem.peak:
        assert found == staged == 0


def test_backbone_mostly_finds_the_optimum():
    pairs = [(least(p), solved("remat_backbone", p)) for p in map(drawn, range(60))]
    there = [(optimum, found) for optimum, found in pairs if optimum]
    assert len(there) >= 12
    assert sum(optimum == found for optimum, found in there) >= 0.7 * len(there)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_too_large_is_refused_in_words(name):
    form, problem = formulation(name), drawn(1)
    switch = "entries" if name == "remat_retention" else "columns"
    reason = form.unsupported(problem, form.Options(**{switch: 1}))
    assert switch in reason


@pytest.mark.parametrize("name", NAMES)
def test_what_it_is_not_for_is_refused_in_words(name):
    form, problem = formulation(name), drawn(1)
    paged = powered(problem, 1, energy=False)
    peak = replace(problem, budget=None, objective=RematerialisationObjective.PEAK_MEMORY)
    reasons = [form.unsupported(other, form.Options()) for other in (peak, paged)]
    both = name == "remat_backbone"
    words = "added time or added energy" if both else "added time"
    assert reasons == [f"it minimises {words} alone", None if both else "it knows no host"]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_budget_nothing_is_added(name):
    assert solved(name, replace(drawn(3), budget=None)) == 0


@pytest.mark.parametrize("seed", few(range(150), 30))
def test_backbone_with_a_host_is_no_better_than_trying_everything(seed):
    problem = powered(drawn(seed, 4, once=0.1), seed, energy=seed % 2 == 0)
    optimum, found = least_paged(problem), solved("remat_backbone", problem)
    if found is not None:
        assert optimum is not None
        assert found >= optimum


def test_backbone_with_a_host_mostly_finds_the_optimum():
    problems = [powered(drawn(seed, 4), seed, energy=False) for seed in range(60)]
    pairs = [(least_paged(p), solved("remat_backbone", p)) for p in problems]
    there = [(optimum, found) for optimum, found in pairs if optimum]
    assert len(there) >= 8
    assert sum(optimum == found for optimum, found in there) >= 0.7 * len(there)


def any_plan(problem, rng):
    """Return a plan of random runs, and the problem with a budget that just admits it."""
    names = [entry.name for entry in problem.computations]
    runs = []
    for place, name in enumerate(names):
        before = [n for n in names[:place] if problem.computations[problem.numbers[n]].again]
        runs += [rng.choice(before) for _ in range(rng.randint(0, 3)) if before]
        runs.append(name)
    theirs = RematerialisationPlan(problem.name, tuple(runs))
    return theirs, replace(problem, budget=max(usage(problem, theirs)))


@pytest.mark.parametrize("seed", few(range(150), 50))
def test_every_plan_is_a_solution_of_every_model_with_lazy_memory(seed):
    rng = random.Random(seed)
    theirs, problem = any_plan(drawn(seed, once=0.2), rng)
    count = len(problem.computations)
    steps = frozenset(rng.sample(range(count), rng.randint(0, count)))
    pairs = [(step, j) for step in steps for j in range(count) if rng.random() < 0.5]
    model = Watched(problem, Watch(steps, frozenset(pairs)))
    vector = model.vector([problem.numbers[name] for name in theirs.runs])
    assert model.compiled.violation(vector)[0] < 1e-9
    value = verify_rematerialisation(problem, theirs).value
    assert model.compiled.cost @ vector * model.tick <= value * (1 + 1e-12)


def refined(problem, **switches):
    """Yield the optimum of each model and its plan, until a plan exceeds nothing new."""
    form, guide = formulation("remat_lazy_memory"), Guide()
    options = form.Options(**switches)
    while guide is not None:
        model = form.build(problem, options, guide)
        report = ask_scipy(model, Limits(), None)
        if report.stop is Stop.INFEASIBLE:
            yield None, None
            return
        plan = form.decode(problem, options, guide, model.name_values(report.solution))
        yield report.objective * form.scale(problem, options, guide).unit, plan
        guide = None if plan is None else form.refined(problem, options, guide, plan)


@pytest.mark.parametrize("seed", few(range(100), 30))
def test_lazy_memory_meets_the_optimum(seed):
    problem = drawn(seed, once=0.1)
    optimum = least(problem)
    for bound, plan in refined(problem):
        if bound is None:
            assert optimum is None
            return
        assert optimum is None or round(bound) <= optimum
        verdict = verify_rematerialisation(problem, plan)
        assert verdict.value is not None  # it may hold too much, but its runs are in order
        if verdict.ok:
            assert round(bound) == verdict.value == optimum


def test_lazy_memory_mostly_ends_with_a_plan():
    ends = [list(refined(p))[-1][1] for p in map(drawn, range(30)) if least(p)]
    assert len(ends) > 5


def test_few_columns_give_large_problems_a_bound():
    size = 20
    rows = [
        Computation(
            f"o{i}",
            7 + 3 * i % 5,
            10 + i,
            tuple(f"o{j}" for j in {i - 1, size - 1 - i} if 0 <= j < i),
        )
        for i in range(size)
    ]
    problem = RematerialisationProblem("mirrored", tuple(rows)).within(
        Fraction(7, 10), fraction=True
    )
    ((first, none),) = refined(problem, columns=0, integers=False)
    (*_, (last, plan)) = refined(problem)
    assert none is None
    assert 0 < first <= last
    verdict = verify_rematerialisation(problem, plan)
    assert (verdict.ok, verdict.value) == (True, round(last))
