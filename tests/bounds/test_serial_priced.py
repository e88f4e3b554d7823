"""Bounds by prices of sets: never above the optimum, and the tables behind them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.placement.bounds import priced as serial_priced
from milp_plan.kinds.placement.bounds.load import work_bound
from milp_plan.kinds.placement.bounds.priced import UNITS, LoadGrid, priced_bounds, proving, whole
from milp_plan.kinds.placement.bounds.set_loops import best_prices, load_of, trace
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.placement.serial.sweep import MAX_ABREAST, read_sweep
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial


def exact_loads(graph):
    """Load of a payer that holds a set of classes, for every set that it can hold."""
    able = [c for c in range(len(graph)) if graph.work[c] is not None]
    for size in range(len(able) + 1):
        for chosen in combinations(able, size):
            inside = set(chosen)
            load = sum(graph.work[c] for c in chosen)
            for net in graph.nets:
                part = inside.intersection((net.source, *net.readers))
                load += net.ticks if 0 < len(part) < len(net.readers) + 1 else 0
            yield chosen, load


@pytest.mark.untraced
@pytest.mark.parametrize("seed", few(range(2000), 200))
def test_never_above_the_optimum(seed):
    problem, _ = planted_serial(seed)
    best = brute_serial(problem)[0]
    found = list(priced_bounds(read_serial(problem), 0, best + seed % 3, Budget(10.0), 8))
    assert all(0 < bound.value <= best for bound in found)
    assert all(one.value < two.value for one, two in pairwise(found))


def test_finds_the_optimum_where_work_alone_does_not():
    proved = 0
    for seed in range(12):
        problem, _ = planted_serial(seed, contiguous=False)
        graph, best = read_serial(problem), brute_serial(problem)[0]
        found = list(priced_bounds(graph, 0, best, Budget(10.0), 20))
        proved += bool(found) and found[-1].value == best > work_bound(graph).value
    assert proved >= 2


@pytest.mark.parametrize("seed", [3, 16, 17])
def test_near_prices_stop_below_what_far_ones_prove(seed, monkeypatch):
    """The reach shrank to nothing about prices that were no end."""
    problem, _ = planted_serial(seed, contiguous=False)
    graph, best = read_serial(problem), brute_serial(problem)[0]
    far = list(priced_bounds(graph, 0, best, Budget(100.0), 12))[-1]
    near = tuple((cells, False) for cells, _ in serial_priced.SEARCHED)
    monkeypatch.setattr(serial_priced, "SEARCHED", near)
    found = list(priced_bounds(graph, 0, best, Budget(100.0), 12))[-1]
    assert found.value < far.value == best


@pytest.mark.parametrize("seed", few(range(20), 4))
def test_dearest_sets_are_those_of_enumeration(seed):
    graph = read_serial(planted_serial(seed, contiguous=False)[0])
    rng = np.random.default_rng(seed)
    prices = rng.integers(-50, 100, len(graph))
    loads = dict(exact_loads(graph))
    unit = max(1, max(loads.values()) // 500)
    sweep = read_sweep(graph, Budget(10.0))
    grid = LoadGrid(graph, sweep, unit, max(loads.values()) // unit, proves=False)
    found = best_prices(grid.moves, prices, grid.cells, grid.trail)
    proof = LoadGrid(graph, sweep, unit, grid.cells)
    best = proof.profile(prices).payer
    for chosen, load in loads.items():
        assert best[load // unit] >= prices[list(chosen)].sum()
    for load in np.flatnonzero(found > -UNITS).tolist():
        inside = trace(grid.moves, grid.trail, load)
        assert prices[inside].sum() == found[load]
        assert load_of(grid.moves, inside) == load
        entries = len(graph) + len(graph.nets)
        exact = loads[tuple(np.flatnonzero(inside).tolist())]
        assert abs(exact - load * unit) <= unit * entries


def test_prices_are_kept_to_the_unit():
    assert whole(np.array([100.0, -1.0])).tolist() == [UNITS, -round(UNITS / 100)]


def test_sweeps_remember_little_and_grids_round_down():
    graph = read_serial(planted_serial(3, contiguous=False)[0])
    sweep = read_sweep(graph, Budget(10.0))
    assert max(step.states for step in sweep.steps) <= MAX_ABREAST
    assert sweep.steps[-1].states == 1
    last = proving(graph, sweep, max(load for _, load in exact_loads(graph)))
    assert last.proves
    assert all(
        cells * last.unit <= ticks
        for cells, ticks in zip(last.host.tolist(), graph.host_work, strict=True)
        if ticks is not None
    )
