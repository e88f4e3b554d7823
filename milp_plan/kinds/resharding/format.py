"""Problems and plans of resharding in the native formats.

Described in ``instances/formats/resharding.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from milp_plan.core import InputError
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import Document, read_document
from milp_plan.io.wire import Positive, Strict, as_wire, decode, encode, from_wire

from .problem import Card, Delivery, ReshardingPlan, ReshardingProblem, Slice
from .tiles import Mesh, slices_between, tiles

TITLE = "resharding, slices and senders (JSON)"
LAYOUTS_TITLE = "resharding, a tensor and two layouts (JSON)"
MARKER = "milp-plan-resharding"
LAYOUTS_MARKER = "milp-plan-resharding-layouts"
PLAN_MARKER = "milp-plan-resharding-plan"


class WireCard(Strict):
    """A network card."""

    name: str
    bytes_per_s: Positive


class WireSlice(Strict):
    """A slice to deliver."""

    name: str
    bytes: Positive
    senders: tuple[str, ...]
    receivers: tuple[str, ...]


class WireProblem(Strict):
    """A problem, in the native format of milp_plan."""

    format: Literal["milp-plan-resharding"]
    version: Literal[1]
    name: str
    cards: tuple[WireCard, ...]
    slices: tuple[WireSlice, ...]
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WireSide(Strict):
    """A mesh and the layout of the tensor on it."""

    hosts: tuple[str, ...]
    devices_per_host: Positive
    layout: tuple[str, ...]


class WireLayouts(Strict):
    """A tensor that changes its mesh and layout."""

    format: Literal["milp-plan-resharding-layouts"]
    version: Literal[1]
    name: str
    tensor: tuple[Positive, ...]
    bytes_per_element: Positive
    bytes_per_s: Positive
    source: WireSide
    target: WireSide
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WireDelivery(Strict):
    """A delivery of a slice."""

    slice: str
    sender: str
    start_ticks: int = msgspec.field(name="start_ns")
    stop_ticks: int = msgspec.field(name="stop_ns")


class WirePlan(Strict):
    """A plan, in the native format of milp_plan."""

    format: Literal["milp-plan-resharding-plan"]
    version: Literal[1]
    problem: str
    deliveries: tuple[WireDelivery, ...]
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""


def can_read(document: Document) -> bool:
    """Return whether the document has the marker of the format."""
    return document.marker == MARKER


def can_read_layouts(document: Document) -> bool:
    """Return whether the document has the marker of the format."""
    return document.marker == LAYOUTS_MARKER


def read(document: Document) -> ReshardingProblem:
    """Read a problem.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    wire = decode(document.data, WireProblem, document.file, MARKER)
    cards = tuple(Card(card.name, card.bytes_per_s) for card in wire.cards)
    slices = tuple(Slice(s.name, s.bytes, s.senders, s.receivers) for s in wire.slices)
    try:
        return ReshardingProblem(wire.name, cards, slices, wire.provenance)
    except InputError as error:
        raise error.in_file(document.file) from None


def read_layouts(document: Document) -> ReshardingProblem:
    """Read a tensor with two layouts, and cut it into slices.

    Raises
    ------
    InputError
        The file has defects; the error lists all of them.
    """
    wire = decode(document.data, WireLayouts, document.file, LAYOUTS_MARKER)
    try:
        before, after = (
            tiles(wire.tensor, Mesh(side.hosts, side.devices_per_host), side.layout, where)
            for where, side in (("source", wire.source), ("target", wire.target))
        )
        hosts = dict.fromkeys((*wire.source.hosts, *wire.target.hosts))
        cards = tuple(Card(host, wire.bytes_per_s) for host in hosts)
        slices = tuple(slices_between(before, after, wire.bytes_per_element))
        return ReshardingProblem(wire.name, cards, slices, wire.provenance)
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: ReshardingProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes."""
    cards = tuple(as_wire(card, WireCard) for card in problem.cards)
    slices = tuple(as_wire(entry, WireSlice, bytes=entry.size) for entry in problem.slices)
    marks = {"format": MARKER, "version": 1}
    return encode(as_wire(problem, WireProblem, cards=cards, slices=slices, **marks))


def read_plan(
    path: str | Path, problem: ReshardingProblem, instance_file: Path | None = None
) -> ReshardingPlan:
    """Read a plan file, without checking it against the law.

    Raises
    ------
    InputError
        The file has defects, all of which are listed, or it is for another problem.
    """
    document = read_document(path, "a plan of resharding: a delivery for each slice (JSON)")
    wire = decode(document.data, WirePlan, document.file, PLAN_MARKER)
    refuse_other(wire.problem, problem.name, document.file, instance_file)
    deliveries = tuple(
        Delivery(d.slice, d.sender, d.start_ticks, d.stop_ticks) for d in wire.deliveries
    )
    return from_wire(wire, ReshardingPlan, deliveries=deliveries)


def plan_to_json(plan: ReshardingPlan) -> bytes:
    """Return a plan as JSON text; equal plans give equal bytes."""
    deliveries = tuple(WireDelivery(d.slice, d.sender, d.start, d.stop) for d in plan.deliveries)
    marks = {"format": PLAN_MARKER, "version": 1}
    return encode(as_wire(plan, WirePlan, deliveries=deliveries, **marks))
