"""The formulation of offload lanes: enumeration, options, neighbourhoods, the chain table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.api import Guide, Neighbourhood
from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import FormulationError, Objective
from milp_plan.kinds.pipeline.holds import read_offload
from milp_plan.kinds.pipeline.offload import Lanes, chain_problem, offload_problem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.precedence import Precedence
from milp_plan.kinds.pipeline.residence import residence_bound
from milp_plan.kinds.pipeline.template import uniform
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.models.offload_cases import PAYS, chain, pipeline, serial
from tests.models.solving import formulation, limits_for, optimise, solve_here
from tests.support.brute import brute_force


@pytest.mark.parametrize("seed", range(12))
def test_enumeration_agrees(seed: int) -> None:
    problem = chain(seed) if seed % 3 == 0 else pipeline(100 + seed)
    found = brute_force(problem)
    assert found is not None
    solution = optimise("pipeline_offload", problem)
    assert solution.verdict.ok, solution.verdict.violations
    assert solution.verdict.value == found[0]
    shop = read_offload(problem)
    assert not isinstance(shop, str)
    assert 0 < residence_bound(shop, Precedence(shop, [])) <= found[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(120))
def test_enumeration_agrees_on_more(seed: int) -> None:
    problem = chain(1000 + seed) if seed % 4 == 0 else pipeline(1000 + seed)
    found = brute_force(problem)
    assert found is not None
    solution = optimise("pipeline_offload", problem)
    assert solution.verdict.value == found[0]
    shop = read_offload(problem)
    assert not isinstance(shop, str)
    assert residence_bound(shop, Precedence(shop, [])) <= found[0]


@pytest.mark.parametrize("seed", PAYS[:2])
def test_without_journeys_it_takes_longer(seed: int) -> None:
    problem = pipeline(seed)
    free = optimise("pipeline_offload", problem)
    stay = optimise("pipeline_offload", problem, offload=False)
    assert free.verdict.ok
    assert stay.verdict.ok
    assert free.verdict.value is not None
    assert stay.verdict.value is not None
    assert free.verdict.value < stay.verdict.value
    assert any(run.devices[0].startswith("host-") for run in free.plan.runs)
    assert not any(run.devices[0].startswith("host-") for run in stay.plan.runs)
    assert optimise("pipeline_offload", problem, symmetry=False).verdict.value == free.verdict.value
    in_order = optimise("pipeline_offload", problem, in_order=True).verdict.value
    assert in_order is not None
    assert in_order >= free.verdict.value


def test_span_counts_from_the_first_start() -> None:
    problem = pipeline(27, Objective.SPAN)
    solution = optimise("pipeline_offload", problem)
    makespan = optimise("pipeline_offload", pipeline(27))
    assert solution.verdict.ok
    assert solution.verdict.value is not None
    assert solution.verdict.value <= makespan.verdict.components["span"]


def test_a_given_order_leaves_only_the_journeys() -> None:
    """A plan that needs more memory than there is still gives its order."""
    template, activation = uniform(1, 2)
    roomy = offload_problem("roomy", template, ((0,),), Lanes(1, 1))
    tight = offload_problem("tight", template, ((0,),), Lanes(1, 1), memory_bytes=activation)
    form, names = formulation("pipeline_offload"), ["F0@0", "F0@1", "B0@1", "W0@1", "B0@0", "W0@0"]
    shop = read_offload(roomy)
    assert not isinstance(shop, str)
    order = shop.plan({name: number for number, name in enumerate(names)}, {})
    assert verify(roomy, order).ok
    assert not verify(tight, replace(order, problem="tight", fingerprint=None)).ok
    free = frozenset({"O0@0", "O0@1"})
    guide = Guide(neighbourhood=Neighbourhood(order, free))
    solution = optimise("pipeline_offload", tight, guide)
    assert solution.verdict.ok, solution.verdict.violations
    assert solution.verdict.value == 8  # out during [1, 2), back during [5, 6)
    start = {run.operator: run.start_ns for run in solution.plan.runs}
    assert sorted(names, key=lambda n: start[n] or 0) == names
    stuck = Guide(neighbourhood=Neighbourhood(order, frozenset()))
    model = compile_pyomo(form.build(tight, form.Options(), stuck))
    scale = form.scale(tight, form.Options(), stuck)
    assert solve_here(model, limits_for(scale)).stop is Stop.INFEASIBLE


def test_starts_that_are_not_in_the_model() -> None:
    problem = pipeline(27)
    form = formulation("pipeline_offload")
    best = optimise("pipeline_offload", problem).plan
    stay = form.build(problem, form.Options(offload=False), Guide())
    assert form.encode(problem, form.Options(offload=False), stay, best) is None
    short = form.build(problem, form.Options(), Guide(cutoff=best.stop_ns - 1))
    assert form.encode(problem, form.Options(), short, best) is None
    assert form.encode(problem, form.Options(offload=False), stay, serial(problem)) is not None


def test_nothing_fits_where_an_activation_does_not() -> None:
    problem = pipeline(27)
    none = problem.cluster.with_memory({"d0": 0, "d1": 0})
    form = formulation("pipeline_offload")
    empty = replace(problem, cluster=none)
    model = compile_pyomo(form.build(empty, form.Options(), Guide()))
    scale = form.scale(empty, form.Options(), Guide())
    assert solve_here(model, limits_for(scale)).stop is Stop.INFEASIBLE


def test_other_problems_are_refused() -> None:
    form = formulation("pipeline_offload")
    plain = replace(pipeline(27), objective=Objective.PEAK_MEMORY)
    assert "peak_memory" in str(form.unsupported(plain, form.Options()))
    limited = replace(pipeline(27), cluster=pipeline(27).cluster.with_memory({"host-d0": 4}))
    with pytest.raises(FormulationError, match="is no host"):
        form.build(limited, form.Options(), Guide())


def table_row(lane: int, memory: int) -> float:
    """Proved makespan of twelve layers, forward 1, backward 2; ``lane`` in half units."""
    problem = chain_problem("c", 12, (2, 4), Lanes(lane, lane), memory_bytes=memory, time_scale=2)
    solution = optimise("pipeline_offload", problem)
    assert solution.verdict.ok, solution.verdict.violations
    assert solution.verdict.value is not None
    return solution.verdict.value / 2


def test_chain_with_a_light_load() -> None:
    """12 layers, lane 1.5 and memory 7: no overhead."""
    assert table_row(3, 7) == 36


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lane", "memory", "makespan"), [(6, 8, 38), (6, 7, 41), (10, 8, 49), (10, 7, 59), (16, 7, 92)]
)
def test_chain_under_pressure(lane: int, memory: int, makespan: int) -> None:
    assert table_row(lane, memory) == makespan


def test_a_shorter_chain_against_enumeration() -> None:
    problem = chain_problem("short", 5, (1, 2), Lanes(3, 2), memory_bytes=4)
    found = brute_force(problem)
    assert found is not None
    assert optimise("pipeline_offload", problem).verdict.value == found[0]


def test_stages_share_memory_pressure() -> None:
    """Two stages, four micro-batches, one activation: offload shortens the step."""
    template, activation = uniform(2, 4)
    problem = offload_problem(
        "F1 small", template, place("line", 2), Lanes(1, 1), memory_bytes=activation
    )
    stay = optimise("pipeline_offload", problem, offload=False)
    assert stay.verdict.value == 20
    start = stay.plan
    form = formulation("pipeline_offload")
    model = form.build(problem, form.Options(), Guide(cutoff=20))
    values = form.encode(problem, form.Options(), model, start)
    assert values is not None
    compiled = compile_pyomo(model)
    assert compiled.violation(compiled.vector(values))[0] < 1e-6
