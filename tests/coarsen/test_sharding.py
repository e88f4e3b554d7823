"""Reductions of sharding problems keep the optimum, and what they leave can be undone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from milp_plan.core import UnsupportedProblemError
from milp_plan.core.sharding import ShardingPlan, sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.coarsen import reduce_sharding
from milp_plan.kinds.sharding.coarsen.instants import with_fewer_rows
from milp_plan.kinds.sharding.coarsen.reading import labelling_of
from milp_plan.kinds.sharding.labelling import Labelling
from tests.support.seeds import few
from tests.support.sharding import layered, optimum, random_problem


def best_labels(labelling: Labelling) -> tuple[int | None, np.ndarray]:
    best, chosen = None, np.zeros(len(labelling), dtype=np.int64)
    for choice in itertools.product(*(range(int(n)) for n in labelling.counts)):
        labels = np.array(choice, dtype=np.int64)
        value = labelling.value(labels)
        fits = (labelling.load(labels) <= labelling.capacity).all()
        if value is not None and fits and (best is None or value < best):
            best, chosen = value, labels
    return best, chosen


def keeps_the_optimum(seed: int) -> None:
    problem = random_problem(seed)
    expected = optimum(problem)
    reduction = reduce_sharding(problem)
    if reduction.infeasible_reason is not None:
        assert expected is None
        return
    found, labels = best_labels(reduction.labelling)
    assert found == expected
    if found is not None:
        chosen = tuple(int(x) for x in reduction.lift(labels))
        verdict = verify_sharding(problem, ShardingPlan(problem.name, chosen, value=found))
        assert verdict.ok, verdict.violations


@pytest.mark.untraced
@pytest.mark.parametrize("first", few(range(0, 80, 20), 2))
def test_optimum_is_kept(first: int) -> None:
    for seed in range(first, first + 20):
        keeps_the_optimum(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(80, 580, 50))
def test_optimum_is_kept_often(first: int) -> None:
    for seed in range(first, first + 50):
        keeps_the_optimum(seed)


def test_functional_tables_merge_a_chain_into_one_operator() -> None:
    same = [[0, None], [None, 0]]
    problem = sharding_problem(
        "chain",
        [[3, 1]] * 5,
        usages=[[0, 4]] * 5,
        intervals=[(i, i + 2) for i in range(5)],
        edges={(i, i + 1): same for i in range(4)},
        limit=8,
    )
    reduction = reduce_sharding(problem)
    assert len(reduction.labelling) == 0
    assert reduction.labelling.constant == 5
    chosen = reduction.lift(np.zeros(0, dtype=np.int64))
    assert chosen.tolist() == [1] * 5


def test_rows_that_others_imply_go() -> None:
    problem = sharding_problem(
        "rows",
        [[5, 0]] * 3,
        usages=[[0, 3]] * 3,
        intervals=[(0, 10), (2, 8), (4, 6)],
        limit=6,
    )
    assert len(reduce_sharding(problem).labelling.capacity) == 1


def test_rows_implied_through_a_difference_of_capacities_go() -> None:
    """At instant 1 one operator stops and another starts: at most 4 more than at instant 0."""
    problem = sharding_problem(
        "rows",
        [[9, 0], [9, 0], [9, 0], [0]],
        usages=[[0, 8], [0, 3], [0, 4], [7]],
        intervals=[(0, 2), (0, 1), (1, 2), (0, 1)],
        edges={(0, 1): [[0, 5], [1, 0]], (0, 2): [[0, 3], [4, 0]]},
        limit=16,
    )
    rows = with_fewer_rows(labelling_of(problem))
    assert rows.capacity.tolist() == [9]
    for chosen in itertools.product((0, 1), (0, 1), (0, 1), (0,)):
        plan = ShardingPlan(problem.name, chosen)
        fits = not any(v.rule == "memory" for v in verify_sharding(problem, plan).violations)
        assert fits == bool((rows.load(np.array(chosen)) <= rows.capacity).all())


LIMITED = [seed for seed in range(600, 640) if random_problem(seed).limit is not None]


@pytest.mark.untraced
@pytest.mark.parametrize("seed", few(LIMITED, 6))
def test_left_out_rows_forbid_nothing_more_and_nothing_less(seed: int) -> None:
    problem = random_problem(seed)
    assert problem.limit is not None
    rows = with_fewer_rows(labelling_of(problem))
    for chosen in itertools.product(*(range(int(n)) for n in problem.strategies.counts)):
        plan = ShardingPlan(problem.name, chosen)
        fits = not any(v.rule == "memory" for v in verify_sharding(problem, plan).violations)
        assert fits == bool((rows.load(np.array(chosen)) <= rows.capacity).all())


def test_infeasible_by_smallest_usages_is_proved() -> None:
    problem = sharding_problem("tight", [[0], [0]], usages=[[5], [6]], limit=10)
    assert "11 B" in str(reduce_sharding(problem).infeasible_reason)


def test_infeasible_by_masks_is_proved() -> None:
    edges = {(0, 1): [[None, None]], (0, 2): [[1]]}
    problem = sharding_problem("masked", [[1], [1, 2], [3]], edges=edges)
    assert reduce_sharding(problem).infeasible_reason is not None


def test_sums_beyond_64_bits_are_refused() -> None:
    with pytest.raises(UnsupportedProblemError, match="scale them down"):
        reduce_sharding(sharding_problem("huge", [[2**60]] * 4))


def test_repeated_blocks_keep_what_is_needed() -> None:
    problem = layered(3, 300)
    reduction = reduce_sharding(problem)
    left = reduction.labelling
    assert 0 < len(left) <= len(problem.operators)
    assert len(left.capacity) < 300 * 4
    names = [row[0] for row in reduction.history]
    assert names[0] == "read"
