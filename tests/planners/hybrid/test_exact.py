from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from milp_plan.kinds.hybrid.check import verify_hybrid
from milp_plan.kinds.hybrid.piper import read_hybrid
from milp_plan.kinds.hybrid.planners import (
    MARGIN,
    exact,
    plan_exactly,
    plan_uniformly,
    repeated_layers,
)
from milp_plan.kinds.hybrid.planners.free_layers import without_free_layers
from milp_plan.kinds.hybrid.planners.knapsack import FOUND, NONE, Menu, choose
from milp_plan.kinds.hybrid.planners.lattice import all_down_sets, prefixes
from milp_plan.kinds.hybrid.planners.tables import is_exact
from milp_plan.kinds.hybrid.problem import Configuration, Flow, HybridProblem, Layer, Limits
from tests.support.hybrid import best_value, chain, random_problem
from tests.support.public import PUBLIC, needs_public

GIB = 2**30
HOME = PUBLIC / "piper"
KNOWN = needs_public("piper")


def check_answer(problem, answer, best):
    """Hold an answer against the value of enumeration, in ticks."""
    assert answer.complete
    if best is None:
        assert answer.infeasible
        return
    verdict = verify_hybrid(problem, answer.plan)
    assert verdict.ok, verdict.violations
    scale = problem.units.time_scale
    assert best <= verdict.value <= best * (1 + Fraction(MARGIN))
    assert Fraction(answer.bound) <= Fraction(best, scale)
    assert answer.bound >= answer.seconds * (1 - 2 * MARGIN)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("seeds", "layers", "least"),
    [
        (range(30), 3, 2),
        (range(40, 44), 4, 1),
        pytest.param(range(100, 260), 4, 20, marks=pytest.mark.slow),
    ],
)
def test_equals_enumeration(seeds, layers, least):
    solved = infeasible = deep = 0
    for seed in seeds:
        problem = random_problem(seed, layers)
        best = best_value(problem)
        answer = plan_exactly(problem)
        check_answer(problem, answer, best)
        solved += best is not None
        infeasible += best is None
        deep += answer.plan is not None and len(answer.plan.stages) > 1
        uniform = plan_uniformly(problem)
        if uniform is not None:
            verdict = verify_hybrid(problem, uniform[0])
            assert verdict.ok
            assert verdict.value >= best
            assert uniform[1] == pytest.approx(verdict.value / problem.units.time_scale)
    assert min(solved, infeasible, deep) >= least


def test_knapsack_equals_enumeration():
    pick = np.random.default_rng(1)
    reported = {NONE: 0, FOUND: 0}
    for _ in range(300):
        sizes = pick.integers(1, 4, size=pick.integers(1, 6))
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        cost, memory = (pick.integers(0, 12, start[-1]).astype(float) for _ in range(2))
        capacity = float(pick.integers(0, 8 * len(sizes)))
        rows = [list(row) for row in product(*map(range, start[:-1], start[1:]))]
        fits = [sum(cost[row]) for row in rows if sum(memory[row]) <= capacity]
        best = min(fits, default=np.inf)
        for target, early in product((np.inf, best, best - 1.0, best + 1.0), (True, False)):
            chosen = np.zeros(len(sizes), np.int64)
            status, value = choose(Menu(start, cost, memory), capacity, target, early, chosen)
            assert status == (FOUND if best <= target and best < np.inf else NONE)
            reported[status] += 1
            if status == FOUND:
                assert value == sum(cost[chosen]) <= target
                assert sum(memory[chosen]) <= capacity
                assert early or value == best
    assert min(reported.values()) > 100


def test_knapsack_with_many_near_equal_items():
    pick = np.random.default_rng(2)
    start = np.arange(0, 121, 2).astype(np.int64)
    cost, memory = np.zeros(120), np.zeros(120)
    cost[1::2] = pick.uniform(0.009, 0.011, 60)
    memory[0::2] = 1000.0
    chosen = np.zeros(60, np.int64)
    status, value = choose(Menu(start, cost, memory), 30_500.0, np.inf, False, chosen)
    assert status == FOUND
    assert value == pytest.approx(np.sort(cost[1::2])[:30].sum(), rel=1e-12)


