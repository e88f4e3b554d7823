"""Two devices' classes split anew: as good as any split, with the loads that the plan has."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.placement.planners.resplit import DIGITS, resplitting
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from tests.support.seeds import few


def case(seed):
    """Return a graph, its search, and places that every class can be at."""
    graph = read_serial(planted_serial(seed, contiguous=False, separate=False)[0])
    search = resplitting(graph, Budget(10.0), seed)
    assert search is not None
    rng = np.random.default_rng(seed)
    payers, devices = search.payers, search.devices
    able = [
        [
            d
            for d in range(devices)
            if (graph.work if d < payers else graph.host_work)[c] is not None
        ]
        for c in range(len(graph))
    ]
    return graph, search, np.array([rng.choice(options) for options in able], dtype=np.int64), able


@pytest.mark.parametrize("seed", few(range(200), 12))
def test_no_split_has_a_smaller_larger_load(seed):
    graph, search, places, able = case(seed)
    pair = (0, search.devices - 1)
    loads = search.loads(places)
    assert loads * search.total / 2**DIGITS == pytest.approx(graph.loads(places.tolist()))
    union = [c for c in range(len(graph)) if places[c] in pair]
    best = None
    for sides in product(*([d for d in pair if d in able[c]] for c in union)):
        tried = places.copy()
        tried[union] = sides
        larger = int(search.loads(tried)[list(pair)].max())
        best = larger if best is None else min(best, larger)
    assert search.resplit(places, loads, pair, -1) == bool(union)
    assert loads.tolist() == search.loads(places).tolist()
    assert loads[list(pair)].max() <= best * (1 + 1e-3)
    assert all(place in options for place, options in zip(places.tolist(), able, strict=True))


def test_plans_get_better_and_fit():
    better = 0
    for seed in range(12):
        graph, search, places, _ = case(seed)
        if not search.fits(places):
            continue
        found = search.search(places, 30, float("inf"))
        if found is not None:
            assert search.fits(found)
            assert max(graph.loads(found.tolist())) < max(graph.loads(places.tolist()))
            better += 1
    assert better >= 2


def test_a_search_goes_on_from_the_best_until_it_is_stopped():
    _, search, places, _ = case(next(s for s in range(12) if case(s)[1].fits(case(s)[2])))
    search.run(float("inf"))  # nothing to split yet
    search.offer(places.tolist())
    before = search.least
    for _ in range(8):
        search.cycle()
    assert search.improved.tolist() == search.best.tolist()
    assert search.least == search.loads(search.best).max() < before
    search.offer(places.tolist())  # worse by now
    assert search.least < before
    search.stopped = True
    search.run(float("inf"))


def test_too_many_open_nets_are_no_splits():
    _, search, places, _ = case(3)
    assert search.splits(places, (0, search.devices - 1)) is not None
    search.nets = search.nets._replace(
        start=np.arange(len(search.order) + 1) * 40,
        nets=np.tile(np.arange(40), len(search.order)),
        pins=np.full(40, len(search.order)),
        cost=np.ones(40, dtype=np.int64),
    )
    assert search.splits(places, (0, search.devices - 1)) is None
