"""What no plan below a cutoff can use is in no model: placements, pairs of them, transfers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from milp_plan.api import Guide, Objective, Plan, PlanningProblem, ScheduleSets
from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import CommunicationModel, DeviceClass, Operator, Option
from milp_plan.io import native
from milp_plan.io.plan_file import plan_from_json
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.support.brute import brute_force
from tests.support.problems import random_problem
from tests.support.seeds import few
from tests.support.spread import spread_problem

from .hand import op, problem, value
from .solving import formulation, limits_for, solve_here

DATA = Path(__file__).parent / "data"


def gang_and_plain() -> tuple[PlanningProblem, Plan]:
    """Return a problem once proved at 2945, and its plan of 2365, the critical path."""
    drawn = native.from_json((DATA / "gang-and-plain.json").read_bytes())
    return drawn, plan_from_json((DATA / "gang-and-plain.plan.json").read_bytes())


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("cutoff", [2945, 3000, 2365])
def test_long_transfers_next_to_short_operators_prove_nothing_false(
    cutoff: int, symmetry: bool
) -> None:
    """HiGHS found no plan up to 2945 in a model that held transfers of 5 * 10^9 ticks."""
    drawn, plan = gang_and_plain()
    assert verify(drawn, plan).value == 2365
    form = formulation("operator_schedule")
    options, guide = form.Options(symmetry=symmetry), Guide(cutoff)
    model = compile_pyomo(form.build(drawn, options, guide))
    answer = solve_here(model, limits_for(form.scale(drawn, options, guide)))
    assert (answer.stop, answer.objective, answer.bound) == (Stop.PROVED, 2365.0, 2365.0)


def test_below_its_optimum_nothing_is_left() -> None:
    drawn, _ = gang_and_plain()
    form = formulation("operator_schedule")
    options, guide = form.Options(), Guide(2364)
    source = form.build(drawn, options, guide)
    assert form.encode(drawn, options, source, gang_and_plain()[1]) is None
    assert solve_here(
        compile_pyomo(source), limits_for(form.scale(drawn, options, guide))
    ).stop is (Stop.INFEASIBLE)
    assert ScheduleSets(drawn, within=2364).empty


def fork() -> PlanningProblem:
    """Return x (3 ticks, or 9 in a worse option) -> y (4), with 2 ticks between devices."""
    slow = Operator("x", (Option("run", {"G": 3}), Option("slow", {"G": 9})))
    return problem([slow, op("y", 4)], [value("v", "x", "y")], model=CommunicationModel.DELAY)


@pytest.mark.parametrize(
    ("within", "placements", "pairs", "transfers"),
    [
        (15, 4, 8, 1),
        (14, 4, 6, 1),  # the slow option can stay at home only
        (12, 2, 4, 1),
        (8, 2, 2, 0),  # nothing may travel
    ],
)
def test_what_goes_goes_by_its_length(
    within: int, placements: int, pairs: int, transfers: int
) -> None:
    sets = ScheduleSets(fork(), within=within)
    assert not sets.empty
    assert len(sets.placements["x"]) == placements
    assert len(sets.combinations["x", "y"]) == pairs
    assert len(sets.transfers) == transfers
    assert ScheduleSets(fork(), within=6).empty


def test_members_of_a_group_keep_the_sites_that_all_keep() -> None:
    """x lasts 3 ticks on a and 9 on b, so that within 8 ticks y has to leave b as well."""
    drawn = problem([op("x", 3, group="g"), op("y", 4, group="g"), op("z", 4)], [])
    operators = tuple(
        replace(one, options=(Option("run", {"G": one.options[0].duration_ticks["G"], "H": slow}),))
        for one, slow in zip(drawn.graph.operators, (9, 4, 4), strict=True)
    )
    here, there = drawn.cluster.devices
    cluster = replace(
        drawn.cluster,
        device_classes=(DeviceClass("G", None), DeviceClass("H", None)),
        devices=(here, replace(there, device_class="H")),
    )
    drawn = replace(drawn, graph=replace(drawn.graph, operators=operators), cluster=cluster)
    sets = ScheduleSets(drawn, within=8)
    assert {name: {p.devices for p in places} for name, places in sets.placements.items()} == {
        "x": {("a",)},
        "y": {("a",)},
        "z": {("a",), ("b",)},
    }
    assert ScheduleSets(drawn, within=3).empty


@pytest.mark.parametrize("draw", [random_problem, spread_problem])
@pytest.mark.parametrize("seed", few(range(300), 6))
def test_optimal_plans_lose_nothing(draw: Callable[..., PlanningProblem], seed: int) -> None:
    """At the optimum itself everything an optimal plan uses is left, and its start is complete."""
    drawn = draw(seed, max_operators=4, objective=Objective.MAKESPAN)
    found = brute_force(drawn)
    assert found is not None
    best, plan = found
    form = formulation("operator_schedule")
    options, guide = form.Options(), Guide(best)
    source = form.build(drawn, options, guide)
    values = form.encode(drawn, options, source, plan)
    assert values is not None
    model = compile_pyomo(source)
    assert model.violation(model.vector(values))[0] <= 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_no_number_of_a_model_is_longer_than_its_horizon(seed: int) -> None:
    drawn = spread_problem(seed, objective=Objective.MAKESPAN)
    found = brute_force(drawn)
    assert found is not None
    form = formulation("operator_schedule")
    guide = Guide(found[0], memory=False)
    source = form.build(drawn, form.Options(), guide)
    model = compile_pyomo(source)
    horizon = source.builder.horizon / source.builder.unit
    assert np.abs(model.matrix.data).max() <= max(2.0, 2 * horizon), "a length and a big-M at most"
