"""Every rule of hybrid parallelism, and a plan that breaks it."""

from dataclasses import fields, replace
from fractions import Fraction
from random import Random

import pytest

from milp_plan.kinds.hybrid.check import verify_hybrid
from milp_plan.kinds.hybrid.kind import KIND
from milp_plan.kinds.hybrid.plan import Choice, HybridPlan, Stage
from milp_plan.kinds.hybrid.problem import Configuration, Flow, HybridProblem, Layer, Limits
from tests.support.hybrid import random_problem
from tests.support.seeds import few


def configuration(name, seconds, **more):
    amounts = {"parameter_bytes": 6, "flight_bytes": 5, "fixed_bytes": 2} | more
    extra = {k: v for k, v in amounts.items() if not isinstance(v, int)}
    sizes = {k: Fraction(v) for k, v in amounts.items() if isinstance(v, int)}
    return Configuration(name, Fraction(seconds), **sizes, **extra)


def problem(**limits):
    first = Layer(
        "first",
        {
            1: (
                configuration("plain", 6, send_bytes={"second": Fraction(1)}),
                configuration("again", 8, flight_bytes=1, recomputes=True),
            ),
            2: (configuration("halved", 4),),
        },
    )
    more = {"receive_bytes": {"first": Fraction(3)}}
    second = Layer("second", {1: (configuration("plain", 2, **more),)})
    flows = (Flow("first", "second", Fraction(7)),)
    base = Limits(4, Fraction(20), Fraction(2), 6)
    return HybridProblem("pair", (first, second), flows, replace(base, **limits))


def stage(data, tensor, *choices):
    return Stage(tuple(Choice(*choice) for choice in choices), data, tensor)


FIRST, SECOND = ("first", "plain"), ("second", "plain")
GOOD = HybridPlan("pair", (stage(2, 1, FIRST), stage(1, 1, SECOND)))


def test_value_by_hand():
    verdict = verify_hybrid(problem(), GOOD)
    assert verdict.ok
    scale = problem().units.time_scale
    # stage 0: (6 + (2 (7 + 1) + 4 (2 - 1) 6 / 6) / 2) / 2; stage 1: 2 + 2 (7 + 3) / 2
    assert Fraction(verdict.components["seconds 0"], scale) == 8
    assert Fraction(verdict.components["seconds 1"], scale) == 12
    assert (verdict.objective, Fraction(verdict.value, scale)) == ("time_per_sample", 12)
    # 3 micro-batches later or here, shared by 2 replicas: 2 in flight
    assert (verdict.components["in flight 0"], verdict.components["memory 0"]) == (2, 12)
    assert (verdict.components["in flight 1"], verdict.components["memory 1"]) == (1, 7)
    assert verdict.components["devices"] == 3
    together = HybridPlan("pair", (stage(3, 1, FIRST, SECOND),))
    value = verify_hybrid(problem(), together).value
    assert Fraction(value, scale) == (8 + Fraction(4 * 2 * 12, 6 * 2)) / 3
    assert verify_hybrid(problem(), KIND.claimed(problem(), GOOD, verdict.value, "")).ok


