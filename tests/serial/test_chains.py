from random import Random

import pytest

from milp_plan.kinds.placement.planners.latency.ideals import ideal_levels
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.chains import merge_chains
from milp_plan.kinds.placement.serial.operators import HOST
from tests.support.serial_brute import brute_serial

from .orders import tables_of


def test_joined_chains_take_what_their_operators_take() -> None:
    rng, joined, timed = Random(3), 0, 0
    for seed in range(80):
        tables = tables_of(planted_serial(seed, calls=1)[0])
        coarse = merge_chains(tables, 3)
        joined += len(coarse) < len(tables)
        for _ in range(4):
            places = []
            for i in range(len(coarse)):
                choices = [] if coarse.host_work[i] is None else [HOST]
                choices += [] if coarse.work[i] is None else list(range(coarse.num_places))
                places.append(rng.choice(choices))
            each = [0] * len(tables)
            for part, place in zip(coarse.parts, places, strict=True):
                for i in part:
                    each[i] = place
            value = coarse.latency(places)
            timed += value is not None
            assert value == tables.latency(each)
            assert coarse.fits(places) == tables.fits(each)
    assert joined > 5
    assert timed > 50


@pytest.mark.untraced
def test_ways_meet_or_bound_the_optimum() -> None:
    met = 0
    for seed in range(40):
        calls = 1 + seed % 2
        problem, _ = planted_serial(seed, calls=calls)
        tables = tables_of(problem)
        best = brute_serial(problem)
        assert best is not None
        optimum = best[0] / tables.graph.scale
        found = ideal_levels(tables)
        assert found is not None
        values, bounds = [float("inf")], []

        def take(places, tables=tables, values=values) -> None:
            value = tables.latency(places)
            if value is not None and tables.fits(places):
                values.append(value / tables.graph.scale)

        def tell(bound, _, bounds=bounds) -> None:
            bounds.append(bound)

        found.run(lambda values=values: min(values), lambda: 9.0, take, tell)
        assert bounds
        assert max(bounds) <= optimum * (1 + 1e-9)
        assert min(values) >= optimum * (1 - 1e-9)
        met += max(bounds) >= optimum * (1 - 1e-6) and min(values) <= optimum * (1 + 1e-6)
    assert met > 10
