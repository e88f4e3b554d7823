from dataclasses import replace

from milp_plan.check import verify
from milp_plan.core import Objective

from .cases import broken, messages, plan, problem, run

P = problem("a b")
PLAN = plan(run("a", "d0", 0), run("b", "d0", 10))


def test_claiming_nothing_is_fine():
    assert broken(P, PLAN) == []


def test_a_claim_that_holds():
    assert broken(P, PLAN.claimed("makespan", 20)) == []
    assert broken(P, replace(PLAN, value=20)) == []


def test_a_forged_value_names_both_figures():
    (violation,) = verify(P, PLAN.claimed("makespan", 19)).violations
    assert violation.rule == "claim"
    assert (violation.needed, violation.available) == (19, 20)


def test_a_forged_objective():
    assert broken(P, PLAN.claimed("peak_memory", 20)) == ["claim"]
    assert "asks for 'makespan'" in messages(P, PLAN.claimed("peak_memory", 20))
    memory = replace(P, objective=Objective.PEAK_MEMORY)
    assert broken(memory, PLAN.claimed("makespan", 20)) == ["claim", "claim"]


def test_a_claim_about_a_plan_that_has_no_value():
    half = replace(PLAN, runs=PLAN.runs[:1], value=10)
    assert broken(P, half) == ["assignment", "claim"]
    assert "cannot be computed" in messages(P, half)
