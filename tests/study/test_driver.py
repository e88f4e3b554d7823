"""The driver: each run once, failures retried, two drivers, Ctrl-C; and what rows say of it."""

import errno
import threading

import pytest

from milp_plan.io.known_file import KnownValue, KnownValues, read_known
from milp_plan.study.driver import Local, drive
from milp_plan.study.job import do
from milp_plan.study.rows import against_known, row_of, rows_of
from milp_plan.study.store import Store

from .cases import INSTANCES, TINY, Here, expansion, until


def failure(_job):
    return {"status": "failed", "error": "of purpose", "outcome": None, "plan": None}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def tasks(tmp_path):
    return expansion(tmp_path).tasks


def test_each_run_is_done_once(tasks, store):
    first = Here()
    state = drive(tasks, store, first)
    assert (state.done, state.left, state.failed) == (len(tasks), 0, 0)
    assert sorted(first.begun) == sorted(task.key for task in tasks)
    second = Here()
    state = drive(tasks, store, second)
    assert (state.known, state.done) == (len(tasks), 0)
    assert second.begun == []
    assert not list(store.folder.glob("*.lock"))


def test_a_damaged_record_is_made_again(tasks, store):
    drive(tasks, store, Here())
    path = store.record_path(tasks[1].key)
    path.write_bytes(path.read_bytes()[:40])
    again = Here()
    drive(tasks, store, again)
    assert again.begun == [tasks[1].key]
    assert store.load(tasks[1].key)["status"] == "done"


def test_failures_are_retried_once_per_call_unless_forbidden(tasks, store):
    assert drive(tasks, store, Here(answer=failure)).failed == len(tasks)
    quiet = Here()
    state = drive(tasks, store, quiet, retry_failed=False)
    assert (quiet.begun, state.failed) == ([], len(tasks))
    again = Here(answer=failure)
    drive(tasks, store, again)
    assert len(again.begun) == len(tasks)
    assert store.load(tasks[0].key)["attempts"] == 2
    assert drive(tasks, store, Here()).done == len(tasks)
    assert store.load(tasks[0].key)["attempts"] == 3


def test_an_executor_that_breaks_is_a_failed_run(tasks, store):
    def broken(_job):
        raise RuntimeError("no workers")

    state = drive(tasks[:1], store, Here(answer=broken))
    assert state.failed == 1
    assert store.load(tasks[0].key)["error"] == "RuntimeError: no workers"


