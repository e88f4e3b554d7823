"""The bound from gate to gate: never above the optimum, and sharp where gates are dense."""

from __future__ import annotations

from random import Random

import pytest

from milp_plan.bounds.serial_gates import gate_bound
from milp_plan.bounds.serial_latency import latency_bounds
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
from milp_plan.io import Goal, read
from milp_plan.models.planted_serial import planted_serial
from milp_plan.serial import merged_tables, operator_tables, read_serial
from milp_plan.serial.gates import comparable, segments
from tests.support.public import public_file
from tests.support.seeds import few
from tests.support.serial_brute import brute_serial

EACH = 20
"""Random problems of one test."""


def problem_of(edges, work, host, size, cost, *, payers=2, calls=1, memory=None):
    """Operators by name with ticks, bytes, and one value each that costs as many ticks."""
    devices = [Device(f"payer{i}", "payer", memory) for i in range(payers)]
    devices.append(Device("host", "host", None))
    values = [
        Value(f"{name}:held", None, (name,), {FULL: held}) for name, held in size.items() if held
    ]
    values += [
        Value(f"{name}:out", name, tuple(readers), {FULL: 0}, {FULL: cost[name]})
        for name, readers in edges.items()
        if readers
    ]
    operators = tuple(
        Operator(name, (Option("run", {"payer": work[name], "host": host[name]}),))
        for name in edges
    )
    channels = tuple(
        Channel(a.name, b.name, 0, TICKS_PER_SECOND) for a in devices for b in devices if a is not b
    )
    return PlanningProblem(
        "gates",
        ComputationGraph(operators, tuple(values)),
        Cluster((DeviceClass("payer", None), DeviceClass("host", None)), tuple(devices), channels),
        Objective.LATENCY,
        MemoryLaw.STATIC,
        serial=SerialLaw(("payer",), calls=calls),
    )