def test_greedy_recomputation_is_not_enough():
    """Saving most memory per second first takes 3 + 3 s more; the best choice 5 s."""
    amounts = {"a": (3, 7), "b": (3, 6), "c": (5, 10)}  # seconds more, bytes less
    layers = tuple(
        Layer(
            name,
            {
                1: (
                    Configuration("plain", Fraction(1), Fraction(0), Fraction(saves), Fraction(0)),
                    Configuration(
                        "again", Fraction(1 + more), Fraction(0), Fraction(0), Fraction(0), True
                    ),
                )
            },
        )
        for name, (more, saves) in amounts.items()
    )
    flows = (Flow("a", "b", Fraction(0)), Flow("b", "c", Fraction(0)))
    problem = HybridProblem("greedy", layers, flows, Limits(1, Fraction(13), Fraction(1), 1))
    answer = plan_exactly(problem)
    assert answer.seconds == 8
    assert [c.configuration for c in answer.plan.stages[0].choices] == ["plain", "plain", "again"]
    check_answer(problem, answer, best_value(problem))


def test_free_layers_are_left_out_and_put_back():
    base = chain(3, 1, 2)
    free = Configuration("nothing", *(Fraction(0) for _ in range(4)))
    names = ("x", "y", "z")
    layers = (*base.layers, *(Layer(name, {1: (free,)}) for name in names))
    bridge = [("a", "x"), ("x", "c"), ("y", "b"), ("y", "z"), ("z", "c"), ("c", "w")]
    flows = (*base.flows, *(Flow(*ends, Fraction(0)) for ends in bridge if "w" not in ends))
    problem = HybridProblem("free", layers, flows, base.limits)
    reduction = without_free_layers(problem)
    assert set(reduction.removed) == set(names)
    assert ("a", "c") in {(flow.source, flow.target) for flow in reduction.problem.flows}
    answer, plain = plan_exactly(problem), plan_exactly(base)
    assert verify_hybrid(problem, answer.plan).ok
    assert answer.seconds == plain.seconds
    assert len(all_down_sets(problem, 1000).sets) > answer.down_sets == 4


@pytest.mark.parametrize("way", ["bytes", "gather", "memory", "degree"])
def test_layers_that_cost_anything_stay(way):
    base = chain(3, 1)
    entry = Configuration("nothing", *(Fraction(0) for _ in range(4)))
    if way == "memory":
        entry = replace(entry, fixed_bytes=Fraction(1))
    if way == "gather":
        entry = replace(entry, send_bytes={"b": Fraction(1)})
    flow = Flow("x", "b", Fraction(1 if way == "bytes" else 0))
    layers = (*base.layers, Layer("x", {2 if way == "degree" else 1: (entry,)}))
    problem = HybridProblem("stays", layers, (*base.flows, flow), base.limits)
    assert without_free_layers(problem).removed == ()


def test_only_free_layers():
    free = Configuration("nothing", *(Fraction(0) for _ in range(4)))
    layers = (Layer("x", {1: (free,)}), Layer("y", {1: (free,)}))
    problem = HybridProblem("idle", layers, (), chain(1).limits)
    answer = plan_exactly(problem)
    assert (answer.seconds, answer.complete) == (0, True)
    assert verify_hybrid(problem, answer.plan).ok


@pytest.mark.parametrize("tight", [True, False])
def test_sizes_too_large_for_floats_are_rounded_safely(tight):
    third = Fraction(10**20, 3)
    memory = 5 + third if tight else Fraction(5, 2) * third
    problem = chain(3, 1, 2, memory_bytes=memory)
    entries = [
        replace(
            layer,
            configurations={
                1: tuple(
                    replace(e, fixed_bytes=e.fixed_bytes + third) for e in layer.configurations[1]
                )
            },
        )
        for layer in problem.layers
    ]
    problem = replace(problem, layers=tuple(entries))
    assert not is_exact(problem)
    answer = plan_exactly(problem)
    best = best_value(problem)
    scale = problem.units.time_scale
    assert Fraction(answer.bound) <= Fraction(best, scale)
    if tight:  # what fits is below the resolution: a plan, no proof, and it says so
        assert verify_hybrid(problem, answer.plan).ok
        assert (answer.complete, answer.infeasible) == (False, False)
    else:
        check_answer(problem, answer, best)


