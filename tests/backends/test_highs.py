"""HiGHS in its own process: answers, limits, and every way a process can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from importlib import metadata
from math import inf
from pathlib import Path

import numpy as np
import pytest

from milp_plan.backends import Limits, SolverReport, Stop, TracePoint, highs
from milp_plan.core import BackendUnavailableError

from .models import CANARIES, knapsack, market_split, model

LONG = Limits(time_s=300.0, grace_s=5.0)


@pytest.mark.parametrize("name", CANARIES)
def test_models_that_an_older_highs_proved_wrong(name: str) -> None:
    canary, optimum = CANARIES[name]
    report = highs.solve(canary, Limits(gap=1e-9))
    assert report.stop is Stop.PROVED
    assert report.objective == pytest.approx(optimum)
    assert report.bound == pytest.approx(optimum)
    assert report.solution is not None
    assert canary.violation(report.solution)[0] <= 1e-6


def test_proved_optimum_with_trace_and_offset() -> None:
    integer, optimum = knapsack()
    points: list[TracePoint] = []
    shifted = model(
        integer.cost.tolist(),
        [(-inf, [3, 4, 2, 3], 7)],
        [(0, 1)] * 4,
        range(4),
        offset=100.0,
    )
    report = highs.solve(shifted, Limits(gap=1e-9), on_progress=points.append)
    assert (report.stop, report.objective) == (Stop.PROVED, optimum + 100)
    assert report.gap == pytest.approx(0.0)
    assert report.trace == tuple(points)
    assert any(point.incumbent == optimum + 100 for point in points)
    assert report.start_accepted is None
    assert report.seconds >= report.handover_s >= 0.0


def test_linear_optimum_is_its_own_bound() -> None:
    report = highs.solve(knapsack()[0].relaxed(), Limits())
    assert report.stop is Stop.PROVED
    assert report.objective == pytest.approx(-23.5)
    assert report.bound == report.objective


def test_infeasible_leaves_neither_plan_nor_bound() -> None:
    report = highs.solve(model([1], [(2, [1], inf)], [(0, 1)], [0]), Limits())
    assert report.stop is Stop.INFEASIBLE
    assert report.solution is None
    assert (report.objective, report.bound, report.gap) == (None, None, None)


def test_a_model_that_falls_without_end_is_an_error() -> None:
    report = highs.solve(model([-1, 0], [(0, [1, -1], inf)], [(0, inf), (0, 5)]), Limits())
    free = highs.solve(model([-1], [(0, [1], inf)], [(0, inf)]), Limits())
    assert report.stop is Stop.ERROR
    assert free.stop is Stop.ERROR
    assert free.message
    assert free.bound is None


def test_a_model_that_highs_refuses_is_an_error() -> None:
    broken = model([1, 1], [(0, [1, 1], 1)], [(0, 1)] * 2)
    broken.matrix.indices[0] = 7
    report = highs.solve(broken, Limits())
    assert report.stop is Stop.ERROR
    assert "refused" in report.message


def test_starts_are_taken_or_refused() -> None:
    integer, optimum = knapsack()
    good = highs.solve(integer, Limits(), np.array([0.0, 1.0, 0.0, 1.0]))
    bad = highs.solve(integer, Limits(), np.array([1.0, 1.0, 1.0, 1.0]))
    assert (good.start_accepted, good.objective) == (True, optimum)
    assert (bad.start_accepted, bad.objective) == (False, optimum)
    assert good.trace[0].incumbent == -21


def test_time_limit_keeps_the_incumbent() -> None:
    hard, start = market_split()
    report = highs.solve(hard, Limits(time_s=0.5), start)
    assert report.stop is Stop.TIME_LIMIT
    assert_no_worse_than_start(report)


def test_node_limit_repeats_itself() -> None:
    hard, start = market_split()
    limits = Limits(time_s=300.0, nodes=30, seed=3)
    first, second = (highs.solve(hard, limits, start) for _ in range(2))
    assert first.stop is second.stop is Stop.NODE_LIMIT
    assert first.nodes == second.nodes >= 30
    assert (first.objective, first.bound) == (second.objective, second.bound)
    assert first.solution is not None
    assert second.solution is not None
    assert first.solution.tolist() == second.solution.tolist()
    assert_no_worse_than_start(first)


def test_bound_before_branching() -> None:
    trace = (
        TracePoint(0.1, None, 3.0),
        TracePoint(0.2, 9.0, 4.0, nodes=1),
        TracePoint(0.3, 9.0, 6.0, nodes=7),
    )
    assert SolverReport(Stop.TIME_LIMIT, bound=6.0, nodes=7, trace=trace).root_bound == 4.0
    assert SolverReport(Stop.PROVED, bound=6.0, nodes=1, trace=trace).root_bound == 6.0
    assert SolverReport(Stop.TIME_LIMIT, bound=6.0, nodes=7, trace=trace[2:]).root_bound is None


def test_further_options_reach_the_solver() -> None:
    hard, start = market_split()
    report = highs.solve(hard, LONG, start, options={"mip_max_nodes": 1})
    assert report.stop is Stop.NODE_LIMIT


def assert_no_worse_than_start(report: SolverReport) -> None:
    hard, start = market_split()
    assert report.solution is not None
    assert report.objective is not None
    assert report.objective <= hard.cost @ start
    assert report.objective == pytest.approx(hard.cost @ report.solution)
    assert hard.violation(report.solution)[0] <= 1e-5


class Process:
    """Remembers the solver's process, and sends it a signal when it is at work."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.sent = False

    def remember(self, pid: int) -> None:
        self.pid = pid

    def strike(self, point: TracePoint) -> None:
        if point.bound is not None and not self.sent:
            self.sent = True
            os.kill(self.pid, self.number)


