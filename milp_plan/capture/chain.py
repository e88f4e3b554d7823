"""Captured models as problems of cutting into stages of a pipeline: the slowest stage counts.

Modules (or blocks) with no others inside are the pieces, forward and backward pass together. The
law is the serial one with contiguity ``chain``: devices take consecutive parts of the forward
pass, and pay for their transfers to the next one. One sample is one micro-batch: the result of
``build()`` of the user's file. Updates run once for many of those, and are left out; their memory
is not. Tied parameters may be on several devices, each with its own gradient and state:
the gradients are summed after the step. Here each piece that reads one counts a copy; planning
throughput takes a device's bytes as the sum over its pieces. For the same reason the largest
workspace of any operator is subtracted from each device's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milp_plan.core import (
    FULL,
    Cluster,
    ComputationGraph,
    Contiguity,
    Finding,
    InputError,
    MemoryLaw,
    Objective,
    PlanningProblem,
    SerialLaw,
    Value,
)
from milp_plan.cost.clusters import plain
from milp_plan.io.capture_wire import Capture

from .fuse import alone, fused
from .instance import Draft, provenance_of
from .merge import joined, merged
from .optimizers import OPTIMIZERS
from .passes import FORWARD, leaf_homes
from .record import ELEMENT_BYTES
from .work import require_known

GRADIENT, STATE = "added gradient of ", "state of "
"""Prefixes of the names of values stored with a parameter between micro-batches."""

COPY = " @ "
"""Separates the name of a value that several pieces read, and the piece."""

WORKSPACE = "workspace taken off each device, bytes"
"""Entry of the provenance for the subtracted workspace."""


def stage_problem(
    capture: Capture,
    cluster: Cluster,
    *,
    granularity: str = "block",
    optimizer: str = "adamw",
    fuse: bool = True,
    name: str | None = None,
) -> PlanningProblem:
    """Build the problem of cutting a captured training step into stages.

    Parameters
    ----------
    capture
        A training step of one micro-batch.
    cluster
        One device for each stage.
    granularity
        ``"module"`` or ``"block"``: the unit that is not cut.
    optimizer, fuse, name
        See :func:`~milp_plan.capture.instance.instance`.

    Raises
    ------
    InputError
        Another granularity, no training step, a model without modules, or an operator without
        formula.
    """
    require_known(capture)
    findings = []
    if granularity not in ("module", "block"):
        remedy = "stages are named by their modules"
        findings.append(Finding("granularity", repr(granularity), "module or block", remedy))
    if capture.mode != "training":
        remedy = "capture it with --mode training"
        findings.append(Finding("mode", repr(capture.mode), "'training'", remedy))
    if not any(leaf_homes(capture, granularity)):
        expected, remedy = "modules to cut between", "put the layers into modules of their own"
        findings.append(Finding("modules", "none inside the model", expected, remedy))
    if findings:
        raise InputError(findings)
    units = fused(capture) if fuse else alone(capture)
    parts = merged(capture, units, granularity, home=leaf_homes(capture, granularity))
    draft = Draft(capture, cluster, parts, granularity, adds_up=True)
    draft.operators = [
        replace(operator, group=part.label or "model")
        for operator, part in zip(draft.operators, parts, strict=True)
    ]
    draft.extra += _beside_parameters(draft, optimizer)
    room = max(operator.options[0].workspace_bytes for operator in draft.operators)
    details = {
        "granularity": granularity,
        "kernels": "fused" if fuse else "as in eager PyTorch",
        **joined(capture, parts),
        "optimizer": optimizer,
        "a sample": "one micro-batch",
        WORKSPACE: str(room),
    }
    return PlanningProblem(
        name or f"{capture.name}-stages",
        _counted(draft.graph()),
        _without(plain(cluster), room),
        Objective.BOTTLENECK,
        MemoryLaw.STATIC,
        provenance=provenance_of(capture, cluster) | details,
        serial=SerialLaw(tuple(entry.name for entry in cluster.device_classes), Contiguity.CHAIN),
    )


def _beside_parameters(draft: Draft, optimizer: str) -> list[Value]:
    """Return gradient and optimizer state of each parameter, with its forward readers."""
    forward = {op.name for op in draft.operators if op.kind == FORWARD}
    values = []
    for place, storage in enumerate(draft.capture.storages):
        readers = tuple(name for name in draft.consumers[place] if name in forward)
        if not storage.trained or not readers:
            continue
        element = ELEMENT_BYTES[storage.dtype]
        state = storage.bytes // element * OPTIMIZERS[optimizer].state_bytes(element)
        for prefix, size in ((GRADIENT, storage.bytes), (STATE, state)):
            if size:
                values.append(Value(f"{prefix}{storage.name}", None, readers, {FULL: size}))
    return values


def _counted(graph: ComputationGraph) -> ComputationGraph:
    """Give every piece a copy of shared values at rest, and operators no workspace."""
    group = {op.name: str(op.group) for op in graph.operators}

    def copies(value: Value) -> Iterator[Value]:
        readers: dict[str, list[str]] = {}
        for name in value.consumers:
            readers.setdefault(group[name], []).append(name)
        if not value.persistent or len(readers) == 1:
            yield value
            return
        for piece, names in readers.items():
            yield replace(value, name=f"{value.name}{COPY}{piece}", consumers=tuple(names))

    operators = tuple(
        replace(op, options=tuple(replace(o, workspace_bytes=0) for o in op.options))
        for op in graph.operators
    )
    return ComputationGraph(operators, tuple(v for value in graph.values for v in copies(value)))


def _without(cluster: Cluster, room: int) -> Cluster:
    """Return the cluster with less memory on each device."""

    def left(limit: int | None) -> int | None:
        return None if limit is None else max(limit - room, 0)

    return replace(
        cluster,
        device_classes=tuple(
            replace(entry, memory_bytes=left(entry.memory_bytes))
            for entry in cluster.device_classes
        ),
        devices=tuple(
            replace(entry, memory_bytes=left(entry.memory_bytes)) for entry in cluster.devices
        ),
    )
