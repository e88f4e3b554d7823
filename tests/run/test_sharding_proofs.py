"""Proofs of sharding runs against every choice there is: costs of either sign, of any size."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from milp_plan.backends import Stop
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.kinds.sharding import choice_bounds as sharding_choices
from milp_plan.kinds.sharding.bounds import dual_bound
from milp_plan.kinds.sharding.choice_bounds import best_choice
from milp_plan.kinds.sharding.coarsen import reduce_sharding
from milp_plan.kinds.sharding.coarsen.masks import possible_labels
from milp_plan.kinds.sharding.coarsen.reading import labelling_of
from milp_plan.kinds.sharding.kind import KIND
from milp_plan.kinds.sharding.messages import Dual
from milp_plan.kinds.sharding.planners.anytime import search
from milp_plan.run import Settings, solve
from milp_plan.run.ledger import Ledger
from tests.support.seeds import few
from tests.support.sharding import least_cost, tense_problem

pytestmark = pytest.mark.untraced

BLOCK = 60


def of_the_report() -> ShardingProblem:
    """A problem whose plan of -80 was called proved with a bound of -82."""
    edges = {
        (3, 2): [[0, 2], [3, 27]],  # of two edges together
        (2, 1): [[15, 0, 19, 13], [19, 9, 3, 0]],
        (3, 5): [[1, 3], [17, 0]],
        (0, 2): [[18, 2], [1, 9], [0, 0], [14, 2]],
        (4, 3): [[12, 15]],
        (3, 0): [[2, 5, 2, 3], [6, 12, 2, 0]],
        (4, 2): [[0, 0]],
    }
    return sharding_problem(
        "negative",
        [
            [-20, -19, -20, -20],
            [-20, -11, -19, -18],
            [-17, -8],
            [-20, -18],
            [-17],
            [-7, -17],
        ],
        usages=[[1, 2, 5, 1], [5, 5, 8, 8], [5, 8], [3, 0], [5], [5, 0]],
        intervals=[(2, 4), (3, 3), (6, 6), (2, 3), (1, 3), (4, 4)],
        edges=edges,
        limit=11,
    )


@pytest.fixture
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches may not look at every choice."""
    monkeypatch.setattr(sharding_choices, "MAX_CHOICES", 0)


def test_a_negative_value_above_its_bound_is_no_proof() -> None:
    problem = of_the_report()
    best = solve(problem)
    assert best.value == least_cost(problem) == -80
    ledger = Ledger(KIND, problem, Settings(gap=1e-6))
    ledger.offer(best.plan, "search", "test")
    ledger.prove(Bound("messages and prices", -82, "test"))
    assert (ledger.value, ledger.lower) == (-80, -82)
    assert ledger.gap == pytest.approx(0.025)
    assert not ledger.settled
    assert not ledger.proved
    assert ledger.stop_reason() is not Stop.PROVED
    ledger.prove(Bound("every choice", -80, "test"))
    assert ledger.proved
    assert ledger.stop_reason() is Stop.PROVED


def test_the_relaxation_alone_proves_nothing_about_it() -> None:
    labelling = reduce_sharding(of_the_report()).labelling
    dual = Dual(labelling)
    for _ in range(50):
        dual.step(20, -80.0)
    assert dual.certified() < -80


def test_small_problems_are_proved_by_looking_at_every_choice() -> None:
    outcome = solve(of_the_report())
    assert (outcome.value, outcome.bound, outcome.gap) == (-80, -80, 0.0)
    assert outcome.proved
    assert KIND.obstacle(of_the_report(), Budget(1.0)) is None
    assert max(bound.value for bound in KIND.bounds(of_the_report(), Budget(1.0), None)) == -80


def test_that_no_choice_fits_is_proved() -> None:
    ban = [[0, None], [None, 0]]
    odd = {(0, 1): ban, (1, 2): ban, (0, 2): [[None, 0], [0, None]]}
    problem = sharding_problem(
        "odd", [[0, 1]] * 3, usages=[[1, 0], [0, 1], [1, 0]], edges=odd, limit=3
    )
    assert least_cost(problem) is None
    labelling = labelling_of(problem)
    board = search(labelling, 60.0)
    assert board.infeasible
    assert board.value is None
    outcome = solve(problem)
    assert outcome.stop is Stop.INFEASIBLE
    assert outcome.infeasible_reason is not None
    assert KIND.obstacle(problem, Budget(1.0)) is not None


def nothing_false(seed: int) -> None:
    problem = tense_problem(seed)
    best = least_cost(problem)
    reduction = reduce_sharding(problem)
    if reduction.infeasible_reason is not None:
        assert best is None
        return
    labelling = reduction.labelling
    whole = labelling_of(problem)
    for part in (labelling, whole):
        choice = best_choice(part)
        assert choice is not None
        found = None if choice.labels is None else part.value(choice.labels)
        assert found == best
        assert found is None or (part.load(choice.labels) <= part.capacity).all()
    if possible_labels(whole).any() and best is not None:
        dual = Dual(labelling)
        dual.settle(3)
        assert dual.certified() <= best
        dual.step(10, float(best))
        assert dual.certified() <= best
        noise = np.random.default_rng(seed).normal(0, abs(best) + 1, len(dual.forward))
        dual.forward[:] += noise
        assert dual.certified() <= best
    board = search(labelling, 60.0, gap=0.0, workers=1)
    assert (board.value, board.bound) == (best, best)
    assert board.proved is (best is not None)
    assert board.infeasible is (best is None)


@pytest.mark.parametrize("first", few(range(0, 40 * BLOCK, BLOCK), 6))
def test_bounds_reductions_and_searches_agree_with_every_choice(first: int) -> None:
    for seed in range(first, first + BLOCK):
        nothing_false(seed)


@pytest.mark.parametrize("first", few(range(0, 800, 80), 1))
def test_a_search_proves_nothing_false(first: int, nothing_is_small: None) -> None:
    searched = 0
    for seed in range(first, first + 80):
        problem = dataclasses.replace(tense_problem(seed), limit=18)
        best = least_cost(problem)
        labelling = reduce_sharding(problem).labelling
        if best is None or not len(labelling):
            continue
        searched += 1
        assert dual_bound(labelling, Budget(0.05)).value <= best
        board = search(labelling, 0.1, gap=1e-6, workers=1, seed=seed)
        assert board.bound is None or board.bound <= best
        assert board.value is None or board.value >= best
        if board.proved:
            assert board.value is not None
            assert board.value - best <= 1e-6 * abs(board.value)
    assert searched >= 5
