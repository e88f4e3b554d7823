"""Derives pass and module of kernels where PyTorch does not record them."""

from __future__ import annotations

from typing import TypeVar

from milp_plan.io.capture_wire import Capture

from .record import made_by, read_by, tensors_made, tensors_read
from .work import FORMULAS, operator_of

FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = "forward", "backward-input", "backward-weight"
"""Kinds of operators."""

Edges = list[tuple[int, ...]]
"""Kernel -> kernels it reads from."""

Entry = TypeVar("Entry", str, bool)
"""Label or flag of a kernel."""


def sources(capture: Capture) -> Edges:
    """Return kernel -> kernels whose results it reads, in order, each once."""
    made = made_by(capture)
    return [
        tuple(
            dict.fromkeys(
                made[tensor.storage] for tensor in tensors_read(kernel) if tensor.storage in made
            )
        )
        for kernel in capture.kernels
    ]


def kinds(capture: Capture) -> list[str]:
    """Return kernel -> kind: forward, or backward for inputs or for weights.

    For weights are the kernels of the backward pass whose results are only gradients of
    parameters, and those without formula that only feed such kernels. Only the update waits for
    them.
    """
    readers = read_by(capture)
    gradients = {result.storage for result in capture.results if result.kind == "gradient"}
    outputs = {result.storage for result in capture.results} - gradients
    labels = [FORWARD] * len(capture.kernels)
    for place in range(len(capture.kernels) - 1, -1, -1):
        kernel = capture.kernels[place]
        if kernel.phase == "forward":
            continue
        used = {tensor.storage for tensor in tensors_made(kernel)}
        after = {reader for storage in used for reader in readers[storage] if reader != place}
        only = not used & outputs and all(labels[reader] == BACKWARD_WEIGHT for reader in after)
        ends = bool(used & gradients) or operator_of(kernel) not in FORMULAS
        weight = only and ends and bool(after or used & gradients)
        labels[place] = BACKWARD_WEIGHT if weight else BACKWARD_INPUT
    return labels


def homes(capture: Capture) -> list[str]:
    """Return kernel -> path of its module.

    A kernel without a path (mostly sums of gradients) takes that of the latest
    kernel that it reads from is, or else the first that reads from it.
    """
    return _settled(capture, [kernel.module for kernel in capture.kernels])


def leaf_homes(capture: Capture, granularity: str) -> list[str]:
    """Return kernel -> module (or block) with no others inside, as a model is cut into stages.

    Work of a module between its inner modules, such as a residual sum, goes to the module of the
    latest kernel that it reads from: a stage needs no more than the names of whole modules.
    """
    labels = [
        None if kernel.module is None else label_of(kernel.module, granularity)
        for kernel in capture.kernels
    ]
    outer = {above for label in labels if label for above in _above(label)}
    return _settled(capture, [None if label in outer else label for label in labels])


def without_module(capture: Capture) -> frozenset[int]:
    """Return kernels of unknown module: merging them would join separate modules.

    These are all kernels where no two are of different modules. Otherwise kernels of the forward
    pass that compute and have no path; those that compute nothing join a neighbour.
    """
    paths = {kernel.module for kernel in capture.kernels} - {None}
    if len(paths) < 2:
        return frozenset(range(len(capture.kernels)))
    known = [
        False
        if kernel.module is None and kernel.phase == "forward" and operator_of(kernel) in FORMULAS
        else True
        if kernel.module is not None
        else None
        for kernel in capture.kernels
    ]
    return frozenset(place for place, entry in enumerate(_spread(capture, known)) if not entry)


def label_of(path: str, granularity: str) -> str:
    """Return the path of the module or block that a module belongs to."""
    return block_of(path) if granularity == "block" else path


def _above(path: str) -> list[str]:
    """Return paths of the modules that contain a module."""
    steps = path.split(".")
    return [".".join(steps[:count]) for count in range(len(steps))]


def _settled(capture: Capture, paths: list[str | None]) -> list[str]:
    """Return paths with those of sources or readers for kernels without one."""
    return [path or "" for path in _spread(capture, paths)]


def _spread(capture: Capture, entries: list[Entry | None]) -> list[Entry | None]:
    """Give kernels without an entry that of their latest source, or else of their first reader."""
    before = sources(capture)
    for place, entry in enumerate(entries):
        if entry is None:
            known = [entries[source] for source in sorted(before[place], reverse=True)]
            entries[place] = next((entry for entry in known if entry is not None), None)
    for place in range(len(entries) - 1, -1, -1):
        for source in before[place]:
            if entries[source] is None:
                entries[source] = entries[place]
    return entries


def block_of(path: str) -> str:
    """Return the path of a module up to its first index: ``h.3.attn.out`` is in ``h.3``."""
    steps = path.split(".")
    for place, step in enumerate(steps):
        if step.isdecimal():
            return ".".join(steps[: place + 1])
    return path
