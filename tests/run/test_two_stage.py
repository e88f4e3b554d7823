"""Both stages by themselves: coarse problems, exact models, expansion, windows; no other search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.backends import TracePoint
from milp_plan.cli.templates import source
from milp_plan.core import InputError, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.coarse_problem import HEADS, CoarseProblemRow, coarse_problem_table
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.strategies import two_stages
from milp_plan.kinds.schedule.strategies.coarse_series import CoarseSeries, report_progress
from milp_plan.kinds.schedule.strategies.schedule import ScheduleStrategy
from milp_plan.models.registry import get, load
from milp_plan.run import Outcome, Settings, solve
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver
from milp_plan.run.solving import choose
from milp_plan.run.summary import warnings
from milp_plan.zoo import TRAPS
from tests.support.brute import brute_force
from tests.support.problems import random_problem
from tests.support.seeds import few

from .cases import instance, quick

NAMES = [
    *("gpt-tiny-training-2xA100", "gpt-tiny-inference-2xV100", "gpt-tiny-tensor-2xA100"),
    *("moe-tiny-inference-4xA100", "moe-tiny-meshed-2xH100", "gpt-mini-inference-4xV100"),
    *("two-tower-tiny-inference-1xH100+1xA100", "two-tower-tiny-inference-2xH100"),
]
SMALL = [trap.problem for trap in TRAPS if trap.problem.serial is None]
OTHER_SEARCHES = {"anneal", "enumerate", "construct", "first constructions", "bounds"}
"""Phases that both stages by themselves do not have."""


@pytest.mark.parametrize("seed", few(range(7000, 7040), 3))
def test_a_tiny_problem_ends_at_the_optimum(seed: int) -> None:
    problem = random_problem(seed)
    best = brute_force(problem)
    assert best is not None
    outcome = solve(problem, Settings(time_limit_s=60, two_stage=True))
    assert (outcome.value, outcome.bound, outcome.proved) == (best[0], best[0], True)
    assert outcome.bound_name == "operator_schedule"


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.name)
def test_every_trap_has_a_plan(problem: PlanningProblem) -> None:
    _has_a_plan(quick(problem, two_stage=True))


@pytest.mark.parametrize("name", few(NAMES, 1))
def test_every_small_instance_has_a_plan(name: str) -> None:
    _has_a_plan(quick(instance(name), two_stage=True, time_limit_s=10))


def _has_a_plan(outcome: Outcome[PlanningProblem, Plan]) -> None:
    assert outcome.verdict is not None
    assert outcome.verdict.ok
    assert outcome.record["coarse_stages"], "the model was not asked"
    assert not OTHER_SEARCHES & set(outcome.record["phases"])


def test_coarse_problems_have_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters, the model's size, its start, value and bound, and the plan before and after."""
    monkeypatch.setattr(ClauseLearning, "suits", staticmethod(lambda _problem: False))
    problem = instance("gpt-mini-inference-4xV100")
    limits = {"time_limit_s": 120, "node_limit": 50, "rounds": 2}  # a busy machine loads slowly
    outcome = quick(problem, two_stage=True, target=8, **limits)
    (row,) = outcome.record["coarse_stages"]
    assert 8 <= row["clusters"] < len(problem.graph.operators)
    assert row["columns"] > 0 < row["rows"]
    assert row["start_accepted"]
    assert row["bound"] <= row["model"] <= row["start"]
    assert row["windows"] <= row["model"]
    assert outcome.value <= row["after"] <= row["before"]
    assert outcome.bound is None, "a bound on a coarse problem is none on the problem"
    assert not OTHER_SEARCHES & set(outcome.record["phases"])
    assert set(outcome.baselines) <= set(PLANNERS) - {"iterated_greedy"}
    (reported,) = coarse_problem_table([row], kind_of(problem).measure(problem))
    assert len(reported) == len(HEADS)
    assert reported[1] == str(row["clusters"])


def test_a_target_that_is_exceeded_is_a_warning() -> None:
    """One sentence: how many operators were wanted, why there are more, and how many."""
    problem = instance("gpt-mini-inference-4xV100")
    for target, reasons in ((4, ["4 clusters are clearly slower: 6 are planned"]), (8, [])):
        outcome = quick(problem, two_stage=True, target=target, node_limit=50, rounds=2)
        assert [text for text in warnings(outcome) if "clusters" in text] == reasons
        excess = [row["excess"] for row in outcome.record["coarsening"] if row["excess"]]
        assert excess == [text.partition(":")[0] for text in reasons]


def test_a_stage_without_a_model_has_dashes() -> None:
    problem = instance("gpt-tiny-inference-2xV100")
    row = CoarseProblemRow("pairs", 200, start=5, before=None, after=7).as_row()
    (reported,) = coarse_problem_table([row], kind_of(problem).measure(problem))
    assert reported[2:4] == ["—", "—"]
    assert reported[-2:] == ["—", "7 ns"]


