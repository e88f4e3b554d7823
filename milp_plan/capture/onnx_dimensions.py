"""Open dimensions of ONNX files: which there are, and numbers in their place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milp_plan.core import Finding, InputError


def fix_dimensions(graph: Any, given: dict[str, int], file: str) -> None:
    """Put numbers in the place of open dimensions: of inputs, and of all that names the same.

    A dimension goes by its name in the file; one without a name by that of its input and its
    place, ``x.0``.

    Raises
    ------
    InputError
        With every input that is no tensor of known rank, every dimension that stays open, and
        every name that the file does not have.
    """
    findings = list(_no_tensors(graph))
    open_at: dict[str, list[str]] = {}
    for entry in _inputs(graph):
        for place, dim in enumerate(entry.type.tensor_type.shape.dim):
            name = _open(dim, entry.name, place)
            if name is not None:
                open_at.setdefault(name, []).append(f"input {entry.name!r}, dimension {place}")
                if name in given:
                    dim.dim_value = given[name]
    findings += _open_sizes(open_at, given)
    if findings:
        raise InputError(findings).in_file(file)
    for entry in (*graph.value_info, *graph.output):
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_param in given:
                dim.dim_value = given[dim.dim_param]
            elif dim.dim_value < 0:
                dim.ClearField("dim_value")


def _open_sizes(open_at: dict[str, list[str]], given: dict[str, int]) -> Iterator[Finding]:
    """Dimensions without a number, and numbers without a dimension."""
    for name, places in open_at.items():
        if name not in given:
            also = f" (also {'; '.join(places[1:])})" if len(places) > 1 else ""
            found, remedy = f"the open size {name!r}{also}", f"give it: --dimension {name}=N"
            yield Finding(places[0], found, "a number", remedy)
    for name in given.keys() - open_at.keys():
        expected = f"one of {', '.join(open_at) or 'none, all sizes are fixed'}"
        yield Finding("--dimension", repr(name), expected, "correct the name")


def _no_tensors(graph: Any) -> Iterator[Finding]:
    """Inputs that are no tensors of known rank."""
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
    """What the file does not hold a value of."""
    weights = {entry.name for entry in graph.initializer}
    return (entry for entry in graph.input if entry.name not in weights)


def _open(dim: Any, name: str, place: int) -> str | None:
    """Name of a dimension that is no number; some exporters write -1 for it."""
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return None
    return dim.dim_param or f"{name}.{place}"
