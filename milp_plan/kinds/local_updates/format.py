"""Problems and plans of local updates; described in ``instances/formats/local-updates.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import InputError, Units
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import Count, Positive, Strict, decode, encode

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
    stages = tuple(
        Stage(s.name, s.forward, s.backward, s.head, s.price, s.most) for s in wire.stages
    )
    try:
        return LocalUpdatesProblem(
            wire.name,
            stages,
            wire.micro_batches,
            wire.transfer,
            wire.budget,
            Units(time=wire.time_unit),
            wire.provenance,
        )
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: LocalUpdatesProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes."""
    return encode(
        WireProblem(
            format="milp-plan-local-updates",
            version=1,
            name=problem.name,
            micro_batches=problem.micro_batches,
            stages=tuple(
                WireStage(s.name, s.forward, s.backward, s.head, s.price, s.most)
                for s in problem.stages
            ),
            transfer=problem.transfer,
            budget=problem.budget,
            time_unit=problem.units.time,
            provenance=dict(problem.provenance),
        )
    )


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
    return LocalUpdatesPlan(
        wire.problem,
        wire.cuts,
        wire.fingerprint,
        wire.value,
        wire.planner,
        wire.parent,
    )


def plan_to_json(plan: LocalUpdatesPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    return encode(
        WirePlan(
            format="milp-plan-local-updates-plan",
            version=1,
            problem=plan.problem,
            cuts=plan.cuts,
            fingerprint=plan.fingerprint,
            value=plan.value,
            planner=plan.planner,
            parent=plan.parent,
        )
    )
