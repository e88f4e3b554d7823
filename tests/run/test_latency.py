from threading import Event
from types import SimpleNamespace

import pytest

from milp_plan.check import verify
from milp_plan.core import SerialLaw
from milp_plan.kinds.placement.planted import PAYER, ladder, planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.placement.serial.operators import HOST, operator_tables
from milp_plan.kinds.placement.strategies import latency
from milp_plan.run import Settings, solve
from milp_plan.run.background import BackgroundThread
from tests.support.anything import serial_case
from tests.support.serial_brute import brute_serial


def test_two_operators_are_looked_at_and_not_annealed():
    """Annealing took most of the time limit, the model proved it in half a second after that."""
    problem = serial_case(869)
    outcome = solve(problem, Settings(time_limit_s=600.0))
    assert (outcome.value, outcome.bound, outcome.proved) == (1641, 1641, True)
    assert outcome.record["strategy"] == "latency"
    assert "search" not in outcome.record["phases"]


def test_runs_prove_tiny_problems(monkeypatch: pytest.MonkeyPatch):
    """Also where not all placements are looked at."""
    monkeypatch.setattr(latency, "is_tiny", lambda _: False)
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
    """Nothing is lost that either of them finds."""
    begun: set[int] = set()
    found: list[int] = []
    anneal_once = latency.LatencyStrategy.anneal_once

    def watched(run, number, left, take):
        def note(places):
            take(places)
            if run.atoms.fits(places):
                found.append(run.atoms.latency(places))

        def until_seen():
            return 0.0 if found and begun == {0, 1} else left()

        begun.add(number % 2)
        return anneal_once(run, number, until_seen, note) and until_seen() > 0

    monkeypatch.setattr(latency, "ideal_levels", lambda _: None)
    monkeypatch.setattr(latency, "gate_bound", lambda *_: None)
    monkeypatch.setattr(latency.LatencyStrategy, "anneal_once", watched)
    for quick in ("run_baselines", "try_lines"):  # they find the best plan already
        monkeypatch.setattr(latency.LatencyStrategy, quick, lambda _: None)
    monkeypatch.setattr(latency.LatencyStrategy, "small_enough", lambda _: False)  # for the model
    problem = ladder(SerialLaw((PAYER,), calls=2))
    outcome = solve(problem, Settings(time_limit_s=60.0, threads=2))
    assert begun == {0, 1}
    assert found
    assert outcome.plan is not None
    assert outcome.value is not None
    assert outcome.value <= min(found)
    assert verify(outcome.problem, outcome.plan).ok
    assert not outcome.disputed


def test_an_error_during_the_annealing_is_an_error_of_the_run(monkeypatch: pytest.MonkeyPatch):
    def broken(_: object) -> None:
        raise ArithmeticError("beside")

    monkeypatch.setattr(latency, "ideal_levels", broken)
    with pytest.raises(ArithmeticError, match="beside"):
        solve(ladder(SerialLaw((PAYER,), calls=2)), Settings(time_limit_s=20.0, threads=2))


def test_a_plan_ends_the_wait_for_one():
    """The main thread goes on as soon as the other has a plan, not when the other is done."""
    run = SimpleNamespace(ledger=SimpleNamespace(settled=False), best=None)
    search, done = latency._IdealThread(run), Event()
    search.thread = BackgroundThread(lambda: done.wait(20.0))
    search.thread.start()
    search.news.put(lambda: setattr(run, "best", [0]))
    search.wait(for_plan=True)
    assert run.best == [0]
    assert search.thread.is_alive()
    done.set()


def test_node_limits_make_runs_repeatable():
    """They were not looked at."""
    for calls in (1, 2):
        problem = ladder(SerialLaw((PAYER,), calls=calls))
        runs = [solve(problem, Settings(time_limit_s=120.0, node_limit=3)) for _ in range(2)]
        reported = [
            [(p["phase"], p["incumbent"], p["bound"]) for p in r.record["trace"]] for r in runs
        ]
        assert reported[0] == reported[1]
        assert runs[0].plan == runs[1].plan is not None


def test_everything_on_a_host_does_not_fit_where_there_is_none() -> None:
    """A run whose loops were not compiled yet began with that plan, and failed."""
    graph = read_serial(serial_case(869))
    assert not isinstance(graph, str)
    tables = operator_tables(graph)
    assert not tables.graph.hosts
    assert not tables.fits([HOST] * len(tables))
