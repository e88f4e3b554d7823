"""The staged run: never behind the plan in which everything stays, bounds never above values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import InputError, Objective, Plan, PlanningProblem, UnsupportedProblemError
from milp_plan.pipeline import Lanes, offload_problem, pipeline_problem, place, uniform
from milp_plan.run import Outcome, Progress, Settings, solve
from milp_plan.run.kinds.schedule import KIND
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import Solver
from milp_plan.run.model_answer import ModelAnswer
from milp_plan.run.record import outcome_of
from milp_plan.run.solving import choose
from milp_plan.run.ways.offload import OffloadWay

from .cases import quick


def small(cap: int, lane: int = 1, batches: int = 4) -> PlanningProblem:
    template, activation = uniform(2, batches, (2, 2, 2))
    return offload_problem(
        f"small-{cap}-{lane}-{batches}", template, place("line", 2), Lanes(lane, lane),
        memory_bytes=cap * activation,
    )  # fmt: skip


def plan_offload(
    problem: PlanningProblem, settings: Settings
) -> tuple[OffloadWay, Outcome[PlanningProblem, Plan]]:
    """A run, and the way that it went."""
    chosen = choose(KIND, problem, settings)
    assert chosen.way is OffloadWay
    books = Ledger(KIND, problem, settings, solver=chosen.solver)
    way = OffloadWay(books)
    way.go()
    return way, outcome_of(books)


@pytest.fixture(scope="module")
def heard() -> list[Progress]:
    """What the run of :func:`best` tells."""
    return []


@pytest.fixture(scope="module")
def best(heard: list[Progress]) -> Outcome[PlanningProblem, Plan]:
    """The smallest problem with pressure, solved."""
    outcome = solve(small(1, batches=2), Settings(time_limit_s=20), heard.append)
    assert outcome.proved
    return outcome


def travels(plan: Plan | None) -> bool:
    assert plan is not None
    return any(run.devices[0].startswith("host-") for run in plan.runs)


def answer(cap: int, seconds: float = 12.0) -> tuple[OffloadWay, Outcome[PlanningProblem, Plan]]:
    problem = small(cap)
    run, outcome = plan_offload(problem, Settings(time_limit_s=seconds))
    for plan, value in ((run.stay.plan, run.stay.value), (outcome.plan, outcome.value)):
        assert plan is not None
        verdict = verify(problem, plan)
        assert verdict.ok, verdict.violations
        assert verdict.value == value
    assert run.stay.value is not None
    assert outcome.value is not None
    assert outcome.bound is not None
    assert outcome.bound <= outcome.value <= run.stay.value
    assert run.stay.lower <= run.stay.value
    assert not travels(run.stay.plan)
    return run, outcome


@pytest.mark.untraced
def test_offload_shortens_the_step() -> None:
    run, outcome = answer(1)
    assert run.stay.value == 40
    assert run.stay.proved
    assert outcome.value is not None
    assert outcome.value < 40
    assert run.found_by != "stay"
    assert travels(outcome.plan)
    assert outcome.baselines["nothing travels"] == 40
    assert outcome.baselines["offload"] == run.rule
    assert not outcome.disputed


def test_without_pressure_nothing_travels() -> None:
    run, outcome = answer(4)
    assert run.stay.value == outcome.value == 26
    assert outcome.stop is Stop.PROVED
    assert run.found_by == "stay"


@pytest.mark.untraced
def test_known_plans_are_taken_where_they_fit() -> None:
    problem = small(1, 2)
    _, first = plan_offload(problem, Settings(time_limit_s=4))
    assert first.plan is not None
    roomy = replace(problem, name="roomy", cluster=problem.cluster.with_memory({"d0": None}))
    _, again = plan_offload(roomy, Settings(time_limit_s=2, hints=(first.plan,)))
    assert again.value is not None
    assert first.value is not None
    assert again.value <= first.value


@pytest.mark.untraced
def test_the_run_starts_from_the_plan_given(best: Outcome[PlanningProblem, Plan]) -> None:
    problem = best.problem
    seen: list[Progress] = []
    again = solve(problem, Settings(time_limit_s=3, start=best.plan), seen.append)
    assert again.value == best.value
    starts = [point for point in seen if point.phase == "start" and point.note]
    assert [point.incumbent for point in starts] == [best.value]
    assert starts[0] is next(point for point in seen if point.incumbent is not None)
    with pytest.raises(InputError, match="start plan"):
        quick(problem, start=Plan(problem.name, ()))


def test_progress_is_told(best: Outcome[PlanningProblem, Plan], heard: list[Progress]) -> None:
    phases = [point.phase for point in heard]
    assert phases[:2] == ["start", "bounds"]
    assert "stay" in phases
    values = [point.incumbent for point in heard if point.incumbent is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == best.value
    assert len(best.record["trace"]) == len(heard)


def test_a_disputed_answer_gives_no_bound_and_surfaces(
    best: Outcome[PlanningProblem, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every model claims a bound far above the optimum."""
    inner = Solver.run

    def lie(*given: object, **rest: object) -> ModelAnswer:
        told = inner(*given, **rest)  # type: ignore[arg-type]
        return replace(told, bound=10**6, disputed="the checker says otherwise")

    monkeypatch.setattr(Solver, "run", lie)
    outcome = quick(best.problem, time_limit_s=3.0, rounds=1)
    assert outcome.disputed
    assert outcome.record["verdict"] == "DISPUTED"
    assert outcome.record["disputed_because"] == "the checker says otherwise"
    assert outcome.bound is not None
    assert best.value is not None
    assert outcome.bound <= best.value
    assert outcome.value is None or outcome.value >= best.value


def test_the_residence_bound_counts_for_makespans_alone() -> None:
    problem = small(1, batches=2)
    run, _ = plan_offload(problem, Settings(time_limit_s=0.1))
    assert run.residence(travel=False) >= run.residence(travel=True) > 0
    spans = replace(problem, objective=Objective.SPAN)
    run, outcome = plan_offload(spans, Settings(time_limit_s=0.1))
    assert run.residence(travel=False) == 0
    assert not outcome.record["bounds"].get("residence")


def test_a_switch_keeps_everything_on_its_device(best: Outcome[PlanningProblem, Plan]) -> None:
    options = {"offload": False}
    outcome = quick(best.problem, formulation="pipeline_offload", options=options)
    assert not travels(outcome.plan)
    assert outcome.value is not None
    assert best.value is not None
    assert best.value < outcome.value
    assert outcome.bound is not None
    assert outcome.bound <= best.value, "a restriction proves nothing for the problem itself"


def test_an_interrupted_solve_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(1, batches=2)
    inner, calls = Solver.run, []

    def press(*given: object, **rest: object) -> ModelAnswer:
        told = inner(*given, **rest)  # type: ignore[arg-type]
        calls.append(told)
        return replace(told, report=replace(told.report, stop=Stop.INTERRUPTED))

    monkeypatch.setattr(Solver, "run", press)
    outcome = quick(problem)
    assert len(calls) == 1
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.plan is not None


def test_other_problems_are_refused() -> None:
    template, _ = uniform(2, 2)
    plain = pipeline_problem("plain", template, place("line", 2))
    with pytest.raises(UnsupportedProblemError, match="do not hold their channels"):
        solve(plain, Settings(formulation="pipeline_offload"))