def test_a_full_disk_is_one_line_after_the_answer(tasks, store, monkeypatch):
    def full(path, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("milp_plan.study.store.write_atomic", full)
    reported = []

    def tell(_state, task, record):
        if task is not None:
            reported.append((task.key, record["outcome"]["value"]))

    executor = Here(slots=1)
    with pytest.raises(OSError, match="No space left") as caught:
        drive(tasks, store, executor, on_event=tell)
    assert reported == [(tasks[0].key, 110)]
    assert str(caught.value) == f"{store.record_path(tasks[0].key)} cannot be written: " + (
        "No space left on device"
    )
    assert executor.begun == [tasks[0].key]
    assert not list(store.folder.glob("*.lock"))


def test_two_drivers_share_the_work(tasks, store):
    both = [Here(slots=1), Here(slots=1)]
    drivers = [
        threading.Thread(target=drive, args=(tasks, Store(store.folder), executor))
        for executor in both
    ]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    begun = [key for executor in both for key in executor.begun]
    assert sorted(begun) == sorted(task.key for task in tasks)


def test_a_run_of_another_driver_is_waited_for(tasks, store):
    lock = store.lock(tasks[0].key)
    executor = Here()
    states = []
    driver = threading.Thread(
        target=drive,
        args=(tasks, Store(store.folder), executor),
        kwargs={"on_event": lambda state, _task, _record: states.append(state)},
    )
    driver.start()
    until(lambda: bool(states) and states[-1].done == len(tasks) - 1)
    assert tasks[0].key not in executor.begun
    assert states[-1].elsewhere == 1
    lock.release()
    driver.join()
    assert executor.begun.count(tasks[0].key) == 1


def test_ctrl_c_stops_what_runs_and_begins_nothing(tasks, store):
    executor = Here(answer=None)
    state = drive(tasks, store, executor, presses=lambda: len(executor.begun) // 2)
    assert executor.interrupts == 1
    assert len(executor.begun) == 2
    assert state.stopped == 2
    assert state.left == len(tasks) - 2
    assert list(store.keys()) == []
    assert drive(tasks, store, Here()).done == len(tasks)


def test_the_plan_of_an_interrupted_run_is_kept_and_the_run_done_again(tasks, store):
    def stopped(job):
        return do(job) | {"status": "interrupted", "error": "stopped by Ctrl-C"}

    assert drive(tasks[:1], store, Here(answer=stopped)).stopped == 1
    record = store.load(tasks[0].key)
    assert record["status"] == "interrupted"
    assert record["outcome"]["value"] is not None
    assert drive(tasks[:1], store, Here()).done == 1


def test_on_this_machine(tasks, store):
    executor = Local(2)
    try:
        state = drive(tasks[:2], store, executor)
    finally:
        executor.close()
    assert state.done == 2
    assert len({store.load(task.key)["worker"]["pid"] for task in tasks[:2]}) == 2


# -- rows ------------------------------------------------------------------------------------------


def test_rows_say_what_is_there_and_what_is_not(tmp_path, store):
    found = expansion(tmp_path, files=(*TINY, "absent.json"))
    drive(found.tasks[:1], store, Here())
    rows = rows_of(found, store)
    assert [row["status"] for row in rows] == ["done"] + ["not run"] * 5 + ["absent"]
    assert rows[0]["value"] == "110"
    assert rows[0]["value_float"] == 110.0
    assert "not in" in rows[-1]["error"]


def outcome(**changes):
    return {
        "value": 3 * 10**30 + 1,
        "bound": 2 * 10**30,
        "gap": 1 / 3,
        "proved": False,
        "stop": "time_limit",
        "verdict": "ok",
        "planner": "p",
        "bound_name": "b",
        "infeasible_because": None,
        "seconds": 2.0,
        "phases": {"solve": 1.5},
        "trace": [
            {"seconds": 0.5, "incumbent": 4 * 10**30},
            {"seconds": 1.0, "incumbent": 3 * 10**30 + 1},
            {"seconds": 1.5, "incumbent": 3 * 10**30 + 1},
        ],
    } | changes


def row(tasks, **changes):
    """Row of a run in a unit of 10^29 ticks."""
    task = tasks[0]
    task.about["ticks_per_unit"] = 10**29
    record = {"status": "done", "attempts": 1, "error": None, "outcome": outcome(**changes)}
    return row_of(task, record)


def test_numbers_of_any_size_stay_exact(tasks):
    found = row(tasks)
    assert found["value"] == "3000000000000000000000000000001"
    assert found["value_float"] == 30.0
    assert found["bound_float"] == 20.0
    assert found["seconds_to_best"] == 1.0
    assert found["phase solve"] == 1.5


def known(**changes):
    entry = {"instance": "gang-beats-single", "objective": "makespan", "source": "them"} | changes
    return KnownValues((KnownValue(**entry),))


@pytest.mark.parametrize(
    ("entry", "better", "wrong"),
    [
        ({"value": 30.5}, 1, 0),  # a value nobody proved may be beaten
        ({"value": 30.5, "proved": True}, 0, 1),
        ({"value": 30.5, "proved": True, "tolerance": 0.02}, 0, 0),
        ({"value": 30.0, "proved": True}, 0, 0),
        ({"value": 19.8}, 0, 1),  # the bound is above a plan
        ({"value": 19.9}, 0, 0),  # ... but for the digits that are written
        ({"optimum": 3 * 10**30 + 2}, 0, 1),
        ({"optimum": 3 * 10**30 + 1}, 0, 0),
        ({"optimum": 10**30}, 0, 1),
        ({"value": 1, "calls": 2}, 0, 0),  # another problem
        ({"value": 1, "contiguous": True}, 0, 0),
        ({"value": 1, "instance": "x"}, 0, 0),
    ],
)
def test_known_values(entry, better, wrong, tasks):
    found = against_known([row(tasks)], known(**entry))
    assert [len(stated) for stated in found] == [better, wrong]
    assert all("them" in sentence for stated in found for sentence in stated)


def test_a_proof_that_there_is_no_plan_contradicts_a_plan(tasks):
    found = row(tasks, value=None, bound=None, verdict="no plan", infeasible_because="so")
    assert len(against_known([found], known(value=3.0))[1]) == 1


def test_a_plan_that_fails_the_check_beats_nothing(tasks):
    found = row(tasks, verdict="violated")
    assert against_known([found], known(value=40.0)) == ([], [])


def test_known_values_of_the_repository_are_read_and_each_case_once():
    entries = read_known(INSTANCES / "known_values.toml").entries
    assert len({entry.case for entry in entries}) == len(entries) > 12
    assert all(entry.source for entry in entries)
