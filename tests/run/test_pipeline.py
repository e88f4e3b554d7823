"""Both stages together: values, bounds, proofs, starts, refusals."""

import gc
from dataclasses import replace

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import (
    BackendUnavailableError,
    FormulationError,
    InputError,
    Objective,
    OperatorRun,
    Plan,
    UnsupportedProblemError,
)
from milp_plan.core.bound import Bound
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.strategies import coarse_series, schedule, small_schedule, two_stages
from milp_plan.models.registry import get
from milp_plan.models.validated import uncollected
from milp_plan.run import Settings, ledger, solve
from milp_plan.run.model import make_options
from milp_plan.run.outcome import headline
from milp_plan.zoo import TRAPS
from tests.check.cases import cluster, op, problem, value
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .cases import WEAK_BOUND, instance, quick, trap, weaken
from .formulations import write_wrapper


@pytest.fixture
def weak(monkeypatch):
    weaken(monkeypatch)


@pytest.mark.parametrize("entry", TRAPS, ids=lambda entry: entry.name)
def test_traps_are_solved_and_proved(entry):
    outcome = quick(entry.problem)
    assert outcome.value == outcome.bound == entry.optimum
    assert outcome.gap == 0
    assert outcome.proved
    assert outcome.stop is Stop.PROVED
    assert not outcome.disputed
    assert outcome.infeasible_reason is None
    assert outcome.value <= min(v for v in outcome.baselines.values() if v is not None)
    plan = outcome.plan
    assert verify(entry.problem, plan).ok
    assert (plan.value, plan.objective) == (entry.optimum, str(entry.problem.objective))
    assert plan.fingerprint == entry.problem.fingerprint
    assert plan.planner == outcome.planner != ""
    record = outcome.record
    assert (record["value"], record["bound"], record["gap"]) == (entry.optimum, entry.optimum, 0)
    assert (record["stop"], record["verdict"], record["proved"]) == ("proved", "ok", True)
    assert record["bound_name"] == outcome.bound_name


@pytest.mark.parametrize("name", ["colocated-update", "gang-beats-single", "disconnected-devices"])
def test_traps_that_bounds_prove_are_proved_by_the_model_alone(weak, name):
    entry = trap(name)
    outcome = quick(entry.problem)
    assert outcome.value == outcome.bound == entry.optimum
    assert outcome.bound_name == "operator_schedule"
    assert outcome.record["model"]["stop"] == "proved"
    assert not outcome.disputed


@pytest.mark.untraced
def test_random_problems_are_solved_to_the_optimum():
    """With peak memory, gangs, groups, tight memory and every communication model."""
    for seed in (3, 5, 8, 13, 21, 34):
        tiny = random_problem(seed, max_operators=5)
        outcome = quick(tiny)
        assert outcome.value == outcome.bound == brute_force(tiny)[0], seed
        assert outcome.proved


def test_progress_ends_with_what_was_found(weak):
    heard = []
    outcome = solve(trap("gang-beats-single").problem, Settings(time_limit_s=20), heard.append)
    phases = list(dict.fromkeys(point.phase for point in heard))
    assert phases[:3] == ["start", "first plan", "bounds"]
    assert "model" in phases
    values = [point.incumbent for point in heard if point.incumbent is not None]
    assert values == sorted(values, reverse=True)
    bounds = [point.bound for point in heard if point.bound is not None]
    assert bounds == sorted(bounds)
    assert (values[-1], bounds[-1]) == (outcome.value, outcome.bound)
    assert [point["phase"] for point in outcome.record["trace"]] == [p.phase for p in heard]


# -- infeasible ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["persistent-counted-once", "memory-forces-delay"])
def test_too_little_memory_is_proved_infeasible(name):
    outcome = quick(trap(name).problem.with_memory_scale(1, 4))
    assert outcome.stop is Stop.INFEASIBLE
    assert outcome.plan is None
    assert outcome.verdict is None
    assert (outcome.value, outcome.gap) == (None, None)
    assert not outcome.proved
    assert len(outcome.infeasible_reason.split()) >= 4
    record = outcome.record
    assert (record["stop"], record["verdict"]) == ("infeasible", "no plan")
    assert record["infeasible_because"] == outcome.infeasible_reason
    assert record["baselines"] == {}
    assert record["best_baseline"] is None


