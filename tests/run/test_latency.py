from threading import Event, Thread
from types import SimpleNamespace

import pytest

from milp_plan.check import verify
from milp_plan.core import SerialLaw
from milp_plan.formulation.planted_serial import PAYER, ladder, planted_serial
from milp_plan.run import Settings, latency, solve
from tests.support.serial_brute import brute_serial


def test_runs_prove_tiny_problems():
    proved = 0
    for seed in (0, 1, 3, 8):
        problem, _ = planted_serial(seed, calls=1 + seed % 2)
        best = brute_serial(problem)
        outcome = solve(problem, Settings(time_limit_s=20.0, threads=1 + seed % 2, gap=1e-6))
        assert best is not None
        assert outcome.value == best[0]
        assert outcome.bound is not None
        assert outcome.bound <= best[0]
        proved += outcome.proved
        assert not outcome.disputed
        assert outcome.plan is not None
        assert verify(problem, outcome.plan).ok
        assert "greedy topological fill" in outcome.baselines
        for value in outcome.baselines.values():
            assert value is None or value >= best[0]
    assert proved >= 3


def test_both_threads_anneal_where_ideals_are_too_many(monkeypatch: pytest.MonkeyPatch):
    one_call = solve(
        ladder(SerialLaw((PAYER,), calls=1)), Settings(time_limit_s=20.0, threads=2, gap=1e-6)
    )
    assert one_call.proved
    assert one_call.value is not None
    begun: set[int] = set()
    anneal_once = latency.LatencyRun.anneal_once

    def watched(run, number, left, take):
        begun.add(number % 2)
        return anneal_once(run, number, left, take)

    monkeypatch.setattr(latency, "ways", lambda _: None)
    monkeypatch.setattr(latency.LatencyRun, "anneal_once", watched)
    outcome = solve(ladder(SerialLaw((PAYER,), calls=2)), Settings(time_limit_s=4.0, threads=2))
    assert begun == {0, 1}
    assert outcome.value is not None
    assert outcome.value <= one_call.value
    assert outcome.plan is not None
    assert verify(outcome.problem, outcome.plan).ok
    assert not outcome.disputed


def test_a_plan_ends_the_wait_for_one():
    """The main thread goes on as soon as the other has a plan, not when the other is done."""
    run = SimpleNamespace(host=SimpleNamespace(proved=False), best=None)
    search, done = latency._Search(run), Event()
    search.thread = Thread(target=done.wait, args=(20.0,), daemon=True)
    search.thread.start()
    search.news.put(lambda: setattr(run, "best", [0]))
    search.wait(for_plan=True)
    assert run.best == [0]
    assert search.thread.is_alive()
    done.set()
