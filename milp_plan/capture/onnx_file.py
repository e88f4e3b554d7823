"""Reads ONNX files, with values for open dimensions, and infers shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from milp_plan.core import BackendUnavailableError, Finding, InputError

NO_ONNX = "the library onnx is not installed; pip install 'milp_plan[onnx]'"

SIZES = 1024
"""Largest number of integers of a list that may be a shape."""


@dataclass(frozen=True)
class OnnxFile:
    """A graph with shapes.

    Parameters
    ----------
    graph
        A ``GraphProto`` without calls of functions.
    opset
        Version of ONNX's own operator set.
    reason
        Reason why some shapes are unknown, if there is a message.
    """

    graph: Any
    opset: str
    reason: str


def load_onnx(path: str | Path, dimensions: dict[str, int]) -> OnnxFile:
    """Read a file; infer shapes with these numbers for open dimensions.

    Raises
    ------
    BackendUnavailableError
        The library ``onnx`` is not installed.
    InputError
        It is no ONNX file; or see :func:`fix_dimensions`.
    """
    try:
        import onnx
        from onnx.inliner import inline_local_functions
        from onnx.shape_inference import infer_shapes
    except ImportError as error:
        raise BackendUnavailableError(NO_ONNX) from error

    def fail(where: str, found: str, expected: str, remedy: str) -> InputError:
        return InputError([Finding(where, found, expected, remedy, str(path))])

    if not Path(path).is_file():
        raise fail("file", "no such file", "an ONNX file", "check the path")
    try:
        model = onnx.load(path, load_external_data=False)
        opsets = [e.version for e in model.opset_import if e.domain in ("", "ai.onnx")]
        model = inline_local_functions(model)
    except Exception as error:
        message = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise fail("file", message, "an ONNX model", "export it again") from error
    fix_dimensions(model.graph, dimensions, str(path))
    reason = _load_sizes(model.graph, Path(path).parent)
    try:
        model = infer_shapes(model, data_prop=True, strict_mode=True)
    except Exception as error:
        reason = reason or str(error).strip().rpartition("\n")[2]
        try:
            model = infer_shapes(model, data_prop=True)
        except Exception as worse:
            message = f"shapes that do not fit ({str(worse).splitlines()[0]})"
            raise fail("graph", message, "a valid model", "run onnx.checker on it") from worse
    return OnnxFile(model.graph, str(opsets[0]) if opsets else "none", reason)


def _load_sizes(graph: Any, folder: Path) -> str:
    """Read short external lists of integers for shapes; return what is missing."""
    from onnx import TensorProto
    from onnx.external_data_helper import load_external_data_for_tensor

    missing = ""
    for entry in graph.initializer:
        whole = entry.data_type in (TensorProto.INT64, TensorProto.INT32)
        if entry.data_location != TensorProto.EXTERNAL or not whole or prod(entry.dims) > SIZES:
            continue
        try:
            load_external_data_for_tensor(entry, str(folder))
            entry.data_location = TensorProto.DEFAULT
        except Exception:
            missing = missing or f"the integers {entry.name!r} lie in a file beside it, not there"
    return missing


def fix_dimensions(graph: Any, sizes: dict[str, int], file: str) -> None:
    """Replace open dimensions by numbers, in inputs and wherever the same name occurs.

    A dimension goes by its name in the file; one without a name by that of its input and its
    position, ``x.0``.

    Raises
    ------
    InputError
        An input is no tensor of known rank, a dimension stays open, or the file does not have a
        name; the error lists all of these.
    """
    findings = list(_no_tensors(graph))
    open_at: dict[str, list[str]] = {}
    for entry in _inputs(graph):
        for place, dim in enumerate(entry.type.tensor_type.shape.dim):
            name = _open(dim, entry.name, place)
            if name is not None:
                open_at.setdefault(name, []).append(f"input {entry.name!r}, dimension {place}")
                if name in sizes:
                    dim.dim_value = sizes[name]
    findings += _open_sizes(open_at, sizes)
    if findings:
        raise InputError(findings).in_file(file)
    for entry in (*graph.value_info, *graph.output):
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif dim.dim_value < 0:
                dim.ClearField("dim_value")


def _open_sizes(open_at: dict[str, list[str]], sizes: dict[str, int]) -> Iterator[Finding]:
    """Yield dimensions without a number, and numbers without a dimension."""
    for name, places in open_at.items():
        if name not in sizes:
            also = f" (also {'; '.join(places[1:])})" if len(places) > 1 else ""
            found, remedy = f"the open size {name!r}{also}", f"give it: --dimension {name}=N"
            yield Finding(places[0], found, "a number", remedy)
    for name in sizes.keys() - open_at.keys():
        expected = f"one of {', '.join(open_at) or 'none, all sizes are fixed'}"
        yield Finding("--dimension", repr(name), expected, "correct the name")


def _no_tensors(graph: Any) -> Iterator[Finding]:
    """Yield inputs that are no tensors of known rank."""
    for entry in _inputs(graph):
        kind = entry.type.WhichOneof("value")
        found = f"a {(kind or 'value without a type').removesuffix('_type')}"
        if kind == "tensor_type":
            if entry.type.tensor_type.HasField("shape"):
                continue
            found = "a tensor without a shape"
        remedy = "export the model with tensors of fixed rank as inputs"
        yield Finding(f"input {entry.name!r}", found, "a tensor with a shape", remedy)


def _inputs(graph: Any) -> Iterator[Any]:
    """Yield inputs that have no value in the file."""
    weights = {entry.name for entry in graph.initializer}
    return (entry for entry in graph.input if entry.name not in weights)


def _open(dim: Any, name: str, place: int) -> str | None:
    """Return the name of a dimension that is no number; some exporters write -1 for it."""
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return None
    return dim.dim_param or f"{name}.{place}"
