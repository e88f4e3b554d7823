"""Wire types of the plan format, field by field as in ``milp_plan.core``.

Described in ``instances/formats/plan.md``, published as ``instances/formats/plan.schema.json``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .wire import Strict

MARKER = "milp-plan-plan"


class Run(Strict):
    """One run of an operator."""

    operator: str
    option: str
    devices: tuple[str, ...]
    start_ticks: int | None = msgspec.field(name="start_ns", default=None)
    stop_ticks: int | None = msgspec.field(name="stop_ns", default=None)
    call: int | None = None


class Transfer(Strict):
    """One transfer of a value: it makes a copy in the layout on each target device."""

    value: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    layout: str
    start_ticks: int | None = msgspec.field(name="start_ns", default=None)
    stop_ticks: int | None = msgspec.field(name="stop_ns", default=None)


class Plan(Strict):
    """A plan for a planning problem, in the native format of milp_plan."""

    format: Literal["milp-plan-plan"]
    version: Literal[1]
    problem: str
    operators: tuple[Run, ...]
    transfers: tuple[Transfer, ...] = ()
    fingerprint: str | None = None
    objective: str | None = None
    value: int | None = None
    planner: str = ""
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    parent: str | None = None
