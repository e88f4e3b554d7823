"""A search beside bounds and list schedules: it begins from constructions, hands on its best."""

from time import sleep

import pytest

from milp_plan.check import verify
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.kind import KIND
from milp_plan.kinds.schedule.planners.search import annealing
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from milp_plan.kinds.schedule.strategies.early_search import EarlySearch
from milp_plan.kinds.schedule.strategies.schedule import ScheduleStrategy
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import Settings
from milp_plan.zoo import generate

pytestmark = pytest.mark.untraced


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch):
    """Look up often: a block of these small problems would be tens of thousands of moves."""
    monkeypatch.setattr(annealing, "BLOCK", 1_000)


def a_ledger(threads=2):
    problem = generate("gpt-tiny", "2xA100", mode="training", batch=8, micro_batches=2)
    return Ledger(KIND, problem, Settings(time_limit_s=600.0, threads=threads), Budget(600.0))


def searched(search, take):
    """Let a search go on until it has tried something."""
    search.construct(lambda _plan: None, 0.1)
    begun = search._annealing.starts[0].value
    search.begin(take)
    while search._thread.is_alive() and search._annealing.tried < 100:
        sleep(0.01)
    return begun


def test_its_plans_are_valid_and_its_best_state_is_no_worse_than_the_first():
    ledger, heard = a_ledger(), []
    search = EarlySearch(ledger)
    begun = searched(search, heard.append)
    state = search.end()
    assert not search._thread.is_alive()
    assert state.value <= begun
    verdicts = [verify(ledger.problem, plan) for plan in heard]
    assert verdicts
    assert all(verdict.ok for verdict in verdicts)
    assert min(verdict.value for verdict in verdicts) == (
        state.value * search._annealing.decoder.compiled.unit
    )


def test_its_error_is_one_of_the_run():
    def fail(_plan):
        raise ZeroDivisionError

    search = EarlySearch(a_ledger())
    searched(search, fail)
    with pytest.raises(ZeroDivisionError):
        search.end()


def test_it_has_ended_when_it_never_began():
    assert EarlySearch(a_ledger()).end() is None


def a_way(threads, monkeypatch):
    """A way whose loops are compiled, as far as it knows, before its first bound."""
    monkeypatch.setattr("milp_plan.run.loop_parts.kept", lambda _loop: True)
    return ScheduleStrategy(a_ledger(threads))


def test_annealing_may_go_on_where_it_ended(monkeypatch):
    way = a_way(2, monkeypatch)
    way.begin_early_search()
    way.search_in_background()
    way.construct()
    early = way.early
    while early._annealing.tried < 100:
        sleep(0.01)
    monkeypatch.setattr(ParallelAnnealing, "run", lambda *_: None)
    way.anneal()
    assert not early._thread.is_alive()
    assert way.annealing._later.value == early._annealing.best.value
    assert way.early is None, "its arrays are gone"


def test_one_thread_has_no_core_for_it(monkeypatch):
    way = a_way(1, monkeypatch)
    way.begin_early_search()
    way.search_in_background()
    assert way.early._thread is None


def test_an_interrupted_run_leaves_no_search_behind(monkeypatch):
    def interrupt(_way):
        raise KeyboardInterrupt

    way = a_way(2, monkeypatch)
    monkeypatch.setattr(ScheduleStrategy, "find_baselines", interrupt)
    monkeypatch.setattr(Ledger, "find_bounds", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        way.run_steps()
    assert way.early._thread is not None
    assert not way.early._thread.is_alive()
