"""Damage to valid plans of every kind is caught by the rule it breaks."""

import random
from dataclasses import fields, replace

import pytest

from milp_plan.check import replay, verify
from milp_plan.check.explain import explain
from milp_plan.core import OperatorRun, Plan, Transfer
from tests.support.damage import DAMAGES
from tests.support.memory_saving import planted_memory_saving
from tests.support.memory_saving_damage import MEMORY_SAVING_DAMAGES, unlimited
from tests.support.plans import planted
from tests.support.seeds import few

SEEDS = range(150)
SOME = few(SEEDS, 50)
AT_LEAST = {
    # These need something particular to damage: other classes, gangs, tasks of no length.
    "device_class_without_duration": 20,
    "no_process_group": 20,
    "task_of_no_length_inside_another": 20,
}


def test_there_are_many_kinds_for_every_rule():
    assert len(DAMAGES) >= 30
    assert {rule for rule, _ in DAMAGES.values()} == {
        "identity",
        "assignment",
        "colocation",
        "exclusion",
        "supply",
        "memory",
        "claim",
    }


@pytest.mark.parametrize("seed", SOME)
def test_planted_plans_are_valid(seed):
    case = planted(seed)
    verdict = verify(case.problem, case.plan)
    assert verdict.ok, explain(case.problem, case.plan, verdict)
    assert verdict.value is not None


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_caught(name):
    rule, damage = DAMAGES[name]
    done = 0
    for seed in SEEDS:
        case = planted(seed)
        damaged = damage(case.problem, case.plan, random.Random(f"{name} {seed}"))
        if damaged is None:
            continue
        verdict = verify(damaged.problem, damaged.plan)
        assert rule in {v.rule for v in verdict.violations}, f"{name} not caught, seed {seed}"
        assert verdict.violations[0].message in explain(damaged.problem, damaged.plan)
        replay(damaged.problem, damaged.plan)
        done += 1
    assert done >= AT_LEAST.get(name, 40), f"{name} was done to {done} plans only"


NUMBERS = [None, -3, 0, 1, 10**30]
NAMES = ["", "nobody", "op0", "d0", "full", "half", "v0.0", "w0", "single", "pair"]
SITES = [(), ("d0",), ("d0", "d0"), ("d1", "d0"), ("nowhere",), ("d0", "nowhere")]


def _scrambled(task, rng):
    changes = {}
    for field in fields(task):
        if rng.random() < 0.15:
            if field.name in {"start_ticks", "stop_ticks"}:
                changes[field.name] = rng.choice(NUMBERS)
            elif field.name in {"devices", "source", "target"}:
                changes[field.name] = rng.choice(SITES)
            else:
                changes[field.name] = rng.choice(NAMES)
    return replace(task, **changes)


@pytest.mark.parametrize("seed", SOME)
def test_no_plan_is_too_broken_to_be_judged(seed):
    """Nothing in a plan makes a rule raise."""
    case, rng = planted(seed), random.Random(seed)
    tasks = [_scrambled(task, rng) for task in (*case.plan.runs, *case.plan.transfers)]
    rng.shuffle(tasks)
    plan = replace(
        case.plan,
        runs=tuple(task for task in tasks if isinstance(task, OperatorRun)),
        transfers=tuple(task for task in tasks if isinstance(task, Transfer)),
    )
    verdict = verify(case.problem, plan)
    unknown = [run for run in plan.runs if not case.problem.graph.has_operator(run.operator)]
    assert len(unknown) == 0 or "identity" in {v.rule for v in verdict.violations}
    assert explain(case.problem, plan, verdict).startswith("valid" if verdict.ok else "not valid")
    assert set(replay(case.problem, plan).devices) == set(case.problem.cluster.device_names)


def test_an_empty_plan_lacks_every_operator():
    case = planted(0)
    verdict = verify(case.problem, Plan(case.problem.name, ()))
    assert [v.rule for v in verdict.violations] == ["assignment"] * len(case.plan.runs)
    assert verdict.value is None


def test_there_are_many_kinds_of_damage_to_runs_again_and_hosts():
    assert len(MEMORY_SAVING_DAMAGES) >= 10


@pytest.mark.parametrize("seed", SOME)
def test_planted_plans_with_runs_again_and_hosts_are_valid(seed):
    case = planted_memory_saving(seed)
    assert verify(case.problem, case.plan).ok, explain(case.problem, case.plan)


@pytest.mark.parametrize("name", MEMORY_SAVING_DAMAGES)
def test_damage_to_runs_again_and_hosts_is_caught_by_its_rule_alone(name):
    rule, words, damage = MEMORY_SAVING_DAMAGES[name]
    done = 0
    for seed in range(80):
        case = planted_memory_saving(seed)
        problem = unlimited(case.problem)
        damaged = damage(problem, case.plan, random.Random(f"{name} {seed}"))
        if damaged is None:
            continue
        violations = verify(damaged.problem, damaged.plan).violations
        assert {v.rule for v in violations} == {rule}, f"{name}, seed {seed}: {violations}"
        assert any(word in v.message for v in violations for word in words), (
            f"{name}, seed {seed}: {violations}"
        )
        replay(damaged.problem, damaged.plan)
        done += 1
    assert done >= 6, f"{name} was done to {done} plans only"


@pytest.mark.parametrize("seed", SOME)
def test_no_plan_with_runs_again_and_hosts_is_too_broken_to_be_judged(seed):
    case, rng = planted_memory_saving(seed), random.Random(seed)
    runs = tuple(_scrambled(run, rng) for run in case.plan.runs)
    transfers = tuple(_scrambled(trip, rng) for trip in case.plan.transfers)
    plan = replace(case.plan, runs=runs, transfers=transfers)
    verdict = verify(case.problem, plan)
    assert explain(case.problem, plan, verdict).startswith("valid" if verdict.ok else "not valid")
    replay(case.problem, plan)