def test_the_solver_proves_infeasible_what_no_bound_does(weak, monkeypatch):
    monkeypatch.setattr(catalogue, "infeasibility", lambda *_: None)
    outcome = quick(trap("persistent-counted-once").problem.with_memory_scale(1, 2))
    assert outcome.stop is Stop.INFEASIBLE
    assert outcome.plan is None
    assert outcome.infeasible_reason == ("operator_schedule has no solution: proved by the solver")
    assert outcome.record["model"]["stop"] == "infeasible"


def test_a_restriction_without_solution_proves_nothing(weak, monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "infeasibility", lambda *_: None)
    path = write_wrapper(tmp_path, exact=False)
    outcome = quick(
        trap("persistent-counted-once").problem.with_memory_scale(1, 2), formulation=path
    )
    assert outcome.record["model"]["stop"] == "infeasible"
    assert outcome.infeasible_reason is None
    assert outcome.stop is not Stop.INFEASIBLE


# -- start ---------------------------------------------------------------------------------------


def chain_of_two():
    """Two operators of 10 ticks on one of two devices: 20 ticks, whatever the planner."""
    return problem("a b", [value("x", "a", "b")])


def slow_start(**changes):
    """A valid plan of it with a pause."""
    runs = (OperatorRun("a", "o", ("d0",), 0, 10), OperatorRun("b", "o", ("d0",), 15, 25))
    return replace(Plan("p", runs), **changes)


def test_a_start_is_the_first_incumbent():
    heard = []
    settings = Settings(time_limit_s=20, start=slow_start())
    outcome = solve(chain_of_two(), settings, heard.append)
    known = [point for point in heard if point.incumbent is not None]
    assert (known[0].phase, known[0].incumbent, known[0].note) == ("start", 25, "start")
    assert outcome.value == 20


def test_the_best_start_wins(weak, monkeypatch):
    monkeypatch.setattr(two_stages, "best_plan", lambda *_, **__: (None, {"nobody": None}))
    runs = (OperatorRun("a", "o", ("d0",), 0, 10), OperatorRun("b", "o", ("d0",), 10, 20))
    start = slow_start(runs=runs, planner="by hand")
    outcome = quick(chain_of_two(), start=start, node_limit=1, rounds=0)
    assert outcome.value == 20
    assert outcome.planner == outcome.plan.planner == "by hand"
    assert outcome.record["model"]["start_accepted"] is True
    assert outcome.record["baseline_name"] is None


def test_a_start_that_breaks_a_law_is_timed_again():
    runs = (OperatorRun("a", "o", ("d0",), 0, 10), OperatorRun("b", "o", ("d0",), 5, 15))
    outcome = quick(chain_of_two(), start=slow_start(runs=runs))
    assert outcome.record["start"] == "times recomputed: durations are the same"
    assert outcome.value is not None
    assert outcome.value <= 20


# -- refusals ------------------------------------------------------------------------------------


def test_every_unknown_option_is_named():
    with pytest.raises(InputError) as caught:
        quick(chain_of_two(), options={"symmetri": False, "symmetry": False, "depth": 3})
    assert [finding.where for finding in caught.value.findings] == [
        "option 'symmetri' of operator_schedule",
        "option 'depth' of operator_schedule",
    ]
    assert caught.value.findings[0].remedy == "did you mean 'symmetry'?"


@pytest.mark.untraced
def test_options_reach_the_formulation(weak):
    plain, other = (
        quick(problem("a b c"), options={"symmetry": symmetry}) for symmetry in (True, False)
    )
    assert plain.value == other.value == 20
    assert plain.record["model_hash"] != other.record["model_hash"]
    assert other.record["settings"]["options"] == {"symmetry": False}
    found = get("operator_schedule")
    assert make_options(found, {"load_thresholds": 2}).load_thresholds == 2


def test_a_formulation_for_other_problems_is_refused():
    with pytest.raises(UnsupportedProblemError, match="p: resource_load does not apply: "):
        quick(chain_of_two(), formulation="resource_load")


