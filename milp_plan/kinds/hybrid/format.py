"""Plan files of hybrid parallelism. Described in ``instances/formats/hybrid-plan.md``."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.files import read_document
from milp_plan.io.wire import Strict, as_wire, decode, encode, from_wire

from .plan import Choice, HybridPlan, Stage
from .problem import Limits

MARKER = "milp-plan-hybrid-plan"

_FRACTIONS = ("memory_bytes", "bandwidth_bytes_per_s")
"""Limits that may be fractions."""


class WireStage(Strict):
    """A stage: degrees, and its layers, each with the name of its configuration."""

    data: int
    tensor: int
    layers: tuple[tuple[str, str], ...]


class WireLimits(Strict):
    """Limits that the plan was made for; sizes are numbers, or fractions as text."""

    devices: int
    memory_bytes: int | str
    bandwidth_bytes_per_s: int | str
    micro_batches: int
    data: bool = True
    tensor: bool = True
    recomputation: bool = True


class WirePlan(Strict):
    """A plan of hybrid parallelism, in the native format of milp_plan."""

    format: Literal["milp-plan-hybrid-plan"]
    version: Literal[1]
    problem: str
    stages: tuple[WireStage, ...]
    limits: WireLimits | None = None
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""
    notes: dict[str, str] = msgspec.field(default_factory=dict)


def read_hybrid_plan(path: str | Path) -> HybridPlan:
    """Read a plan file, without checking it against the law.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    document = read_document(path, "a plan file of hybrid parallelism")
    read = decode(document.data, WirePlan, document.file, MARKER)
    limits = read.limits
    if limits is not None:
        findings = list(_findings(limits))
        if findings:
            raise InputError(findings).in_file(document.file)
    stages = tuple(
        Stage(tuple(Choice(*entry) for entry in stage.layers), stage.data, stage.tensor)
        for stage in read.stages
    )
    limited = None if limits is None else _limits(limits)
    return from_wire(read, HybridPlan, stages=stages, limits=limited)


def hybrid_plan_to_json(plan: HybridPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    stages = tuple(
        as_wire(stage, WireStage, layers=tuple((c.layer, c.configuration) for c in stage.choices))
        for stage in plan.stages
    )
    limits = None if plan.limits is None else _wire_limits(plan.limits)
    marks = {"format": MARKER, "version": 1}
    return encode(as_wire(plan, WirePlan, stages=stages, limits=limits, **marks))


def _plain(number: Fraction) -> int | str:
    return number.numerator if number.denominator == 1 else str(number)


def _limits(wire: WireLimits) -> Limits:
    amounts = {name: Fraction(getattr(wire, name)) for name in _FRACTIONS}
    return from_wire(wire, Limits, **amounts)


def _wire_limits(limits: Limits) -> WireLimits:
    return as_wire(limits, WireLimits, **{n: _plain(getattr(limits, n)) for n in _FRACTIONS})


def _findings(wire: WireLimits) -> Iterator[Finding]:
    broken = False
    for name in _FRACTIONS:
        text = getattr(wire, name)
        try:
            Fraction(text)
        except (ValueError, ZeroDivisionError):
            broken = True
            expected = "a number, or a fraction such as '1/3'"
            yield Finding(f"limits.{name}", repr(text), expected, "correct it")
    if not broken:
        for finding in _limits(wire).findings():
            yield Finding(
                f"limits.{finding.where}", finding.found, finding.expected, finding.remedy
            )
