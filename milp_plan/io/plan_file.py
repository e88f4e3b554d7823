"""Plan files: what a planner hands over, and what the checker accepts from anywhere."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import asdict

from milp_plan.core import OperatorRun, Plan, Transfer

from . import plan_wire as wire
from .files import read_document, write_document
from .wire import as_wire, decode, encode


def read_plan(path: str | Path) -> Plan:
    """Read a plan file. Whether the plan keeps the laws is the checker's question.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    document = read_document(path, "a plan file")
    return plan_from_json(document.data, document.file)


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan file atomically; compressed when its name ends in ``.gz``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    write_document(path, plan_to_json(plan))


def plan_from_json(data: bytes, file: str = "") -> Plan:
    """Read a plan from its JSON text; ``file`` names it in findings.

    Raises
    ------
    InputError
        With every defect of the text.
    """
    read = decode(data, wire.Plan, file, wire.MARKER)
    return Plan(
        read.problem,
        tuple(OperatorRun(**asdict(run)) for run in read.operators),
        tuple(Transfer(**asdict(entry)) for entry in read.transfers),
        read.fingerprint,
        read.objective,
        read.value,
        read.planner,
        read.notes,
        read.parent,
    )


def plan_to_json(plan: Plan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    written = wire.Plan(
        format="milp-plan-plan",
        version=1,
        problem=plan.problem,
        operators=tuple(as_wire(run, wire.Run) for run in plan.runs),
        transfers=tuple(as_wire(entry, wire.Transfer) for entry in plan.transfers),
        fingerprint=plan.fingerprint,
        objective=plan.objective,
        value=plan.value,
        planner=plan.planner,
        notes=dict(plan.notes),
        parent=plan.parent,
    )
    return encode(written)
