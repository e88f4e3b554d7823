"""The same runs on a Dask cluster of two worker processes, one of which is killed in mid-run."""

import os
import signal
from pathlib import Path

import pytest

from milp_plan.study.driver import Local, drive
from milp_plan.study.rows import rows_of
from milp_plan.study.store import Store

from .cases import TINY, ended, expansion, until

pytest.importorskip("distributed", reason="Dask's distributed is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SUITE = """
seeds = [0, 1]
[[planners]]
name = "both stages"
[[planners]]
name = "heft"
planner = "heft"
"""
SAME = ("file", "variation", "planner", "seed", "status", "value", "bound", "verdict", "proved")


@pytest.fixture
def cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


def table(found, store):
    return [{name: row[name] for name in SAME} for row in rows_of(found, store)]


def jobs_of(pid):
    """Processes of runs that a worker has."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text().split()]
    running = [child for child in found if not ended(child)]
    return [c for c in running if b"milp_plan.study.job" in Path(f"/proc/{c}/cmdline").read_bytes()]


def suite(folder):
    head, _, text = SUITE.partition("[[")
    return expansion(folder, f"[[{text}", files=TINY, head=head)


def test_runs_of_a_cluster_in_this_process(tmp_path):
    from distributed import LocalCluster

    from milp_plan.study.cluster import Dask

    found, store = expansion(tmp_path, files=TINY[:1]), Store(tmp_path / "store")
    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as small:
        executor = Dask(small.scheduler_address)
        try:
            assert executor.slots == 2
            state = drive(found.tasks, store, executor)
        finally:
            executor.close()
        worker = small.workers[0].address
    assert (state.done, state.failed) == (2, 0)
    assert {store.load(task.key)["worker"]["dask"] for task in found.tasks} == {worker}
    assert not executor.news()


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    from distributed import Client

    from milp_plan.study.cluster import Dask

    found, store = suite(tmp_path), Store(tmp_path / "store")
    victim = next(iter(cluster.workers.values()))
    address = victim.worker_address
    executor = Dask(cluster.scheduler_address)
    heard, lost = [], []

    def tell(_state, _task, _record):
        heard.extend(executor.news())
        running = watcher.processing().get(address, ())
        if not lost and running and list(store.keys()):
            lost.extend(running)
            os.kill(victim.pid, signal.SIGKILL)

    try:
        with Client(cluster.scheduler_address, set_as_default=False) as watcher:
            state = drive(found.tasks, store, executor, on_event=tell)
    finally:
        executor.close()
    assert len(lost) == 1
    assert any("was lost; its runs are repeated elsewhere" in stated for stated in heard)
    assert (state.done, state.failed, state.left) == (len(found.tasks), 0, 0)
    records = {task.key: store.load(task.key) for task in found.tasks}
    (repeated,) = [key for key in records if lost[0].startswith(f"milp-plan-{key[:16]}")]
    assert records[repeated]["worker"]["dask"] != address
    assert records[repeated]["attempts"] == 1
    local = Store(tmp_path / "local")
    here = Local(2)
    try:
        drive(found.tasks, local, here)
    finally:
        here.close()
    assert table(found, store) == table(found, local)


@pytest.mark.slow
def test_cancelled_runs_end_on_their_worker(cluster, tmp_path):
    from milp_plan.study.cluster import Dask

    found = expansion(tmp_path, "[limits]\ntime = 100\n", files=("transformer-4xA100.json.gz",))
    executor = Dask(cluster.scheduler_address)
    presses = []

    def tell(state, _task, _record):
        if state.elapsed_s > 5:
            presses.append(1)

    try:
        state = drive(
            found.tasks, Store(tmp_path / "s"), executor, presses=lambda: len(presses), tell=tell
        )
    finally:
        executor.close()
    assert state.stopped == 1
    for worker in cluster.workers.values():
        until(lambda pid=worker.pid: not jobs_of(pid))
    assert state.elapsed_s < 60
