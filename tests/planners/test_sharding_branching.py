"""Branch and bound of sharding problems, and what its certificates say, against every plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.kinds.sharding.coarsen.masks import possible_labels
from milp_plan.kinds.sharding.coarsen.reading import labelling_of
from milp_plan.kinds.sharding.coarsen.rebuild import without_labels
from milp_plan.kinds.sharding.coarsen.stage import ShardingReduction
from milp_plan.kinds.sharding.labelling import Integers, Labelling
from milp_plan.kinds.sharding.messages import Dual
from milp_plan.kinds.sharding.planners import anytime, branching
from milp_plan.kinds.sharding.planners.anytime import Worker
from milp_plan.kinds.sharding.planners.board import Board
from milp_plan.kinds.sharding.planners.branching import Tree
from milp_plan.kinds.sharding.planners.graph import graph_of
from milp_plan.kinds.sharding.planners.probing import ProbingTree, tried
from tests.support.seeds import few
from tests.support.sharding import least_cost, tense_problem

pytestmark = pytest.mark.untraced

SEEDS = few([range(10), *(range(first, first + 50) for first in range(0, 2000, 50))], 1)
"""Seeds of a test: a sample, and the slow ones."""


def with_bytes(seed: int) -> ShardingProblem:
    """A tense problem whose usages are like real ones: up to 10^10, not all of them round."""
    problem = tense_problem(seed)
    rng = np.random.default_rng(seed)
    unit = 10 ** int(rng.choice([0, 3, 6, 9]))
    usage = problem.strategies.usage * unit
    usage += rng.integers(0, unit, len(usage)) * (usage > 0)
    strategies = dataclasses.replace(problem.strategies, usage=usage)
    limit = int(rng.integers(15, 31)) * unit
    return dataclasses.replace(problem, strategies=strategies, limit=limit)


def labelled(problem: ShardingProblem) -> Labelling | None:
    """What masks and rows leave of a problem, not reduced; ``None`` where nothing is left."""
    labelling = labelling_of(problem)
    alive = possible_labels(labelling)
    smaller, _ = without_labels(labelling, alive)
    return smaller if (smaller.counts > 0).all() else None


def explored(
    labelling: Labelling,
    known: int | None,
    best: int | None,
    begin: Callable[..., Tree] | None = None,
) -> tuple[int | None, int]:
    """Search to the end; return the least cost found, and nodes. Bounds are held to the optimum."""
    found = known

    def offer(labels: Integers) -> None:
        nonlocal found
        value = labelling.value(labels)
        if value is not None and (labelling.load(labels) <= labelling.capacity).all():
            found = value if found is None else min(found, value)

    begin = begin or partial(Tree, labelling, bound=-(10**18))
    tree = begin(value=lambda: found, offer=offer)
    while tree:
        tree.step()
        assert tree.nodes < 5000
        assert best is None or tree.bound is None or tree.bound <= best
    return found, tree.nodes


@pytest.fixture(params=["whole", "bare", "deep"])
def manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With reductions; without any; without, and depth first."""
    if request.param != "whole":
        monkeypatch.setattr(
            branching, "reduced", lambda labelling: ShardingReduction(labelling, ())
        )
        monkeypatch.setattr(branching, "_eliminated", lambda labelling: None)
    if request.param == "deep":
        monkeypatch.setattr(branching, "MAX_BYTES", 0)
    return str(request.param)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_the_optimum_is_found_and_no_bound_is_above_it(seeds: range, manner: str) -> None:
    nodes = 0
    for seed in seeds:
        problem = with_bytes(seed)
        best = least_cost(problem)
        labelling = labelled(problem)
        if labelling is None:
            assert best is None
            continue
        found, looked = explored(labelling, None, best)
        assert found == best, seed
        nodes += looked
        if best is not None:  # a plan that costs as much is known, and one that costs one more
            assert explored(labelling, best, best)[0] == best
            assert explored(labelling, best + 1, best)[0] == best
    assert nodes > len(seeds) / 2


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_certificates_keep_every_label_of_the_best_plan(seeds: range) -> None:
    left_out = 0
    for seed in seeds:
        problem = with_bytes(seed)
        labelling, best = labelled(problem), least_cost(problem)
        if labelling is None or best is None:
            continue
        dual = Dual(labelling)
        rng = np.random.default_rng(seed)
        reach = abs(best) / max(1, int(labelling.capacity.max(initial=1)))
        for turn in range(4):
            if turn < 3:
                dual.step(5, float(best))
                prices = None
            else:
                dual.forward[:] += rng.normal(0, abs(best) + 1, len(dual.forward))
                prices = rng.random(len(dual.prices)) * reach * 10.0 ** rng.integers(-3, 4)
            proof = dual.certificate(prices)
            assert proof.bound <= best
            alive = proof.possible(best + 1)
            left_out += int((~alive).sum())
            smaller, _ = without_labels(labelling, alive)
            assert (smaller.counts > 0).all()
            assert explored(smaller, None, None)[0] == best, (seed, turn)
            assert not proof.possible(proof.bound).any()
    assert left_out > 0


