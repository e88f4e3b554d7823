"""A ``KeyboardInterrupt`` in any callback, at any position, ends a run with an outcome."""

from __future__ import annotations

from typing import Any

import pytest

import milp_plan as mp
from milp_plan.backends import Stop
from milp_plan.core.budget import now
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.strategies import shop
from milp_plan.run import Settings, kind_of, solve, solving
from tests.face.kinds import PROBLEMS

from .cases import instance

POSITIONS = (1, 2, 4, 9)


class Interrupting:
    """Raises from its n-th call on, once or every time."""

    def __init__(self, position: int, *, again: bool) -> None:
        self.position, self.again, self.calls = position, again, 0

    def __call__(self, _: object) -> None:
        self.calls += 1
        if self.calls == self.position or (self.again and self.calls > self.position):
            raise KeyboardInterrupt


@pytest.mark.parametrize("hook", ["on_progress", "on_incumbent"])
@pytest.mark.parametrize("kind", sorted(PROBLEMS))
def test_a_callback_that_interrupts(kind: str, hook: str) -> None:
    """The first call was outside of what is caught: the interruption escaped."""
    problem = PROBLEMS[kind]
    for position in POSITIONS:
        call = Interrupting(position, again=position % 2 == 0)
        reported: dict[str, Any] = {hook: call}
        outcome = mp.solve(problem, time_limit=20, display=False, **reported)
        judge(outcome)
        if call.calls < position:
            assert outcome.stop is not Stop.INTERRUPTED
            return
        assert outcome.stop in (Stop.INTERRUPTED, Stop.PROVED, Stop.INFEASIBLE)


def judge(outcome: Any) -> None:
    """What is known stands, and what stands is true."""
    kind = kind_of(outcome.problem)
    assert outcome.record["stop"] == str(outcome.stop)
    if outcome.plan is not None:
        verdict = kind.verify(outcome.problem, outcome.plan)
        assert (verdict.ok, verdict.value) == (True, outcome.value)
    if outcome.value is not None and outcome.bound is not None:
        assert outcome.bound <= outcome.value


@pytest.mark.parametrize("kind", sorted(set(PROBLEMS) - {"serving", "training"}))
def test_a_busy_machine_costs_time_but_no_plan(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading took all of the time: packings and shardings had no plan, though one takes no time.

    Where a search over configurations makes the first plan, there is none.
    """
    monkeypatch.setattr(solving, "LEEWAY_S", 600.0)  # for what loads during the test
    outcome = solve(PROBLEMS[kind], Settings(time_limit_s=1.0), began=now() - 10.0)
    judge(outcome)
    assert outcome.plan is not None
    assert outcome.stop in (Stop.TIME_LIMIT, Stop.PROVED)


@pytest.mark.parametrize("position", POSITIONS)
def test_on_a_problem_with_every_stage(position: int) -> None:
    problem = instance("gpt-tiny-training-2xA100")
    call = Interrupting(position, again=False)
    outcome = mp.solve(problem, time_limit=4, display=False, on_progress=call)
    judge(outcome)
    assert outcome.stop is Stop.INTERRUPTED or call.calls < position


@pytest.mark.parametrize("step", ["backend", "choose"])
def test_while_the_run_starts(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C while a formulation loads: nothing is known, and that is the answer."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solving, step, interrupted)
    outcome = solve(PROBLEMS["schedule"], Settings(time_limit_s=5))
    assert (outcome.stop, outcome.plan, outcome.bound) == (Stop.INTERRUPTED, None, None)
    assert outcome.record["strategy"] == solving.NO_STRATEGY
    assert repr(outcome)


def test_among_the_published_schedules_of_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of them was offered when all had been timed: the end of a run before cost them."""
    problem = build(Case(Model.from_share((1, 1, 1)), 2, 3)).problem
    timed, calls = shop.best_times, []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 2:  # the first one is timed, and offered
            raise KeyboardInterrupt
        return timed(*given)

    monkeypatch.setattr(shop, "best_times", interrupted)
    outcome = solve(problem, Settings(time_limit_s=600.0))
    judge(outcome)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.plan is not None
