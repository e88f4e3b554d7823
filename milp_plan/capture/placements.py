"""The file ``torch-placements``: reading, writing, checks.

Described in ``instances/formats/torch-placements.md``. Nothing here needs PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

from milp_plan.core import Finding, InputError
from milp_plan.core.errors import name_findings
from milp_plan.io.capture_wire import Capture
from milp_plan.io.files import Document, read_document, write_document
from milp_plan.io.placement_wire import MARKER, Axis, TorchPlacements
from milp_plan.io.wire import decode, encode

from .record import fingerprint

ENTRY = re.compile(r"R|P|S\(\d+\)")


def is_placements(document: Document) -> bool:
    """Return whether a document has the marker of a placement file."""
    return document.marker == MARKER


def read_placements(path: str | Path) -> TorchPlacements:
    """Read a placement file.

    Raises
    ------
    InputError
        The file has defects of syntax and types, or of structure; the error lists all of them.
    """
    document = read_document(path, "a torch-placements file")
    return placements_from_json(document.data, document.file)


def placements_from_json(data: bytes, file: str = "") -> TorchPlacements:
    """Read placements from their JSON text; ``file`` names it in findings.

    Raises
    ------
    InputError
        See :func:`read_placements`.
    """
    placements = decode(data, TorchPlacements, file, MARKER)
    findings = list(_findings(placements))
    if findings:
        raise InputError(findings).in_file(file)
    return placements


def placements_to_json(placements: TorchPlacements) -> bytes:
    """Return placements as JSON text; equal placements give equal bytes."""
    return encode(placements)


def write_placements(placements: TorchPlacements, path: str | Path) -> None:
    """Write a placement file.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    write_document(path, placements_to_json(placements))


def entries(placement: str) -> list[str]:
    """Split a placement into its entries per axis: ``"S(0)R"`` into ``["S(0)", "R"]``."""
    return ENTRY.findall(placement)


def processes(placements: TorchPlacements) -> int:
    """Return the number of processes of the mesh."""
    return prod(axis.size for axis in placements.mesh)


def whole_placements(capture: Capture, count: int) -> TorchPlacements:
    """Return a file with every tensor replicated on ``count`` processes, to start from.

    Raises
    ------
    InputError
        The captured graph is no training step.
    """
    if capture.mode != "training":
        remedy = "capture it with --mode training"
        raise InputError([Finding("mode", repr(capture.mode), "'training'", remedy)])
    return TorchPlacements(
        format="milp-plan-torch-placements",
        version=1,
        problem=f"{capture.name} whole on {count}",
        graph=fingerprint(capture),
        torch=capture.torch,
        mesh=[Axis("processes", count)],
        inputs=dict.fromkeys(_placed_names(capture), "R"),
        gradients=dict.fromkeys(_trained_names(capture), "R"),
    )


def require_placements_of(placements: TorchPlacements, capture: Capture, file: str = "") -> None:
    """Check that a placement file is of this model, in this release of PyTorch.

    Raises
    ------
    InputError
        It is of another release or another graph, an input or a gradient has no placement, a name
        is unknown, or an input is a pending sum.
    """
    findings = list(_origin_findings(placements, capture)) or [
        *_input_findings(placements, capture),
        *_gradient_findings(placements, capture),
    ]
    if findings:
        raise InputError(findings).in_file(file)


# checks of the file ----------------------------------------------------------------------


def _findings(placements: TorchPlacements) -> Iterator[Finding]:
    yield from name_findings("mesh axis", (axis.name for axis in placements.mesh))
    axes = len(placements.mesh)
    for where, placement in _placed(placements):
        count = len(entries(placement))
        if count != axes:
            expected = f"{axes}, one for each axis of the mesh"
            yield Finding(where, f"{placement!r}, {count} entries", expected, "correct it")


def _placed(placements: TorchPlacements) -> Iterator[tuple[str, str]]:
    tables = ("inputs", "gradients", "pins")
    for table in tables:
        for name, placement in getattr(placements, table).items():
            yield f"{table}[{name!r}]", placement
    for reader, copies in placements.reads.items():
        for name, placement in copies.items():
            yield f"reads[{reader!r}][{name!r}]", placement


# checks against a model -----------------------------------------------------------------------


def _origin_findings(placements: TorchPlacements, capture: Capture) -> Iterator[Finding]:
    """Yield findings on release and graph: another release names nodes differently."""
    if _release(placements.torch) != _release(capture.torch):
        found, expected = placements.torch, f"{capture.torch}, the installed release of PyTorch"
        remedy = "make the file again with the installed release, or install the file's"
        yield Finding("torch", found, expected, remedy)
    elif placements.graph != fingerprint(capture):
        expected = f"{fingerprint(capture)}, that of the model"
        yield Finding("graph", placements.graph, expected, "make the file again from this model")


def _release(version: str) -> list[str]:
    return version.split("+", maxsplit=1)[0].split(".")[:2]


def _input_findings(placements: TorchPlacements, capture: Capture) -> Iterator[Finding]:
    known = _placed_names(capture)
    yield from _names("inputs", known, placements.inputs)
    for name, placement in placements.inputs.items():
        if name in known and "P" in entries(placement):
            expected = "whole or cut: R or S(d)"
            yield Finding(f"inputs[{name!r}]", placement, expected, "place it otherwise")


def _gradient_findings(placements: TorchPlacements, capture: Capture) -> Iterator[Finding]:
    yield from _names("gradients", _trained_names(capture), placements.gradients)


def _placed_names(capture: Capture) -> list[str]:
    kinds = ("parameter", "buffer", "input")
    return [storage.name for storage in capture.storages if storage.kind in kinds]


def _trained_names(capture: Capture) -> list[str]:
    return [storage.name for storage in capture.storages if storage.trained]


def _names(table: str, known: list[str], placements: dict[str, str]) -> Iterator[Finding]:
    for name in known:
        if name not in placements:
            expected = "a placement of every tensor"
            yield Finding(f"{table}[{name!r}]", "nothing", expected, 'add it, "R" for whole')
    for name in placements:
        if name not in known:
            some = ", ".join(known[:4]) or "none"
            expected = f"a name of the captured graph ({some}, ...)"
            yield Finding(f"{table}[{name!r}]", "no such tensor", expected, "correct the name")
