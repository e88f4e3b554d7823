from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Operator, PlanningProblem
from milp_plan.kinds.placement.planners.latency.ideals import paired
from milp_plan.kinds.placement.planners.latency.timing import arrays, scratch, sweep
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.atoms import merge_idle
from milp_plan.kinds.placement.serial.lattice import LabelSearch, lattice
from milp_plan.kinds.placement.serial.operators import HOST, OperatorTables
from milp_plan.kinds.placement.serial.stock import shared
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial

from .orders import tables_of


def with_idle(problem: PlanningProblem, rng: Random) -> PlanningProblem:
    """The problem with some operators that take no time, and some values that cost nothing."""

    def idle(operator: Operator) -> Operator:
        if rng.random() < 0.5:
            return operator
        option = operator.options[0]
        none = replace(option, duration_ticks=dict.fromkeys(option.duration_ticks, 0))
        return replace(operator, options=(none,))

    graph = problem.graph
    operators = tuple(idle(operator) for operator in graph.operators)
    return replace(problem, graph=replace(graph, operators=operators))


def choices(tables: OperatorTables, i: int) -> list[int]:
    """Places where an operator can run."""
    hosts = [] if tables.host_work[i] is None else [HOST]
    return hosts + ([] if tables.work[i] is None else list(range(tables.num_places)))


def random_places(tables: OperatorTables, rng: Random) -> list[int]:
    return [rng.choice(choices(tables, i)) for i in range(len(tables))]


@pytest.mark.untraced
@pytest.mark.parametrize("calls", [1, 2])
def test_times_are_those_of_the_checker(calls: int) -> None:
    rng, valid, circles = Random(1), 0, 0
    for seed in range(60):
        tables = tables_of(planted_serial(seed, calls=calls)[0])
        compiled = arrays(tables)
        for _ in range(12):
            places = random_places(tables, rng)
            exact = tables.latency(places)
            value = compiled.latency(np.array(places, dtype=np.int64))
            circles += exact is None
            assert (exact is None) == np.isinf(value)
            if exact is not None:
                assert value == pytest.approx(exact / tables.graph.scale)
            verdict = verify(tables.graph.problem, tables.plan(places))
            assert verdict.ok == (exact is not None and tables.fits(places))
            if verdict.ok:
                valid += 1
                assert verdict.value == exact
                assert tables.latency(tables.places(tables.plan(places))) == exact
    assert valid > 50
    assert circles > 20


@pytest.mark.untraced
def test_a_sweep_ends_above_its_limit() -> None:
    rng, cut = Random(2), 0
    for seed in range(30):
        tables = tables_of(planted_serial(seed, calls=1 + seed % 2)[0])
        compiled = arrays(tables)
        places = np.array(random_places(tables, rng), dtype=np.int64)
        value = compiled.latency(places)
        room = scratch(tables.num_places, len(places))
        assert sweep(compiled.times, places, *room, value) == value
        if 0.0 < value < np.inf:
            cut += 1
            assert sweep(compiled.times, places, *room, 0.999 * value) == np.inf
    assert cut > 10


@pytest.mark.parametrize("calls", [1, 2])
def test_merging_keeps_the_optimum(calls: int) -> None:
    merged = 0
    for seed in range(24 if calls == 1 else 10):
        problem = with_idle(planted_serial(seed, calls=calls)[0], Random(seed))
        tables = tables_of(problem)
        fewer = merge_idle(tables)
        if len(fewer) == len(tables):
            continue
        merged += 1
        best = brute_serial(problem)
        assert best is not None
        assert _enumerated(fewer) == best[0]
    assert merged > 3


def _enumerated(tables: OperatorTables) -> int:
    """Optimum of the tables by enumeration; its plan passes the checker."""
    compiled, best, found = arrays(tables), np.inf, None
    for places in product(*(choices(tables, i) for i in range(len(tables)))):
        if tables.fits(places):
            value = compiled.latency(np.array(places, dtype=np.int64))
            if value < best:
                best, found = value, places
    assert found is not None
    verdict = verify(tables.graph.problem, tables.plan(found))
    assert verdict.ok
    assert verdict.value == tables.latency(found)
    assert verdict.value is not None
    return verdict.value


@pytest.mark.untraced
def test_ways_through_the_ideals_are_optimal() -> None:
    classes = 0
    for seed in range(60):
        problem, _ = planted_serial(seed, calls=1)
        tables = merge_idle(tables_of(problem))
        ideals = lattice(tables, 10_000)
        assert ideals is not None
        best = brute_serial(problem)
        assert best is not None
        value = best[0] / tables.graph.scale
        passages = LabelSearch(tables, ideals)
        passages.learn(float("inf"), 100, 2000, lambda: 1.0)
        whole = passages.run(value * 1.001 + 1e-6, 10_000, 5000, lambda: 1.0)
        classes += any(len(members) > 1 for members in tables.members)
        assert whole.value == pytest.approx(value)
        assert whole.places is not None
        assert tables.fits(whole.places)
        assert tables.latency(whole.places) == best[0]
        for width in (1, 2):
            narrow = passages.run(float("inf"), width, 5000, lambda: 1.0)
            assert narrow.bound <= value * (1 + 1e-9)
        stopped = passages.run(float("inf"), 10, 5000, lambda: 0.0)
        assert stopped.bound <= value * (1 + 1e-9)
    assert classes > 10


@pytest.mark.untraced
@pytest.mark.parametrize("seeds", few([range(24), range(24, 120)], 1))
def test_ways_with_two_calls_are_bounds_and_mostly_plans(seeds: range) -> None:
    tried, met, classes, packed_only = 0, 0, 0, 0
    for seed in seeds:
        one, _ = planted_serial(seed, calls=1)
        assert one.serial is not None
        tables = merge_idle(tables_of(replace(one, serial=replace(one.serial, calls=2))))
        if (tables.num_places + 1) ** len(tables) > 20_000:
            continue
        tried += 1
        value, found = _enumerated(tables) / tables.graph.scale, []
        ideals = lattice(tables, 10_000)
        assert ideals is not None
        passages = LabelSearch(tables, ideals)
        for stock in (None, shared(len(tables.graph.payers))):
            if stock is not None:
                passages.learn(float("inf"), 100, 2000, lambda: 1.0)
            way = passages.run(value * 1.001 + 1e-6, 10_000, 5000, lambda: 1.0, stock)
            assert way.bound <= value * (1 + 1e-9)
            assert way.bound == pytest.approx(way.value)
            narrow = passages.run(float("inf"), 1, 5000, lambda: 1.0, stock)
            assert narrow.bound <= value * (1 + 1e-9)
            found.append(way)
        assert found[0].value <= found[1].value * (1 + 1e-9)
        packed_only += found[0].value < found[1].value * (1 - 1e-9)
        classes += any(len(members) > 1 for members in tables.members)
        assert found[1].places is not None
        places = paired(tables, found[1].places)
        ticks = tables.latency(places) if tables.fits(places) else None
        met += ticks is not None and ticks / tables.graph.scale == pytest.approx(value)
    assert classes > tried / 4
    assert packed_only
    assert met > tried / 2
