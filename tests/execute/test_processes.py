"""Processes of a run that are lost: before their answer they cost a repeat, behind it nothing."""

import json
import random

import pytest

from milp_plan.cli.exits import Exit, code_of
from milp_plan.core import BackendFailureError, UnsupportedProblemError
from milp_plan.execute import processes
from tests.support.processes import REPOSITORY

WELL = "result done"


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setattr(processes, "GRACE_S", 0.2)


def run(folder, *ends: list[str]) -> list[int]:
    """How often each process ran, that ends in turn as its list says."""
    (folder / "task.json").write_text(json.dumps({"done": processes.DONE, "ends": ends}))
    processes.start(folder, len(ends), "tests.execute.losing")
    for place in range(len(ends)):
        assert (folder / f"{place}.result").exists()
    return [len((folder / f"tries-{place}").read_text()) for place in range(len(ends))]


def test_an_abort_behind_the_answer_costs_nothing(tmp_path):
    assert run(tmp_path, [f"{WELL} SIGABRT"], [WELL]) == [1, 1]


def test_an_abort_before_the_answer_costs_a_repeat(tmp_path):
    assert run(tmp_path, ["result SIGABRT", WELL], ["waits", WELL]) == [2, 2]
    assert (tmp_path / "0.result").read_text() == "1"  # not what the lost one left


def test_a_process_that_is_lost_every_time_is_no_bad_input(tmp_path):
    with pytest.raises(BackendFailureError, match="signal 6") as error:
        run(tmp_path, ["SIGABRT"], ["waits"])
    assert code_of(error.value) == Exit.SOLVER_FAILURE
    assert len((tmp_path / "tries-0").read_text()) == processes.TRIES


@pytest.mark.parametrize(("word", "said"), [("says", "this cannot be run"), ("raises", "a defect")])
def test_what_a_process_says_is_not_tried_again(tmp_path, word, said):
    with pytest.raises(UnsupportedProblemError, match=said):
        run(tmp_path, ["waits"], [word])
    assert (tmp_path / "tries-1").read_text() == "x"


def test_an_answer_comes_whenever_a_run_without_loss_is_left(tmp_path):
    """Any process, any signal, before or behind its answer: the answer is that of one whole run."""
    for seed in range(12):
        rng = random.Random(seed)
        count, lost = rng.randint(1, 3), rng.randint(0, processes.TRIES - 1)
        ends = []
        for _ in range(count):
            how = rng.choice(["SIGKILL", "SIGSEGV", "result SIGABRT"])
            ends.append([*[rng.choice([how, WELL])] * lost, WELL + rng.choice(["", " SIGABRT"])])
        ends[0][:lost] = ["SIGABRT"] * lost
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run(folder, *ends)[0] == lost + 1
