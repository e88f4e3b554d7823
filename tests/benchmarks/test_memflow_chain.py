"""The simulator says what the checker says; the chain obeys limits, and comes near the optimum."""

from dataclasses import replace
from functools import cache
from random import Random

import pytest
from memflow_chain import Chain, Relief, Simulator, States
from memflow_chain.chain import ROUND

from milp_plan.api import Guide
from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.zoo import generate
from tests.check.cases import cluster, op, value
from tests.check.cases import problem as problem_of
from tests.models.solving import optimise
from tests.support.memory_saving import planted_memory_saving
from tests.support.memory_saving_brute import brute_force_ways
from tests.support.problems import random_problem_with_plan


def with_memory(problem: PlanningProblem, limit: int | None) -> PlanningProblem:
    devices = (replace(device, memory_bytes=limit) for device in problem.cluster.devices)
    return replace(problem, cluster=replace(problem.cluster, devices=tuple(devices)))


def again(problem: PlanningProblem, share: float = 1.0, seed: int = 0) -> PlanningProblem:
    """Operators may run again, all or some."""
    rng = Random(seed)
    operators = (replace(op, recomputable=rng.random() < share) for op in problem.graph.operators)
    return replace(problem, graph=replace(problem.graph, operators=tuple(operators)))


@cache
def training() -> PlanningProblem:
    """Two blocks of a transformer on two devices and meshes of them; forward may run again."""
    made = generate("gpt-tiny", "2xV100", batch=4, meshes=("2",), granularity="block")
    operators = (replace(op, recomputable=op.kind == "forward") for op in made.graph.operators)
    made = replace(made, graph=replace(made.graph, operators=tuple(operators)))
    return with_memory(made, None)


def cases():
    """Gangs, layouts, groups and all models of communication; runs again, without hosts."""
    for seed in range(15):
        problem, _ = random_problem_with_plan(seed)
        yield seed, with_memory(again(problem, 0.6, seed), None)
    for seed in range(15):
        problem = planted_memory_saving(seed).problem.without_memory_saving
        yield seed, with_memory(again(problem, 0.6, seed), None)


def test_times_and_peaks_are_the_checkers():
    compared = repeated = 0
    for seed, problem in cases():
        rng = Random(seed)
        states = States(indexed(problem), problem.graph.topological_order)
        simulator = Simulator(indexed(problem))
        start, _ = best_plan(problem)
        state = states.of_plan(start)
        for _ in range(12):
            steps = states.steps(state)
            measure = simulator.run(steps)
            if measure is not None:
                verdict = verify(problem, simulator.plan())
                assert verdict.ok, (seed, verdict.violations)
                assert measure.ticks == verdict.components["makespan"]
                assert max(measure.peaks) == verdict.components["peak_memory"]
                compared += 1
                repeated += len(steps) > len(problem.graph.operators)
            state = states.neighbour(state, rng)
    assert compared > 200
    assert repeated > 25


def test_what_did_not_change_is_not_simulated_again():
    problem = training()
    states = States(indexed(problem), problem.graph.topological_order)
    state = states.of_plan(best_plan(problem)[0])
    simulator, rng, afresh = Simulator(indexed(problem)), Random(1), 0
    for _ in range(200):
        steps = states.steps(state)
        assert simulator.run(steps) == Simulator(indexed(problem)).run(steps)
        afresh += len(steps)
        state = states.neighbour(state, rng)
    assert simulator.simulated < 0.9 * afresh


def test_plans_beyond_the_ticks_that_are_asked_for_are_left_early():
    """Nothing that is asked for is left, and what was left leaves nothing wrong behind."""
    problem = training()
    states = States(indexed(problem), problem.graph.topological_order)
    state, rng = states.of_plan(best_plan(problem)[0]), Random(1)
    early, whole, left = Simulator(indexed(problem)), Simulator(indexed(problem)), 0
    for number in range(200):
        steps = states.steps(state)
        measure = whole.run(steps)
        most = measure.ticks + (number % 3 - 1) * measure.ticks // 50
        asked = early.run(steps, most)
        assert asked == (measure if measure.ticks <= most else None)
        left += asked is None
        state = states.neighbour(state, rng)
    assert left > 60
    assert early.simulated < 0.95 * whole.simulated