def probed(labelling: Labelling, known: int | None, best: int | None) -> tuple[int | None, int]:
    """Search to the end over shared operators, without reductions, from messages under way."""
    dual = Dual(labelling)
    dual.step(3, float(best or 1))
    return explored(labelling, known, best, partial(ProbingTree, dual))


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_splits_by_all_labels_find_the_optimum_and_no_bound_is_above_it(seeds: range) -> None:
    nodes = 0
    for seed in seeds:
        problem = with_bytes(seed)
        labelling, best = labelled(problem), least_cost(problem)
        if labelling is None:
            continue
        found, looked = probed(labelling, None, best)
        assert found == best, seed
        nodes += looked
        if best is not None:
            assert probed(labelling, best, best)[0] == best
            assert probed(labelling, best + 1, best)[0] == best
    assert nodes > len(seeds) / 2


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_no_label_is_bounded_above_the_best_plan_that_takes_it(seeds: range) -> None:
    above = 0
    for seed in seeds:
        problem = with_bytes(seed)
        labelling, best = labelled(problem), least_cost(problem)
        if labelling is None or best is None:
            continue
        rng = np.random.default_rng(seed)
        operator = int(rng.integers(len(labelling)))
        dual = Dual(labelling)
        dual.step(int(rng.integers(1, 6)), float(best))
        if rng.random() < 0.3:
            dual.forward[:] += rng.normal(0, abs(best) + 1, len(dual.forward))
        sent = dual.forward.copy(), dual.backward.copy()
        bounds = tried(dual, operator, 10.0 * (abs(best) + 1))
        assert (dual.forward == sent[0]).all()
        assert (dual.backward == sent[1]).all()
        first = labelling.offsets[operator]
        for label, bound in enumerate(bounds):
            alive = np.ones(len(labelling.cost), dtype=bool)
            alive[first : first + len(bounds)] = np.arange(len(bounds)) == label
            least = explored(without_labels(labelling, alive)[0], None, None)[0]
            assert least is None or bound <= least, (seed, label)
            above += bound > best
    assert above > 0


def test_endless_prices_and_messages_prove_little_but_nothing_false() -> None:
    problem = with_bytes(3)
    labelling, best = labelled(problem), least_cost(problem)
    assert labelling is not None
    assert best is not None
    dual = Dual(labelling)
    dual.forward[:] = 1e300
    assert dual.certificate(np.full(len(dual.prices), 1e300)).bound <= best
    dual.forward[:] = np.inf
    assert dual.certificate(np.full(len(dual.prices), 1e18)).bound <= best


def test_labels_that_fit_alone_but_not_with_the_others_go() -> None:
    problem = sharding_problem(
        "crowded",
        [[0, 0], [0, 0], [0, 0]],
        usages=[[7, 4], [4, 6], [4, 4]],
        intervals=[(0, 1), (0, 1), (0, 1)],
        limit=14,
    )
    assert possible_labels(labelling_of(problem)).tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_what_a_narrowed_problem_proves_holds_for_the_whole(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anytime, "_WORTH", 0.95)
    narrowed = 0
    for seed in seeds:
        problem = with_bytes(seed)
        labelling, best = labelled(problem), least_cost(problem)
        if labelling is None or best is None:
            continue
        plans: list[Integers] = []
        tree = Tree(labelling, lambda: None, plans.append, -(10**18))
        while tree and not any(labelling.value(labels) is not None for labels in plans):
            tree.step()
        board = Board(labelling, 1e9, 0.0)
        if all(board.offer(labels) is None for labels in plans):
            continue
        worker = Worker(board, graph_of(labelling), 0, seed, workers=1)
        for _ in range(3):
            worker.dual.step(5, float(best))
            worker._certify()
            if not worker._narrow():
                break
            narrowed += 1
            assert board.value is not None
            kept = board.narrowed.reduction.labelling
            found = explored(kept, None, None)[0]
            assert min(board.value, board.value if found is None else found) == best
        assert board.bound is None or board.bound <= best
        assert not board.settled or board.value == best
        narrowed += board.settled
    assert narrowed > 0
