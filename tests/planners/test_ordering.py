"""Orders of one device: against enumeration by the checker, and what the search claims."""

from dataclasses import replace
from itertools import permutations
from random import Random

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import (
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import best_bound
from milp_plan.kinds.schedule.planners.ordering import ORDERS, Orderer, OrderGraph, read_order
from milp_plan.kinds.schedule.planners.ordering.flow import flow_of, sure_within
from milp_plan.kinds.schedule.planners.ordering.search import FAILED, FOUND, Trial
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from milp_plan.zoo import generate
from tests.support.problems import marked
from tests.support.seeds import few


def drawn(seed, count=None, width=3, **changes):
    """A random layered graph; sizes up to 10^10, some operators take no time."""
    rng = Random(seed)
    count = count or rng.randint(2, 6)
    most = rng.choice((3, 100, 10**10))
    layers, at = [], 0
    while at < count:
        some = min(count - at, rng.randint(1, width))
        layers.append(range(at, at + some))
        at += some
    readers = {o: [] for o in range(count)}
    for number, layer in enumerate(layers):
        pool = [o for earlier in layers[max(0, number - 2) : number] for o in earlier]
        for o in layer:
            for source in rng.sample(pool, min(len(pool), rng.randint(0, 3))):
                readers[source].append(o)
    operators = tuple(
        Operator(
            f"o{o}",
            (
                Option(
                    "only",
                    {"any": rng.choice((0, 1, 10**9))},
                    workspace_bytes=rng.choice((0, rng.randint(0, most))),
                ),
            ),
        )
        for o in range(count)
    )
    values = [
        Value(f"v{o}", f"o{o}", tuple(f"o{r}" for r in rs), {"full": rng.randint(0, most)})
        for o, rs in readers.items()
    ]
    values.append(Value("w", None, ("o0", f"o{count - 1}")[: min(2, count)], {"full": most}))
    cluster = Cluster((DeviceClass("any", None),), (Device("d", "any", None),))
    graph = ComputationGraph(operators, tuple(values))
    problem = PlanningProblem(f"drawn{seed}", graph, cluster, Objective.PEAK_MEMORY, **changes)
    return marked(problem, seed) if seed % 3 else problem


def orders_of(graph):
    for order in permutations(range(len(graph))):
        place = {o: at for at, o in enumerate(order)}
        if all(place[b] < place[o] for o in range(len(graph)) for b in graph.before[o]):
            yield list(order)


@pytest.mark.parametrize("seed", few(range(200), 60))
def test_the_least_peak_is_that_of_all_orders(seed):
    problem = drawn(seed)
    graph = read_order(problem)
    assert isinstance(graph, OrderGraph)
    values = []
    for number, order in enumerate(orders_of(graph)):
        values.append(graph.peak(order))
        if number < 5:
            verdict = verify(problem, graph.plan(order, "test"))
            assert verdict.ok
            assert verdict.value == values[-1]
    optimum = min(values)
    for make in ORDERS.values():
        assert graph.peak(make(graph)) >= optimum
    orderer, low = Orderer(graph, max(orders_of(graph), key=graph.peak)), 0
    for found in orderer.search(Budget(), 0):
        if isinstance(found, Bound):
            assert low < found.value <= optimum
            low = found.value
    assert orderer.peak == optimum
    assert verify(problem, graph.plan(orderer.order, "test")).value == optimum
    for backwards in (False, True):
        within = {"states": 1024, "backwards": backwards}
        whole = Trial(graph, range(len(graph)), (), optimum, **within)
        assert whole.go_on(10_000, Budget()) == FOUND
        assert graph.peak(whole.order) == optimum
        less = Trial(graph, range(len(graph)), (), optimum - 1, **within)
        if any(graph.lasting) and optimum > graph.base_bytes:
            assert less.go_on(10_000, Budget()) == FAILED
            assert optimum - 1 < less.next_top <= optimum


def test_what_is_sure_holds_in_all_orders_within_the_bytes():
    """Who comes first, what is held at least; nothing is sure that fewer bytes would not settle."""
    settled = forbidden = 0
    for seed in range(50):
        graph = read_order(drawn(seed))
        everything = list(range(len(graph)))
        orders = list(orders_of(graph))
        peaks = sorted({graph.peak(order) for order in orders})
        for backwards in (False, True):
            flow = flow_of(graph, everything, set(), backwards)
            for top in (peaks[0] - 1, *peaks[:3]):
                sure = sure_within(flow, top)
                within = [order for order in orders if graph.peak(order) <= top]
                if sure.forbids(top):
                    assert not within
                    assert top < sure.least <= peaks[0]
                    forbidden += 1
                for order in within:
                    profile = graph.profile(order)
                    line = order[::-1] if backwards else order
                    place = {o: at for at, o in enumerate(line)}
                    assert all(place[a] <= place[b] for a, b in np.argwhere(sure.behind))
                    assert all(sure.need[o] <= profile[at] for at, o in enumerate(order))
                settled += int(sure.behind.sum()) > int(sure_within(flow, 2**62).behind.sum())
    assert settled > 10
    assert forbidden > 30


@pytest.mark.parametrize(("seed", "count"), [(s, 60) for s in range(6)] + [(6, 100)])
def test_sixty_operators_are_proved(seed, count):
    problem = drawn(seed, count, 6 if count == 60 else 4)
    graph = read_order(problem)
    orderer = Orderer(graph, ORDERS["definition-order"](graph))
    first, low = orderer.peak, best_bound(problem).value
    for order in orderer.polish(Budget(), low, seed):
        assert graph.peak(order) < first
        first = graph.peak(order)
    for found in orderer.search(Budget(60, nodes=5_000_000), low):
        low = found.value if isinstance(found, Bound) else low
    assert low == orderer.peak == verify(problem, graph.plan(orderer.order, "test")).value


def wide(seed):
    """Sixty operators, up to twelve beside each other, sizes from 10^5 to 10^9."""
    rng = Random(seed)
    layers, at = [], 0
    while at < 60:
        layers.append(range(at, min(60, at + rng.randint(6, 12))))
        at = layers[-1].stop
    readers = {o: [] for o in range(60)}
    for number, layer in enumerate(layers):
        pool = [o for earlier in layers[max(0, number - 2) : number] for o in earlier]
        for o in layer:
            for source in rng.sample(pool, min(len(pool), rng.randint(1, 2))):
                readers[source].append(o)
    operators = tuple(Operator(f"o{o}", (Option("only", {"any": 1}),)) for o in readers)
    values = tuple(
        Value(f"v{o}", f"o{o}", tuple(f"o{r}" for r in rs), {"full": int(10 ** rng.uniform(5, 9))})
        for o, rs in readers.items()
    )
    cluster = Cluster((DeviceClass("any", None),), (Device("d", "any", None),))
    graph = ComputationGraph(operators, values)
    return PlanningProblem(f"wide{seed}", graph, cluster, Objective.PEAK_MEMORY)


@pytest.mark.parametrize("seed", [1, 2, 5, 6, 8, 9])
def test_wide_graphs_of_sixty_operators_are_proved(seed):
    """Operators that release something together come at once, and orders grow from either end."""
    graph = read_order(wide(seed))
    orderer, low = Orderer(graph, ORDERS["definition-order"](graph)), 0
    for found in orderer.search(Budget(600, nodes=100_000), 0):
        low = found.value if isinstance(found, Bound) else low
    assert low == orderer.peak


def test_a_part_may_begin_and_end_anywhere():
    """Windows see values that come from before, stay beyond, or pass by."""
    found = 0
    for seed in range(60):
        problem = drawn(seed, 7)
        graph = read_order(problem)
        order = ORDERS["definition-order"](graph)
        begin, end = 2, 6
        profile = graph.profile(order)
        peaks = []
        for middle in permutations(order[begin:end]):
            whole = [*order[:begin], *middle, *order[end:]]
            place = {o: at for at, o in enumerate(whole)}
            if all(place[b] < place[o] for o in whole for b in graph.before[o]):
                peaks.append(max(graph.profile(whole)[begin:end]))
        top = min(peaks)
        for backwards in (False, True):
            part = (graph, order[begin:end], order[:begin])
            trial = Trial(*part, top, states=1024, backwards=backwards)
            assert trial.go_on(10_000, Budget()) == FOUND
            better = [*order[:begin], *trial.order, *order[end:]]
            assert max(graph.profile(better)[begin:end]) == top
            found += top < max(profile[begin:end])
            if top > graph.base_bytes:
                less = Trial(*part, top - 1, states=1024, backwards=backwards)
                assert less.go_on(10_000, Budget()) == FAILED
    assert found > 6


def test_cuts_are_where_all_orders_agree():
    for seed in range(40):
        graph = read_order(drawn(seed))
        orders = list(orders_of(graph))
        agreed = [
            at
            for at in range(len(graph) + 1)
            if len({frozenset(order[:at]) for order in orders}) == 1
        ]
        assert Orderer(graph, orders[0]).cuts == agreed


def test_beyond_two_words_nothing_is_claimed_but_orders_are_found():
    problem = drawn(1, 160, 6)
    values = tuple(replace(v, kept=False) for v in problem.graph.values)  # else the end is claimed
    problem = replace(problem, graph=replace(problem.graph, values=values))
    graph = read_order(problem)
    orderer = Orderer(graph, ORDERS["definition-order"](graph))
    assert max(len(part.operators) for part in orderer.parts()) > 128
    first = orderer.peak
    found = list(orderer.search(Budget(300, nodes=100_000), 0))
    assert not any(isinstance(entry, Bound) for entry in found)
    found = list(orderer.polish(Budget(), 0, 0))
    assert found
    assert orderer.peak < first
    assert verify(problem, graph.plan(orderer.order, "test")).value == orderer.peak


# -- run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_run_proves(seed):
    problem = drawn(seed, 20)
    outcome = solve(problem, Settings(time_limit_s=60))
    assert outcome.record["strategy"] == "order"
    assert (outcome.proved, outcome.defects) == (True, ())
    assert outcome.value <= min(outcome.baselines.values())
    again = solve(problem, Settings(time_limit_s=60, start=outcome.plan))
    assert again.value == outcome.value


def test_memory_that_no_order_keeps_is_proved():
    problem = drawn(4, 20)
    least = solve(problem, Settings(time_limit_s=60)).value
    for limit, found in ((least, True), (least - 1, False)):
        cluster = Cluster((DeviceClass("any", limit),), (Device("d", "any", limit),))
        tight = PlanningProblem("tight", problem.graph, cluster, Objective.PEAK_MEMORY)
        outcome = solve(tight, Settings(time_limit_s=60))
        assert outcome.value == (least if found else None)
        assert (outcome.infeasible_reason is None) == found


def test_what_is_no_order():
    static = drawn(0, memory_law=MemoryLaw.STATIC)
    assert read_order(static) == "memory has no clock"
    once = drawn(0)
    again = tuple(replace(operator, recomputable=True) for operator in once.graph.operators)
    twice = replace(once, graph=replace(once.graph, operators=again))
    assert "run again" in read_order(twice)
    assert "several devices" in read_order(generate("gpt-tiny", "2xH100", objective="peak_memory"))


def test_node_limit_repeats():
    problem = drawn(7, 90, 6)
    plans = [solve(problem, Settings(time_limit_s=300, node_limit=20_000)).plan for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0] is not None


@pytest.mark.parametrize("architecture", ["alexnet", "gpt-tiny", "unet"])
def test_training_steps_with_updates_that_may_come_early(architecture):
    """The least peak, proved; never above the order of the file."""
    batch = {"alexnet": 64}.get(architecture, 1)
    step = {"batch": batch, "optimizer": "sgd", "objective": "peak_memory"}
    problem = generate(architecture, "1xH100", **step)
    outcome = solve(problem, Settings(time_limit_s=100))
    assert (outcome.proved, outcome.record["strategy"]) == (True, "order")
    least = {"alexnet": 0.14}.get(architecture, 0)
    assert outcome.value <= (1 - least) * outcome.baselines["definition-order"]