def test_a_formulation_that_does_not_exist():
    with pytest.raises(FormulationError, match="'nothing': found no such name"):
        quick(chain_of_two(), formulation="nothing")


def test_a_formulation_may_hand_over_a_matrix(weak, tmp_path):
    entry = trap("gang-beats-single")
    outcome = quick(entry.problem, formulation=write_wrapper(tmp_path, compiled=True))
    assert outcome.value == outcome.bound == entry.optimum
    assert outcome.record["model"]["start_accepted"] is None


def test_a_solver_that_is_not_there():
    """Even where a baseline proves the optimum and no model is ever solved."""
    with pytest.raises(BackendUnavailableError):
        quick(trap("gang-beats-single").problem, solver="no_such_solver")


def test_another_solver(weak):
    outcome = quick(trap("gang-beats-single").problem, solver="appsi_highs")
    assert outcome.value == outcome.bound == 110
    assert outcome.record["settings"]["solver"] == "appsi_highs"


@pytest.mark.parametrize("enabled", [True, False])
def test_building_leaves_garbage_collection_as_it_was(enabled):
    was_on = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if was_on else gc.disable()


# -- other objectives ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 6, 9])
def test_resource_load_on_static_bottleneck_problems(weak, seed):
    tiny = random_problem(seed, objective=Objective.BOTTLENECK)
    outcome = quick(tiny, formulation="resource_load")
    assert outcome.value == outcome.bound == brute_force(tiny)[0]
    assert outcome.bound_name == "resource_load"
    assert outcome.stop is Stop.PROVED
    assert "anneal" not in outcome.record["phases"]
    assert outcome.record["window_search"] is None


@pytest.mark.untraced
def test_peak_memory_through_every_stage(weak):
    tiny = replace(instance("two-tower-tiny-inference-2xH100"), objective=Objective.PEAK_MEMORY)
    outcome = quick(tiny, target=5, node_limit=3)
    assert verify(tiny, outcome.plan).value == outcome.value
    assert outcome.value <= outcome.record["best_baseline"]
    assert outcome.record["objective"] == "peak_memory"


# -- coarsening ----------------------------------------------------------------------------------


def test_the_bound_of_a_heuristically_coarsened_model_is_not_used(weak, monkeypatch):
    monkeypatch.setattr(schedule.ScheduleStrategy, "anneal", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "annealing_replaces_model", False)
    original = instance("two-tower-tiny-inference-2xH100")
    outcome = quick(original, target=3, node_limit=50, rounds=0)
    record = outcome.record
    assert record["coarsening_exact"] is False
    assert record["coarse_operators"] < record["operators"]
    assert record["model"]["stop"] == "proved"
    assert record["model"]["bound"] > WEAK_BOUND.value
    assert (outcome.bound, outcome.bound_name) == (WEAK_BOUND.value, WEAK_BOUND.name)
    assert not outcome.proved
    assert outcome.stop is Stop.NODE_LIMIT, "a proof for the small problem is none for this one"
    assert verify(original, outcome.plan).value == outcome.value


def test_bounds_of_the_original_problem_stay_with_coarse_plans():
    original = instance("two-tower-tiny-inference-2xH100")
    exact = quick(original)
    assert exact.proved
    coarse = quick(original, target=3, node_limit=50, rounds=0)
    assert coarse.bound <= exact.value <= coarse.value
    assert coarse.record["bounds"][coarse.bound_name] == coarse.bound


def test_the_bound_of_an_exactly_coarsened_model_is_used(weak):
    """The operator without length joins its reader; the optimum stays."""
    operators = [op("weights", 0), op("a"), op("b"), op("c", 30)]
    values = [value("x", "weights", "a"), value("y", "a", "b")]
    outcome = quick(problem(operators, values))
    record = outcome.record
    assert (record["operators"], record["coarse_operators"]) == (4, 3)
    assert record["coarsening_exact"] is True
    assert [row["exact"] for row in record["coarsening"]] == [True]
    assert outcome.value == outcome.bound == 30
    assert (outcome.bound_name, outcome.stop) == ("operator_schedule", Stop.PROVED)