def test_kill_in_mid_solve_leaves_the_best_incumbent() -> None:
    hard, start = market_split()
    killer = Process(signal.SIGKILL)
    report = highs.solve(hard, LONG, start, on_spawn=killer.remember, on_progress=killer.strike)
    assert killer.sent
    assert report.stop is Stop.KILLED
    assert "exit -9" in report.message
    best = min(point.incumbent for point in report.trace if point.incumbent is not None)
    assert report.objective == best
    assert report.bound is not None
    assert_no_worse_than_start(report)


@pytest.mark.parametrize("num_columns", [45, 20_000])
def test_kill_before_the_job_arrives(num_columns: int) -> None:
    hard, start = market_split(num_columns)

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    report = highs.solve(hard, LONG, start, on_spawn=kill)
    assert report.stop is Stop.KILLED
    assert report.solution is None


@pytest.mark.untraced
def test_a_solver_that_hangs_is_ended_from_outside() -> None:
    hard, start = market_split()
    freezer = Process(signal.SIGSTOP)
    workers_of(Limits())  # one waits now: its start is not part of the seconds below
    limits = Limits(time_s=4, grace_s=0.2)
    report = highs.solve(hard, limits, start, on_spawn=freezer.remember, on_progress=freezer.strike)
    assert freezer.sent
    assert report.stop is Stop.TIME_LIMIT
    assert "overran" in report.message
    assert_no_worse_than_start(report)
    with pytest.raises(ProcessLookupError):
        os.kill(freezer.pid, 0)


@pytest.mark.parametrize("times", [1, 2])
def test_interruption_keeps_the_incumbent(times: int) -> None:
    """Once asks the solver to stop; twice does not wait for it."""
    hard, start = market_split()
    left = [times]

    def interrupt(point: TracePoint) -> None:
        if point.bound is not None and left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    report = highs.solve(hard, LONG, start, on_progress=interrupt)
    assert report.stop is Stop.INTERRUPTED
    assert_no_worse_than_start(report)


def test_control_c_reaches_the_command_and_not_the_solver() -> None:
    script = """
        from milp_plan.backends import Limits, highs
        from tests.backends.models import market_split

        def say(point):
            if point.bound is not None:
                print("at work", flush=True)

        hard, start = market_split()
        report = highs.solve(hard, Limits(time_s=300.0), start, on_progress=say)
        print(report.stop, report.objective <= hard.cost @ start, flush=True)
    """
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        stated = process.stdout.read()
    assert stated.splitlines()[-1] == "interrupted True"
    assert process.returncode == 0


def test_too_old_or_missing_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "1.14.0")
    with pytest.raises(BackendUnavailableError, match=r"1\.14\.0 is too old, expected 1\.15\.1"):
        highs.solve(knapsack()[0], Limits())

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(BackendUnavailableError, match="pip install highspy"):
        highs.check_version()
    monkeypatch.undo()
    assert tuple(map(int, highs.check_version().split("."))) >= highs.MINIMUM_VERSION


def workers_of(*limits: Limits) -> list[int]:
    integer, optimum = knapsack()
    used: list[int] = []
    for one in limits:
        assert highs.solve(integer, one, on_spawn=used.append).objective == optimum
    return used


def test_a_worker_that_has_answered_takes_the_next_model_of_as_many_threads() -> None:
    first, again, wide, last = workers_of(Limits(), Limits(), Limits(threads=2), Limits())
    assert first == again == last != wide
    with highs.Session() as session:
        session.solve(knapsack()[0], Limits())
        assert not highs._idle.processes.keys() - {2}
    assert workers_of(Limits()) == [first]
    highs._idle.close()
    assert not highs._idle.processes
    assert workers_of(Limits()) != [first]


def test_a_worker_that_died_or_erred_is_replaced() -> None:
    (first,) = workers_of(Limits())
    waiting = highs._idle.processes[1]
    assert waiting.pid == first
    waiting.kill()
    waiting.wait()
    (second,) = workers_of(Limits())
    assert second != first
    falls = model([-1], [(0, [1], inf)], [(0, inf)])
    assert highs.solve(falls, Limits()).stop is Stop.ERROR
    assert workers_of(Limits()) != [second]
