"""Stores results of runs by their content key: ``KEY.json``, and the plan next to it.

A record counts when its last step, a rename, is done; what a killed process leaves behind does
not. A lock on ``KEY.lock`` keeps two drivers from doing one run at a time; the system lets go of
the lock of a process that dies, so a lock file alone says nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milp_plan.io.files import write_atomic

STORE_VERSION = 1

FINISHED = ("done", "unsupported")
"""Statuses of runs that need not be done again.

``done``: it has an answer, with or without a plan. ``unsupported``: who should plan says that the
problem is none for it. ``failed``: it crashed, was ended from outside, or its solver failed.
``interrupted``: Ctrl-C; what it holds is the best plan until then.
"""

Record = dict[str, Any]


@dataclass
class Lock:
    """The lock on one run, until :meth:`release` or the end of the process."""

    path: Path
    handle: int

    def release(self) -> None:
        """Release the lock."""
        self.path.unlink(missing_ok=True)  # while it is still ours
        os.close(self.handle)


class Store:
    """A folder of results.

    Parameters
    ----------
    folder
        Folder of the results; made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: dict[str, str] = {}
        """Keys of records that cannot be used, with the reasons."""

    def record_path(self, key: str) -> Path:
        """Return the path of the record of a run."""
        return self.folder / f"{key}.json"

    def plan_path(self, key: str) -> Path:
        """Return the path of the plan of a run."""
        return self.folder / f"{key}.plan.json"

    def keys(self) -> Iterator[str]:
        """Yield the keys of all records, in order."""
        for path in sorted(self.folder.glob("*.json")):
            if not path.name.startswith(".") and not path.name.endswith(".plan.json"):
                yield path.name.removesuffix(".json")

    def load(self, key: str) -> Record | None:
        """Return a record; ``None`` where there is none, or a damaged one (``damaged``)."""
        try:
            data = self.record_path(key).read_bytes()
        except FileNotFoundError:
            self.damaged.pop(key, None)
            return None
        reason = self._defect(key, data)
        if reason:
            self.damaged[key] = reason
            return None
        self.damaged.pop(key, None)
        record: Record = json.loads(data)
        return record

    def _defect(self, key: str, data: bytes) -> str:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError) as error:
            return f"no JSON ({error})"
        if not isinstance(record, dict) or record.get("store") != STORE_VERSION:
            return "not a record of this version"
        if record.get("key") != key:
            return "the record of another run"
        if record.get("sha256") != _digest(record):
            return "its content is not what was written"
        if record.get("plan_sha256") is not None:
            try:
                plan = self.plan_path(key).read_bytes()
            except OSError:
                return "its plan is gone"
            if hashlib.sha256(plan).hexdigest() != record["plan_sha256"]:
                return "its plan is not what was written"
        return ""

    def save(self, key: str, record: Record, plan: bytes | None) -> Path:
        """Write a record, its plan first; readers see all of it or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = None if plan is None else hashlib.sha256(plan).hexdigest()
        content = {"store": STORE_VERSION, "key": key, **record, "plan_sha256": digest}
        content = json.loads(json.dumps(content))  # as it will be read
        content["sha256"] = _digest(content)
        if plan is not None:
            write_atomic(self.plan_path(key), plan)
        text = json.dumps(content, indent=1).encode() + b"\n"
        write_atomic(self.record_path(key), text)
        if plan is None:
            self.plan_path(key).unlink(missing_ok=True)
        return self.record_path(key)

    def lock(self, key: str) -> Lock | None:
        """Return the lock on a run; ``None`` while another process has it.

        What a process that died in mid-write left of this run is removed.
        """
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{key}.lock"
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    break
            os.close(handle)  # its owner removed it in between
        with contextlib.suppress(OSError):  # the lock holds without words in it
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.uname().nodename} {os.getpid()}\n".encode())
        for name in (f".{key}.json.*.tmp", f".{key}.plan.json.*.tmp"):
            for left in self.folder.glob(name):
                left.unlink(missing_ok=True)
        return Lock(path, handle)


def _digest(record: Record) -> str:
    content = {name: entry for name, entry in record.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