def test_the_bound_of_a_restriction_is_not_used(weak, tmp_path):
    path = write_wrapper(tmp_path, exact=False)
    outcome = quick(trap("gang-beats-single").problem, formulation=path)
    assert outcome.value == 110
    assert outcome.record["model"]["stop"] == "proved"
    assert (outcome.bound, outcome.proved) == (WEAK_BOUND.value, False)
    assert outcome.stop is Stop.FINISHED
    assert outcome.record["window_search"]["improvements"] == 0


@pytest.mark.parametrize("plan", [None, Plan("two-tower-tiny-inference-2xH100", ())])
def test_without_heuristics_the_coarse_model_finds_a_plan(weak, monkeypatch, plan):
    """Heuristics that find nothing, or something that breaks a law."""
    monkeypatch.setattr(schedule.ScheduleStrategy, "find_first", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "plan_sharding_first", lambda _: None)
    for room in (two_stages, coarse_series):
        monkeypatch.setattr(room, "best_plan", lambda *_, **__: (None, {}))
    monkeypatch.setattr(schedule.ScheduleStrategy, "anneal", lambda _: None)
    monkeypatch.setattr(schedule.ScheduleStrategy, "annealing_replaces_model", False)
    run = ledger.Ledger
    offer = run.offer
    monkeypatch.setattr(
        run, "offer", lambda self, given, *rest, **how: offer(self, given or plan, *rest, **how)
    )
    original = instance("two-tower-tiny-inference-2xH100")
    outcome = quick(original, target=2, node_limit=50, rounds=0)
    assert outcome.record["coarsening_exact"] is False
    assert outcome.record["model"]["start_accepted"] is None
    assert outcome.planner == "operator_schedule + coarsening"
    assert verify(original, outcome.plan).value == outcome.value


# -- limits --------------------------------------------------------------------------------------


def test_a_gap_that_is_wide_enough_ends_the_run_early(weak):
    outcome = quick(trap("gang-beats-single").problem, gap=1.0)
    assert outcome.stop is Stop.PROVED
    assert not outcome.proved, "within the gap asked for, which is no proof of an optimum"
    assert outcome.record["model"] is None
    assert outcome.record["gap_asked"] == 1.0


def test_optimal_within_a_gap_is_not_called_proved_optimal(monkeypatch):
    """A plan of 29999580498500 was "proved" at the default gap where 29999560498804 is optimal."""
    problem = trap("gang-beats-single").problem
    short = Bound("short", 109, "a tick short of the optimum")
    monkeypatch.setattr(catalogue, "all_bounds", lambda *_: iter([short]))
    monkeypatch.setattr(small_schedule, "BEGIN_S", 0.0)  # it proves before there is a bound
    near = quick(problem, gap=0.01)
    assert (near.value, near.bound, near.proved) == (110, 109, False)
    assert near.stop is Stop.PROVED
    assert headline(near).endswith("makespan 110 ns, optimal within 1 %")
    equal = quick(problem)  # by default it goes on while time lasts
    assert (equal.value, equal.bound, equal.proved) == (110, 110, True)
    assert headline(equal).endswith("makespan 110 ns, proved optimal")


def test_almost_no_time_still_gives_an_answer():
    outcome = quick(trap("gang-beats-single").problem, time_limit_s=1e-6)
    assert outcome.value is None or outcome.value >= 110
    assert outcome.bound is None or outcome.bound <= 110


def test_memory_that_only_some_planners_respect(weak):
    """Tight memory, and a heuristic that finds nothing: the model still does."""
    small = cluster(memory=20)
    operators = [op(name) for name in "abcd"]
    values = [value(f"x{name}", name, "", 9, kept=False) for name in "abcd"]
    weights = [value("w", None, "a b", 10), value("v", None, "c d", 10)]
    tight = problem(operators, [*values, *weights], small)
    outcome = quick(tight)
    assert outcome.baselines == {"single_device": None} or outcome.value <= 40
    assert outcome.value == outcome.bound == brute_force(tight)[0]


def test_every_planner_is_a_baseline():
    outcome = quick(trap("shared-channel-contention").problem)
    assert list(outcome.baselines) == list(PLANNERS)
    assert outcome.record["baselines"] == outcome.baselines
    best = outcome.record["baseline_name"]
    assert outcome.baselines[best] == outcome.record["best_baseline"]
