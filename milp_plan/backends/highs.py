"""Runs HiGHS in a separate process: it can be killed at any time, and no incumbent is lost."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import BackendUnavailableError
from milp_plan.core.budget import LONGEST_S, now
from milp_plan.lp import CompiledModel

from .outcome import Limits, SolverReport, Stop, TracePoint
from .worker import Job

logger = logging.getLogger(__name__)

MINIMUM_VERSION = (1, 15, 1)
"""highspy 1.14.0 proves a wrong optimum on a two-variable model, which a test repeats."""

ProgressHook = Callable[[TracePoint], None]


def _logs() -> bool:
    """Return whether the output of HiGHS is logged."""
    return logger.isEnabledFor(logging.DEBUG)


def check_version() -> str:
    """Return the version of highspy.

    Raises
    ------
    BackendUnavailableError
        highspy is missing, or older than the floor.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("highspy")
    except PackageNotFoundError as error:
        raise BackendUnavailableError("highspy is not installed: pip install highspy") from error
    if tuple(int(part) for part in installed.split(".")[:3]) < MINIMUM_VERSION:
        floor = ".".join(map(str, MINIMUM_VERSION))
        raise BackendUnavailableError(f"highspy {installed} is too old, expected {floor} or newer")
    return installed


def _spawn() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "milp_plan.backends.worker", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches us first; we decide what the solver does
    )


class _Idle:
    """Idle workers by number of threads, which HiGHS cannot change after its first model."""

    def __init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        atexit.register(self.close)

    def take(self, threads: int) -> subprocess.Popen[bytes]:
        """Return a living worker with a number of threads, or a new one."""
        process = self.processes.pop(threads, None)
        if process is not None and process.poll() is not None:
            _end(process)
            process = None
        return process or _spawn()

    def give(self, process: subprocess.Popen[bytes], threads: int) -> None:
        """Store a worker that has answered, unless another one is idle already."""
        if self.processes.setdefault(threads, process) is not process:
            _end(process)

    def close(self) -> None:
        """End all idle workers."""
        while self.processes:
            _end(self.processes.popitem()[1])


_idle = _Idle()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what it never read is lost with it
                stream.close()


class _Conversation:
    """Messages of a worker so far."""

    def __init__(self, process: subprocess.Popen[bytes], on_progress: ProgressHook | None) -> None:
        self.process = process
        self.on_progress = on_progress
        self.messages: queue.Queue[tuple[Any, ...] | None] = queue.Queue()
        self.solution: NDArray[np.float64] | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.nodes = 0
        self.handover_s = 0.0
        self.start_accepted: bool | None = None
        self.trace: list[TracePoint] = []
        self.done: dict[str, Any] | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        try:
            while True:
                message = pickle.load(stdout)
                self.messages.put(message)
                if message[0] == "done":  # what follows belongs to the next job of a session
                    return
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.messages.put(None)

    @property
    def answered(self) -> bool:
        """Whether the worker has solved its model and can solve another one."""
        return self.done is not None and self.done["stop"] != Stop.ERROR

    def take(self, timeout: float) -> bool:
        """Handle one message; return ``False`` if it is the worker's last one."""
        message = self.messages.get(timeout=timeout)
        if message is None:
            return False
        kind, *content = message
        if kind == "done":
            self.done = content[0]
            return False
        if kind == "log":
            logger.debug("%s", content[0].rstrip())
            return True
        if kind == "started":
            self.handover_s, self.start_accepted = content
            return True
        if kind == "incumbent":
            seconds, self.objective, self.solution = content
        else:
            seconds, _, bound, self.nodes = content
            self.bound = bound if bound is not None else self.bound
        point = TracePoint(seconds, self.objective, self.bound, self.nodes)
        self.trace.append(point)
        if self.on_progress is not None:
            self.on_progress(point)
        return True


def _follow(talk: _Conversation, limits: Limits, began: float) -> Stop | None:
    """Read until the worker is done; return why it was killed, or ``None`` if it ended itself."""
    deadline = began + limits.time_s + limits.grace_s
    asked: Stop | None = None
    while True:
        try:
            if not talk.take(timeout=max(0.01, min(LONGEST_S, deadline - now()))):
                return asked
        except queue.Empty:
            return asked or Stop.TIME_LIMIT
        except KeyboardInterrupt:
            if asked is not None:
                return asked
            asked = Stop.INTERRUPTED
            talk.process.terminate()
            deadline = now() + limits.grace_s


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return how a process ended after its last message: it may take a moment to end."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=1.0)
    return None