def passes(layers: int, limit: int, ticks: int, size: int) -> PlanningProblem:
    """Forward and backward through layers on one device; every activation is of one size."""
    names = [f"f{i}" for i in range(layers)] + [f"b{i}" for i in reversed(range(layers))]
    operators = [
        op(name, ticks * (1 + (name[0] == "b")), recomputable=name[0] == "f") for name in names
    ]
    values = []
    for i in range(layers):
        last = i == layers - 1
        values.append(value(f"x{i}", f"f{i}", f"b{i}" if last else f"f{i + 1} b{i}", size))
        if i:
            values.append(value(f"g{i}", f"b{i}", f"b{i - 1}", size))
    return problem_of(operators, values, cluster("d0", memory=limit * size))


@pytest.mark.parametrize(("ticks", "size"), [(1, 1), (123_456_789, 3_000_000_007)])
def test_recomputation_finds_plans_where_nothing_else_does(ticks, size):
    """Three activations and a gradient are four; where three fit, a forward runs again."""
    problem = passes(3, 3, ticks, size)
    start, _ = best_plan(with_memory(problem, None))
    assert Chain(problem, start, recompute=False).run(300, Budget(60.0)).plan is None
    found = Chain(problem, start).run(300, Budget(60.0))
    verdict = verify(problem, found.plan)
    assert verdict.ok
    assert verdict.value == found.measure.ticks == brute_force_ways(problem)[0] == 10 * ticks


def uneven(layers: int, seed: int) -> PlanningProblem:
    """The same with layers of all sizes, in four fifths of the memory of all activations."""
    rng = Random(seed)
    ticks = [rng.randint(1, 3) * 10**6 for _ in range(layers)]
    sizes = [rng.randint(1, 4) * 10**8 for _ in range(layers)]
    problem = passes(layers, 1, 1, 1)
    operators = []
    for entry in problem.graph.operators:
        longer = ticks[int(entry.name[1:])] * (1 + (entry.name[0] == "b"))
        option = replace(
            entry.options[0], duration_ticks=dict.fromkeys(entry.options[0].duration_ticks, longer)
        )
        operators.append(replace(entry, options=(option,)))
    values = [
        replace(v, bytes={"full": sizes[int(v.name[1:]) - (v.name[0] == "g")]})
        for v in problem.graph.values
    ]
    graph = replace(problem.graph, operators=tuple(operators), values=tuple(values))
    return with_memory(replace(problem, graph=graph), (sum(sizes) + max(sizes)) * 8 // 10)


@pytest.mark.parametrize(
    "layers", [4, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 9, 10))]
)
def test_the_exact_model_is_never_above_the_chain_which_comes_near(layers):
    found = 0
    for seed in range(3):
        problem = uneven(layers, seed)
        start, _ = best_plan(with_memory(problem, None))
        plan = Chain(problem, start).run(6000, Budget(60.0)).plan
        if plan is None:
            continue
        chain = verify(problem, plan).value
        exact = optimise("memory_slots", problem, Guide(chain)).verdict.value
        assert exact <= chain <= 1.05 * exact, (layers, seed)
        found += 1
    assert found >= 1


def test_equal_layers_often_change_together():
    """One by one, or by twos and fours, 24 equal layers are all dropped once in 64 proposals."""
    problem = passes(24, 99, 1, 1)
    start, _ = best_plan(problem)
    chain, rng = Chain(problem, start), Random(0)
    drawn = [chain.states.neighbour(chain.start, rng) for _ in range(300)]
    assert sum(len(state.again) == 24 for state in drawn) >= 20


def test_a_chain_goes_on_where_another_has_ended():
    """Every round begins at the best plan, so no round can be slower than what it begins with."""
    problem = uneven(12, 1)
    start, _ = best_plan(with_memory(problem, None))
    first = Chain(problem, start).run(40, Budget(60.0))
    for seed in range(3):
        more = Chain(problem, start, seed=seed).run(40, Budget(60.0), first.state)
        assert verify(problem, more.plan).ok
        assert more.measure.ticks <= first.measure.ticks


