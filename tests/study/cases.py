"""Tiny suites, jobs, and the command as a process."""

from __future__ import annotations

import json
import pickle
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Any

from milp_plan.io.suite_file import read_suite
from milp_plan.study.job import do, job_of
from milp_plan.study.tasks import Expansion, Task, expand
from tests.support.processes import PATIENCE_S, start

REPOSITORY = Path(__file__).resolve().parents[2]
INSTANCES = REPOSITORY / "instances"
REUSED = (
    "from milp_plan.models.registry import get\n\n"
    'FORMULATION = get("operator_schedule").formulation\n'
)
"""A formulation file of one's own that does what the shipped one does."""

TINY = ("gang-beats-single.json", "two-sends-one-port.json", "memory-forces-delay.json")
QUICK = """
[[planners]]
name = "heft"
planner = "heft"
[[planners]]
name = "earliest"
planner = "list_topological"
"""


def suite_file(
    folder: Path, text: str = QUICK, files: tuple[str, ...] = TINY, head: str = ""
) -> Path:
    """Write a suite of shipped instances."""
    path = folder / "tiny.toml"
    names = ", ".join(f'"{name}"' for name in files)
    start = f'title = "Tiny"\nfolder = "{INSTANCES}"\nfiles = [{names}]\n{head}\n'
    path.write_text(start + text)
    return path


def expansion(folder: Path, text: str = QUICK, **changes: Any) -> Expansion:
    """Return a tiny suite with its runs."""
    return expand(read_suite(suite_file(folder, text, **changes)))


def a_task(folder: Path) -> Task:
    """Return one run of a heuristic."""
    return expansion(folder, files=TINY[:1]).tasks[0]


def a_job(task: Task, **asked: Any) -> dict[str, Any]:
    """Return the job of a run, asked otherwise."""
    job = job_of(task)
    merged = {**job["asked"], **asked}
    if merged["work"] == "solve":
        merged.pop("planner", None)  # of the heuristic it was
    return {**job, "asked": merged}


def formulation(folder: Path, code: str) -> dict[str, Any]:
    """Write a formulation file that does something when it is loaded; return what asks for it."""
    path = folder / "odd.py"
    path.write_text(code)
    return {"work": "solve", "formulation": str(path), "options": {}}


def bench(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start ``milp-plan bench`` as a process."""
    return start(folder, "milp_plan", "bench", *arguments)


def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < PATIENCE_S, "it never came"
        time.sleep(0.02)


def records(store: Path) -> dict[str, int]:
    """Key -> time of writing of every record."""
    found = {}
    for path in store.glob("*.json"):
        if not path.name.startswith(".") and not path.name.endswith(".plan.json"):
            found[path.stem] = path.stat().st_mtime_ns
    return found


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be buried."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return text.rpartition(")")[2].split()[0] in "ZX"


class InThisProcess:
    """Stands in for ``Child``: does a run without starting a process; one after the other."""

    turn = Lock()

    def __init__(self, job: dict[str, Any], path: Path | None = None) -> None:
        self.sent = pickle.dumps(job, protocol=5)

    def result(self) -> dict[str, Any]:
        with self.turn:
            answer: dict[str, Any] = json.loads(json.dumps(do(pickle.loads(self.sent))))
        return {**answer, "wall_s": 0.0, "worker": {"host": "here", "pid": 0}}


class Here:
    """Does runs in this process, in the given slots; counts them; may fail or hold on."""

    def __init__(self, slots=2, answer=do):
        self.slots, self.answer = slots, answer
        self.begun, self.interrupts = [], 0
        self.open = []

    def submit(self, job):
        self.begun.append(job["key"])
        future = Future()
        if self.answer is None:
            self.open.append(future)
        else:
            try:
                future.set_result(self.answer(job))
            except Exception as error:
                future.set_exception(error)
        return future

    def interrupt(self):
        self.interrupts += 1
        for future in self.open:
            future.set_result({"status": "interrupted", "error": "stopped", "outcome": None})
        self.open = []

    def news(self):
        return []

    def close(self):
        pass
