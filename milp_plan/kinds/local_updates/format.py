"""Problems and plans of local updates; described in ``instances/formats/local-updates.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import InputError, Units
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import Count, Positive, Strict, as_wire, decode, encode, from_wire

from .problem import LocalUpdatesPlan, LocalUpdatesProblem, Stage

TITLE = "local updates, stages of a pipeline (JSON)"
MARKER = "milp-plan-local-updates"
PLAN_MARKER = "milp-plan-local-updates-plan"


class WireStage(Strict):
    """A stage; ``head`` and ``price`` are those of a cut behind it."""

    name: str
    forward: Positive
    backward: Positive
    head: Count = 0
    price: Count = 1
    most: Positive | None = None


class WireProblem(Strict):
    """A problem, in the native format of milp_plan; times are whole numbers of ``time_unit``."""

    format: Literal["milp-plan-local-updates"]
    version: Literal[1]
    name: str
    micro_batches: Positive
    stages: tuple[WireStage, ...]
    transfer: Count = 0
    budget: Count | None = None
    time_unit: str = "ns"
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WirePlan(Strict):
    """A plan, in the native format of milp_plan."""

    format: Literal["milp-plan-local-updates-plan"]
    version: Literal[1]
    problem: str
    cuts: tuple[str, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    parent: str | None = None


def can_read(document: Document) -> bool:
    """Return whether the document has the marker of the format."""
    return document.marker == MARKER


def read(document: Document) -> LocalUpdatesProblem:
    """Read a problem.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    wire = decode(document.data, WireProblem, document.file, MARKER)
    stages = tuple(from_wire(stage, Stage) for stage in wire.stages)
    try:
        return from_wire(wire, LocalUpdatesProblem, stages=stages, units=Units(time=wire.time_unit))
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: LocalUpdatesProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes."""
    stages = tuple(as_wire(stage, WireStage) for stage in problem.stages)
    marks = {"format": MARKER, "version": 1, "time_unit": problem.units.time}
    return encode(as_wire(problem, WireProblem, stages=stages, **marks))


def read_plan(
    path: str | Path, problem: LocalUpdatesProblem, instance_file: Path | None = None
) -> LocalUpdatesPlan:
    """Read a plan file, without checking it against the law.

    Raises
    ------
    InputError
        The file has defects, all of which are listed, or it is for another problem.
    """
    document = read_document(path, "a plan of local updates: where gradients stop (JSON)")
    wire = decode(document.data, WirePlan, document.file, PLAN_MARKER)
    refuse_other(wire.problem, problem.name, document.file, instance_file)
    return from_wire(wire, LocalUpdatesPlan)


def plan_to_json(plan: LocalUpdatesPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    return encode(as_wire(plan, WirePlan, format=PLAN_MARKER, version=1))
