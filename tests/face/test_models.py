"""``build_model`` and ``solve_model``: a model is inspected, changed, solved and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyomo.environ as pyo
import pytest

import milp_plan as mp
from milp_plan.check import verify
from milp_plan.cli.templates import source
from milp_plan.core import FormulationError, InputError
from milp_plan.kinds.schedule.model.planted import planted
from milp_plan.kinds.schedule.model.schedule import ScheduleData
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import load
from tests.cli.cases import INSTANCES
from tests.models.hand import op, problem, value
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
    stated = (
        "the solver proves of operator_schedule that its model has no solution; it may leave out "
        "plans, so that says nothing about the problem"
    )
    assert outcome.unproved_reason == stated
    assert f"that there is no plan is not proved: {stated}" in str(outcome)


def test_a_constraint_on_devices_counts_every_operator() -> None:
    """The example summed ``place``, which has one operator per colocation group."""
    problem = mp.read(INSTANCES / "gpt-tiny-training-2xA100.json")
    model = mp.build_model(problem, "operator_schedule")
    operators, devices = problem.graph.topological_order, problem.cluster.device_names
    assert {*model.on} == {(o, d) for o in operators for d in devices}
    model.at_most_nine = pyo.Constraint(
        devices, rule=lambda m, d: sum(m.on[o, d] for o in operators) <= 9
    )
    outcome = mp.solve_model(problem, model, "operator_schedule", time_limit=60)
    counts = [sum(run.devices == (d,) for run in outcome.plan.runs) for d in devices]
    assert sorted(counts) == [8, 9]
    assert outcome.record["model"]["value"] == outcome.value


def test_on_says_where_operators_of_process_groups_run() -> None:
    problem = mp.read(INSTANCES / "gang-beats-single.json")
    model = mp.build_model(problem, "operator_schedule")
    spots = [(o, d) for o in problem.graph.topological_order for d in problem.cluster.device_names]
    model.everywhere = pyo.Constraint(spots, rule=lambda m, *spot: m.on[spot] == 1)
    outcome = mp.solve_model(problem, model, "operator_schedule", time_limit=60)
    assert all(len(run.devices) == 2 for run in outcome.plan.runs)


def test_a_model_of_something_else_is_refused() -> None:
    problem = mp.read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    other = mp.read(INSTANCES / "gang-beats-single.json")
    model = mp.build_model(problem, "operator_schedule")
    with pytest.raises(InputError, match="a model of problem another problem"):
        mp.solve_model(other, model, "operator_schedule")
    with pytest.raises(InputError, match="a model of formulation operator_schedule"):
        mp.solve_model(problem, model, "flexible_job_shop")
    with pytest.raises(InputError, match="a model of options"):
        mp.solve_model(problem, model, "operator_schedule", {"symmetry": False})


def test_names_that_do_not_exist_get_a_hint() -> None:
    problem = mp.read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    with pytest.raises(FormulationError, match="did you mean 'operator_schedule'"):
        mp.build_model(problem, "operator_shedule")
    with pytest.raises(FormulationError, match=r"'no_such\.py': there is no such file or folder"):
        mp.build_model(problem, "no_such.py")
    with pytest.raises(InputError, match="expected true or false"):
        mp.build_model(problem, "operator_schedule", {"symmetry": "maybe"})


def changed(folder: Path, old: str, new: str) -> str:
    """Write the template with a change; return its path."""
    text = source("mine")
    assert old in text
    path = folder / "mine.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return str(path)


def test_build_that_returns_nothing_is_refused(tmp_path: Path) -> None:
    problem = mp.read(DIAMOND)
    path = changed(tmp_path, "        return m\n", "")
    with pytest.raises(FormulationError, match="build returned a NoneType, expected a Pyomo"):
        mp.build_model(problem, path)
    outcome = mp.solve(problem, formulation=path, only=True, time_limit=60)
    assert outcome.defects == (
        "formulation 'mine' (mine.py): build returned a NoneType, expected a Pyomo model or a "
        "CompiledModel",
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("expr=m.makespan)", "expr=m.makespan, sense=pyo.maximize)", "'goal' maximises"),
        ("m.goal =", "m.two = pyo.Objective(expr=0); m.goal =", "found 2 active objectives"),
    ],
)
def test_objectives_that_no_solver_takes_are_distinguished(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    problem, path = mp.read(DIAMOND), changed(tmp_path, old, new)
    outcome = mp.solve_model(problem, mp.build_model(problem, path), path, time_limit=30)
    (defect,) = outcome.defects
    assert words in defect


def test_a_model_without_on_says_which_variables_it_has(tmp_path: Path) -> None:
    problem, path = mp.read(DIAMOND), changed(tmp_path, "m.on", "m.assigned")
    outcome = mp.solve_model(problem, mp.build_model(problem, path), path, time_limit=30)
    (defect,) = outcome.defects
    assert "the model has no variable `on`; it has assigned, before, start, makespan" in defect


def test_a_variable_without_a_value_costs_the_start_not_in_silence(tmp_path: Path) -> None:
    problem, path = mp.read(DIAMOND), changed(tmp_path, "m.start", "m.begin")
    outcome = mp.solve_model(problem, mp.build_model(problem, path), path, time_limit=30)
    reason = "variables without a value: begin; those of a plan are on, start, before, makespan"
    assert outcome.record["startless"].startswith(reason)
    assert f"the model had no start: {reason}" in str(outcome)
    assert outcome.defects == ()


def test_a_formulation_that_was_not_asked_says_so() -> None:
    problem = mp.read(DIAMOND)
    outcome = mp.solve(problem, formulation="flexible_job_shop", time_limit=60)
    assert outcome.proved
    stated = "flexible_job_shop: not asked (proved before)"
    assert outcome.record["not_asked"] == stated
    assert stated in str(outcome)
    alone = mp.solve(problem, formulation="flexible_job_shop", only=True, time_limit=60)
    assert alone.record["not_asked"] is None


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


def test_starts_a_billionth_apart_lose_no_order(template: Path) -> None:
    """``k`` reads ``o``, which takes no time: the solver may start it a little before ``o``.

    That arc is dropped; with it went the order of ``k`` and ``c``, which overlapped.
    """
    form = load(template).formulation
    assert form is not None
    case = problem([op("o", 0), op("k", 2), op("c", 1)], [value("v", "o", "k")], devices="a")
    on = dict.fromkeys([("o", "a"), ("k", "a"), ("c", "a")], 1.0)
    values = {"on": on, "start": {"o": 1e-9, "k": 0.0, "c": 2.0}}
    plan = form.decode(case, form.Options(), Guide(), values)
    verdict = verify(case, plan)
    assert (verdict.violations, verdict.value) == ((), 3)


def test_data_of_a_model_counts_in_few_units() -> None:
    data = ScheduleData(mp.read(DIAMOND))
    assert data.horizon <= 100_000
    assert all(0 <= time <= data.horizon for time in (*data.time.values(), *data.delay.values()))
