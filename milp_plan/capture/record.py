"""Captured-graph files: reading, writing, checks, fingerprint.

Nothing here needs PyTorch. The types are those of the file (``milp_plan.io.capture_wire``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.core.errors import name_findings
from milp_plan.io.capture_wire import MARKER, Argument, Capture, Kernel, Storage, Tensor, View
from milp_plan.io.files import Document, read_document, write_document
from milp_plan.io.wire import decode, encode

ELEMENT_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Name of a PyTorch type of numbers -> bytes of one."""


LOSS_GRADIENT = "gradient of the loss"
"""The constant with which the backward pass begins."""


def captured_with(capture: Capture) -> str:
    """Return the tool that captured a graph, in words."""
    if capture.onnx is not None:
        return f"ONNX, operator set {capture.onnx}"
    return f"PyTorch {capture.torch}"


def can_read(document: Document) -> bool:
    """Return whether a document has the marker of a captured graph."""
    return document.marker == MARKER


def read_capture(path: str | Path) -> Capture:
    """Read a captured-graph file.

    Raises
    ------
    InputError
        The file has defects of syntax and types, or of structure; the error lists all of them.
    """
    document = read_document(path, "a captured graph")
    return capture_from_json(document.data, document.file)


def capture_from_json(data: bytes, file: str = "") -> Capture:
    """Read a captured graph from its JSON text; ``file`` names it in findings.

    Raises
    ------
    InputError
        See :func:`read_capture`.
    """
    capture = decode(data, Capture, file, MARKER)
    findings = list(_findings(capture))
    if findings:
        raise InputError(findings).in_file(file)
    return capture


def capture_to_json(capture: Capture) -> bytes:
    """Return a captured graph as JSON text; equal graphs give equal bytes."""
    return encode(capture)


def write_capture(capture: Capture, path: str | Path) -> None:
    """Write a captured-graph file; compressed when its name ends in ``.gz``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    write_document(path, capture_to_json(capture))


def fingerprint(capture: Capture) -> str:
    """Return a SHA-256 over operators, shapes and modules in order, without names of kernels.

    PyTorch's names of nodes differ from release to release; their computations do not.
    """
    content = [
        [
            kernel.operator,
            kernel.phase,
            kernel.module,
            [[list(tensor.shape), tensor.dtype] for tensor in tensors_read(kernel)],
            [[list(tensor.shape), tensor.dtype] for tensor in tensors_made(kernel)],
        ]
        for kernel in capture.kernels
    ]
    persistent = [[s.name, s.bytes, s.kind] for s in capture.storages if s.kind != "result"]
    text = json.dumps([capture.mode, persistent, content], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def tensors_read(kernel: Kernel) -> list[Tensor]:
    """Return tensors among a kernel's arguments, in order; one that is read twice occurs twice."""
    return [*_tensors(kernel.arguments), *_tensors(kernel.keywords.values())]


def tensors_of(call: Kernel | View) -> list[Tensor]:
    """Return tensors among the arguments of a kernel or a view."""
    return tensors_read(call) if isinstance(call, Kernel) else list(_tensors(call.arguments))


def tensors_made(kernel: Kernel) -> list[Tensor]:
    """Return tensors among a kernel's results."""
    return [result for result in kernel.results if result is not None]