@pytest.mark.parametrize(("name", "asked"), [("operator_schedule", False), ("mine", True)])
def test_a_named_formulation_is_asked_though_ours_would_take_too_long_to_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, asked: bool
) -> None:
    """The estimate is for ours; the run ended without a word of the other one."""
    path = tmp_path / "mine.py"
    path.write_text(source("mine"), encoding="utf-8")
    problem = instance("two-tower-tiny-inference-2xH100")
    solver = FormulationSolver(load(path) if name == "mine" else get(name)).with_options({})
    ledger = Ledger(kind_of(problem), problem, Settings(), solver=solver)
    series, row = CoarseSeries(ledger), CoarseProblemRow("pairs", len(problem.graph.operators))
    monkeypatch.setattr(CoarseSeries, "builds_quickly", lambda *_given: False)
    series.solve_model(series.coarse_ledger(problem, ledger.budget), row, ledger.budget)
    assert ledger.asked is asked
    notes = [point.note for point in ledger.trace if point.phase == "model"]
    assert any("takes too long" in note for note in notes) is not asked


def test_progress_of_a_model_is_in_the_units_of_the_answer() -> None:
    """It was in ticks, with exponents: model 4.02843e+07."""
    problem = instance("unet-training-4xA100")
    ledger = Ledger(kind_of(problem), problem, Settings())
    report_progress(ledger, TracePoint(1.0, 40_284_300.2, None, 7))
    assert ledger.trace[-1].note == "model 40.2843 ms, its bound —, nodes 7"


def test_few_operators_are_planned_exactly() -> None:
    """The model of all of them, whose bound counts."""
    outcome = quick(instance("gpt-tiny-training-2xA100"), two_stage=True)
    (row,) = outcome.record["coarse_stages"]
    assert row["coarsening"] == "exact steps"
    assert (row["model"], row["bound"]) == (outcome.value, outcome.bound)
    assert outcome.proved


def test_sizes_grow_as_far_as_time_goes() -> None:
    """Up to the original; where time is short some are left out, but not the last."""
    problem = instance("unet-training-4xA100")
    ledger = Ledger(kind_of(problem), problem, Settings())
    series = CoarseSeries(ledger)
    all_sizes = series.sizes(Budget(1000))
    assert all_sizes == sorted(set(all_sizes))
    assert all_sizes[0] < 40 < all_sizes[-1] < len(problem.graph.operators)
    assert series.sizes(Budget(1000, nodes=5)) == all_sizes
    assert series.sizes(Budget(0.5)) == all_sizes[-1:]


def test_runs_again_and_hosts_have_a_plan() -> None:
    """Of the problem without: where that has none, list schedules are made to fit."""
    problem = instance("gpt-tiny-training-2xA100").with_recomputation()
    outcome = quick(problem, two_stage=True, node_limit=5, rounds=2)
    assert outcome.verdict is not None
    assert outcome.verdict.ok
    assert outcome.record["strategy"] == "memory"
    assert outcome.record["coarse_stages"]


def test_it_excludes_the_model_alone() -> None:
    with pytest.raises(InputError, match="two_stage: found True together with only"):
        replace(Settings(only=True), two_stage=True)


def test_a_run_may_leave_out_the_models_of_whole_problems() -> None:
    """For a control: no model of the original problem, nor of a coarse one."""
    problem = instance("gpt-tiny-training-2xA100")
    without = quick(problem, two_stage=False, node_limit=5, rounds=1, gap=0.9)
    assert "coarse_stages" not in without.record
    assert without.record["model"] is None
    assert without.verdict.ok


def test_a_default_run_of_many_operators_has_both_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment before the annealing, on record; the plan is never worse for it."""
    problem = instance("unet-training-4xA100")
    ledger = Ledger(kind_of(problem), problem, Settings(time_limit_s=60))
    way = ScheduleStrategy(ledger)
    solver = choose(kind_of(problem), problem, Settings()).solver
    ledger.set_solver(solver)
    way.two_stages.choose_coarsening()
    assert way.annealing_replaces_model
    way.find_baselines()
    before = ledger.value
    monkeypatch.setattr(two_stages, "BRIEF_SHARE", 0.3)
    way.two_stages.plan_briefly()
    rows = ledger.details["coarse_stages"]
    assert rows
    assert all(row["clusters"] < len(problem.graph.operators) for row in rows)
    assert rows[0]["before"] == before
    assert ledger.value <= before
    assert not ledger.defects
    ways = [step.name for step in way.compiled_steps()]
    assert ways.index("coarse problems") < ways.index("annealing")


def test_where_a_coarse_problem_takes_too_long_it_is_reported() -> None:
    problem = instance("unet-training-4xA100")
    ledger = Ledger(kind_of(problem), problem, Settings())
    CoarseSeries(ledger).run(Budget(0.001), patient=False)
    assert "coarse_stages" not in ledger.details
    assert "take too long" in ledger.trace[-1].note
