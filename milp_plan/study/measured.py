"""Measurements as runs: a function is called on each case of a list, in a separate process.

The function is ``measure`` of a module of this package or of a script; it takes a case, and returns
a row of plain data.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from milp_plan.core import MilpPlanError
from milp_plan.io.suite_file import SuiteLimits
from milp_plan.run.key import run_key

from .rows import ABSENT
from .store import FINISHED, Store
from .tasks import Task

Row = dict[str, Any]

INTERRUPTED = "interrupted"
PLAN = "plan"
"""Member of a row that the store saves in a separate file."""


def tasks_of(
    name: str, source: str, cases: Iterable[Mapping[str, Any]], limits: SuiteLimits
) -> list[Task]:
    """Return a run for each case.

    Parameters
    ----------
    name
        Name of the runs in progress reports.
    source
        Name of a module, or path of a script, that has ``measure``.
    cases
        Plain data.
    limits
        Time limit of a case, after which it is killed, and its number of threads.

    Raises
    ------
    MilpPlanError
        The script does not load.
    """
    digest = file_digest(source)
    tasks = []
    for place, case in enumerate(cases, start=1):
        settings = {
            "work": "measure",
            "source": source,
            "digest": digest,
            "case": dict(case),
            "time_limit_s": limits.time,
            "grace_s": limits.grace,
            "threads": limits.threads,
        }
        file = Path(source).name
        key = run_key(file, "", {**settings, "source": file}, digest)
        tasks.append(Task(f"{name} {place}", {"study": name, "place": place}, settings, key))
    return tasks


@cache
def load(source: str) -> ModuleType:
    """Return a module imported by its name, or a script by its path.

    Raises
    ------
    MilpPlanError
        The script does not load.
    """
    if not source.endswith(".py"):
        return import_module(source)
    path = Path(source).absolute()
    spec = spec_from_file_location(f"_measured_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look it up there
    sys.path.insert(0, str(path.parent))  # scripts share modules
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise MilpPlanError(f"{path} does not load: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def file_digest(source: str) -> str | None:
    """Return the SHA-256 of a script and its local imports; ``None`` for a module."""
    if not source.endswith(".py"):
        return None
    files = [Path(source), *sorted(_beside(load(source), Path(source).absolute().parent))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _beside(module: ModuleType, folder: Path) -> set[Path]:
    """Return the files of a folder that a module imports, directly or indirectly."""
    modules: dict[Path, ModuleType] = {}
    to_do = [module]
    while to_do:
        for entry in vars(to_do.pop()).values():
            file = getattr(entry, "__file__", None) if isinstance(entry, ModuleType) else None
            if file is not None and Path(file).parent == folder and Path(file) not in modules:
                modules[Path(file)] = entry
                to_do.append(entry)
    return set(modules)


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a case and return an answer like that of :func:`.job.do`."""
    module = load(asked["source"])
    if file_digest(asked["source"]) != asked["digest"]:
        raise MilpPlanError(f"{asked['source']} changed meanwhile; start the command again")
    row: Row = module.measure(asked["case"])
    plan = row.pop(PLAN, None)
    outcome = json.loads(json.dumps(row))
    status, error = "done", None
    if row.get("stop") == INTERRUPTED:
        status, error = INTERRUPTED, "stopped by Ctrl-C"
    elif row.get("stop") == ABSENT:
        status, error = ABSENT, row.get("reason")
    return {"status": status, "error": error, "outcome": outcome, "plan": plan}


def rows_of(tasks: Sequence[Task], store: Store) -> tuple[list[Row], list[str]]:
    """Return the rows of cases, and the reasons why some have none."""
    rows, failures = [], []
    for task in tasks:
        record = store.load(task.key)
        if record is not None and record["status"] in (*FINISHED, ABSENT):
            rows.append(dict(record["outcome"]))
        else:
            text = "not run" if record is None else f"{record['status']}: {record['error']}"
            failures.append(f"{task.title}: {text}")
    return rows, failures


def plan_of(task: Task, store_folder: Path) -> str | None:
    """Return the plan of a case as text."""
    path = Store(store_folder).plan_path(task.key)
    return path.read_text(encoding="utf-8") if path.is_file() else None