BROKEN = {
    "order": (GOOD.stages[::-1], {}),
    "assignment": ((stage(1, 1, FIRST),), {}),
    "assignment twice": ((stage(1, 1, FIRST, FIRST), stage(1, 1, SECOND)), {}),
    "assignment empty": ((stage(1, 1), *GOOD.stages), {}),
    "identity": ((stage(1, 1, FIRST, SECOND, ("third", "plain")),), {}),
    "configuration": ((stage(1, 1, ("first", "halved"), SECOND),), {}),
    "configuration degree": ((stage(1, 2, ("first", "halved"), SECOND),), {}),
    "degrees": ((stage(4, 1, FIRST, SECOND),), {}),
    "degrees zero": ((stage(0, 1, FIRST, SECOND),), {}),
    "devices": ((stage(2, 2, ("first", "halved")), stage(1, 1, SECOND)), {}),
    "micro-batches": ((stage(2, 1, FIRST), stage(1, 1, SECOND)), {"micro_batches": 2}),
    "memory": (GOOD.stages, {"memory_bytes": Fraction(23, 2)}),
    "switches data": (GOOD.stages, {"data": False}),
    "switches tensor": ((stage(1, 2, ("first", "halved")), stage(1, 1, SECOND)), {"tensor": False}),
    "switches recomputation": (
        (stage(1, 1, ("first", "again"), SECOND),),
        {"recomputation": False},
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    stages, limits = BROKEN[case]
    verdict = verify_hybrid(problem(**limits), HybridPlan("pair", stages))
    assert {violation.rule for violation in verdict.violations} == {case.split()[0]}


@pytest.mark.parametrize("case", ["devices", "micro-batches", "memory", "switches tensor"])
def test_without_the_limit_it_is_valid(case):
    stages, limits = BROKEN[case]
    wide = {"devices": 5} if case == "devices" else {}
    assert limits or wide
    assert verify_hybrid(problem(**wide), HybridPlan("pair", stages)).ok


def test_wrong_claims():
    verdict = verify_hybrid(problem(), GOOD)
    limits = replace(problem().limits, devices=9)
    for plan, rule in (
        (replace(GOOD, problem="other"), "identity"),
        (replace(GOOD, fingerprint="0" * 64), "identity"),
        (replace(GOOD, limits=limits), "identity"),
        (replace(GOOD, value=verdict.value + 1), "claim"),
    ):
        found = verify_hybrid(problem(), plan)
        assert [violation.rule for violation in found.violations] == [rule]
    broken = HybridPlan("pair", (stage(1, 1, FIRST),), value=3)
    rules = {violation.rule for violation in verify_hybrid(problem(), broken).violations}
    assert rules == {"assignment", "claim"}
    assert verify_hybrid(problem(), HybridPlan("pair", ())).value is None


JUNK = (None, -1, 0, 1.5, True, 10**400, float("nan"), "x", "", b"x", [], {}, (), [[]], object())


def spoiled(pick: Random, plan: HybridPlan) -> HybridPlan:
    """A plan of which one thing or several are something else."""
    for _ in range(pick.choice([1, 1, 2, 4])):
        stages = plan.stages
        kind = pick.randrange(4)
        if kind == 0 or not isinstance(stages, tuple) or not stages:
            name = pick.choice([entry.name for entry in fields(HybridPlan)])
            plan = replace(plan, **{name: pick.choice(JUNK)})
            continue
        at = pick.randrange(len(stages))
        spoiled_stage = stages[at]
        if kind == 1 or not isinstance(spoiled_stage, Stage) or not spoiled_stage.choices:
            spoiled_stage = pick.choice([*JUNK, *stages])
        elif kind == 2 or not isinstance(spoiled_stage.choices, tuple):
            name = pick.choice(["choices", "data", "tensor"])
            spoiled_stage = replace(spoiled_stage, **{name: pick.choice(JUNK)})
        else:
            choices = list(spoiled_stage.choices)
            one = pick.randrange(len(choices))
            junk = [Choice(pick.choice(JUNK), "plain"), Choice("v0", pick.choice(JUNK))]
            choices[one] = pick.choice([*JUNK, *junk])
            spoiled_stage = replace(spoiled_stage, choices=tuple(choices))
        plan = replace(plan, stages=(*stages[:at], spoiled_stage, *stages[at + 1 :]))
    return plan


@pytest.mark.parametrize("first", few(range(0, 20_000, 1000), 2))
def test_nothing_that_a_plan_holds_raises(first: int) -> None:
    refused = 0
    for seed in range(first, first + 1000):
        pick = Random(seed)
        whole = random_problem(seed % 40)
        names = [layer.name for layer in whole.layers]
        cut = pick.randrange(len(names) + 1)
        stages = tuple(
            stage(pick.choice([1, 1, 2]), 1, *((name, "plain") for name in part))
            for part in (names[:cut], names[cut:])
            if part or pick.random() < 0.1
        )
        plan = spoiled(pick, HybridPlan(whole.name, stages))
        verdict = verify_hybrid(whole, plan)
        for violation in verdict.violations:
            assert str(violation)
            assert violation.text(whole.units)
        refused += not verdict.ok
    assert refused > 800


def test_a_plan_of_another_form_is_refused_with_the_reason():
    good = HybridPlan("pair", (stage(1, 1, FIRST, SECOND),))
    for spoilt, subject in (
        (replace(good, stages=None), "stage 0"),
        (replace(good, value="7"), "value"),
        (replace(good, fingerprint=7), "fingerprint"),
        (replace(good, stages=(stage(1.0, 1, FIRST, SECOND),)), "stage 0"),
        (replace(good, stages=(*good.stages, None)), "stage 1"),
    ):
        verdict = verify_hybrid(problem(), spoilt)
        assert [(v.rule, v.subjects) for v in verdict.violations] == [("form", (subject,))]
        assert verdict.value is None
