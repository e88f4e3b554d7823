from itertools import pairwise, product
from random import Random

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Operator, Option, PlanningProblem, Value
from milp_plan.kinds.placement.planners.chains import best_chain
from milp_plan.kinds.placement.planners.contiguous import plan_ideals
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.contraction import contracted
from milp_plan.kinds.placement.serial.ideals import (
    all_ideals,
    depth_first,
    distinct,
    level_order,
    prefixes,
)
from milp_plan.kinds.placement.serial.order import ChainGraph, chain_graph
from milp_plan.kinds.placement.serial.value import bottleneck, fits
from milp_plan.kinds.placement.serial.windows import stage_windows
from tests.support.serial_brute import brute_serial, serial_plans

from .orders import graph_of, planted_graph

SEEDS = range(40)


def closed_sets(chain: ChainGraph) -> set[int]:
    """All ideals by trying every set."""
    found = set()
    for chosen in product((0, 1), repeat=len(chain)):
        if all(chosen[a] for b in range(len(chain)) if chosen[b] for a in chain.before[b]):
            found.add(sum(bit << block for block, bit in enumerate(chosen)))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_ideals_are_the_closed_sets(seed):
    chain = chain_graph(planted_graph(seed))
    known = closed_sets(chain)
    found = all_ideals(chain, 100)
    assert found is not None
    assert len(found) == len(known)
    assert {int(row[0]) for row in found} == known
    assert all_ideals(chain, len(known) - 1) is None


def test_orders_keep_arcs_and_prefixes_are_ideals():
    branching = 0
    for seed in SEEDS:
        chain = chain_graph(planted_graph(seed))
        orders = [depth_first(chain), level_order(chain), depth_first(chain, Random(seed))]
        branching += len(set(map(tuple, orders))) > 1
        for order in orders:
            assert sorted(order) == list(range(len(chain)))
            rows = prefixes(chain, order)
            assert {int(row[0]) for row in rows} <= closed_sets(chain)
        both = distinct(*(prefixes(chain, order) for order in orders))
        assert len(both) == len({int(row[0]) for row in both})
    assert branching > 5


def test_wide_orders_use_several_words():
    """Seventy blocks in a row and one beside them: 71 prefixes, with the one and without."""
    problem, _ = planted_serial(0, contiguous=True)
    names = [f"step{i}" for i in range(70)]
    operators = tuple(Operator(n, (Option("run", {"payer": 1}),)) for n in (*names, "beside"))
    values = tuple(Value(f"{a}:out", a, (b,), {"full": 0}, {"full": 0}) for a, b in pairwise(names))
    graph = type(problem.graph)(operators, values)
    wide = PlanningProblem(
        "wide",
        graph,
        problem.cluster,
        problem.objective,
        problem.memory_law,
        serial=problem.serial,
    )
    chain = chain_graph(graph_of(wide))
    found = all_ideals(chain, 1000)
    assert found is not None
    assert found.shape == (142, 2)
    assert len(np.unique(found, axis=0)) == 142
    payers = len(chain.graph.payers)
    assert best_chain(chain, found).value == -(-71 // payers)


def test_groups_that_wait_for_each_other_are_fused():
    fused = [
        seed
        for seed in range(70)
        if len(chain_graph(planted_graph(seed))) < len(planted_graph(seed))
    ]
    assert fused
    for seed in fused:
        problem, _ = planted_serial(seed, contiguous=True)
        graph = graph_of(problem)
        chain = chain_graph(graph)
        for plan in serial_plans(problem):
            if verify(problem, plan).ok:
                places = graph.places(plan)
                assert chain.places(chain.devices(places)) == places


def test_contraction_keeps_the_optimum():
    smaller = 0
    for seed in range(100):
        chain = chain_graph(planted_graph(seed))
        less = contracted(chain)
        if len(less) == len(chain):
            continue
        smaller += 1
        values = []
        for order in (chain, less):
            ideals = all_ideals(order, 1000)
            assert ideals is not None
            values.append(best_chain(order, ideals).value)
        assert values[0] == values[1]
    assert smaller >= 3


@pytest.mark.parametrize("separate", [False, True])
def test_values_are_the_checkers(separate):
    for seed in range(12):
        problem, _ = planted_serial(seed, contiguous=True, separate=separate)
        graph = graph_of(problem)
        for plan in list(serial_plans(problem))[::7]:
            verdict = verify(problem, plan)
            places = graph.places(plan)
            if verdict.ok:
                assert bottleneck(graph, places) == verdict.value
                assert fits(graph, places)
            elif not fits(graph, places):
                assert {entry.rule for entry in verdict.violations} & {"memory", "assignment"}


def test_windows_hold_every_plan_below_the_limit():
    narrow = 0
    for seed in range(30):
        problem, _ = planted_serial(seed, contiguous=True)
        graph = graph_of(problem)
        chain = chain_graph(graph)
        best = brute_serial(problem)
        assert best is not None
        windows = stage_windows(chain, float(best[0]))
        assert windows is not None
        stages = len(graph.payers) + len(graph.hosts)
        narrow += any(window != (0, stages - 1) for window in windows)
        ideals = plan_ideals(chain, chain.devices(graph.places(best[1])))
        for stage, (before, after) in enumerate(pairwise(ideals)):
            for block in range(len(chain)):
                if (after & ~before) >> block & 1:
                    first, last = windows[block]
                    assert first <= stage <= last
    assert narrow >= 3
