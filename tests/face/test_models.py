"""``build_model`` and ``solve_model``: a model is inspected, changed, solved and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyomo.environ as pyo
import pytest

import milp_plan as mp
from milp_plan.cli.templates import source
from milp_plan.core import FormulationError
from milp_plan.kinds.schedule.model.planted import planted
from milp_plan.kinds.schedule.model.schedule import ScheduleData
from tests.cli.cases import INSTANCES
from tests.support.brute import brute_force

DIAMOND = INSTANCES / "heterogeneous-greedy-trap.json"


@pytest.mark.parametrize("name", ["operator_schedule", "flexible_job_shop"])
def test_a_model_without_a_change_has_the_optimum(name: str) -> None:
    problem = mp.read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    model = mp.build_model(problem, name)
    assert isinstance(model, pyo.ConcreteModel)
    outcome = mp.solve_model(problem, model, name, time_limit=60)
    assert outcome.value == 59704
    assert outcome.bound is None


def test_a_constraint_changes_the_plan_and_proves_nothing() -> None:
    problem = mp.read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    model = mp.build_model(problem, "operator_schedule")
    there = [model.place[o, p] for o, p in model.place if p.endswith("H100.1")]
    model.empty = pyo.Constraint(expr=sum(there) == 0)
    outcome = mp.solve_model(problem, model, "operator_schedule", time_limit=60)
    assert {run.devices for run in outcome.plan.runs} == {("H100.0",)}
    assert outcome.value > 59704
    assert outcome.bound is None
    assert not outcome.proved
    assert mp.check(problem, outcome.plan).ok


def test_a_model_without_a_solution_is_no_proof() -> None:
    problem = mp.read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    model = mp.build_model(problem, "operator_schedule")
    model.nowhere = pyo.Constraint(expr=sum(model.place.values()) == 0)
    outcome = mp.solve_model(problem, model, "operator_schedule", time_limit=60)
    assert outcome.plan is None
    assert not outcome.proved


def test_a_formulation_that_is_not_for_a_problem_says_so() -> None:
    problem = mp.read(INSTANCES / "gpt-tiny-training-2xA100.json")
    with pytest.raises(FormulationError, match="no memory rows"):
        mp.build_model(problem, "flexible_job_shop")
    with pytest.raises(FormulationError, match="no_such"):
        mp.build_model(problem, "no_such")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("formulation") / "mine.py"
    path.write_text(source("mine"), encoding="utf-8")
    return path


def test_the_template_is_short() -> None:
    assert len(source("mine").splitlines()) <= 60


def test_plans_of_the_template_pass_and_are_no_better_than_the_best(template: Path) -> None:
    tried = 0
    for seed in range(16):
        problem = planted(seed, mp.Objective.MAKESPAN)
        free: dict[str, int | None] = dict.fromkeys(problem.cluster.device_names)
        problem = replace(problem, cluster=problem.cluster.with_memory(free))
        try:
            model = mp.build_model(problem, str(template))
        except FormulationError:
            continue  # an operator runs on no single device
        outcome = mp.solve_model(problem, model, str(template), time_limit=30)
        best = brute_force(problem)
        assert best is not None
        assert outcome.value >= best[0]
        assert not outcome.defects
        tried += 1
    assert tried > 5


def test_data_of_a_model_counts_in_few_units() -> None:
    data = ScheduleData(mp.read(DIAMOND))
    assert data.horizon <= 100_000
    assert all(0 <= time <= data.horizon for time in (*data.time.values(), *data.delay.values()))
