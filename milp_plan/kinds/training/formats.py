"""Training plans as JSON; described in ``instances/formats/training.md``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import read_document
from milp_plan.io.wire import Count, Positive, Strict, decode, mirror

from .configuration import COUNTS, Configuration
from .problem import TrainingPlan

MARKER = "milp-plan-training-plan"


WireConfiguration = mirror(
    Configuration,
    **dict.fromkeys(COUNTS, Positive),
    **dict.fromkeys(("recomputed_by_chunk", "layers"), tuple[Count, ...]),
)


class WirePlan(Strict):
    """A plan, the problem that it is for, and the time that its maker claims."""

    format: Literal["milp-plan-training-plan"]
    version: Literal[1]
    problem: str
    configuration: WireConfiguration  # type: ignore[valid-type]
    fingerprint: str | None = None
    step_ns: Count | None = None
    planner: str = ""
    parent: str | None = None


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
        "parent": plan.parent,
    }
    return json.dumps(content, indent=2, default=int).encode() + b"\n"  # integers of numpy


def read_plan(
    path: str | Path, problem: str | None = None, instance_file: Path | None = None
) -> TrainingPlan:
    """Read a plan, of the problem of a name if one is given.

    Raises
    ------
    InputError
        The file is no training plan, or one for another problem; with every defect.
    """
    document = read_document(path, "a training plan (JSON)")
    wire = decode(document.data, WirePlan, document.file, MARKER)
    if problem is not None:
        refuse_other(wire.problem, problem, document.file, instance_file)
    configuration = Configuration(**msgspec.structs.asdict(wire.configuration))
    known = (wire.fingerprint, configuration, wire.step_ns, wire.planner, wire.parent)
    return TrainingPlan(wire.problem, *known)


def configuration_rows(configuration: Configuration) -> Iterator[tuple[str, Any]]:
    """List fields of a configuration and their values as plain data."""
    for name, value in asdict(configuration).items():
        yield name, msgspec.to_builtins(value)


def fixed_field(text: str) -> tuple[str, object]:
    """Read ``field=value`` for a field of a configuration.

    Raises
    ------
    InputError
        No field of that name, or no value of its kind.
    """
    name, _, value = text.partition("=")
    name = ALIASES.get(name.strip().lower(), name.strip().lower().replace("-", "_"))
    plain: object = value.strip()
    where = f"--fix {name}" if name in _FIELDS else "--fix"
    try:
        if name in LISTS:
            plain = tuple(int(number) for number in value.split(",") if number.strip())
        elif name == "sequence_parallel":
            plain = {"true": True, "false": False}.get(value.strip().lower(), value)
        elif name in _FIELDS and not _is_word(name):
            plain = int(value)
        else:
            plain = VALUES.get((name, value.strip().lower()), plain)
    except ValueError:
        pass  # it is no number: said below
    return name, fixed_value(where, name, plain, text)


def fixed_value(where: str, name: str, value: object, text: str | None = None) -> object:
    """Return the value of a field of a configuration.

    Raises
    ------
    InputError
        No field of that name, or no value of its kind.
    """
    if name not in _FIELDS:
        found, expected = repr(name if text is None else text), f"one of {', '.join(_FIELDS)}"
        raise InputError([Finding(where, found, f"{expected}, with =value", "correct it")])
    kind = _FIELDS[name].type
    try:
        return msgspec.convert(value, kind)
    except ValueError:  # as msgspec's own errors are
        raise InputError(
            [Finding(where, repr(value), _expected(name, kind), "correct it")]
        ) from None


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


def fixed_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a configuration with the values that a problem fixes.

    Raises
    ------
    InputError
        Every field that there is not, and every value of another kind.
    """
    findings: list[Finding] = []
    fixed = {}
    for name, value in given.items():
        try:
            fixed[name] = fixed_value(f"fixed.{name}", name, value)
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(findings)
    return fixed


def _is_word(name: str) -> bool:
    kind = _FIELDS[name].type
    return isinstance(kind, type) and issubclass(kind, Enum)


def _expected(name: str, kind: object) -> str:
    """Say what a field's value may be."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    if name in LISTS:
        return "whole numbers from 0, joined by commas"
    if kind is bool:
        return "true or false"
    return f"a whole number from {0 if kind == Count else 1}"


_FIELDS = {field.name: field for field in msgspec.structs.fields(WireConfiguration)}

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

VALUES = {("recompute", "selective"): "attention"}
"""Names that frameworks have for a value of a field."""