def test_too_many_down_sets_are_reported(monkeypatch):
    problem = chain(3, 1, 2)
    best = best_value(problem)
    monkeypatch.setattr(exact, "MAX_DOWN_SETS", 2)
    answer = plan_exactly(problem)
    assert (answer.complete, answer.infeasible, answer.down_sets) == (False, False, None)
    assert verify_hybrid(problem, answer.plan).value >= best
    assert answer.bound * problem.units.time_scale <= best


def test_time_limit_is_reported():
    answer = plan_exactly(random_problem(7), time_limit_s=-1.0)
    assert (answer.plan, answer.complete, answer.infeasible) == (None, False, False)


def test_prefixes_are_down_sets():
    problem = random_problem(9)
    every = set(all_down_sets(problem, 1000).sets)
    line = prefixes(problem).sets
    assert len(line) == len(problem.layers) + 1
    assert set(line) <= every


def test_repeated_layers():
    problem = chain(3, 1, 2, 5)
    assert repeated_layers(problem) == ("a", "b", "c", "d")
    heavy = replace(problem.layers[3].configurations[1][0], parameter_bytes=Fraction(9))
    layers = (*problem.layers[:3], Layer("d", {1: (heavy,)}))
    assert repeated_layers(replace(problem, layers=layers)) == ("a", "b", "c")


@KNOWN
@pytest.mark.parametrize(
    ("file", "memory", "devices", "off", "published"),
    [  # seconds per sample, measured with the published code of Piper; bandwidth 25 GiB/s
        ("bert32a100", 2, 8, "", None),
        ("bert32a100", 2, 32, "", 0.0665495),
        ("bert32a100", 8, 8, "", 0.16585575),
        ("bert32a100", 2, 64, "tensor", 0.0443059868),
        ("bert32a100", 8, 64, "recomputation", 0.0279882783),
        ("bert32a100", 80, 64, "data", 0.07390625),
        ("resnet", 16, 8, "", 58.55771),
    ],
)
def test_public_values(file, memory, devices, off, published):
    problem = read_hybrid(HOME / f"{file}.json")
    limits = replace(
        problem.limits,
        devices=devices,
        memory_bytes=Fraction(memory * GIB),
        bandwidth_bytes_per_s=Fraction(25 * GIB),
        **({off: False} if off else {}),
    )
    problem = problem.with_limits(limits)
    answer = plan_exactly(problem)
    assert answer.complete
    assert answer.infeasible == (published is None)
    if published is not None:
        verdict = verify_hybrid(problem, answer.plan)
        assert verdict.ok
        assert verdict.value / problem.units.time_scale == pytest.approx(published, rel=1e-6)


@KNOWN
def test_public_uniform_split():
    """Never worse than the published uniform split; equal where both choose the same."""
    for memory, devices, published in ((8, 8, 0.230978), (80, 512, 0.00241478679)):
        problem = read_hybrid(HOME / "bert32a100.json")
        assert len(repeated_layers(problem)) == 32
        limits = replace(problem.limits, devices=devices, memory_bytes=Fraction(memory * GIB))
        rate = Fraction(25 * GIB)
        problem = problem.with_limits(replace(limits, bandwidth_bytes_per_s=rate))
        found = plan_uniformly(problem)
        assert found is not None
        assert verify_hybrid(problem, found[0]).ok
        assert found[1] <= published * (1 + 1e-6)


@KNOWN
def test_zero_cost_layers_make_gnmt_small():
    problem = read_hybrid(HOME / "gnmt.json")
    smaller = without_free_layers(problem).problem
    assert len(all_down_sets(problem, 50_000).sets) > 10_000
    assert len(all_down_sets(smaller, 50_000).sets) <= 150
