"""Runs on bottleneck problems under the serial law: proved, repeatable, stopped in time."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.strategies import max_load
from milp_plan.run import Settings, solve
from tests.support.serial_brute import brute_serial


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("separate", [False, True])
def test_proves_the_optimum(seed, separate):
    problem, _ = planted_serial(seed, contiguous=False, separate=separate)
    outcome = solve(problem, Settings(time_limit_s=20.0))
    assert outcome.proved
    assert not outcome.disputed
    assert outcome.value == brute_serial(problem)[0]
    assert verify(problem, outcome.plan).ok


def test_two_threads_prove_it_too():
    problem, _ = planted_serial(9, contiguous=False, separate=True)
    outcome = solve(problem, Settings(time_limit_s=20.0, threads=2))
    assert outcome.proved
    assert outcome.value == brute_serial(problem)[0]


def test_node_limits_make_runs_repeatable():
    problem, _ = planted_serial(7, contiguous=False, separate=True)
    runs = [solve(problem, Settings(time_limit_s=60.0, node_limit=20)) for _ in range(2)]
    assert runs[0].plan == runs[1].plan
    assert runs[0].bound == runs[1].bound
    assert [p["note"] for p in runs[0].record["trace"]] == [
        p["note"] for p in runs[1].record["trace"]
    ]


def test_a_start_is_kept():
    problem, _ = planted_serial(5, contiguous=False)
    value, best = brute_serial(problem)
    outcome = solve(problem, Settings(time_limit_s=20.0, start=best))
    assert outcome.value == value
    assert outcome.planner == best.planner


def test_an_error_in_one_thread_is_an_error_of_the_run(monkeypatch):
    def broken(*_):
        raise ArithmeticError("in a thread")

    monkeypatch.setattr(max_load.SerialAnnealing, "run", broken)
    problem, _ = planted_serial(9, contiguous=False, separate=True)
    with pytest.raises(ArithmeticError, match="in a thread"):
        solve(problem, Settings(time_limit_s=20.0, threads=2, formulation="max_load"))
