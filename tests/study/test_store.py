"""Results by content: whole or not there, one driver per run."""

import json
import subprocess
import sys

import pytest

from milp_plan.study.store import Store

KEY = "k" * 64
RECORD = {"status": "done", "attempts": 1, "outcome": {"value": 10**30, "gap": 0.1}, "error": None}
PLAN = b'{"plan": 1}\n'


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "store")
    found.save(KEY, dict(RECORD), PLAN)
    return found


def test_what_is_saved_is_loaded(store):
    loaded = store.load(KEY)
    assert loaded["outcome"] == RECORD["outcome"]
    assert loaded["key"] == KEY
    assert list(store.keys()) == [KEY]
    assert not store.damaged
    assert store.load("other") is None
    assert not store.damaged


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda s: s.record_path(KEY).write_bytes(s.record_path(KEY).read_bytes()[:-30]), "JSON"),
        (lambda s: s.record_path(KEY).write_text("[]"), "not a record"),
        (lambda s: _edit(s, lambda r: r["outcome"].update(value=1)), "its content"),
        (lambda s: _edit(s, lambda r: r.update(key="x")), "another run"),
        (lambda s: s.plan_path(KEY).unlink(), "its plan is gone"),
        (lambda s: s.plan_path(KEY).write_bytes(b"{}"), "its plan is not"),
    ],
)
def test_damaged_records_do_not_count(damage, said, store):
    damage(store)
    assert store.load(KEY) is None
    assert said in store.damaged[KEY]
    store.save(KEY, dict(RECORD), None)
    assert store.load(KEY) is not None
    assert not store.damaged
    assert not store.plan_path(KEY).exists()


def _edit(store, change):
    record = json.loads(store.record_path(KEY).read_text())
    change(record)
    store.record_path(KEY).write_text(json.dumps(record))


def test_what_a_killed_writer_leaves_is_ignored_and_removed(store):
    left = store.folder / f".{KEY}.json.123-abcd.tmp"
    left.write_text("{")
    assert list(store.keys()) == [KEY]
    store.lock(KEY).release()
    assert not left.exists()


def test_one_lock_at_a_time(store):
    lock = store.lock(KEY)
    assert Store(store.folder).lock(KEY) is None
    other = store.lock("other")
    assert other is not None
    other.release()
    lock.release()
    assert not lock.path.exists()
    again = Store(store.folder).lock(KEY)
    assert again is not None
    again.release()


def test_the_lock_of_a_process_that_died_is_stale(store):
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from milp_plan.study.store import Store\n"
        f"lock = Store(Path(sys.argv[1])).lock('{KEY}')\n"
        "print('mine', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"mine\n"
        assert store.lock(KEY) is None
        process.kill()
    path = store.folder / f"{KEY}.lock"
    assert path.exists()
    lock = store.lock(KEY)
    assert lock is not None
    lock.release()
