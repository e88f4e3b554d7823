"""Training plans as JSON; described in ``instances/formats/training-plan.md``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.files import read_document
from milp_plan.io.wire import Count, Positive, Strict, decode

from .configuration import Configuration, Offload, Precision, Recompute, Schedule
from .problem import TrainingPlan

MARKER = "milp-plan-training-plan"


class WireConfiguration(Strict):
    """Degrees, micro-batches, schedule, recomputation, sharding."""

    tensor: Positive = 1
    context: Positive = 1
    expert: Positive = 1
    expert_tensor: Positive = 1
    pipeline: Positive = 1
    data: Positive = 1
    micro_batch: Positive = 1
    micro_batches: Positive = 1
    virtual: Positive = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    sequence_parallel: bool = True
    recompute: Recompute = Recompute.NONE
    recomputed: Count = 0
    recomputed_by_chunk: tuple[Count, ...] = ()
    zero: Count = 1
    offload: Offload = Offload.NONE
    precision: Precision = Precision.BF16
    layers: tuple[Count, ...] = ()


class WirePlan(Strict):
    """A plan, the problem that it is for, and the time that its maker claims."""

    format: Literal["milp-plan-training-plan"]
    version: Literal[1]
    problem: str
    configuration: WireConfiguration
    fingerprint: str | None = None
    step_ns: Count | None = None
    planner: str = ""


def plan_text(plan: TrainingPlan) -> bytes:
    """Return the text of a plan's file."""
    content = {
        "format": MARKER,
        "version": 1,
        "problem": plan.problem,
        "fingerprint": plan.fingerprint or None,
        "configuration": asdict(plan.configuration),
        "step_ns": plan.value,
        "planner": plan.planner,
    }
    return json.dumps(content, indent=2).encode() + b"\n"


def read_plan(path: str | Path) -> TrainingPlan:
    """Read a plan.

    Raises
    ------
    InputError
        The file is no training plan; with every defect.
    """
    document = read_document(path, "a training plan (JSON)")
    wire = decode(document.data, WirePlan, document.file, MARKER)
    configuration = Configuration(**msgspec.structs.asdict(wire.configuration))
    return TrainingPlan(
        wire.problem, wire.fingerprint or "", configuration, wire.step_ns, wire.planner
    )


def fixed_field(text: str) -> tuple[str, object]:
    """Read ``field=value`` for a field of a configuration.

    Raises
    ------
    InputError
        No field of that name, or no value of its kind.
    """
    name, _, value = text.partition("=")
    name = ALIASES.get(name.strip().lower(), name.strip().lower().replace("-", "_"))
    kinds = {field.name: field for field in msgspec.structs.fields(WireConfiguration)}
    if name not in kinds:
        expected = f"one of {', '.join(kinds)}"
        raise InputError([Finding("--fix", repr(text), f"{expected}, with =value", "correct it")])
    kind = kinds[name].type
    plain: object = value.strip()
    try:
        if name in LISTS:
            plain = tuple(int(number) for number in value.split(",") if number.strip())
        elif name == "sequence_parallel":
            plain = {"true": True, "false": False}.get(value.strip().lower(), value)
        return name, msgspec.convert(plain, kind, strict=name in (*LISTS, "sequence_parallel"))
    except ValueError:  # as msgspec's own errors are
        finding = Finding(f"--fix {name}", repr(value), _expected(name, kind), "correct it")
        raise InputError([finding]) from None


def fixed_fields(
    texts: Iterable[str], read: Callable[[str], tuple[str, Any]] = fixed_field
) -> dict[str, Any]:
    """Return the value of each field of ``field=value``, read one by one.

    Raises
    ------
    InputError
        A field that is wrong, or that has two values.
    """
    fixed: dict[str, Any] = {}
    for text in texts:
        name, value = read(text)
        if fixed.setdefault(name, value) != value:
            found = f"{fixed[name]} and {value}"
            raise InputError([Finding(f"--fix {name}", found, "one value", "leave one out")])
    return fixed


def _expected(name: str, kind: object) -> str:
    """Say what a field's value may be."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    if name in LISTS:
        return "whole numbers from 0, joined by commas"
    if kind is bool:
        return "true or false"
    return f"a whole number from {0 if kind == Count else 1}"


LISTS = ("layers", "recomputed_by_chunk")
"""Fields with numbers for each chunk, written with commas."""

ALIASES = {
    "tp": "tensor",
    "cp": "context",
    "ep": "expert",
    "etp": "expert_tensor",
    "pp": "pipeline",
    "dp": "data",
    "vpp": "virtual",
    "mbs": "micro_batch",
}
"""Short names of degrees."""
