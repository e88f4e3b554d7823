"""Runs on a Dask cluster: jobs are sent with their problem, answers return to the driver."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from milp_plan.core.budget import now
from milp_plan.run.dask import client_at, workers_of

from .job import Child, Result

LOST_TOLERATED = 3
"""Maximum number of workers that a run may lose before it counts as failed."""
SLOTS_EVERY_S = 2.0


def work(job: dict[str, Any]) -> Result:
    """Do one run on a worker of the cluster, in a separate process."""
    from distributed import get_worker

    worker = get_worker()
    needed = _is_needed(worker, job["dask_key"])
    result = Child(job).result(lambda: not needed())
    who = {"host": platform.node(), "pid": os.getpid(), "dask": worker.address}
    return {**result, "worker": {**who, "name": str(worker.name)}}


def _is_needed(worker: Any, key: str) -> Callable[[], bool]:
    """Return a function that says whether a task is still needed; it has to stop by itself."""

    def needed() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return needed


class Dask:
    """Runs on the workers of a Dask scheduler.

    A worker that is lost loses its runs to another: the scheduler repeats them there.

    Parameters
    ----------
    address
        Address of the scheduler, such as ``tcp://host:8786``.

    Raises
    ------
    BackendUnavailableError
        distributed is not installed, or nobody answers at the address.
    """

    def __init__(self, address: str) -> None:
        self._client = client_at(address)
        self._futures: dict[Any, Future[Result]] = {}
        self._workers: dict[str, int] = {}
        self._seen_s = -SLOTS_EVERY_S
        self._lost: list[str] = []
        self._asked = False

    @property
    def slots(self) -> int:
        """Threads of all workers: maximum number of concurrent runs."""
        if now() - self._seen_s >= SLOTS_EVERY_S:
            self._seen_s = now()
            workers = workers_of(self._client)
            there = {address: int(entry["nthreads"]) for address, entry in workers.items()}
            self._lost += [address for address in self._workers if address not in there]
            self._workers = there
        return sum(self._workers.values())

    def submit(self, job: dict[str, Any]) -> Future[Result]:
        """Start a run."""
        key = f"milp-plan-{job['key'][:16]}-{time.time_ns()}"
        remote = self._client.submit(
            work, {**job, "dask_key": key}, key=key, pure=False, retries=LOST_TOLERATED
        )
        answer: Future[Result] = Future()
        self._futures[remote] = answer
        remote.add_done_callback(self._done)
        return answer

    def _done(self, remote: Any) -> None:
        answer = self._futures.pop(remote, None)
        if answer is None or answer.done():
            return
        if remote.status == "finished":
            try:
                answer.set_result(remote.result())
            except Exception as error:  # the worker went away with the answer
                answer.set_exception(error)
        elif remote.status == "error":
            answer.set_exception(remote.exception() or RuntimeError("the task failed"))
        else:
            answer.set_result(_stopped() if self._asked else _lost(remote.status))

    def news(self) -> list[str]:
        """Return messages on workers that were lost since the last call."""
        lost, self._lost = self._lost, []
        return [f"worker {address} was lost; its runs are repeated elsewhere" for address in lost]

    def interrupt(self) -> None:
        """Cancel every run; its worker sees that and ends its process."""
        self._asked = True
        pending = dict(self._futures)
        self._client.cancel(list(pending), force=True)
        for remote, answer in pending.items():
            self._futures.pop(remote, None)
            if not answer.done():
                answer.set_result(_stopped())

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close()


def _stopped() -> Result:
    return {"status": "interrupted", "error": "cancelled on the cluster", "outcome": None}


def _lost(status: str) -> Result:
    return {"status": "failed", "error": f"the cluster gave it up ({status})", "outcome": None}
