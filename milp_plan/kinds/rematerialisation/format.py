"""Problems and plans of rematerialisation in the native format.

Described in ``instances/formats/rematerialisation.md``.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import Finding, InputError, Units
from milp_plan.io.csv_text import csv_rows
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import Count, Positive, Strict, as_wire, decode, encode, from_wire

from .problem import (
    Computation,
    Host,
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)

TITLE = "rematerialisation, native (JSON)"
MARKER = "milp-plan-rematerialisation"
PLAN_MARKER = "milp-plan-rematerialisation-plan"
COLUMN = "run"
"""The only column of a plan as CSV."""

_PLAN = "a plan of rematerialisation: a list of runs (JSON, or CSV with the one column 'run')"


class WireComputation(Strict):
    """An operator."""

    name: str
    cost: Count = msgspec.field(name="cost_ticks")
    size: Count = msgspec.field(name="bytes")
    inputs: tuple[str, ...] = ()
    again: bool = msgspec.field(default=True, name="recomputable")
    energy: Count = 0


class WireHost(Strict):
    """Memory outside of the device, and the transfers to it."""

    bytes_per_ticks: tuple[Positive, Count]
    memory_bytes: Count | None = None
    latency_ticks: Count = 0
    power: Count = 0


class WireProblem(Strict):
    """A problem, in the native format of milp_plan; operators in the order of their first runs."""

    format: Literal["milp-plan-rematerialisation"]
    version: Literal[1]
    name: str
    operators: tuple[WireComputation, ...]
    budget_bytes: Count | None = None
    objective: Literal["added_time", "peak_memory", "added_energy"] = "added_time"
    added_limit_ticks: Count | None = None
    host: WireHost | None = None
    time_unit: str = "unspecified"
    ticks_per_unit: Positive = 1
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WirePlan(Strict):
    """A plan, in the native format of milp_plan."""

    format: Literal["milp-plan-rematerialisation-plan"]
    version: Literal[1]
    problem: str
    runs: tuple[str, ...]
    reloads: tuple[Count, ...] = ()
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    parent: str | None = None


def can_read(document: Document) -> bool:
    """Return whether the document has the marker of the format."""
    return document.marker == MARKER


def read(document: Document) -> RematerialisationProblem:
    """Read a problem.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    wire = decode(document.data, WireProblem, document.file, MARKER)
    computations = tuple(from_wire(entry, Computation) for entry in wire.operators)
    units = Units(wire.time_unit, "bytes", wire.ticks_per_unit)
    try:
        return RematerialisationProblem(
            wire.name,
            computations,
            wire.budget_bytes,
            units,
            wire.provenance,
            RematerialisationObjective(wire.objective),
            wire.added_limit_ticks,
            None if wire.host is None else _host(wire.host),
        )
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: RematerialisationProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes."""
    operators = tuple(as_wire(entry, WireComputation) for entry in problem.computations)
    return encode(
        WireProblem(
            format="milp-plan-rematerialisation",
            version=1,
            name=problem.name,
            operators=operators,
            budget_bytes=problem.budget,
            objective=problem.objective.value,
            added_limit_ticks=problem.added_limit,
            host=None if problem.host is None else _wire_host(problem.host),
            time_unit=problem.units.time,
            ticks_per_unit=problem.units.time_scale,
            provenance=dict(problem.provenance),
        )
    )


def _host(wire: WireHost) -> Host:
    amount, ticks = wire.bytes_per_ticks
    return Host(wire.memory_bytes, wire.latency_ticks, amount, ticks, wire.power)


def _wire_host(host: Host) -> WireHost:
    return WireHost((host.amount, host.ticks), host.memory, host.latency, host.power)


def is_plan(document: Document) -> bool:
    """Return whether a document looks like a plan, as JSON or as CSV."""
    return document.marker == PLAN_MARKER or _is_csv(document)


def _is_csv(document: Document) -> bool:
    return document.data.lstrip().split(b"\n", 1)[0].strip() == COLUMN.encode()


def read_plan(
    path: str | Path, problem: RematerialisationProblem, instance_file: Path | None = None
) -> RematerialisationPlan:
    """Read a plan file, without checking it against the law.

    Raises
    ------
    InputError
        The file has defects, all of which are listed, or it is for another problem.
    """
    document = read_document(path, _PLAN)
    if _is_csv(document):
        return RematerialisationPlan(problem.name, _rows(document))
    wire = decode(document.data, WirePlan, document.file, PLAN_MARKER)
    refuse_other(wire.problem, problem.name, document.file, instance_file)
    return from_wire(wire, RematerialisationPlan)


def _rows(document: Document) -> tuple[str, ...]:
    _, *rows = csv_rows(document.data.decode(), _PLAN, document.file)
    findings = [
        Finding(f"line {number}", f"{len(row)} cells", "one: a name", "correct it", document.file)
        for number, row in rows
        if len(row) > 1
    ]
    if findings:
        raise InputError(findings)
    return tuple(row[0] for _, row in rows)


def plan_to_json(plan: RematerialisationPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    return encode(as_wire(plan, WirePlan, format=PLAN_MARKER, version=1))


def plan_to_csv(plan: RematerialisationPlan) -> bytes:
    """Return the runs of a plan, a line each."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([[COLUMN], *([name] for name in plan.runs)])
    return stream.getvalue().encode()
