"""Reads records of runs for tables and charts, with checks since users may have edited them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from milp_plan.core import Finding, InputError

from .defects import syntax_finding
from .files import Document, read_document
from .wire import Positive, decode


class Named(msgspec.Struct):
    """A formulation."""

    name: str


class Asked(msgspec.Struct):
    """Settings of a run, as far as tables show them."""

    seed: int


class Point(msgspec.Struct):
    """Incumbent and bound at a time of a run."""

    seconds: float
    incumbent: int | None
    bound: int | None


class Record(msgspec.Struct):
    """The members of a record that tables and charts read; records have more."""

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
    strategy: str
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


class Stored(msgspec.Struct):
    """Members that a suite's store adds to the record of a run."""

    status: str
    outcome: msgspec.Raw
    error: str | None = None
    instance: str = ""
    variation: str = ""
    who: str = ""
    instance_file: str | None = None
    changes: dict[str, str | bool] = {}


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a run, from its own file or from the store of a suite.

    One of a store has a ``title`` beside what the run wrote, and says where its instance is.

    Raises
    ------
    InputError
        It is no record, or a member that tables and charts read is not what a run writes.
    """
    document = read_document(path, "a record of a run")
    if {"store", "outcome"} <= set(document.top_level):
        return _of_store(document)
    return _of_run(document)


def _of_store(document: Document) -> dict[str, Any]:
    known = decode(document.data, Stored, document.file)
    if bytes(known.outcome) == b"null":
        found = f"a run that ended as {known.status}: {known.error}"
        remedy = "run the suite again, or leave it out"
        raise InputError([Finding("outcome", found, "the record of a run", remedy, document.file)])
    content = _of_run(Document(document.path, bytes(known.outcome)))
    seed = f"seed {content['settings']['seed']}"
    title = ", ".join(part for part in (known.instance, known.variation, known.who, seed) if part)
    return {**content, **_where(known), "title": title}


def _where(known: Stored) -> dict[str, Any]:
    where: dict[str, Any] = {"changes": dict(known.changes)}
    return where if known.instance_file is None else {**where, "instance_file": known.instance_file}


def _of_run(document: Document) -> dict[str, Any]:
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