def _report(talk: _Conversation, ended: Stop | None, seconds: float) -> SolverReport:
    done = talk.done or {}
    solution, objective, bound = talk.solution, talk.objective, talk.bound
    if done.get("solution") is not None and (objective is None or done["objective"] <= objective):
        solution, objective = done["solution"], done["objective"]
    if done.get("bound") is not None:
        bound = done["bound"]
    if "stop" in done:
        stop = ended if ended is Stop.INTERRUPTED else Stop(done["stop"])
        message = done["message"]
    elif ended is not None:
        stop, message = ended, "the solver overran its limit and was ended"
    else:
        code = _exit_code(talk.process)
        stop, message = Stop.KILLED, f"the solver process ended without an answer (exit {code})"
    return SolverReport(
        stop=stop,
        solution=solution,
        objective=objective,
        bound=bound,
        nodes=int(done.get("nodes", talk.nodes)),
        seconds=seconds,
        handover_s=talk.handover_s,
        start_accepted=talk.start_accepted,
        trace=tuple(talk.trace),
        message=message,
        row_duals=done.get("row_duals"),
    )


def solve(
    model: CompiledModel,
    limits: Limits,
    start: NDArray[np.float64] | None = None,
    *,
    on_progress: ProgressHook | None = None,
    options: dict[str, bool | int | float | str] | None = None,
    on_spawn: Callable[[int], None] | None = None,
) -> SolverReport:
    """Solve a model with HiGHS and return its report.

    Never raises because of how the solver ended: a limit, an interruption (Ctrl-C), a crash and a
    kill are all values of ``report.stop``, and the best incumbent so far is in the report.

    Parameters
    ----------
    model, limits
        The model and the limits of the solve.
    start
        A complete vector, shape (num_columns,); refused starts are reported, not fatal.
    on_progress
        Called with each new trace point.
    options
        Further HiGHS options.
    on_spawn
        Called with the process id of the solver.

    Raises
    ------
    BackendUnavailableError
        highspy is missing or too old.
    """
    check_version()
    began = now()
    process = _idle.take(limits.threads)
    if on_spawn is not None:
        on_spawn(process.pid)
    talk = _Conversation(process, on_progress)
    assert process.stdin is not None
    try:
        try:
            pickle.dump(Job(model, limits, start, options, _logs()), process.stdin, protocol=5)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it died; the conversation will say so
        ended = _follow(talk, limits, now())
        report = _report(talk, ended, now() - began)
    except BaseException:
        _end(process)
        raise
    if talk.answered and ended is None:
        _idle.give(process, limits.threads)
    else:
        _end(process)
    return report


class Session:
    """A context manager with one process for many small models, one after the other.

    Saves starting a process per model. A process that overran its limit or died is replaced.
    """

    def __init__(self) -> None:
        check_version()
        self._process: subprocess.Popen[bytes] | None = None
        self._threads = 1

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            _idle.give(process, self._threads)

    def _close(self) -> None:
        if self._process is not None:
            _end(self._process)
            self._process = None

    def solve(
        self,
        model: CompiledModel,
        limits: Limits,
        *,
        options: dict[str, bool | int | float | str] | None = None,
    ) -> SolverReport:
        """Solve a model as :func:`solve` does, without a start.

        All models of a session should ask for the same number of threads: HiGHS keeps the first.
        """
        began = now()
        if self._process is None:
            self._process = _idle.take(limits.threads)
            self._threads = limits.threads
        talk = _Conversation(self._process, None)
        assert self._process.stdin is not None
        ended: Stop | None = None
        try:
            with contextlib.suppress(BrokenPipeError):  # it died; the conversation will say so
                pickle.dump(
                    Job(model, limits, None, options, _logs()), self._process.stdin, protocol=5
                )
                self._process.stdin.flush()
            ended = _follow(talk, limits, now())
        finally:
            seconds = (talk.done or {}).get("seconds", now() - began)
            report = _report(talk, ended, seconds)  # without starting the process
            if talk.done is None or ended is not None:
                self._close()
        return report

    def interrupt(self) -> None:
        """Kill a solve of another thread, which gets a report of a killed process."""
        process = self._process
        if process is not None:
            process.kill()
