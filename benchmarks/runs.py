"""Runs of the two stages and their records: one process per instance, finished runs reused.

``python benchmarks/runs.py FILE`` is that process: it solves one file, writes its record and
prints one line of JSON. A crash, a kill or an overrun of it costs one row of a table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from milp_plan.run.choice import choose
from suites import REPOSITORY, Entry

from milp_plan.core import Plan, PlanningProblem
from milp_plan.io import read, read_plan
from milp_plan.run import Settings, solve, versions, write_record

RECORDS = REPOSITORY / "results" / "runs"
Reuse = Literal["no", "yes", "only"]
"""Whether a finished run is used again: never, if there is one, or nothing is ever solved."""

NOT_RUN = "not run"
OVERRUN_FACTOR, OVERRUN_S = 2.0, 120.0
"""A run is ended from outside after factor x time limit + so many seconds (reading, checks)."""

UNFINISHED = {"interrupted", "killed", "error"}
"""Stops of runs that are not used again."""

Record = dict[str, Any]


class NotRunError(Exception):
    """There is no record of this run, and nothing may be solved."""


def find_record(
    folder: Path, problem: PlanningProblem, settings: Settings
) -> tuple[Record, Path] | None:
    """Return the record of the same run: problem, formulation file, settings and versions agree.

    Versions are those of the packages; after a change of the code within a version, solve again
    without reuse.
    """
    asked = {
        "fingerprint": problem.fingerprint,
        "instance": problem.name,
        "gap_asked": settings.gap,
        "versions": versions(),
    }
    found = choose(problem, settings.formulation).found
    for path in sorted(folder.glob(f"{problem.name}-*.json")):
        if path.name.endswith(".plan.json"):
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        if (
            all(record.get(key) == value for key, value in asked.items())
            and record["stop"] not in UNFINISHED
            and record["formulation"]["sha256"] == found.file_hash
            and all(_plain(getattr(settings, k)) == v for k, v in record["settings"].items())
        ):
            return record, path
    return None


def _plain(setting: Any) -> Any:
    return setting if isinstance(setting, int | float | str | None) else dict(setting)


def recorded_solve(
    problem: PlanningProblem, settings: Settings, folder: Path, reuse: Reuse = "no"
) -> tuple[Record, Plan | None]:
    """Solve and write the record, or use the record of the same run.

    Raises
    ------
    NotRunError
        There is no such record and ``reuse`` is ``"only"``.
    """
    if reuse != "no":
        known = find_record(folder, problem, settings)
        if known is not None:
            record, path = known
            plan_path = path.with_suffix(".plan.json")
            return record, read_plan(plan_path) if plan_path.is_file() else None
        if reuse == "only":
            raise NotRunError(NOT_RUN)
    outcome = solve(problem, settings)
    write_record(outcome, folder)
    return outcome.record, outcome.plan


@dataclass
class Pool:
    """Solves many files, each in a process of its own.

    Parameters
    ----------
    settings
        Time limit, seed, threads and target are passed on; the rest is the default.
    folder
        Of the records.
    jobs
        Processes at a time.
    reuse
        See :data:`Reuse`.
    """

    settings: Settings
    folder: Path = RECORDS
    jobs: int = 2
    reuse: Reuse = "no"
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False

    def run(self, entries: Sequence[Entry], on_row: Callable[[Entry, Record], None]) -> None:
        """Solve all; ``on_row`` gets each record, or an error row, as soon as it is there.

        Ctrl-C ends the processes that run and is raised again.
        """
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            waiting = {pool.submit(self.one, entry): entry for entry in entries}
            try:
                for done in as_completed(waiting):
                    on_row(waiting[done], done.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise

    def close(self) -> None:
        """End every process that runs, and start no other."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill(process)

    def one(self, entry: Entry) -> Record:
        """Record of one file, or a row that says what went wrong."""
        if entry.absent:
            return error_row(entry, f"absent: {entry.absent}", stop="absent")
        limit = OVERRUN_FACTOR * self.settings.time_limit_s + OVERRUN_S
        with self._lock:
            if self._closed:
                return error_row(entry, NOT_RUN, stop=NOT_RUN)
            process = self._start(entry)
            self._running.add(process)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return error_row(entry, f"not done after {limit:.0f} s, ended from outside")
        finally:
            with self._lock:
                self._running.discard(process)
        return self._read(entry, process.returncode, out, err)

    def _start(self, entry: Entry) -> subprocess.Popen[str]:
        settings = self.settings
        command = [sys.executable, str(Path(__file__).resolve()), str(entry.path)]
        command += ["--time-limit", str(settings.time_limit_s), "--seed", str(settings.seed)]
        command += ["--threads", str(settings.threads), "--target", str(settings.target)]
        command += ["--records", str(self.folder), "--reuse", self.reuse]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the pool alone
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def _read(self, entry: Entry, code: int, out: str, err: str) -> Record:
        lines = out.strip().splitlines()
        try:
            answer = json.loads(lines[-1]) if lines else {}
        except ValueError:
            answer = {}
        if answer.get("error") == NOT_RUN:
            return error_row(entry, NOT_RUN, stop=NOT_RUN)
        if "error" in answer:
            return error_row(entry, answer["error"])
        if "key" not in answer:
            last = (err.strip().splitlines() or ["no message"])[-1]
            return error_row(entry, f"the process ended with code {code}: {last}")
        path = self.folder / f"{answer['key']}.json"
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        return record


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def without_folders(message: str, *paths: Path) -> str:
    """Return a message in which no folder of this machine is named."""
    for path in paths:
        message = message.replace(str(path), path.name)
    return message.replace(f"{REPOSITORY}{os.sep}", "")


def error_row(entry: Entry, message: str, stop: str = "error") -> Record:
    """Return a row for a file that gave no record."""
    said = without_folders(message, entry.path)
    return {"instance": entry.stem, "stop": stop, "verdict": "no plan", "error": said}


def main(arguments: list[str] | None = None) -> int:
    """Solve one file; print ``{"key": ...}`` or ``{"error": ...}``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", type=int, default=Settings.target)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--reuse", choices=["no", "yes", "only"], default="no")
    given = parser.parse_args(arguments)
    settings = Settings(
        time_limit_s=given.time_limit, seed=given.seed, threads=given.threads, target=given.target
    )
    try:
        record, _ = recorded_solve(read(given.file), settings, given.records, given.reuse)
    except NotRunError as error:
        print(json.dumps({"error": str(error)}))
    except Exception as error:  # whatever it is becomes a row of the table
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    else:
        print(json.dumps({"key": record["key"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
