"""A proof counts once it is confirmed: by a refutation, in another way, within the time left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits, SolverReport, Stop
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.strategies import schedule
from milp_plan.lp import ranges
from milp_plan.run import Settings, solve
from milp_plan.run.confirmation import (
    NO_PLAN,
    NOTHING_BETTER,
    Confirmation,
)
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver
from milp_plan.run.model_answer import ModelAnswer
from tests.models.test_windows import gang_and_plain

from .cases import WEAK_BOUND, trap, weaken

Asked = list[tuple[int | None, bool]]


def answer(stop: Stop, value: int | None = None, bound: int | None = None) -> ModelAnswer:
    plan = None if value is None else object()
    return ModelAnswer(
        SolverReport(stop), plan, None, value, bound, "", "hash", 1, 1, "model", proves=True
    )


NOTHING = answer(Stop.INFEASIBLE)
TIRED = answer(Stop.TIME_LIMIT)


def confirm(
    first: ModelAnswer,
    *others: ModelAnswer,
    guide: Guide | None = None,
    time_s: float = 10.0,
    nodes: int | None = None,
) -> tuple[ModelAnswer, Asked]:
    """Return what is left of an answer, and the (cutoff, careful) that was asked."""
    asked: Asked = []
    queue = list(others)

    def ask(guide: Guide, limits: Limits) -> ModelAnswer:
        asked.append((guide.cutoff, limits.careful))
        assert limits.seed == limits.careful
        return queue.pop(0)

    limits = Limits(time_s=time_s, nodes=nodes)
    found = Confirmation(ask, guide or Guide(), limits, Budget(time_s)).confirm(first)
    assert not queue, "asked less often than expected"
    return found, asked


def test_a_plan_is_optimal_once_nothing_better_is_found_in_another_way() -> None:
    found, asked = confirm(answer(Stop.PROVED, 10, 10), NOTHING)
    assert asked == [(9, True)]
    assert (found.value, found.bound, found.doubt) == (10, 10, "")


def test_a_bound_short_of_the_plan_by_tolerances_takes_two_refutations() -> None:
    found, asked = confirm(answer(Stop.PROVED, 10, 8), NOTHING, NOTHING)
    assert asked == [(9, False), (9, True)]
    assert (found.bound, found.doubt) == (10, "")
    found, _ = confirm(answer(Stop.PROVED, 10, 8), answer(Stop.PROVED, 10, 9))
    assert (found.bound, found.doubt) == (8, NOTHING_BETTER)


def test_a_model_that_ignores_cutoffs_confirms_by_its_bound() -> None:
    found, _ = confirm(answer(Stop.PROVED, 10, 10), answer(Stop.PROVED, 10, 10))
    assert (found.bound, found.doubt) == (10, "")


def test_a_better_plan_replaces_a_false_proof_and_is_refuted_in_turn() -> None:
    better = answer(Stop.PROVED, 7, 7)
    found, asked = confirm(answer(Stop.PROVED, 10, 10), better, NOTHING, NOTHING)
    assert asked == [(9, True), (6, False), (6, True)]
    assert (found.value, found.bound, found.doubt) == (7, 7, "")
    found, _ = confirm(answer(Stop.PROVED, 10, 10), better, TIRED)
    assert (found.value, found.bound) == (7, None)
    assert found.doubt == "a second solve found a better plan"


def test_a_dispute_of_one_solve_alone_is_the_solver_s() -> None:
    disputed = replace(answer(Stop.PROVED, 10, 11), disputed="it lies")
    found, asked = confirm(disputed, answer(Stop.PROVED, 10, 10), NOTHING, NOTHING)
    assert asked == [(None, True), (9, False), (9, True)]
    assert (found.value, found.bound, found.disputed, found.doubt) == (10, 10, "", "")
    for second in (disputed, TIRED, answer(Stop.PROVED, 11, 11)):
        found, _ = confirm(disputed, second)
        assert found is disputed


def test_where_tolerances_hide_plans_nothing_is_infeasible() -> None:
    doubtful = replace(NOTHING, doubt="numbers too large")
    found, asked = confirm(doubtful, doubtful)
    assert asked == [(None, True)]
    assert (found.report.stop, found.doubt) == (Stop.FINISHED, "numbers too large")
    found, _ = confirm(doubtful, replace(answer(Stop.PROVED, 7), doubt="numbers too large"))
    assert (found.value, found.bound) == (7, None)


def test_a_solver_that_fails_is_asked_once_in_another_way() -> None:
    failed = answer(Stop.ERROR)
    found, asked = confirm(failed, answer(Stop.PROVED, 10, 10), NOTHING)
    assert asked == [(None, True), (9, True)]
    assert (found.value, found.bound, found.doubt) == (10, 10, "")
    found, _ = confirm(failed, NOTHING)  # one solve alone proves nothing
    assert (found.report.stop, found.doubt) == (Stop.FINISHED, NO_PLAN)
    found, _ = confirm(failed, failed)
    assert found is failed


def test_a_solver_that_gives_up_numbers_beyond_its_tolerances_is_no_defect() -> None:
    problem = trap("gang-beats-single").problem
    ledger: Ledger[Any, Any] = Ledger(kind_of(problem), problem, Settings(1.0))
    report = SolverReport(Stop.ERROR, message="Solve error")
    ledger.accept_answer(
        replace(answer(Stop.ERROR), report=report, doubt="its numbers are too large")
    )
    assert ledger.unproved_reason == "the solver failed (Solve error): its numbers are too large"
    assert (ledger.stop, ledger.defects, ledger.bound) == (Stop.ERROR, [], None)
    ledger.accept_answer(replace(answer(Stop.ERROR), report=report))
    assert ledger.defects == ["the solver failed (Solve error)"]


@pytest.mark.parametrize("stop", [Stop.TIME_LIMIT, Stop.NODE_LIMIT, Stop.ERROR])
def test_what_is_not_confirmed_is_not_a_proof(stop: Stop) -> None:
    found, _ = confirm(answer(Stop.PROVED, 10, 10), answer(stop))
    assert (found.value, found.bound) == (10, 9)
    assert "not confirmed" in found.doubt


def test_without_time_nothing_is_asked_and_nothing_proved() -> None:
    found, asked = confirm(answer(Stop.PROVED, 10, 10), time_s=0.01)
    assert asked == []
    assert (found.bound, "not confirmed" in found.doubt) == (9, True)


def test_that_there_is_no_plan_is_confirmed_by_the_same_question() -> None:
    found, asked = confirm(NOTHING, NOTHING, guide=Guide(cutoff=9))
    assert asked == [(9, True)]
    assert (found.report.stop, found.doubt) == (Stop.INFEASIBLE, "")
    found, _ = confirm(NOTHING, answer(Stop.PROVED, 8, 8), guide=Guide(cutoff=9))
    assert (found.value, found.bound, found.doubt != "") == (8, None, True)
    for nodes, stop in ((None, Stop.TIME_LIMIT), (5, Stop.NODE_LIMIT)):
        found, _ = confirm(NOTHING, TIRED, guide=Guide(cutoff=9), nodes=nodes)
        assert (found.report.stop, found.doubt != "") == (stop, True)


@pytest.mark.parametrize(
    ("first", "guide"),
    [
        (answer(Stop.TIME_LIMIT, 10, 8), Guide()),
        (answer(Stop.PROVED, 10, 10), Guide(bound=10)),  # the bound is a proof of its own
        (replace(answer(Stop.PROVED, 10, 10), proves=False), Guide()),
        (replace(answer(Stop.PROVED, 10, 10), disputed="why", proves=False), Guide()),
        (answer(Stop.PROVED, 0, 0), Guide()),
    ],
)
def test_what_claims_no_proof_of_its_own_is_not_asked_again(
    first: ModelAnswer, guide: Guide
) -> None:
    found, asked = confirm(first, guide=guide)
    assert (found, asked) == (first, [])


def test_a_solver_that_lost_a_plan_does_not_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first solve is told that nothing is better than the heuristic's plan."""
    problem, _ = gang_and_plain()
    weaken(monkeypatch)
    monkeypatch.setattr(schedule.ScheduleStrategy, "anneal", lambda _: None)
    ask: Callable[..., ModelAnswer] = FormulationSolver._ask
    first = True

    def lossy(
        self: FormulationSolver, problem: Any, guide: Guide, *rest: Any, **more: Any
    ) -> ModelAnswer:
        nonlocal first
        if not first:
            return ask(self, problem, guide, *rest, **more)
        first = False
        start = more["start"]
        claimed = ask(self, problem, guide, *rest, **more)
        return replace(claimed, plan=start, value=start.stop_ticks, bound=start.stop_ticks)

    monkeypatch.setattr(FormulationSolver, "_ask", lossy)
    outcome = solve(problem, Settings(time_limit_s=60.0, rounds=0))
    assert not first
    assert outcome.value == 2365
    assert 0 < outcome.bound <= 2365, "the claim of the first solve is no bound"


@pytest.mark.parametrize("symmetry", [True, False])
def test_the_plan_of_a_gang_and_four_plain_operators_is_found_and_proved(symmetry: bool) -> None:
    problem, _ = gang_and_plain()
    outcome = solve(problem, Settings(time_limit_s=60.0, options={"symmetry": symmetry}))
    assert (outcome.value, outcome.bound, outcome.proved) == (2365, 2365, True)


def test_a_model_beyond_the_tolerances_proves_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same run, once with numbers that the tolerances hold and once with a limit below them."""
    weaken(monkeypatch)
    problem = trap("gang-beats-single").problem
    settings = Settings(time_limit_s=60.0, rounds=0)
    assert solve(problem, settings).proved
    monkeypatch.setattr(ranges, "LARGEST", 0.5)
    heard: list[str] = []
    outcome = solve(problem, settings, lambda progress: heard.append(progress.note))
    assert outcome.value == 110
    assert (outcome.bound, outcome.bound_name) == (WEAK_BOUND.value, WEAK_BOUND.name)
    assert not outcome.proved
    doubt = outcome.record["model"]["doubt"]
    assert doubt.endswith("so it proves nothing")
    assert doubt in heard
