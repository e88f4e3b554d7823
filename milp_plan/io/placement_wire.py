"""Wire types of placement files, which say how a captured step runs on several processes.

Class names and first lines go into the published schema
(``instances/formats/torch-placements.schema.json``); the fields are described in
``instances/formats/torch-placements.md``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .wire import Count, Positive, Strict

MARKER = "milp-plan-torch-placements"

Placement = Annotated[str, msgspec.Meta(pattern=r"^(R|P|S\((0|[1-9][0-9]{0,2})\))+$")]
"""One of ``R`` (replicated), ``P`` (partial sum), ``S(d)`` (sharded along ``d``) per axis."""

Collective = Literal["all_gather", "all_reduce", "all_to_all", "reduce_scatter"]
"""Kinds of collectives that change placements."""


class Axis(Strict):
    """One axis of the mesh of processes."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    size: Positive


class TorchPlacements(Strict):
    """Placement of every tensor of a captured step on a mesh of processes."""

    format: Literal["milp-plan-torch-placements"]
    version: Literal[1]
    problem: str
    graph: str
    torch: str
    mesh: Annotated[list[Axis], msgspec.Meta(min_length=1)]
    inputs: dict[str, Placement]
    gradients: dict[str, Placement]
    pins: dict[str, Placement] = msgspec.field(default_factory=dict)
    reads: dict[str, dict[str, Placement]] = msgspec.field(default_factory=dict)
    collectives: dict[Collective, Count] = msgspec.field(default_factory=dict)
