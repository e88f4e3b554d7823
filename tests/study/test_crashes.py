"""``kill -9`` of the driver, two drivers, and Ctrl-C, with processes as a shell starts them."""

import os
import random
import signal
from pathlib import Path

import pytest

from tests.support.processes import finish

from .cases import INSTANCES, TINY, bench, ended, records, suite_file, until

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="Windows cannot send SIGINT or SIGTERM to another process"
)

RUNS = 4
SEEDS = f"seeds = {list(range(RUNS))}"
ONE = '[[planners]]\nname = "heft"\nplanner = "heft"\n'


def children(pid):
    """Processes that a process has started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text().split()]
    return found


def killed(folder, suite, store, reached):
    """Start a driver, kill it when so many runs are done; return its children of that moment."""
    driver = bench(folder, "run", suite, "--store", store, "--jobs", 2)
    until(lambda: len(records(store)) >= reached or driver.poll() is not None)
    workers = children(driver.pid)
    driver.kill()
    _, _, err = finish(driver)
    assert "done now" not in err, "it was done before it was killed"
    return workers


@pytest.mark.untraced
def test_a_killed_driver_loses_only_the_runs_in_flight(tmp_path):
    suite, store = suite_file(tmp_path, ONE, files=TINY[:1], head=SEEDS), tmp_path / "store"
    workers = killed(tmp_path, suite, store, 1)
    until(lambda: all(ended(pid) for pid in workers))
    before = records(store)
    assert 1 <= len(before) < RUNS
    code, _, err = finish(bench(tmp_path, "run", suite, "--store", store, "--jobs", 2))
    assert code == 0, err
    assert f"{RUNS} runs: {RUNS - len(before)} done now, {len(before)} before" in err
    after = records(store)
    assert len(after) == RUNS
    assert {key: after[key] for key in before} == before
    assert not list(store.glob("*.lock"))
    assert not list(store.glob(".*.tmp"))


@pytest.mark.slow
def test_two_drivers_do_each_run_once(tmp_path):
    suite, store = suite_file(tmp_path, ONE, files=TINY[:1], head=SEEDS), tmp_path / "store"
    ends = [finish(d) for d in [bench(tmp_path, "run", suite, "--store", store) for _ in range(2)]]
    assert [code for code, _, _ in ends] == [0, 0], ends
    done = [int(err.split(f"{RUNS} runs: ")[1].split()[0]) for _, _, err in ends]
    assert sum(done) == RUNS
    assert len(records(store)) == RUNS


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_what_is_done_and_says_what_is_left(number, ends, tmp_path):
    suite, store = suite_file(tmp_path, ONE, files=TINY[:1], head=SEEDS), tmp_path / "store"
    driver = bench(tmp_path, "run", suite, "--store", store)
    until(lambda: len(records(store)) >= 1)
    driver.send_signal(number)
    code, _, err = finish(driver)
    assert code == ends, err
    kept = len(records(store))
    assert 1 <= kept < RUNS
    assert f"{RUNS - kept} left" in err
    assert not list(store.glob("*.lock"))


@pytest.mark.slow
def test_forty_runs_survive_kills_at_random_moments(tmp_path):
    names = sorted(path.name for path in INSTANCES.glob("*-*.json") if path.stat().st_size < 20_000)
    more = '[[planners]]\nname = "topological"\nplanner = "list_topological"\n'
    text = ONE + more + '[[planners]]\nname = "auto"\n[limits]\ntime = 2\n'
    names = names[:14]
    suite = suite_file(tmp_path, text, files=tuple(names))
    store = tmp_path / "store"
    chance = random.Random(7)
    kept = {}
    total = 3 * len(names)
    assert total >= 40
    for share in (0.2, 0.5, 0.8):
        workers = killed(tmp_path, suite, store, int(share * total) + chance.randrange(3))
        until(lambda now=workers: all(ended(pid) for pid in now))
        found = records(store)
        assert {key: found[key] for key in kept} == kept
        kept = found
    code, _, err = finish(bench(tmp_path, "run", suite, "--store", store, "--jobs", 2))
    assert code == 0, err
    after = records(store)
    assert len(after) == total
    assert {key: after[key] for key in kept} == kept
    assert f"{total - len(kept)} done now, {len(kept)} before" in err
