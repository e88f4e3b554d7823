"""Operators that nothing in the cluster can run: no bad input, but a proof that no plan exists.

Random clusters and options: whatever the doors, the answer is the same, and where each operator
has a place the question is asked as before.
"""

from __future__ import annotations

import random

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import (
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.formats import read, write
from milp_plan.run import Settings, find_bounds, kind_of, solve
from milp_plan.run.heuristic import run_heuristic
from milp_plan.run.what_if import more_devices, plan_variant

SECONDS = Settings(time_limit_s=20.0)


def gang_of_two(devices: int) -> PlanningProblem:
    """An operator for two devices at once, and one that reads what it makes on one."""
    names = [f"d{number}" for number in range(devices)]
    graph = ComputationGraph(
        (Operator("a", (Option("o", {"c": 5}, gang=2),)), Operator("b", (Option("o", {"c": 5}),))),
        (Value("x", "a", ("b",), {"full": 20}),),
    )
    ends = [(one, two) for one in names for two in names if one != two]
    cluster = Cluster(
        (DeviceClass("c", None),),
        tuple(Device(name, "c", 100) for name in names),
        tuple(Channel(one, two, 0, 10**9) for one, two in ends),
        groups=tuple([tuple(names[:2])] if devices > 1 else []),
    )
    return PlanningProblem("gang", graph, cluster)


def test_a_gang_larger_than_the_cluster_has_no_plan(tmp_path):
    write(gang_of_two(1), tmp_path / "gang.json")
    problem = read(tmp_path / "gang.json")
    because = (
        "operator 'a' can run nowhere: it needs a group of 2 devices of 'c', and the cluster has "
        "none"
    )
    outcome = solve(problem, SECONDS)
    assert (outcome.stop, outcome.infeasible_reason) == (Stop.INFEASIBLE, because)
    assert find_bounds(problem).infeasible_reason == because
    assert run_heuristic(problem, "heft", SECONDS).infeasible_reason == because
    whole = gang_of_two(2)
    assert solve(whole, SECONDS).value == 10
    question = more_devices(whole, -1)
    assert plan_variant(question.problem, SECONDS).infeasible_reason == because


def test_a_group_without_a_place_in_common_has_no_plan():
    options = [(Option("o", {name: 1}),) for name in "cd"]
    graph = ComputationGraph(
        tuple(Operator(name, o, group="g") for name, o in zip("ab", options, strict=True)), ()
    )
    classes, devices = (
        (DeviceClass("c", None), DeviceClass("d", None)),
        (Device("c0", "c", None), Device("d0", "d", None)),
    )
    problem = PlanningProblem("apart", graph, Cluster(classes, devices))
    because = "operators of group 'g' have no devices in common: a, b"
    assert solve(problem, SECONDS).infeasible_reason == because
    for device in ("c0", "d0"):
        runs = tuple(OperatorRun(name, "o", (device,), 0, 1) for name in "ab")
        assert not verify(problem, Plan(problem.name, runs)).ok


def random_problem(seed: int) -> PlanningProblem:
    """Up to three devices of two classes, few groups, options of many gangs, colocation."""
    rng = random.Random(seed)
    devices = [Device(f"d{n}", rng.choice("cd"), None) for n in range(rng.randint(1, 3))]
    names = [device.name for device in devices]
    groups = [tuple(rng.sample(names, 2)) for _ in range(len(names) > 1 and rng.randint(0, 2))]
    ends = [(one, two) for one in names for two in names if one != two]
    operators = []
    for name in "abc"[: rng.randint(1, 3)]:
        options = tuple(
            Option(
                f"o{n}",
                dict.fromkeys(rng.choice(("c", "d", "cd")), rng.choice((0, 1, 10**9))),
                gang=rng.choice((1, 1, 2, 3)),
            )
            for n in range(rng.randint(1, 2))
        )
        operators.append(Operator(name, options, group=rng.choice(("g", None))))
    values = [Value("x", "a", tuple(o.name for o in operators[1:]), {"full": rng.randint(0, 9)})]
    cluster = Cluster(
        (DeviceClass("c", None), DeviceClass("d", None)),
        tuple(devices),
        tuple(Channel(one, two, 0, 10**9) for one, two in ends),
        groups=tuple(dict.fromkeys(groups)),
    )
    return PlanningProblem(f"r{seed}", ComputationGraph(tuple(operators), tuple(values)), cluster)


def placed(problem: PlanningProblem) -> bool:
    """Look for places by trying all sites, from the words of the laws alone."""
    cluster = problem.cluster
    kinds = {device.name: device.device_class for device in cluster.devices}
    sites = [(name,) for name in kinds] + [tuple(group) for group in cluster.groups]
    may: dict[str, set[tuple[str, ...]]] = {}
    for operator in problem.graph.operators:
        own = {
            site
            for site in sites
            for option in operator.options
            if len(site) == option.gang and all(kinds[d] in option.duration_ticks for d in site)
        }
        key = f"group {operator.group}" if operator.group else operator.name
        may[key] = own & may[key] if key in may else own
    return all(may.values())


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(20 + k, marks=pytest.mark.slow) for k in range(180))]
)
def test_what_has_no_place_is_named_by_every_function(seed):
    problem = random_problem(seed)
    kind = kind_of(problem)
    assert (problem.unplaced is None) == placed(problem)
    if problem.unplaced is None:
        outcome = solve(problem, SECONDS)
        assert outcome.plan is not None or outcome.infeasible_reason is not None
        return
    because = problem.unplaced.reason
    assert solve(problem, SECONDS).infeasible_reason == because
    assert find_bounds(problem).infeasible_reason == because
    assert kind.rows(problem)
    assert str(kind.scope(problem))
    for name in ("heft", "single_device", "sharding_first"):
        assert run_heuristic(problem, name, SECONDS).infeasible_reason == because


def test_random_problems_are_of_both_sorts():
    found = [placed(random_problem(seed)) for seed in range(20)]
    assert 5 <= sum(found) <= 15
