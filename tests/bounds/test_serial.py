"""Bounds under the serial law: never above the optimum, and conflicts that are true."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from milp_plan.kinds.placement.bounds.conflicts import RESOLUTION, conflicts, cuts_of
from milp_plan.kinds.placement.bounds.flow import FREE, cheapest
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial


def subset_loads(graph):
    """Load of a payer that holds a set of classes, for every set that it can hold."""
    able = [c for c in range(len(graph)) if graph.work[c] is not None]
    found = {}
    for size in range(1, len(able) + 1):
        for chosen in combinations(able, size):
            inside = set(chosen)
            load = sum(graph.work[c] for c in chosen)
            for net in graph.nets:
                part = inside.intersection((net.source, *net.readers))
                load += net.ticks if 0 < len(part) < len(net.readers) + 1 else 0
            found[chosen] = load
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("seed", few(range(60), 20))
def test_never_above_the_optimum(seed):
    problem, _ = planted_serial(seed)
    best = brute_serial(problem)[0]
    found = tuple(all_bounds(problem))
    assert len(found) >= 2
    assert all(0 <= bound.value <= best for bound in found)


def test_each_bound_is_best_somewhere():
    names = set()
    for seed in range(40):
        found = tuple(all_bounds(planted_serial(seed, contiguous=False)[0]))
        top = max(bound.value for bound in found)
        best = [bound.name for bound in found if bound.value == top]
        names |= set(best) if len(best) == 1 else set()
    assert names >= {"work", "cheapest set"}


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_minimum_cuts_are_cheapest_sets(seed):
    graph = read_serial(planted_serial(seed, contiguous=False)[0])
    loads, cuts = subset_loads(graph), cuts_of(graph)
    barred = np.array([ticks is None for ticks in graph.work])
    for members in {chosen for chosen in loads if len(chosen) <= 2}:
        value = cheapest(cuts.net, np.array(members), barred, FREE // 4)
        exact = min(load for chosen, load in loads.items() if set(members) <= set(chosen))
        assert value <= exact * RESOLUTION / cuts.total
        assert value == pytest.approx(exact * RESOLUTION / cuts.total, abs=100)
        assert exact == cuts.ticks(value) or exact == pytest.approx(cuts.ticks(value), rel=1e-9)


@pytest.mark.untraced
@pytest.mark.parametrize("seed", few(range(20), 8))
def test_conflicts_hold_for_every_set(seed):
    graph = read_serial(planted_serial(seed, contiguous=False)[0])
    loads = subset_loads(graph)
    for cutoff in sorted(set(loads.values()))[::2]:
        found = conflicts(graph, cutoff)
        cheap = [set(chosen) for chosen, load in loads.items() if load <= cutoff]
        for one, two in found.apart:
            assert not any({one, two} <= chosen for chosen in cheap)
        for one, two in found.follows:
            assert not any(one in chosen and two not in chosen for chosen in cheap)
        for number in found.off:
            assert not any(number in chosen for chosen in cheap)


def test_conflicts_are_found():
    """Over the samples each kind of conclusion is drawn."""
    pairs = follows = off = 0
    for seed in range(20):
        problem, _ = planted_serial(seed, contiguous=False)
        found = conflicts(read_serial(problem), max(1, brute_serial(problem)[0] - 1))
        pairs += len(found.apart)
        follows += len(found.follows)
        off += len(found.off)
    assert pairs > 0
    assert follows > 0
    assert off > 0