def blocks(seed):
    """Branches between gates, some of them chains, one value at times past a gate."""
    rng = Random(seed)
    shape = rng.choice([[[1, 1]], [[2, 1]], [[1, 1, 1]], [[1], [1, 1]], [[1, 1], []], [[2, 2]]])
    edges = {"g0": []}
    for number, branches in enumerate(shape):
        ends = [] if branches else [f"g{number}"]
        for branch, length in enumerate(branches):
            names = [f"b{number}.{branch}.{k}" for k in range(length)]
            for one, two in zip([f"g{number}", *names], names, strict=False):
                edges[one].append(two)
                edges[two] = []
            ends.append(names[-1])
        for name in ends:
            edges[name].append(f"g{number + 1}")
        edges[f"g{number + 1}"] = []
    last = f"g{len(shape)}"
    if len(shape) > 1 and rng.random() < 0.3 and last not in edges["g0"]:
        edges["g0"].append(last)
    slow = rng.choice([2, 4, 8])
    work = {name: rng.randint(0, 4) for name in edges}
    host = {name: rng.randint(0, 2) + slow * work[name] for name in edges}
    size = {name: rng.randint(0, 4) for name in edges}
    cost = {name: rng.choice([0, 1, 2, 3, 5]) for name in edges}
    calls = 1 + seed % 2
    memory = max(1, sum(size.values()) * rng.randint(2, 6) // 6)
    payers = 1 if calls > 1 else 2
    return problem_of(edges, work, host, size, cost, payers=payers, calls=calls, memory=memory)


def bounds_of(problem, best):
    """Return the bound with ideals, with a known plan, and with paths alone."""
    tables = merged_tables(read_serial(problem))
    for left, incumbent in ((1.0, None), (1.0, best), (0.0, None)):
        yield gate_bound(tables, lambda: left, incumbent)  # noqa: B023 (called at once)


@pytest.mark.untraced
@pytest.mark.parametrize("part", few(range(50), 1))
def test_no_bound_of_blocks_is_above_the_optimum(part):
    met = 0
    for seed in range(part * EACH, (part + 1) * EACH):
        problem = blocks(seed)
        best, _ = brute_serial(problem)
        exact, known, paths = bounds_of(problem, best)
        assert paths.value <= exact.value == known.value <= best, seed
        met += exact.value == best
    assert met > EACH // 3


@pytest.mark.untraced
@pytest.mark.parametrize("part", few(range(50), 2))
def test_no_bound_of_any_graph_is_above_the_optimum(part):
    for seed in range(part * EACH, (part + 1) * EACH):
        problem, _ = planted_serial(seed, calls=1 + seed % 3 // 2)
        best, _ = brute_serial(problem)
        exact, known, paths = bounds_of(problem, best)
        assert paths.value <= exact.value == known.value <= best, seed


def chain(count, work, cost, **other):
    """Operators one after another, alike, a byte each; the host is ten times slower."""
    names = [f"o{i}" for i in range(count)]
    edges = {name: names[i + 1 : i + 2] for i, name in enumerate(names)}
    same = [dict.fromkeys(names, figure) for figure in (work, 10 * work, 1, cost)]
    return problem_of(edges, *same, **other)


def test_calls_and_what_they_hold_are_counted_on_a_chain():
    """Two calls of two operators and a change between them; or two on the host, one call."""
    problem = chain(4, 5, 3, memory=2)
    bounds = {bound.name: bound.value for bound in latency_bounds(read_serial(problem), Budget())}
    assert bounds["gates"] == brute_serial(problem)[0] == 26
    assert max(value for name, value in bounds.items() if name != "gates") < 26
    alone = chain(4, 5, 3, memory=2, payers=1)
    assert gate_bound(operator_tables(read_serial(alone)), lambda: 1.0).value == 10 + 3 + 100


def test_no_more_calls_than_there_are_shorten_what_lies_between_gates():
    """Four branches, slow on a host; there are gates on either side that no call can hold."""
    branches = [f"b{i}" for i in range(4)]
    edges = {"a": branches, **{name: ["z"] for name in branches}, "z": []}
    work = dict.fromkeys(edges, 1)
    host = {"a": 0, "z": 0, **dict.fromkeys(branches, 20)}
    size = {"a": 9, "z": 9, **dict.fromkeys(branches, 1)}
    cost = dict.fromkeys(edges, 2)
    for payers, best in ((1, 14), (2, 8), (3, 8), (4, 5)):
        problem = problem_of(edges, work, host, size, cost, payers=payers, memory=4)
        assert brute_serial(problem)[0] == best, payers
        found = gate_bound(operator_tables(read_serial(problem)), lambda: 1.0)
        assert found.value == best, payers


def test_segments_keep_values_that_pass_a_gate_out():
    """What is read behind the next gate costs nothing there, and is no edge of any segment."""
    edges = {"a": ["b", "c", "z"], "b": ["d"], "c": ["d"], "d": ["z"], "z": []}
    same = [dict.fromkeys(edges, figure) for figure in (1, 1, 0, 4)]
    tables = operator_tables(read_serial(problem_of(edges, *same)))
    assert [i for i, gate in enumerate(comparable(tables)) if gate] == [0, 3, 4]
    before, first, second, behind = segments(tables)
    assert (len(before), len(first), len(second), len(behind)) == (0, 2, 0, 0)
    assert first.values[0] == (4, -1, (0, 1))
    assert second.before == (((-1, 4, 4),),)
    assert before.last == first.first == 0
    assert behind.last is None


def test_far_figures_are_rounded_down():
    """Ticks with no common unit, too many for the loops: the bound is as close as they can be."""
    problem = chain(4, 5 * 10**25 + 1, 3 * 10**25 + 1, memory=2)
    best = 26 * 10**25 + 6
    found = gate_bound(operator_tables(read_serial(problem)), lambda: 1.0)
    assert best * (1 - 1e-15) < found.value <= best


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "value"), [(1, 1199.70349), (2, 1186.54806)])
def test_the_best_plans_of_a_public_graph_are_proved(calls, value):
    """Inception-v3 has blocks of four branches between gates; its best plans are known."""
    path = public_file("dnn-partitioning/latency-inputs/LayerGraphs/inceptionv3_inference.json")
    graph = read_serial(read(path, goal=Goal(Objective.LATENCY, calls=calls)))
    found = gate_bound(merged_tables(graph), lambda: 600.0, round(1201 * graph.scale))
    assert found.value / graph.scale == pytest.approx(value, abs=1e-5)
