"""Plans as starts: random valid plans, and the best ones, satisfy every row."""

from __future__ import annotations

import pytest

from formulations.operator_schedule.symmetry import canonical_devices
from milp_plan.api import Guide, Objective, interchangeable_devices
from milp_plan.check import verify
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.support.anything import random_case
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan
from tests.support.seeds import few

from .hand import equal_memory, op, problem, value
from .solving import formulation, optimise


@pytest.mark.parametrize("first", few(range(0, 100, 5), 1))
def test_random_plans_satisfy_the_model(first: int) -> None:
    form = formulation("operator_schedule")
    options = form.Options()
    for seed in range(first, first + 5):
        case, plan = random_problem_with_plan(seed)
        known = verify(case, plan).value
        assert known is not None
        for cutoff in (None, known):
            guide = Guide(cutoff if case.objective is Objective.MAKESPAN else None)
            source = form.build(case, options, guide)
            values = form.encode(case, options, source, plan)
            assert values is not None
            model = compile_pyomo(source)
            vector = model.vector(values)
            amount, where = model.violation(vector)
            assert amount <= 1e-6, f"{case.name}: {where} by {amount}"
            scale = form.scale(case, options, guide)
            claim = model.cost @ vector
            assert known / scale.unit - 1e-6 <= claim <= known / scale.unit + scale.slack + 1e-6


@pytest.mark.parametrize("first", few(range(0, 300, 30), 1))
def test_best_plans_satisfy_the_model_under_every_objective_and_law(first: int) -> None:
    form = formulation("operator_schedule")
    options = form.Options()
    seen: set[tuple[str, str]] = set()
    for seed in range(first, first + 30):
        case = random_case(seed)
        found = None if case.serial is not None else brute_force(case)
        if found is None:
            continue
        source = form.build(case, options, Guide())
        values = form.encode(case, options, source, found[1])
        assert values is not None
        model = compile_pyomo(source)
        vector = model.vector(values)
        amount, where = model.violation(vector)
        assert amount <= 1e-6, f"{case.name}: {where} by {amount}"
        scale = form.scale(case, options, Guide())
        claim = model.cost @ vector
        least, most = found[0] / scale.unit, found[0] / scale.unit + scale.slack
        assert least * (1 - 1e-9) - 1e-6 <= claim <= most * (1 + 1e-9) + 1e-6, case.name
        seen.add((case.objective, case.memory_law))
    assert len(seen) >= 6


def test_loads_of_random_plans_are_exact() -> None:
    form = formulation("resource_load")
    options = form.Options()
    for seed in range(60):
        case, plan = random_problem_with_plan(seed, objective=Objective.BOTTLENECK)
        source = form.build(case, options, Guide())
        model = compile_pyomo(source)
        values = form.encode(case, options, source, plan)
        assert values is not None
        vector = model.vector(values)
        assert model.violation(vector)[0] <= 1e-9
        known = verify(case, plan).value
        assert model.cost @ vector * form.scale(case, options, Guide()).unit == known
        again = form.decode(case, options, Guide(), model.name_values(vector))
        assert verify(case, again).value == known
        assert {run.placement for run in again.runs} == {run.placement for run in plan.runs}
        sent = {(t.value, t.source, t.target, t.layout) for t in plan.transfers}
        free = case.cluster.communication == "delay"
        assert free or {(t.value, t.source, t.target, t.layout) for t in again.transfers} == sent


def test_plans_beyond_the_cutoff_are_no_starts() -> None:
    for name, goal in (
        ("operator_schedule", Objective.MAKESPAN),
        ("resource_load", Objective.BOTTLENECK),
    ):
        form = formulation(name)
        options = form.Options()
        case, plan = random_problem_with_plan(3, objective=goal)
        known = verify(case, plan).value
        assert known is not None
        source = form.build(case, options, Guide(cutoff=known - 1))
        assert form.encode(case, options, source, plan) is None


def test_equal_devices_are_renamed_in_order_of_use() -> None:
    renamed = 0
    for seed in range(80):
        drawn, plan = random_problem_with_plan(seed)
        case = equal_memory(drawn)
        if not interchangeable_devices(case):
            continue
        before = verify(case, plan)
        order = case.graph.topological_order
        found = canonical_devices(case, plan, order)
        after = verify(case, found)
        assert before.ok
        assert after.ok, f"{case.name}: {after.violations}"
        assert after.value == before.value
        assert canonical_devices(case, found, order) == found
        renamed += found != plan
    assert renamed >= 8


def test_a_start_is_rearranged_to_suit_the_symmetry_rows() -> None:
    pair = problem([op("x", 3), op("y", 2)], [value("v", "x", "y")])
    form = formulation("operator_schedule")
    options = form.Options()
    best = optimise("operator_schedule", pair).plan
    assert best.run("x").devices == ("a",), "the first device is used first"
    swapped = type(best)(
        best.problem,
        tuple(
            type(run)(run.operator, run.option, ("b",), run.start_ticks, run.stop_ticks)
            for run in best.runs
        ),
    )
    assert verify(pair, swapped).ok
    source = form.build(pair, options, Guide())
    values = form.encode(pair, options, source, swapped)
    assert values is not None
    assert values["place"]["x", "run on a"] == 1
    model = compile_pyomo(source)
    assert model.violation(model.vector(values))[0] <= 1e-9
