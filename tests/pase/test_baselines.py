"""Baselines: what they choose, never better than the optimum, and when they give up."""

from __future__ import annotations

import pytest
from frontier import plan_breadth_first
from metropolis import BLOCKS, FLEXFLOW, plan_metropolis
from pase_baselines import data_parallel, descend, experts, greedy
from pase_costs import pase_tables
from pase_networks import NETWORKS, network

from milp_plan.elimination.repeated import RepeatedProblem, repeated
from milp_plan.elimination.search import eliminate
from tests.support.shardings import optimum, random_sharding


def labels(problem: RepeatedProblem, chosen: tuple[int, ...], operator: str) -> str:
    number = problem.operators.index(operator)
    return problem.labels[problem.kinds[number]][chosen[number]]


@pytest.mark.parametrize("name", NETWORKS)
def test_experts_and_greedy_are_plans_no_better_than_the_optimum(name: str) -> None:
    graph, problem = network(name), pase_tables(network(name), 8)
    best = eliminate(problem).value
    assert best is not None
    plans = {**experts(graph, 8), "greedy": greedy(problem), "data": data_parallel(graph, 8)}
    assert len(plans) > 2
    for chosen in plans.values():
        cost = problem.cost(chosen)
        assert cost is not None
        assert cost >= best
        better = problem.cost(descend(problem, chosen))
        assert better is not None
        assert best <= better <= cost


def test_experts_split_what_their_papers_say() -> None:
    problem, plan = pase_tables(network("alexnet"), 8), experts(network("alexnet"), 8)
    trick = plan["one weird trick"]
    assert labels(problem, trick, "conv3") == "8x1x1x1x1x1x1"
    assert labels(problem, trick, "fc7") == "1x8x1"
    problem, plan = pase_tables(network("rnnlm"), 8), experts(network("rnnlm"), 8)
    assert labels(problem, plan["data and pipeline"], "lstm") == "2x1x4x1x1"
    assert labels(problem, plan["data and pipeline"], "projection") == "8x1x1x1"
    graph = network("transformer")
    problem, mesh = pase_tables(graph, 8), experts(graph, 8)["mesh-tensorflow 4 x 2"]
    assert labels(problem, mesh, "encoder1 up") == "4x1x2x1"
    assert labels(problem, mesh, "encoder1 down") == "4x1x1x2"
    assert labels(problem, mesh, "decoder2 cross scores") == "4x2x1x1x1"
    assert labels(problem, mesh, "projection") == "4x1x2x1"
    assert labels(problem, mesh, "encoder1 norm") == "4x1x1"


@pytest.mark.parametrize("seed", range(25))
def test_breadth_first_finds_the_optimum_where_its_tables_fit(seed: int) -> None:
    problem = random_sharding(seed, masks=0.0, density=0.2 + 0.02 * seed)
    found = plan_breadth_first(repeated(problem))
    assert found.value == optimum(problem) == repeated(problem).cost(found.chosen or ())


def test_breadth_first_says_when_its_table_is_too_large() -> None:
    found = plan_breadth_first(pase_tables(network("inception3"), 4))
    assert found.chosen is None
    assert found.value is None
    assert found.log10_largest > 8


@pytest.mark.parametrize("moves", [FLEXFLOW, BLOCKS])
def test_random_moves_only_improve(moves) -> None:
    problem = pase_tables(network("rnnlm"), 8)
    start = data_parallel(network("rnnlm"), 8)
    best, before = eliminate(problem).value, problem.cost(start)
    walk = plan_metropolis(problem, start, moves=moves, proposals=20_000)
    assert best is not None
    assert before is not None
    assert problem.cost(walk.chosen) == walk.value
    assert best <= walk.value < before
    assert walk == plan_metropolis(problem, start, moves=moves, proposals=20_000)


def test_block_moves_leave_what_single_moves_are_stuck_in() -> None:
    graph = network("transformer")
    problem, start = pase_tables(graph, 8), data_parallel(graph, 8)
    single = plan_metropolis(problem, start, moves=FLEXFLOW)
    blocks = plan_metropolis(problem, start, moves=BLOCKS, proposals=60_000)
    best = eliminate(problem).value
    assert best is not None
    assert blocks.value < 1.02 * best < single.value


def test_masks_are_refused_by_baselines_that_know_none() -> None:
    problem = repeated(random_sharding(1, masks=0.4))
    for plan in (plan_breadth_first, lambda p: plan_metropolis(p, [0] * len(p.operators))):
        with pytest.raises(ValueError, match="masks"):
            plan(problem)
