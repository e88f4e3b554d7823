"""Plans by degrees, as JSON; described in ``instances/formats/degrees.md``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.files import read_document
from milp_plan.io.wire import Count, Positive, Strict, decode

from .migration import Degrees, Migration, Parameter
from .tiles import MAX_DEVICES

MARKER = "milp-plan-degrees"


class WireParameter(Strict):
    """A tensor of the model, with ``copies`` in consecutive layers."""

    name: str
    shape: tuple[Positive, ...]
    layer: Count
    split: Count | None = None
    copies: Positive = 1


class WireDegrees(Strict):
    """Layout of a model on a cluster."""

    format: Literal["milp-plan-degrees"]
    version: Literal[1]
    name: str
    hosts: tuple[str, ...]
    devices_per_host: Positive
    data: Positive
    tensor: Positive
    pipeline: Positive
    parameters: tuple[WireParameter, ...]
    optimizer_sharded: bool = False
    weight_bytes: Count = 2
    optimizer_bytes: Count = 12
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


def read_migration(before: str | Path, after: str | Path) -> Migration:
    """Read two plans of one model.

    Raises
    ------
    InputError
        A file has defects, all of which are listed, or the plans are of different models.
    """
    expected = "a plan by degrees (JSON)"
    first, second = (
        decode(document.data, WireDegrees, document.file, MARKER)
        for document in (read_document(path, expected) for path in (before, after))
    )
    for member in ("parameters", "weight_bytes", "optimizer_bytes"):
        if getattr(first, member) != getattr(second, member):
            found = "other ones than in the plan before"
            remedy = "name two plans of one model"
            raise InputError([Finding(member, found, "the same model", remedy, str(after))])
    files = (str(before), str(after))
    for wire, file in zip((first, second), files, strict=True):
        ranks = wire.data * wire.tensor * wire.pipeline
        tensors = sum(parameter.copies for parameter in wire.parameters)
        for where, count in (("degrees", ranks), ("parameters, copies", tensors)):
            if count > MAX_DEVICES:
                found, expected = f"{count} in all", f"at most {MAX_DEVICES}"
                raise InputError([Finding(where, found, expected, "correct them", file)])
    parameters = tuple(
        Parameter(f"{p.name}.{copy}" if p.copies > 1 else p.name, p.shape, p.layer + copy, p.split)
        for p in first.parameters
        for copy in range(p.copies)
    )
    try:
        return Migration(
            f"{first.name}-to-{second.name}",
            parameters,
            _degrees(first),
            _degrees(second),
            first.weight_bytes,
            first.optimizer_bytes,
        )
    except InputError as error:
        raise InputError(
            replace(found, file=files[found.where.startswith("after")]) for found in error.findings
        ) from None


def _degrees(wire: WireDegrees) -> Degrees:
    return Degrees(
        wire.hosts,
        wire.devices_per_host,
        wire.data,
        wire.tensor,
        wire.pipeline,
        wire.optimizer_sharded,
    )
