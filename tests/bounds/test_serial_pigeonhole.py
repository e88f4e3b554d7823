"""The pigeonhole bound: never above the optimum, and sharp where layers outnumber devices."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    SerialLaw,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.placement.bounds.conflicts import cuts_of
from milp_plan.kinds.placement.bounds.flow import FREE, cheapest, cheapest_choice
from milp_plan.kinds.placement.bounds.load import class_bound, work_bound
from milp_plan.kinds.placement.bounds.pigeonhole import pigeonhole_bound
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial


def layers(count, work, cost, payers):
    """A chain of layers, alike, on payers and a host that is ten times slower."""
    names = [f"layer{i}" for i in range(count)]
    option = Option("run", {"payer": work, "host": 10 * work})
    values = [
        Value(f"{one}:out", one, (two,), {FULL: 0}, {FULL: cost}) for one, two in pairwise(names)
    ]
    devices = [Device(f"payer{i}", "payer", None) for i in range(payers)]
    devices.append(Device("host", "host", None))
    channels = tuple(
        Channel(a.name, b.name, 0, TICKS_PER_SECOND) for a in devices for b in devices if a is not b
    )
    graph = ComputationGraph(tuple(Operator(name, (option,)) for name in names), tuple(values))
    cluster = Cluster(
        (DeviceClass("payer", None), DeviceClass("host", None)), tuple(devices), channels
    )
    law = SerialLaw(("payer",))
    return PlanningProblem(
        "layers", graph, cluster, Objective.BOTTLENECK, MemoryLaw.STATIC, serial=law
    )


@pytest.mark.untraced
def test_layers_outnumber_devices():
    """Seven layers of 10 on three payers: one holds three, 30 and what its end costs."""
    problem = layers(7, 10, 2, 3)
    bounds = {bound.name: bound.value for bound in all_bounds(problem)}
    best = brute_serial(problem)[0]
    assert best == 32
    assert bounds["pigeonhole"] == best
    assert max(value for name, value in bounds.items() if name != "pigeonhole") < best


def test_a_class_on_the_host_limits_it():
    """With a host that can help out, the bound is the host's time."""
    assert {b.name: b.value for b in all_bounds(layers(4, 10, 50, 3))} == {
        "work": 13,
        "cheapest set": 40,
    }
    graph = read_serial(layers(4, 10, 200, 3))
    assert pigeonhole_bound(graph, 99, Budget(), upper=100) is None


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_never_above_the_optimum(seed):
    problem, _ = planted_serial(seed, contiguous=False)
    graph, best = read_serial(problem), brute_serial(problem)[0]
    for lower in {0, best // 2}:
        for upper in (None, 1, best):
            found = pigeonhole_bound(graph, lower, Budget(), upper)
            assert found is None or lower < found.value <= best
    assert work_bound(graph).value <= best
    assert class_bound(graph, Budget()).value <= best


@pytest.mark.parametrize("seed", range(12))
def test_cheapest_choice_is_the_least_of_all(seed):
    graph = read_serial(planted_serial(seed, contiguous=False)[0])
    cuts = cuts_of(graph)
    barred = np.array([ticks is None for ticks in graph.work])
    able = np.flatnonzero(~barred)
    for many in range(1, len(able) + 1):
        each = [
            cheapest(cuts.net, np.array(chosen), barred, FREE // 4)
            for chosen in combinations(able.tolist(), many)
        ]
        assert cheapest_choice(cuts.net, able, many, barred, FREE // 4, 10_000) == min(each)
    if len(able) > 1:
        assert cheapest_choice(cuts.net, able, 2, barred, FREE // 4, 1) == -1
