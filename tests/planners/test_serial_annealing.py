"""Annealing under the serial law: counters are right, plans are valid, optima are found."""

from __future__ import annotations

import time

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Passes
from milp_plan.kinds.placement.planners.annealing import SerialAnnealing
from milp_plan.kinds.placement.planners.moves import fill, shift
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial


def graph_of(seed, separate=False):
    return read_serial(planted_serial(seed, contiguous=False, separate=separate)[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("separate", [False, True])
def test_loads_follow_every_move(seed, separate):
    """After each of 100 random moves the loads are those of the exact tables."""
    graph = graph_of(seed, separate)
    search, rng = SerialAnnealing(graph), np.random.default_rng(seed)
    state, payers = search.state, len(graph.payers)
    where = [
        [
            d
            for d in range(payers + len(graph.hosts))
            if (graph.work, graph.host_work)[d >= payers][c] is not None
        ]
        for c in range(len(graph))
    ]
    state.places[:] = [places[0] for places in where]
    fill(search.tables, state)
    scale = graph.problem.units.time_scale
    for _ in range(100):
        number = int(rng.integers(len(graph)))
        shift(search.tables, state, number, int(rng.choice(where[number])))
        exact = graph.loads(state.places.tolist())
        assert np.allclose(state.loads.sum(axis=0) * scale, exact)
    verdict = verify(graph.problem, graph.plan(state.places.tolist()))
    if verdict.ok:
        assert verdict.value == pytest.approx(search.load(state.places.tolist()) * scale)


@pytest.mark.untraced
@pytest.mark.parametrize("seed", few(range(24), 8))
def test_finds_what_enumeration_finds(seed):
    problem, _ = planted_serial(seed, contiguous=False)
    graph = read_serial(problem)
    search = SerialAnnealing(graph, seed)
    search.cut_orders(2)
    search.steps = 3000
    for _ in range(4):
        search.step()
    verdict = verify(problem, graph.plan(search.best.tolist()))
    assert verdict.ok
    assert verdict.value == brute_serial(problem)[0]
    assert verdict.value == pytest.approx(search.value * graph.scale)


def test_seeds_decide():
    graph = graph_of(5)
    runs = []
    for _ in range(2):
        search = SerialAnnealing(graph, 3)
        search.cut_orders(2)
        search.steps = 500
        search.step()
        runs.append((search.value, search.best.tolist()))
    assert runs[0] == runs[1]


def test_clusterings_are_stretches():
    """Each order names every class once, and its stretches are within it."""
    for seed in range(6):
        graph = graph_of(seed)
        search = SerialAnnealing(graph, seed)
        order, spans = search.clustering()
        assert sorted(order.tolist()) == list(range(len(graph)))
        assert ((spans[:, 0] >= 0) & (spans[:, 1] <= len(graph))).all()
        assert sorted(search.depth_first().tolist()) == list(range(len(graph)))


def test_separate_passes_are_two_tables():
    graph = graph_of(1, separate=True)
    assert graph.law.passes is Passes.SEPARATE
    work = SerialAnnealing(graph).tables.work
    assert work[1, 0].sum() * graph.scale == pytest.approx(sum(graph.backward_work))


def test_rounds_are_cut_to_the_time_left():
    search = SerialAnnealing(graph_of(1))
    assert search.step(7) == 7
    search.pace_s = 1.0
    search.run(until=time.monotonic() + 10.0, end=time.monotonic() + 10.0)
    assert search.rounds == 1  # fifty thousand steps of a second each would not be done
    search.pace_s = 1e-6
    search.run(until=time.monotonic(), end=time.monotonic() + 10.0)
    assert search.rounds == 2
