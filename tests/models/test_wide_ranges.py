"""Models of problems whose magnitudes are spread like real ones: nothing false, whatever comes.

The oracle is enumeration. At these magnitudes HiGHS once called models infeasible that held a plan
(transfers of 10^9 ticks beside a horizon of 10^3; devices of three bytes beside values of 10^9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from milp_plan.api import Guide, Objective, PlanningProblem
from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.run.model import _round_up
from tests.support.brute import brute_force
from tests.support.seeds import few
from tests.support.spread import spread_problem, spread_problem_with_plan

from .solving import formulation, limits_for, solve_here


def chunks(first: int, last: int, size: int) -> list[range]:
    return [range(start, min(start + size, last)) for start in range(first, last, size)]


def bounded(problem: PlanningProblem, cutoff: int | None) -> tuple[Stop, int | None, int | None]:
    """Return how a solve up to a cutoff ends, the value of its plan, and the bound it proves."""
    form = formulation("operator_schedule")
    options, guide = form.Options(), Guide(cutoff)
    model = compile_pyomo(form.build(problem, options, guide))
    scale = form.scale(problem, options, guide)
    answer = solve_here(model, limits_for(scale))
    if answer.stop is Stop.INFEASIBLE:  # presolve loses plans: asked again, as a run does
        answer = solve_here(model, replace(limits_for(scale), careful=True))
    value = None
    if answer.vector is not None:
        plan = form.decode(problem, options, guide, model.name_values(answer.vector))
        value = verify(problem, plan).value
    return answer.stop, value, _round_up(answer.bound, scale)


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.PEAK_MEMORY])
@pytest.mark.parametrize(
    "seeds", few(chunks(0, 1000, 4), 2), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}"
)
def test_nothing_false_at_and_below_the_optimum(seeds: Sequence[int], objective: Objective) -> None:
    for seed in seeds:
        problem = spread_problem(seed, max_operators=4, objective=objective)
        known = brute_force(problem)
        assert known is not None
        best = known[0]
        for cutoff in (None, best):
            stop, value, bound = bounded(problem, cutoff)
            assert stop is Stop.PROVED, f"seed {seed}, cutoff {cutoff}"
            assert value is not None, f"seed {seed}, cutoff {cutoff}"
            assert value >= best
            assert bound is not None
            assert bound <= best, f"seed {seed}, cutoff {cutoff}"
        stop, value, _ = bounded(problem, best - 1)  # tolerances may let the optimum itself pass
        assert stop is Stop.INFEASIBLE or (value or best) >= best, f"seed {seed}"


@pytest.mark.parametrize(
    ("objective", "most", "seed"),
    [(Objective.MAKESPAN, 4, 6)]
    + [(Objective.PEAK_MEMORY, 5, seed) for seed in (71, 81, 119, 125, 788)],
)
def test_plans_that_a_solver_once_lost(objective: Objective, most: int, seed: int) -> None:
    problem = spread_problem(seed, max_operators=most, objective=objective)
    known = brute_force(problem)
    assert known is not None
    for cutoff in (None, known[0]):
        stop, value, bound = bounded(problem, cutoff)
        assert stop is Stop.PROVED
        assert value is not None
        assert value <= known[0] * (1 + 1e-6)  # a unit of the model is many bytes
        assert bound is not None
        assert bound <= known[0]


@pytest.mark.parametrize("seed", few(range(40), 6))
def test_peak_memory_counts_steps_and_its_starts_are_complete(seed: int) -> None:
    """Times have no part in it: any valid plan gives a start, whatever overlaps in it."""
    problem, plan = spread_problem_with_plan(seed, objective=Objective.PEAK_MEMORY)
    known = brute_force(problem)
    assert known is not None
    form = formulation("operator_schedule")
    for start in (plan, known[1]):
        value = verify(problem, start).value
        source = form.build(problem, form.Options(), Guide(value))
        values = form.encode(problem, form.Options(), source, start)
        assert values is not None
        model = compile_pyomo(source)
        vector = model.vector(values)
        assert model.violation(vector)[0] <= 1e-6
        peak = float(model.cost @ vector)
        assert round(peak * source.builder.memory_units.unit) == value


def test_amounts_count_within_their_own_memory() -> None:
    """A device of three bytes beside 4 * 10^9: no coefficient is more than twice its row's side."""
    problem = spread_problem(125, objective=Objective.PEAK_MEMORY)
    limits = [device.memory_bytes for device in problem.cluster.devices]
    assert 3 in limits
    assert max(limit or 0 for limit in limits) > 4 * 10**9
    form = formulation("operator_schedule")
    known = brute_force(problem)
    assert known is not None
    model = compile_pyomo(form.build(problem, form.Options(), Guide(known[0])))
    checked = 0
    for row, family in enumerate(model.row_families):
        side = model.row_upper[row]
        if family == "capacity" and side > 0:
            checked += 1
            assert np.abs(model.matrix[[row]].data).max() <= 2 * side
    assert checked > 10
