"""Folding of repeated blocks: exact equals unfolded, tied is a restriction."""

from __future__ import annotations

import itertools

import pytest
from folding import classes, plan_exact, plan_tied, quotient, tie
from folding.segments import chains
from folding.tied import elimination_work, model_columns
from folding.transfer import products
from pase_costs import pase_tables
from pase_networks import NETWORKS, network, transformer

from milp_plan.core.sharding import ShardingPlan
from milp_plan.elimination.factors import factor_graph
from milp_plan.elimination.repeated import RepeatedProblem, repeated
from milp_plan.elimination.search import Caps, eliminate
from milp_plan.kinds.sharding.check import verify_sharding
from tests.support.shardings import block_chain, optimum, random_sharding


def checked(problem: RepeatedProblem, chosen: tuple[int, ...] | None) -> int | None:
    if chosen is None:
        return None
    written = problem.problem()
    verdict = verify_sharding(written, ShardingPlan(problem.name, chosen))
    assert not verdict.violations
    return verdict.value


@pytest.mark.parametrize("seed", range(40))
def test_exact_folding_has_the_unfolded_optimum(seed: int) -> None:
    masks = 0.08 * (seed % 3 == 0)
    problem = block_chain(seed, copies=1 + seed % 9, hubs=seed % 3, masks=masks)
    found, plain = plan_exact(problem), eliminate(problem)
    assert found.value == plain.value == checked(problem, found.chosen)
    if len(problem.operators) < 9:
        assert found.value == optimum(problem.problem())


def test_most_chains_of_blocks_are_folded_and_cost_less() -> None:
    folded = []
    for seed in range(20):
        problem = block_chain(seed, copies=12, hubs=seed % 2)
        found = plan_exact(problem)
        assert found.value == eliminate(problem).value
        assert found.work <= found.unfolded_work
        folded += [found] if found.folds else []
    assert len(folded) > 12
    assert all(copies > 1 for found in folded for copies, _ in found.folds)


@pytest.mark.parametrize("seed", range(15))
def test_folding_random_problems_without_blocks_is_exact_too(seed: int) -> None:
    problem = repeated(random_sharding(seed, operators=7, density=0.35, masks=0.1 * (seed % 2)))
    found = plan_exact(problem)
    assert found.value == eliminate(problem).value == checked(problem, found.chosen)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "resnet101"])
def test_networks_fold_exactly(name: str) -> None:
    problem = pase_tables(network(name), 4)
    assert plan_exact(problem).value == eliminate(problem).value


def test_the_work_of_a_deep_transformer_hardly_grows() -> None:
    found = [plan_exact(pase_tables(transformer(layers=layers), 4)) for layers in (8, 24)]
    plain = [eliminate(pase_tables(transformer(layers=layers), 4)) for layers in (8, 24)]
    assert [one.value for one in found] == [one.value for one in plain]
    assert found[1].computed < 1.5 * found[0].computed
    assert plain[1].computed > 2 * plain[0].computed
    assert found[1].folds == ((23, 12), (23, 21))


def test_equal_forms_mean_equal_segments() -> None:
    problem = block_chain(3, copies=6)
    graph = factor_graph(problem)
    segments = [s for chain in chains(graph, [problem.operators.index("hub0")]) for s in chain]
    alike = [pair for pair in itertools.combinations(segments, 2) if pair[0].form == pair[1].form]
    assert alike
    for one, two in alike:
        names = dict(
            zip((one.left, one.right, *one.inner), (two.left, two.right, *two.inner), strict=True)
        )
        renamed = sorted(
            (f.table, tuple(names.get(x, x) for x in f.scope))
            for f in (graph.factors[number] for number in one.factors)
        )
        assert renamed == sorted(
            (graph.factors[number].table, graph.factors[number].scope) for number in two.factors
        )


def test_a_table_beyond_the_cap_is_refused() -> None:
    found = plan_exact(block_chain(1, copies=5), Caps(largest=2))
    assert found.chosen is None
    assert "cap" in found.reason


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 95])
def test_powers_need_few_products(count: int) -> None:
    assert products(count) <= max(0, 2 * count.bit_length() - 2)


@pytest.mark.parametrize("seed", range(12))
def test_tied_choices_are_the_best_of_all_tied_ones(seed: int) -> None:
    problem = block_chain(seed, copies=3, hubs=seed % 2, masks=0.05 * (seed % 2))
    for rounds in (0, 1):
        member_of = classes(problem, rounds)
        found = eliminate(quotient(problem, member_of))
        count = max(member_of) + 1
        sizes = dict(zip(member_of, problem.sizes, strict=True))
        choices = itertools.product(*(range(sizes[c]) for c in range(count)))
        costs = (problem.cost([pick[c] for c in member_of]) for pick in choices)
        assert found.value == min((cost for cost in costs if cost is not None), default=None)
        assert found.value is None or found.value >= (eliminate(problem).value or 0)


def test_rounds_only_split_classes() -> None:
    problem = pase_tables(transformer(layers=6), 4)
    coarse, fine = classes(problem, 0), classes(problem, 1)
    assert max(fine) > max(coarse)
    assert len(set(zip(coarse, fine, strict=True))) == max(fine) + 1
    assert max(classes(pase_tables(transformer(layers=12), 4), 1)) == max(fine)


@pytest.mark.parametrize("layers", [2, 6, 12])
def test_tying_a_transformer_keeps_the_optimum(layers: int) -> None:
    problem = pase_tables(transformer(layers=layers), 4)
    chosen, tied, _, _ = plan_tied(problem)
    assert tied.rounds is not None
    assert tied.work < tied.unfolded_work
    assert chosen is not None
    assert problem.cost(chosen) == eliminate(problem).value


def test_folding_is_left_where_it_makes_the_order_harder() -> None:
    problem = pase_tables(transformer(layers=6), 4)
    harder = quotient(problem, classes(problem, 3))
    assert elimination_work(harder) > elimination_work(problem)
    assert model_columns(harder) < model_columns(problem)
    assert tie(problem, most_rounds=3).rounds in (0, 1)
    chain = pase_tables(network("rnnlm"), 4)
    same = tie(chain)
    assert same.rounds is None
    assert same.problem is chain