def _tensors(arguments: Iterable[Argument]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, tuple):
            yield from (entry for entry in argument if isinstance(entry, Tensor))


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of all elements of a tensor; more than its storage where it is expanded."""
    return prod(tensor.shape) * ELEMENT_BYTES[tensor.dtype]


def made_by(capture: Capture) -> dict[int, int]:
    """Return storage -> position of the kernel that makes it: the first with it as a result."""
    made: dict[int, int] = {}
    for place, kernel in enumerate(capture.kernels):
        for tensor in tensors_made(kernel):
            if capture.storages[tensor.storage].kind == "result":
                made.setdefault(tensor.storage, place)
    return made


def read_by(capture: Capture) -> dict[int, list[int]]:
    """Return storage -> positions of the kernels that read it, in order, each once."""
    readers: dict[int, list[int]] = {index: [] for index in range(len(capture.storages))}
    for place, kernel in enumerate(capture.kernels):
        for storage in dict.fromkeys(tensor.storage for tensor in tensors_read(kernel)):
            readers[storage].append(place)
    return readers


def handed_out(capture: Capture) -> set[int]:
    """Return storages that stay after the step: its outputs and new contents of buffers.

    Gradients do not: the updates of a planned step consume them.
    """
    return {result.storage for result in capture.results if result.kind != "gradient"}


# checks ------------------------------------------------------------------------------


def _findings(capture: Capture) -> Iterator[Finding]:
    count = len(capture.storages)
    yield from name_findings("storages", [storage.name for storage in capture.storages])
    names = [kernel.name for kernel in capture.kernels]
    yield from name_findings("kernels and views", names + [view.name for view in capture.views])
    if not capture.kernels:
        yield Finding("kernels", "none", "at least one", "capture a model that computes something")
    for place, storage in enumerate(capture.storages):
        yield from _type_findings(f"storages[{place}]", storage)
    known = {place for place, storage in enumerate(capture.storages) if storage.kind != "result"}
    for place, kernel in enumerate(capture.kernels):
        where = f"kernels[{place}], kernel {kernel.name!r}"
        for tensor in tensors_read(kernel):
            yield from _type_findings(where, tensor)
            if tensor.storage not in known:
                found = f"reads storage {tensor.storage}"
                expected = "one that exists before the kernel runs"
                yield Finding(where, found, expected, "put the kernel behind its producer")
        for tensor in tensors_made(kernel):
            yield from _type_findings(where, tensor)
            if tensor.storage >= count:
                found = f"makes storage {tensor.storage}"
                yield Finding(where, found, f"a number below {count}", "add the storage")
            known.add(tensor.storage)
    yield from _view_findings(capture)
    for place, result in enumerate(capture.results):
        yield from _result_findings(f"results[{place}]", result.storage, known, count)
        if result.of is not None:
            yield from _result_findings(f"results[{place}].of", result.of, known, count)
        if result.view is not None and result.view >= len(capture.views):
            expected = f"a number below {len(capture.views)}"
            yield Finding(f"results[{place}].view", str(result.view), expected, "correct it")
    yield from _profile_findings(capture)


def _view_findings(capture: Capture) -> Iterator[Finding]:
    """Yield findings on views: they read views before them, and references name existing ones."""
    for place, view in enumerate(capture.views):
        where = f"views[{place}], view {view.name!r}"
        read = list(_tensors(view.arguments))
        for tensor in (*read, *view.results):
            yield from _type_findings(where, tensor)
            if tensor.storage >= len(capture.storages):
                expected = f"a number below {len(capture.storages)}"
                yield Finding(where, f"storage {tensor.storage}", expected, "correct the number")
        for tensor in read:
            if tensor.view is not None and tensor.view >= place:
                found, expected = f"reads view {tensor.view}", "a view before it"
                yield Finding(where, found, expected, "reorder the views")
        if not view.results or not read:
            expected = "at least one tensor read and one given"
            yield Finding(where, f"{len(read)} and {len(view.results)}", expected, "complete it")
    for place, kernel in enumerate(capture.kernels):
        for tensor in tensors_read(kernel):
            if tensor.view is not None and tensor.view >= len(capture.views):
                where, found = f"kernels[{place}], kernel {kernel.name!r}", f"view {tensor.view}"
                expected = f"a number below {len(capture.views)}"
                yield Finding(where, f"reads {found}", expected, "add the view")


def _profile_findings(capture: Capture) -> Iterator[Finding]:
    known = {kernel.name for kernel in capture.kernels}
    for name in capture.profile.kernels if capture.profile is not None else ():
        if name not in known:
            where = f"profile.kernels[{name!r}]"
            yield Finding(where, "no such kernel", "a kernel of the graph", "profile it again")


def _result_findings(where: str, storage: int, known: set[int], count: int) -> Iterator[Finding]:
    if storage >= count or storage not in known:
        yield Finding(where, str(storage), "a storage that something makes", "correct the number")


def _type_findings(where: str, item: Tensor | Storage) -> Iterator[Finding]:
    if item.dtype not in ELEMENT_BYTES:
        expected = f"one of {', '.join(ELEMENT_BYTES)}"
        yield Finding(f"{where}.dtype", repr(item.dtype), expected, "capture it in another type")


def replace_flops(kernel: Kernel, flops: int) -> Kernel:
    """Return the kernel with other floating-point operations."""
    return msgspec.structs.replace(kernel, flops=flops)
