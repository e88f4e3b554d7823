"""Plans and bounds of sharding searches against every plan there is."""

from __future__ import annotations

import numpy as np
import pytest

from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingPlan
from milp_plan.kinds.sharding.bounds import dual_bound
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.coarsen import reduce_sharding
from milp_plan.kinds.sharding.coarsen.instants import with_fewer_rows
from milp_plan.kinds.sharding.coarsen.masks import possible_labels
from milp_plan.kinds.sharding.coarsen.reading import labelling_of
from milp_plan.kinds.sharding.coarsen.rebuild import without_labels
from milp_plan.kinds.sharding.messages import Dual
from milp_plan.kinds.sharding.planners.anytime import search
from milp_plan.kinds.sharding.planners.board import Sighting
from tests.support.seeds import few
from tests.support.sharding import layered, optimum, random_problem

pytestmark = pytest.mark.untraced

SEEDS = range(1000, 1025)
PLANNABLE = [seed for seed in SEEDS if optimum(random_problem(seed)) is not None]


@pytest.mark.parametrize("seed", few(PLANNABLE, 8))
def test_bounds_hold_whatever_prices_and_messages_are(seed: int) -> None:
    problem = random_problem(seed)
    best = optimum(problem)
    reduction = reduce_sharding(problem)
    assert best is not None
    assert reduction.infeasible_reason is None
    rng = np.random.default_rng(seed)
    dual = Dual(reduction.labelling)
    for _ in range(5):
        dual.forward[:] = rng.normal(0, 5, len(dual.forward))
        dual.backward[:] = rng.normal(0, 5, len(dual.backward))
        assert dual.certified(rng.random(len(dual.prices)) * 3) <= best
    dual.step(30, float(best))
    assert dual.certified() <= best
    assert dual.bound + reduction.labelling.constant <= best + 1e-6


@pytest.mark.parametrize("seed", few(SEEDS, 8))
def test_search_finds_the_optimum_of_tiny_problems(seed: int) -> None:
    problem = random_problem(seed)
    best = optimum(problem)
    labelling = with_fewer_rows(labelling_of(problem))
    alive = possible_labels(labelling)
    smaller, step = without_labels(labelling, alive)
    if (smaller.counts == 0).any():
        assert best is None
        return
    board = search(smaller, 0.25, workers=1, seed=seed)
    assert board.value == best
    if best is None:
        return
    labels = board.best()
    assert labels is not None
    assert board.bound is None or board.bound <= best
    chosen = tuple(int(x) for x in step.lift(labels))
    assert verify_sharding(problem, ShardingPlan(problem.name, chosen, value=best)).ok


def test_trees_without_memory_are_proved() -> None:
    problem = layered(5, 40, width=1, slack=1.0)
    reduction = reduce_sharding(problem)
    board = search(reduction.labelling, 20.0, workers=1)
    assert board.proved
    assert board.value == board.bound


def test_repeated_blocks_under_a_tight_limit() -> None:
    problem = layered(7, 500)
    reduction = reduce_sharding(problem)
    seen: list[Sighting] = []
    board = search(reduction.labelling, 2.0, workers=2, on_sighting=seen.append)
    labels = board.best()
    assert labels is not None
    assert board.bound is not None
    assert board.value is not None
    assert board.bound <= board.value
    chosen = tuple(int(x) for x in reduction.lift(labels))
    assert verify_sharding(problem, ShardingPlan(problem.name, chosen, value=board.value)).ok
    values = [sight.value for sight in seen if sight.value is not None]
    assert values == sorted(values, reverse=True)


def test_bound_is_given_in_no_time() -> None:
    labelling = reduce_sharding(layered(9, 50)).labelling
    board = search(labelling, 1.0, workers=1)
    assert board.value is not None
    assert dual_bound(labelling, Budget(0.0)).value <= board.value
