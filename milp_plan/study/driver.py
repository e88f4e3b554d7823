"""Does the runs of a suite: several at a time, each once, and stores every result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock as Mutex
from typing import Any, Protocol

from milp_plan.core.budget import now
from milp_plan.run.identity import drop_caches, link_caches
from milp_plan.run.record import instance_reference

from .job import Child, Result, job_of
from .rows import ABSENT
from .store import FINISHED, Lock, Record, Store
from .tasks import Task

TICK_S = 0.2
"""Seconds between two looks at the runs."""
AGAIN_S = 1.0
"""Seconds between two looks at runs of another driver."""


class Executor(Protocol):
    """Where runs are executed: on this machine or on a cluster."""

    @property
    def slots(self) -> int:
        """Maximum number of concurrent runs."""
        ...

    def submit(self, job: dict[str, Any]) -> Future[Result]:
        """Start a run."""
        ...

    def news(self) -> list[str]:
        """Return messages for the user, each once."""
        ...

    def interrupt(self) -> None:
        """Ask every run to stop with its best plan; kill it when called again."""
        ...

    def close(self) -> None:
        """Kill the runs that are left."""
        ...


class Local:
    """Runs on this machine.

    Parameters
    ----------
    jobs
        Processes at a time.
    path
        Folder they import this package from; see :func:`milp_plan.run.identity.snapshot`.
    """

    def __init__(self, jobs: int, path: Path | None = None) -> None:
        self.slots = jobs
        self._path = path
        self._pool = ThreadPoolExecutor(max_workers=jobs)
        self._children: set[Child] = set()
        self._mutex = Mutex()
        self._asked = False
        self._closed = False
        if path is not None:
            link_caches(path)

    def submit(self, job: dict[str, Any]) -> Future[Result]:
        """Start a run."""
        return self._pool.submit(self._do, job)

    def _do(self, job: dict[str, Any]) -> Result:
        with self._mutex:
            if self._asked or self._closed:
                return {"status": "interrupted", "error": "not begun", "outcome": None}
            child = Child(job, self._path)
            self._children.add(child)
        try:
            return child.result()
        finally:
            with self._mutex:
                self._children.discard(child)

    def news(self) -> list[str]:
        """Return nothing: the results say everything."""
        return []

    def interrupt(self) -> None:
        """Ask every run to stop with its best plan; kill it when called again."""
        with self._mutex:
            for child in self._children:
                if self._asked:
                    child.kill()
                else:
                    child.interrupt()
            self._asked = True

    def close(self) -> None:
        """Kill the runs that are left."""
        with self._mutex:
            self._closed = True
            for child in self._children:
                child.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._path is not None:
            drop_caches(self._path)


@dataclass
class SuiteProgress:
    """Progress of a suite.

    Parameters
    ----------
    total
        Runs of the suite.
    known
        Number of them that were finished before.
    done, failed, stopped
        Done by this call; failed in it, or before and not tried again; stopped by Ctrl-C.
    running
        Titles of the runs under way, and when they began (``now``).
    elsewhere
        Runs that another driver has under way.
    seconds
        Spent in runs of this call, summed.
    """

    total: int
    known: int = 0
    done: int = 0
    failed: int = 0
    stopped: int = 0
    elsewhere: int = 0
    seconds: float = 0.0
    slots: int = 1
    running: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=now)

    @property
    def left(self) -> int:
        """Number of runs without an answer, including current ones."""
        return self.total - self.known - self.done - self.failed - self.stopped

    @property
    def elapsed_s(self) -> float:
        """Seconds since the call began."""
        return now() - self.began

    @property
    def estimate_s(self) -> float | None:
        """Seconds until the end, from the mean of this call's runs; ``None`` before the first."""
        ended = self.done + self.failed
        if not ended or not self.seconds:
            return None
        spent = sum(now() - began for began in self.running.values())
        return max(0.0, (self.left * self.seconds / ended - spent) / max(1, self.slots))


OnEvent = Callable[[SuiteProgress, Task | None, Record | None], None]
"""Called with every result, and from time to time without one."""


