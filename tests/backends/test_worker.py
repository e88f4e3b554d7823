"""The worker's side of the conversation, in this process."""

from __future__ import annotations

import io
import pickle
import signal
import subprocess
import sys
from math import inf
from types import SimpleNamespace
from typing import Any

import highspy
import numpy as np
import pytest

from milp_plan.backends import Limits, Stop, worker
from tests.models.solving import solve_here

from .models import knapsack, market_split, model, parallel, symmetric


def talk(job: worker.Job, stream: worker._Stream) -> list[tuple[Any, ...]]:
    """Run a job and return its messages."""
    worker.solve(job, stream)
    pipe = stream.out
    assert isinstance(pipe, io.BytesIO)
    pipe.seek(0)
    messages = []
    while pipe.tell() < len(pipe.getvalue()):
        messages.append(pickle.load(pipe))
    return messages


def test_messages_come_in_order_and_only_better_incumbents() -> None:
    hard, start = market_split()
    job = worker.Job(hard, Limits(time_s=300.0, nodes=200), start)
    messages = talk(job, worker._Stream(io.BytesIO()))
    kinds = [message[0] for message in messages]
    assert kinds[:2] == ["incumbent", "started"]
    assert kinds[-1] == "done"
    assert kinds.count("done") == kinds.count("started") == 1
    assert "progress" in kinds
    objectives = [message[2] for message in messages if message[0] == "incumbent"][1:]
    assert objectives == sorted(objectives, reverse=True)
    done = messages[-1][1]
    assert done["objective"] <= min(objectives)
    assert done["bound"] <= done["objective"]


def test_interrupted_before_it_starts() -> None:
    hard, start = market_split()
    stream = worker._Stream(io.BytesIO())
    stream.interrupted = True
    done = talk(worker.Job(hard, Limits(time_s=300.0), start), stream)[-1][1]
    assert done["stop"] == Stop.INTERRUPTED
    assert done["objective"] is not None


def test_main_answers_a_job_and_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole process: job in, messages out, termination taken as a wish."""
    integer, optimum = knapsack()
    broken = knapsack()[0]
    broken.matrix.indices[0] = 9
    for given, stop in ((integer, Stop.PROVED), (broken, Stop.ERROR)):
        ended = subprocess.run(
            [sys.executable, "-m", "milp_plan.backends.worker"],
            input=pickle.dumps(worker.Job(given, Limits())),
            stdout=subprocess.PIPE,
            check=True,
        )
        pipe = io.BytesIO(ended.stdout)
        last: tuple[str, dict[str, Any]] = ("", {})
        while pipe.tell() < len(ended.stdout):
            last = pickle.load(pipe)
        assert last[0] == "done"
        assert last[1]["stop"] == stop
        assert last[1].get("objective", optimum) == optimum


def test_a_worker_without_a_job_leaves_quietly() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "milp_plan.backends.worker"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert ended.stdout == b""


@pytest.mark.untraced
@pytest.mark.parametrize(("seed", "gap_abs"), [(1, 1e-9), (5, 0.999)])
def test_symmetry_does_not_cost_the_optimum(seed: int, gap_abs: float) -> None:
    """With its symmetry detection HiGHS 1.15.1 proves 21 where enumeration finds 19."""
    answer = solve_here(symmetric(), Limits(gap=1e-9, gap_abs=gap_abs, seed=seed))
    assert answer.stop is Stop.PROVED
    assert answer.objective == pytest.approx(19.0, abs=1e-3)


def test_nearly_parallel_rows_do_not_cost_the_optimum() -> None:
    """With its rule about parallel rows and columns HiGHS 1.15.1 says that there is no solution."""
    answer = solve_here(parallel(), Limits(gap=1e-9))
    assert answer.stop is Stop.PROVED
    assert answer.objective == pytest.approx(9437182 / 131072, rel=1e-9)


def test_a_model_without_columns_that_cannot_hold_has_no_solution() -> None:
    empty = model([], [(1.0, [], inf)], [])
    answer = solve_here(empty, Limits())
    assert (answer.stop, answer.vector) == (Stop.INFEASIBLE, None)


def test_starts_are_judged_by_the_model() -> None:
    integer, optimum = knapsack()
    good = solve_here(integer, Limits(), np.array([1.0, 1.0, 0.0, 0.0]))
    bad = solve_here(integer, Limits(), np.array([0.5, 1.0, 0.0, 0.0]))
    assert (good.start_accepted, bad.start_accepted) == (True, False)
    assert good.objective == bad.objective == optimum


def test_the_signal_to_end_is_a_wish() -> None:
    """SIGTERM makes the solver hand over what it has."""
    hard, start = market_split()
    with subprocess.Popen(
        [sys.executable, "-m", "milp_plan.backends.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(worker.Job(hard, Limits(time_s=300.0), start), process.stdin)
        process.stdin.flush()
        message = pickle.load(process.stdout)
        while message[0] != "progress":
            message = pickle.load(process.stdout)
        process.send_signal(signal.SIGTERM)
        while message[0] != "done":
            message = pickle.load(process.stdout)
    assert message[1]["stop"] == Stop.INTERRUPTED
    assert message[1]["objective"] <= hard.cost @ start
    assert process.returncode == 0


@pytest.mark.parametrize(("upper", "stop"), [(3.0, Stop.INFEASIBLE), (inf, Stop.ERROR)])
def test_infeasible_or_unbounded_is_infeasible_where_columns_bound_the_objective(
    upper: float, stop: Stop
) -> None:
    """Presolve does not say which of both; such a model without a solution was a failure."""
    either = highspy.HighsModelStatus.kUnboundedOrInfeasible
    solver = SimpleNamespace(getModelStatus=lambda: either)
    found = model([-1], [(4, [1], inf)], [(0, upper)])
    assert worker._stop(solver, worker._Stream(io.BytesIO()), found) is stop