def test_rounds_cool_and_begin_again_at_the_best_plan(monkeypatch):
    """What a warm step leaves is not lost, and a round ends better than it went on."""
    problem = training()
    start, _ = best_plan(problem)
    chain, costs = Chain(problem, start, blind=True), []
    judge = chain._judge

    def watched(walk, *rest):
        answer = judge(walk, *rest)
        costs.append(walk.cost)
        return answer

    monkeypatch.setattr(chain, "_judge", watched)
    found = chain.run(3000, Budget(60.0))
    begins = costs[::ROUND]
    assert len(begins) >= 2
    assert begins == sorted(begins, reverse=True)
    assert max(costs[ROUND - 1 :: ROUND]) < max(costs[: ROUND // 2])
    assert found.measure.ticks == min(costs)


def test_chains_repeat_themselves():
    problem = training()
    start, _ = best_plan(problem)
    once, twice = (Chain(problem, start, seed=3).run(300, Budget(60.0)) for _ in range(2))
    assert once == twice


def test_a_budget_that_is_over_ends_the_chain():
    problem = training()
    start, _ = best_plan(problem)
    assert Chain(problem, start).run(10**9, Budget(0.0)).proposals == 0


def shares(layers: list[tuple[int, int]], limit: int) -> PlanningProblem:
    """A forward and a backward pass; each layer has its ticks and the bytes of its activation."""
    problem = passes(len(layers), limit, 1, 1)
    operators = [
        replace(
            entry,
            options=(
                replace(
                    entry.options[0],
                    duration_ticks=dict.fromkeys(
                        entry.options[0].duration_ticks, layers[int(entry.name[1:])][0]
                    ),
                ),
            ),
        )
        for entry in problem.graph.operators
    ]
    values = [
        replace(v, bytes={"full": layers[int(v.name[1:])][1] if v.name[0] == "x" else 0})
        for v in problem.graph.values
    ]
    graph = replace(problem.graph, operators=tuple(operators), values=tuple(values))
    return with_memory(replace(problem, graph=graph), limit)


@pytest.mark.parametrize("unit", [1, 3_000_000_007])
def test_what_frees_most_for_each_tick_is_dropped_first(unit):
    """Of activations of 1, 4 and 2 bytes that take 1, 2 and 2 ticks the second is cheapest."""
    layers = [(1, unit), (2, 4 * unit), (2, 2 * unit), (1, unit)]
    problem = shares(layers, 7 * unit)
    start, _ = best_plan(with_memory(problem, None))
    chain = Chain(problem, start)
    simulator = Simulator(indexed(problem))
    assert simulator.run(chain.states.steps(chain.start)).peaks == (8 * unit,)
    relieved = Relief(chain.states, simulator).more(chain.start, (7 * unit,))
    assert [chain.states.view.names[o] for o in relieved.again] == ["f1"]
    assert simulator.run(chain.states.steps(relieved)).peaks == (7 * unit,)
    assert Relief(chain.states, simulator).more(relieved, (7 * unit,)) is None


@pytest.mark.parametrize("again", [True, False])
def test_what_a_run_again_reads_is_made_again_as_well_where_that_is_cheaper(again):
    """Not kept: it is larger than what would be dropped for it."""
    operators = [
        op("f0", 10, recomputable=True),
        op("f1", 10, recomputable=again),
        op("f2", 10, recomputable=True),
        op("b2", 10),
        op("b1", 10),
    ]
    values = [
        value("x0", "f0", "f1 b1", 1),
        value("wide", "f1", "f2", 9),
        value("saved", "f1", "b1", 0),
        value("x2", "f2", "b1", 8),
        value("y", "f2", "b2", 1),
        value("g", "b2", "b1", 12),
    ]
    problem = problem_of(operators, values, cluster("d0", memory=30))
    start, _ = best_plan(problem)
    chain, simulator = Chain(problem, start), Simulator(indexed(problem))
    assert simulator.run(chain.states.steps(chain.start)).peaks == (22,)
    drops = Relief(chain.states, simulator).drops(chain.start, 0)
    named = [(sorted(chain.states.view.names[o] for o in d.operators), *d[1:]) for d in drops]
    assert sorted(named) == ([(["f0"], 1, 10), (["f1", "f2"], 8, 20)] if again else [])


def test_what_lies_at_the_fullest_instant_is_within_the_peak():
    compared = 0
    for seed, problem in cases():
        states = States(indexed(problem), problem.graph.topological_order)
        simulator = Simulator(indexed(problem))
        start, _ = best_plan(problem)
        measure = simulator.run(states.steps(states.of_plan(start)))
        if measure is None:
            continue
        for device, peak in enumerate(measure.peaks):
            now = simulator.fullest(device)
            at = simulator.lying(device, now)
            assert sum(at.values()) <= peak, seed
            compared += bool(at)
    assert compared > 30


def test_the_cheap_half_of_the_layers_is_found_in_a_few_proposals():
    """Drawn one by one or all at once they are not: 12 of 48 layers are cheap and enough."""
    layers = [(1 + 9 * (i % 4 > 0), 1 + i % 2) for i in range(48)]
    free = shares(layers, 10**6)
    start, _ = best_plan(free)
    peak = sum(size for _, size in layers)
    problem = shares(layers, peak * 9 // 10)
    found = Chain(problem, start).run(8, Budget(60.0))
    verdict = verify(problem, found.plan)
    assert verdict.ok
    assert start.value < verdict.value == found.measure.ticks <= start.value + 12