def to_do(
    tasks: Sequence[Task], store: Store, *, retry_failed: bool = True
) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the runs to be done, the finished ones, and those that failed for good.

    Of runs that share a key, one stands for all.
    """
    pending, finished, failed = [], [], []
    for task in {task.key: task for task in tasks}.values():
        record = store.load(task.key)
        if record is not None and record["status"] in FINISHED:
            finished.append(task)
        elif record is not None and record["status"] == "failed" and not retry_failed:
            failed.append(task)
        else:
            pending.append(task)
    return pending, finished, failed


def drive(
    tasks: Sequence[Task],
    store: Store,
    executor: Executor,
    *,
    retry_failed: bool = True,
    presses: Callable[[], int] = lambda: 0,
    on_event: OnEvent = lambda _state, _task, _record: None,
) -> SuiteProgress:
    """Do all runs that have no answer in the store.

    Parameters
    ----------
    tasks
        The runs of a suite.
    store
        Store of answers.
    executor
        Where runs are done; the caller closes it.
    retry_failed
        Whether runs that failed in an earlier call are tried once more.
    presses
        How often Ctrl-C was pressed: once, runs under way are asked for their best plan and no
        other is begun; twice, they are ended.
    on_event
        Called with the progress.

    Raises
    ------
    OSError
        A result cannot be written; its event came before.
    """
    driver = _Driver(
        tasks, store, executor, retry_failed=retry_failed, presses=presses, on_event=on_event
    )
    return driver.run()


class _Driver:
    def __init__(
        self,
        tasks: Sequence[Task],
        store: Store,
        executor: Executor,
        *,
        retry_failed: bool,
        presses: Callable[[], int],
        on_event: OnEvent,
    ) -> None:
        self.store, self.executor = store, executor
        self.presses, self.on_event = presses, on_event
        pending, finished, failed = to_do(tasks, store, retry_failed=retry_failed)
        self.pending = deque(pending)
        self.waiting: dict[str, float] = {}  # keys of others' runs -> when to look again
        self.under_way: dict[Future[Result], tuple[Task, Lock, int]] = {}
        total = len(pending) + len(finished) + len(failed)
        self.state = SuiteProgress(total, known=len(finished), failed=len(failed))
        self.interrupts = 0
        self.unwritten = ""

    def run(self) -> SuiteProgress:
        try:
            while self.under_way or (self.pending and not self.interrupts):
                self._forward_interrupts()
                if not self.interrupts:
                    self._begin()
                self._collect()
                if self.unwritten:  # its event is out; no other result could be stored either
                    raise OSError(self.unwritten)
                self.state.slots = self.executor.slots
                self.on_event(self.state, None, None)
        finally:
            for _, lock, _ in self.under_way.values():
                lock.release()
        return self.state

    def _forward_interrupts(self) -> None:
        presses = self.presses()
        for _ in range(self.interrupts, min(presses, 2)):
            self.executor.interrupt()
        self.interrupts = max(self.interrupts, presses)

    def _begin(self) -> None:
        """Start runs as long as more are allowed; try each at most once."""
        for _ in range(len(self.pending)):
            if len(self.under_way) >= self.executor.slots:
                return
            task = self.pending.popleft()
            if self.waiting.get(task.key, 0.0) > now():
                self.pending.append(task)
                continue
            lock = self.store.lock(task.key)
            if lock is None:
                self.waiting[task.key] = now() + AGAIN_S
                self.pending.append(task)
                continue
            self._begin_one(task, lock)
        self.state.elsewhere = len(self.waiting)

    def _begin_one(self, task: Task, lock: Lock) -> None:
        waited = self.waiting.pop(task.key, None) is not None
        record = self.store.load(task.key)
        if record is not None and (record["status"] in FINISHED or (waited and _failed(record))):
            lock.release()  # another driver was faster
            if _failed(record):
                self.state.failed += 1
            else:
                self.state.known += 1
            return
        attempts = 0 if record is None else int(record["attempts"])
        try:
            future = self.executor.submit(job_of(task))
        except BaseException:
            lock.release()
            raise
        self.under_way[future] = (task, lock, attempts + 1)
        self.state.running[task.title] = now()

    def _collect(self) -> None:
        if not self.under_way:
            time.sleep(TICK_S)
            return
        done, _ = wait(self.under_way, timeout=TICK_S, return_when=FIRST_COMPLETED)
        for future in done:
            task, lock, attempts = self.under_way[future]
            try:
                record = self._keep(task, attempts, future)
            finally:
                del self.under_way[future]
                lock.release()
            self.state.running.pop(task.title, None)
            self.on_event(self.state, task, record)

    def _instance_reference(self, task: Task) -> Record:
        """Return the instance's path for reports; an instance made by a recipe has none."""
        source = task.source
        if source is None or not Path(source.file).is_file():
            return {}
        return instance_reference(Path(source.file), source.changes, self.store.folder)

    def _keep(self, task: Task, attempts: int, future: Future[Result]) -> Record:
        error = future.exception()
        if error is None:
            result = dict(future.result())
        else:  # of the executor, not of the run
            text = f"{type(error).__name__}: {error}"
            result = {"status": "failed", "error": text, "outcome": None}
        plan = result.pop("plan", None)
        record = {
            **task.description,
            **self._instance_reference(task),
            "attempts": attempts,
            **result,
        }
        status = record["status"]
        if status == "interrupted" and record["outcome"] is None:
            self.state.stopped += 1  # there is nothing to keep
            return record
        try:
            self.store.save(task.key, record, None if plan is None else plan.encode())
        except OSError as error:
            path = error.filename or self.store.record_path(task.key)
            self.unwritten = f"{path} cannot be written: {error.strerror or error}"
            self.state.stopped += 1
            return record
        self.state.seconds += float(record.get("wall_s") or 0.0)
        if status in (*FINISHED, ABSENT):
            self.state.done += 1
        elif status == "interrupted":
            self.state.stopped += 1
        else:
            self.state.failed += 1
        return record


def _failed(record: Record) -> bool:
    return bool(record["status"] == "failed")
