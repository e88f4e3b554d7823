"""A search on a cluster: rounds, answers checked at home, workers and schedulers that are lost."""

import os
import pickle
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from milp_plan import run
from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.cli.main import main
from milp_plan.core import UnusedOptionError
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule import team as room
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.round import RoundAnswer, RoundRequest, work
from milp_plan.kinds.schedule.team import MOST_FAILURES, Team
from milp_plan.run.identity import sources
from milp_plan.run.ledger import Ledger
from tests.support.training_graphs import random_training

pytestmark = [
    pytest.mark.untraced,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PROBLEM = random_training(3, 5, batches=2)
LIMIT_S = 30.0
"""Reached only where a search does not end by itself, as it should."""


class Future:
    """What a client returns: there at once, or never."""

    def __init__(self, status, content=None):
        self.status, self.content, self.cancelled = status, content, False

    def done(self):
        return self.status != "pending"

    def result(self, timeout=None):
        return self.content

    def exception(self):
        return self.content

    def cancel(self):
        self.cancelled = True


class Client:
    """A cluster without machines: ``answer`` says what becomes of a round on a worker."""

    def __init__(self, workers, answer):
        self.workers = {address: {"name": name} for name, address in enumerate(workers)}
        self.answer, self.asked, self.status = answer, [], "running"
        self.scheduler = SimpleNamespace(identity=None)

    def sync(self, _function, **_how):
        return {"workers": dict(self.workers)}

    def submit(self, function, data, asked, *, workers, pure):
        assert (function, pure) == (work, False)
        assert pickle.loads(data).fingerprint == PROBLEM.fingerprint
        (address,) = workers
        self.asked.append((address, asked))
        return self.answer(self, address, asked)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(room, "WORKERS_S", 0.0)
    monkeypatch.setattr(room, "PATIENCE_S", 0.3)


def ledger_of(limit_s=LIMIT_S):
    kind = run.kind_of(PROBLEM)
    settings = run.Settings(time_limit_s=limit_s, dask="tcp://nowhere:1")
    return Ledger(kind, PROBLEM, settings, Budget(limit_s))


def plans():
    """Plans of the problem, the worst first."""
    found = [plan for planner in PLANNERS.values() if (plan := planner(PROBLEM)) is not None]
    return sorted(found, key=lambda plan: -verify(PROBLEM, plan).value)


def found(plan):
    return RoundAnswer(plan, "annealing", "host", schedules=7, models=2)


def searched(ledger, client):
    team = Team(ledger, client)
    try:
        team.wait()
    finally:
        team.close()
    return team


def test_each_round_begins_from_the_best_plan_and_its_worker_is_informed():
    worst, *_, best = plans()
    value = verify(PROBLEM, best).value

    def answer(client, _address, asked):
        return Future("finished", found(worst if len(client.asked) == 1 else best))

    ledger, client = ledger_of(), Client(["a"], answer)
    ledger.prove(Bound("the best there is", value, ""))
    assert not searched(ledger, client).deserted
    assert ledger.value == value
    assert ledger.plan is best
    assert ledger.planner == "annealing on worker 0"
    first, second = (asked for _, asked in client.asked)
    assert first.start is None
    assert second.start is worst
    assert first.construct
    assert not second.construct
    assert first.seed != second.seed
    (reported,) = ledger.details["cluster"]["workers"].values()
    assert reported == {
        "name": "worker 0",
        "host": "host",
        "rounds": 2,
        "schedules": 14,
        "models": 4,
        "improvements": 2,
        "best": value,
    }


def test_a_wrong_plan_of_a_worker_is_a_defect_and_no_plan():
    *_, best = plans()
    moved = replace(
        best.runs[-1],
        start_ticks=0,
        stop_ticks=best.runs[-1].stop_ticks - best.runs[-1].start_ticks,
    )
    wrong = replace(best, runs=(*best.runs[:-1], moved))
    assert not verify(PROBLEM, wrong).ok

    def answer(client, _address, _asked):
        return Future("finished", found(wrong if len(client.asked) == 1 else best))

    ledger = ledger_of()
    ledger.prove(Bound("the best there is", verify(PROBLEM, best).value, ""))
    searched(ledger, Client(["a"], answer))
    assert ledger.plan is best
    assert any("breaks a law" in defect for defect in ledger.defects)


def test_a_lost_worker_costs_its_round_and_the_other_goes_on():
    *_, best = plans()
    waiting = []

    def answer(client, address, _asked):
        if address == "a":
            waiting.append(Future("pending"))
            return waiting[-1]
        client.workers.pop("a", None)
        return Future("finished", found(best if len(client.asked) > 3 else None))

    ledger = ledger_of()
    ledger.prove(Bound("the best there is", verify(PROBLEM, best).value, ""))
    team = searched(ledger, Client(["a", "b"], answer))
    assert ledger.plan is best
    assert not team.deserted
    assert waiting[0].cancelled
    assert ledger.details["cluster"]["rounds"]["lost"] == 1


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lambda client: client.workers.clear(), "no worker is there"),
        (lambda client: setattr(client, "status", "connecting"), "the scheduler is lost"),
    ],
)
def test_without_anybody_the_plan_stays_and_home_goes_on(happens, why):
    *_, best = plans()

    def answer(client, _address, _asked):
        if len(client.asked) == 1:
            return Future("finished", found(best))
        happens(client)
        return Future("pending")

    ledger = ledger_of()
    assert searched(ledger, Client(["a"], answer)).deserted == why
    assert ledger.plan is best
    assert not ledger.budget.over


