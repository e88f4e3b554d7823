"""Records of runs, as tables and charts read them: what a hand may have changed is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from milp_plan.core import Finding, InputError

from .defects import syntax_finding
from .files import read_document
from .wire import Positive, decode


class Named(msgspec.Struct):
    """A formulation."""

    name: str


class Asked(msgspec.Struct):
    """What a run was asked, as far as tables say it."""

    seed: int


class Point(msgspec.Struct):
    """What was known at a time of a run."""

    seconds: float
    incumbent: int | None
    bound: int | None


class Record(msgspec.Struct):
    """The members of a record that tables and charts read; it has more."""

    instance: str
    fingerprint: str
    objective: str
    unit: str
    ticks_per_unit: Positive
    value: int | None
    bound: int | None
    gap: float | None
    proved: bool
    stop: str
    verdict: str
    seconds: float
    way: str
    settings: Asked
    trace: list[Point]
    operators: int | None = None
    coarse_operators: int | None = None
    bound_name: str | None = None
    planner: str | None = None
    infeasible_because: str | None = None
    best_baseline: int | None = None
    baseline_name: str | None = None
    phases: dict[str, float | None] = {}
    formulation: Named | None = None


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a run.

    Raises
    ------
    InputError
        It is no record, or a member that tables and charts read is not what a run writes.
    """
    document = read_document(path, "a record of a run")
    if not {"instance", "fingerprint", "stop"} <= set(document.top_level):
        remedy = "remove the file, or solve again"
        found = "other content"
        raise InputError([Finding("file", found, "a record of a run", remedy, document.file)])
    decode(document.data, Record, document.file)
    try:
        content: dict[str, Any] = msgspec.json.decode(document.data)
    except msgspec.DecodeError as error:  # in a member that the type above does not have
        wrong = Finding("file", str(error), "JSON", "correct the file", document.file)
        raise InputError([syntax_finding(document.data) or wrong]).in_file(document.file) from None
    return content
