"""Does one run in a separate process: its start, its work and its end.

The process reads a pickled job from standard input, and writes one JSON document to standard
output. It ends when its input does: the input stays open as long as whoever wants the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from milp_plan.core.budget import now
from milp_plan.run.identity import installed, sources

from .tasks import Task

Result = dict[str, Any]
"""``status``, ``error``, ``outcome`` (plain data), ``plan`` (text), and the machine."""

OURS = ("work", "planner", "grace_s")
"""Members of a job that are no settings of the run."""
POLL_S = 0.5
LAST_WORDS_S = 10.0
"""Seconds for a run that is asked to stop to return its best plan."""
_ENDED = 70
"""Exit code of a process whose parent has ended."""


def job_of(task: Task) -> dict[str, Any]:
    """Return the input of a process, on this machine or on another one."""
    return {
        "key": task.key,
        "source": None if task.source is None else asdict(task.source),
        "asked": dict(task.asked),
        "sources": sources(),
        "installed": installed(),
    }


# -- outside the process --------------------------------------------------------------------------


class Child:
    """A process that does one run.

    Parameters
    ----------
    job
        The job, made by :func:`job_of`.
    path
        Folder it imports this package from, if not where this process does.
    """

    def __init__(self, job: Mapping[str, Any], path: Path | None = None) -> None:
        self.job = job
        self.interrupted = False
        self.killed = False
        threads = str(job["asked"]["threads"])
        few = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "milp_plan.study.job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the driver alone
            env={**os.environ, **few, **_import_from(path)},
        )

    def interrupt(self) -> None:
        """Ask the process to stop with its best plan."""
        self.interrupted = True
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the process and its group; its solver notices that and ends too."""
        self.killed = True
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def result(self, unwanted: Callable[[], bool] = lambda: False) -> Result:
        """Wait for the answer, at most until the hard stop.

        Parameters
        ----------
        unwanted
            Asked now and then; true ends the process.
        """
        began, started = now(), datetime.now(UTC)
        out, err, overran = self._follow(unwanted, began)
        facts = {
            "started": started.isoformat(timespec="seconds"),
            "wall_s": round(now() - began, 3),
            "worker": {"host": platform.node(), "pid": self.process.pid},
        }
        try:
            answer: Result = json.loads(out)
        except ValueError:
            answer = {"outcome": None, "plan": None, **self._silence(err, overran)}
        return {**answer, **facts}

    def _follow(self, unwanted: Callable[[], bool], began: float) -> tuple[bytes, bytes, bool]:
        settings = self.job["asked"]
        limit = settings["time_limit_s"] + settings["grace_s"]
        outputs: dict[str, bytes] = {}
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        streams = {"out": self.process.stdout, "err": self.process.stderr}
        listeners = []
        for name, stream in streams.items():
            thread = threading.Thread(
                target=lambda n=name, s=stream: outputs.__setitem__(n, s.read()), daemon=True
            )
            thread.start()
            listeners.append(thread)
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(self.job, stdin, protocol=5)
            stdin.flush()  # and stays open: its end would end the process
        overran = False
        asked_at: float | None = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=POLL_S)
                break
            moment = now()
            if self.interrupted and asked_at is None:
                asked_at = moment
            late = asked_at is not None and moment - asked_at > LAST_WORDS_S
            overran = moment - began > limit
            if overran or late or unwanted():
                self.kill()
                self.process.wait()
                break
        for listener in listeners:
            listener.join(timeout=LAST_WORDS_S)
        for stream in (stdin, *streams.values()):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        return outputs.get("out", b""), outputs.get("err", b""), overran

    def _silence(self, err: bytes, overran: bool) -> Result:
        """Return the result of a process without an answer."""
        if overran:
            settings = self.job["asked"]
            limit = settings["time_limit_s"] + settings["grace_s"]
            return {"status": "failed", "error": f"not done after {limit:g} s, ended from outside"}
        if self.interrupted:
            return {"status": "interrupted", "error": "stopped before it had a plan"}
        if self.killed:
            return {"status": "failed", "error": "ended from outside"}
        code = self.process.returncode
        last = (err.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        return {"status": "failed", "error": f"the process ended with code {code}: {last}"}


def _import_from(path: Path | None) -> dict[str, str]:
    """Return the environment in which a process and its children import from a folder."""
    if path is None:
        return {}
    paths = [str(path.absolute()), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(entry for entry in paths if entry),
        "PYTHONSAFEPATH": "1",  # else the current folder would come first
    }


# -- inside the process ---------------------------------------------------------------------------


def main() -> None:
    """Read a job, do it, and write the answer."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but the answer may reach the pipe
    job = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_watch, daemon=True).start()
    answer = do(job)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to stop
    out.write(json.dumps(answer).encode())
    out.close()


def _watch() -> None:
    """End this process when its parent ends, whose end of the pipe closes then."""
    while os.read(0, 1):
        pass
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(0) == os.getpid():  # what it started, but nobody else
            os.killpg(0, signal.SIGKILL)
    os._exit(_ENDED)


def do(job: Mapping[str, Any]) -> Result:
    """Do a run and return its answer; errors are answers too."""
    from milp_plan.core import BackendUnavailableError, UnsupportedProblemError

    try:
        return _run(job)
    except KeyboardInterrupt:
        return _nothing("interrupted", "stopped before it had a plan")
    except UnsupportedProblemError as error:
        return _nothing("unsupported", str(error))
    except BackendUnavailableError as error:
        return _nothing("failed", str(error))
    except Exception as error:  # it becomes a row of the table
        return _nothing("failed", f"{type(error).__name__}: {error}")


def _nothing(status: str, error: str) -> Result:
    return {"status": status, "error": error, "outcome": None, "plan": None}


def _run(job: Mapping[str, Any]) -> Result:
    if job["sources"] != sources():
        return _nothing("failed", "the sources are not those of the driver: start it again")
    if job["installed"] != installed():
        text = f"other versions than the driver's: {installed()}, not {job['installed']}"
        return _nothing("failed", text)
    settings = job["asked"]
    if settings["work"] == "measure":
        from .measured import measure

        return measure(settings)
    from milp_plan.io.files import Document
    from milp_plan.run.kinds import read_whole

    source = job["source"]
    document = Document(Path(source["file"]), source["data"])
    kind, problem = read_whole(document, source["changes"])
    if problem.fingerprint != source["fingerprint"]:
        return _nothing("failed", "the problem arrived changed")
    if settings["work"] == "heuristic" and settings["planner"] not in kind.heuristics():
        text = f"{settings['planner']} does not plan problems of the kind {kind.name}"
        return _nothing("unsupported", text)
    # a suite numbers its repeats and shares out threads, whatever the kind
    common = {name for name in ("seed", "threads") if name in kind.ignores}
    return _solve(problem, {name: entry for name, entry in settings.items() if name not in common})


def _solve(problem: Any, asked: Mapping[str, Any]) -> Result:
    from milp_plan.backends import Stop
    from milp_plan.run.heuristic import run_heuristic
    from milp_plan.run.settings import Settings
    from milp_plan.run.solving import solve

    fields = {name: entry for name, entry in asked.items() if name not in OURS}
    settings = Settings(**fields)
    if asked["work"] == "heuristic":
        outcome = run_heuristic(problem, asked["planner"], settings)
    else:
        outcome = solve(problem, settings)
    status, error = "done", None
    if outcome.stop is Stop.INTERRUPTED:
        status, error = "interrupted", "stopped by Ctrl-C"
    elif outcome.plan is None and outcome.stop in (Stop.ERROR, Stop.KILLED):
        status, error = "failed", f"the solver failed: {'; '.join(outcome.defects) or outcome.stop}"
    plan = None if outcome.plan is None else outcome.kind.plan_text(outcome.plan).decode()
    return {"status": status, "error": error, "outcome": outcome.record, "plan": plan}


if __name__ == "__main__":
    main()
