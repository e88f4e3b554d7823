"""Whose a plan is and what it claims is checked alike for problems of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from milp_plan.core import Objective
from milp_plan.kinds.rematerialisation.problem import RematerialisationObjective
from milp_plan.run import Settings, kind_of, solve
from tests.support.every_kind import DRAWN, measured_anew
from tests.support.seeds import few

SEEDS = 20
QUICK = Settings(time_limit_s=30.0, node_limit=200, rounds=0)
FOREIGN = "0" * 64
CASES = [(name, seed) for seed in range(SEEDS) for name in DRAWN]


@cache
def solved(name, seed):
    """A problem and its plan; ``None`` where there is no plan."""
    problem = DRAWN[name](seed)
    plan = solve(problem, quick(problem)).plan
    return None if plan is None else (problem, plan)


def quick(problem):
    """Settings that mean something for the problem."""
    usual = Settings()
    changes = {name: getattr(usual, name) for name in kind_of(problem).ignores}
    return replace(QUICK, **changes)


def rules(problem, plan):
    """Rules that a plan breaks."""
    return {entry.rule for entry in kind_of(problem).verify(problem, plan).violations}


@pytest.mark.parametrize(
    "case", few(CASES, 3 * len(DRAWN)), ids=lambda case: f"{case[0]}-{case[1]}"
)
def test_a_plan_of_other_contents_and_a_false_claim_are_refused(case):
    name, seed = case
    found = solved(name, seed)
    if found is None:
        return
    problem, plan = found
    assert not rules(problem, plan)
    assert rules(problem, replace(plan, problem="another")) == {"identity"}
    assert rules(problem, replace(plan, value=plan.value + 1)) == {"claim"}
    if not hasattr(plan, "fingerprint"):  # the file of a packing has no place for it
        assert name == "packing"
        return
    parent = {"parent": None} if hasattr(plan, "parent") else {}
    foreign = replace(plan, fingerprint=FOREIGN, value=1, **parent)
    assert rules(problem, foreign) == {"identity"}
    other = measured_anew(name, problem, seed)
    if other is not None:
        assert "identity" in rules(other, plan)
    anonymous = kind_of(problem).reasons().carried(plan)
    assert not rules(problem, anonymous)


@pytest.mark.parametrize("name", DRAWN)
def test_most_problems_have_a_plan_and_change(name):
    """Else the test above would hold nothing."""
    found = [solved(name, seed) for seed in range(3)]
    assert any(entry is not None for entry in found)
    assert any(
        entry is not None and measured_anew(name, entry[0], seed) is not None
        for seed, entry in enumerate(found)
    )


def variants(problem):
    """The same with other limits or another objective."""
    match kind_of(problem).name:
        case "rematerialisation":
            yield replace(problem, budget=2**59)
            yield replace(problem, objective=RematerialisationObjective.ADDED_ENERGY, budget=2**59)
        case "jobs":
            yield replace(problem, pools=tuple(replace(p, memory=None) for p in problem.pools))
            yield replace(problem, host=None)
        case "local-updates":
            yield replace(problem, budget=None)
            yield replace(problem, stages=tuple(replace(s, most=None) for s in problem.stages))
        case "schedule" if problem.serial is None and problem.objective is Objective.MAKESPAN:
            yield problem.variant(objective=Objective.PEAK_MEMORY)


@pytest.mark.parametrize(
    "case", few(CASES, 2 * len(DRAWN)), ids=lambda case: f"{case[0]}-{case[1]}"
)
def test_a_plan_of_a_relative_is_checked_against_the_laws_and_its_claims_are_not(case):
    name, seed = case
    found = solved(name, seed)
    for variant in () if found is None else variants(found[0]):
        if variant.fingerprint == found[0].fingerprint:
            continue
        plan = replace(found[1], value=found[1].value + 1)
        assert not rules(variant, plan), variant
        back = solve(variant, quick(variant)).plan
        if back is not None:
            broken = rules(found[0], replace(back, value=back.value + 1))
            assert not broken & {"identity", "claim"}