def test_workers_that_always_fail_are_asked_no_more():
    def answer(_client, _address, _asked):
        return Future("error", RuntimeError("other sources of milp_plan than at home"))

    ledger, client = ledger_of(), Client(["a", "b"], answer)
    assert searched(ledger, client).deserted == "every worker fails"
    assert len(client.asked) <= 2 * MOST_FAILURES
    assert any("other sources" in defect for defect in ledger.defects)


def test_a_search_goes_on_at_home_when_nobody_is_there(monkeypatch):
    class Gone(Client):
        def close(self, timeout):
            self.status = "closed"

    client = Gone([], None)
    monkeypatch.setattr("milp_plan.run.dask.client_at", lambda _address: client)
    problem = random_training(8, 12, batches=4)
    outcome = run.solve(problem, run.Settings(time_limit_s=2, dask="tcp://nowhere:1"))
    assert outcome.verdict is not None
    assert outcome.verdict.ok
    assert outcome.record["cluster"]["rounds"] == {"begun": 0, "lost": 0}
    assert client.status == "closed"


@pytest.mark.parametrize("changes", [{"node_limit": 5}, {"only": True}])
def test_what_a_cluster_cannot_do_is_refused(changes):
    with pytest.raises(UnusedOptionError, match="dask"):
        run.solve(PROBLEM, run.Settings(dask="tcp://nowhere:1", **changes))


def test_other_kinds_of_problems_say_that_they_stay_at_home(tmp_path):
    file = tmp_path / "buffers.csv"
    file.write_text("id,lower,upper,size\na,0,3,4\nb,1,4,5\n")
    asked = ["solve", str(file), "--dask", "tcp://nowhere:1", "--record-folder", str(tmp_path)]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 2
    assert "--dask: found 'tcp://nowhere:1', expected no such option here" in result.output
    assert "the search runs on this machine only for a packing problem" in result.output


def test_no_scheduler_is_one_error(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    monkeypatch.setattr(room, "CONNECT_S", 1)
    file = "instances/gpt-tiny-training-2xA100.json"
    asked = ["solve", file, "--dask", "tcp://127.0.0.1:9", "--record-folder", str(tmp_path)]
    result = CliRunner().invoke(main, [*asked, "--quiet"])
    assert result.exit_code == 6
    stated = [line for line in result.output.splitlines() if "error" in line]
    assert len(stated) == 1
    assert "no Dask scheduler at tcp://127.0.0.1:9" in stated[0]


def test_a_round_on_a_worker_betters_its_start():
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    worst, *_ = plans()
    data = pickle.dumps(PROBLEM)
    asked = RoundRequest(worst, 1, 1.0, 1, construct=True, sources=sources())
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as small,
        distributed.Client(small, set_as_default=False) as client,
    ):
        answer = client.submit(work, data, asked, pure=False).result()
        other = client.submit(work, data, replace(asked, sources="other"), pure=False)
        assert "other sources" in str(other.exception())
    verdict = verify(PROBLEM, answer.plan)
    assert verdict.ok
    assert verdict.value < verify(PROBLEM, worst).value


@pytest.mark.slow
def test_one_of_two_workers_is_killed_at_half_time():
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    # Nearly every search finds the same best plan of it, and no proof: values depend less on the
    # clock than those of larger graphs, which differ by 1 % and more on a busy machine.
    _, problem = run.read("instances/unet-training-4xA100.json")
    limit_s, values = 60.0, []
    for workers in (1, 2):
        with distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as small:
            victim = next(iter(small.workers.values()))
            if workers == 2:
                kill = threading.Timer(limit_s / 2, os.kill, (victim.pid, signal.SIGKILL))
                kill.start()
            settings = run.Settings(time_limit_s=limit_s, dask=small.scheduler_address)
            outcome = run.solve(problem, settings)
        assert outcome.verdict is not None
        assert outcome.verdict.ok
        assert outcome.stop is Stop.TIME_LIMIT
        values.append(outcome.value)
    assert outcome.record["cluster"]["rounds"]["lost"] >= 1
    assert values[1] <= values[0] * 1.005  # rounds depend on the clock
