"""Budgets."""

import signal
import sys

import numba
import pytest

from milp_plan.backends import Stop
from milp_plan.core.budget import Budget, OutOfTime, TimeIsUp, alarm, now, undisturbed
from milp_plan.core.compiled import compiled
from milp_plan.kinds.schedule.strategies import schedule
from milp_plan.run import Settings, solve, solving

from .cases import WEAK_BOUND, instance, weaken


def test_phases_add_up():
    budget = Budget(100.0)
    with budget.phase("build"):
        pass
    first = budget.phases["build"]
    with pytest.raises(KeyError), budget.phase("build"):
        raise KeyError
    assert budget.phases["build"] >= first >= 0
    budget.add("solve", 2.0)
    budget.add("solve", -0.5)
    assert budget.phases["solve"] == 1.5


def test_time_left_is_never_negative():
    budget = Budget(100.0)
    assert 0 < budget.left_s <= 100
    assert budget.elapsed_s >= 0
    empty = Budget(0.0)
    assert empty.left_s == 0
    assert empty.over
    with pytest.raises(OutOfTime):
        empty.check()
    assert not Budget().over


def test_parts_stay_within_the_whole_and_are_on_record():
    budget = Budget(100.0)
    part = budget.part("model", 0.25)
    assert 24.0 < part.limit_s <= 25.0
    assert budget.at_most("rest", 1000.0).limit_s <= 100.0
    assert 49.0 < budget.part("half", 0.5, of_limit=False).limit_s <= 50.0
    with part.phase("solve"):
        pass
    assert "solve" in budget.phases
    assert set(budget.shares) == {"model", "rest", "half"}


def test_repeatable_parts_end_with_the_whole():
    budget = Budget(100.0, nodes=5)
    assert budget.repeatable
    assert budget.part("model", 0.01).limit_s > 99.0


def test_an_alarm_rings_where_nobody_looks_at_the_time():
    def wait():
        while True:
            pass

    with pytest.raises(TimeIsUp), alarm(0.05):
        wait()
    with alarm(60.0):
        pass
    with alarm(float("inf")):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


class Slow:
    """What is raised while it goes away is lost."""

    def __del__(self):
        signal.raise_signal(signal.SIGALRM)


def lose_one():
    del (slow := [Slow()])[0]
    while not slow:
        pass


def test_an_alarm_in_a_destructor_rings_again_and_nobody_reads_of_it(capsys, monkeypatch):
    """Standard error said "Exception ignored in ... TimeIsUp", once in thousands of runs."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with pytest.raises(TimeIsUp), alarm(0.01):
        lose_one()
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is sys.__unraisablehook__


def test_a_step_that_never_ends_is_ended_and_the_rest_is_kept(monkeypatch):
    """Models were built, and heuristics asked, far beyond the limit."""

    def forever(way):
        while True:
            pass

    monkeypatch.setattr("milp_plan.run.loop_parts.kept", lambda _loop: True)
    monkeypatch.setattr(schedule.ScheduleStrategy, "anneal", forever)
    weaken(monkeypatch)
    monkeypatch.setattr(solving, "LEEWAY_S", 0.05)
    outcome = solve(instance("two-tower-tiny-inference-2xH100"), Settings(time_limit_s=1.0))
    assert outcome.stop is Stop.TIME_LIMIT
    assert outcome.plan is not None
    assert outcome.bound == WEAK_BOUND.value


def load_and_go_on(began):
    with undisturbed():
        while now() < began + 0.05:
            pass
    while True:
        pass


def test_the_alarm_waits_for_what_is_compiled(monkeypatch):
    """A loop that was given up halfway could not be called again in the same process."""
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled (NUMBA_DISABLE_JIT)")
    from numba.core.registry import CPUDispatcher

    compile_it, ended = CPUDispatcher.compile, []

    def interrupted(self, sig):
        signal.raise_signal(signal.SIGALRM)
        ended.append(sig)
        return compile_it(self, sig)

    @compiled
    def twice(number):
        return 2 * number

    monkeypatch.setattr(CPUDispatcher, "compile", interrupted)
    with alarm(1000.0):
        assert twice(3) == 6
    assert ended


def test_the_alarm_waits_for_what_is_loading():
    began = now()
    with pytest.raises(TimeIsUp), alarm(0.01):
        load_and_go_on(began)
    assert now() >= began + 0.05
