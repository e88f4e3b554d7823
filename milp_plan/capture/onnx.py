"""ONNX files, forward passes only, captured as graphs like PyTorch's.

The library ``onnx`` reads the file, inlines functions and infers shapes;
external weights are never read. Nodes that depend on no input (sizes computed from shapes,
weights in another type) exist before the first kernel, as every runtime folds them. A weight that
is only transposed or reshaped stays that weight: it is stored once, whatever forms kernels read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.io.capture_wire import Argument, Capture, Kernel, Result, Storage, Tensor, View

from .onnx_file import OnnxFile, load_onnx
from .onnx_operators import POINTWISE, RELAYOUTS, VIEWS
from .record import ELEMENT_BYTES

SUFFIX = ".onnx"

NAMES = {"float": "float32", "double": "float64"}
"""ONNX's names of types that differ from PyTorch's."""

HALVES = {"INT4", "UINT4", "FLOAT4E2M1"}
"""Types of numbers of which two fit in a byte."""


CONTROL = ("If", "Loop", "Scan")


def capture_onnx(path: str | Path, dimensions: Mapping[str, int] | None = None) -> Capture:
    """Capture the forward pass of an ONNX file.

    Parameters
    ----------
    path
        The file; external weights need not exist.
    dimensions
        Sizes of dimensions that the file leaves open, by their names.

    Raises
    ------
    BackendUnavailableError
        The library ``onnx`` is not installed.
    InputError
        It is no ONNX file, dimensions are open, or nodes branch or have results of unknown
        shape; the error lists all of these.
    """
    return _Reading(load_onnx(path, dict(dimensions or {})), str(path)).capture()


class _Reading:
    """State of reading one graph."""

    def __init__(self, source: OnnxFile, file: str) -> None:
        import onnx

        self._onnx = onnx
        self._graph, self._opset, self._file = source.graph, source.opset, file
        self._reason, graph = source.reason, source.graph
        self._types = {
            entry.name: entry.type.tensor_type
            for entry in (*graph.input, *graph.value_info, *graph.output)
        }
        self._weights = {entry.name: entry for entry in graph.initializer}
        self._tensors: dict[str, Tensor] = {}
        self._storages: list[Storage] = []
        self._kernels: list[Kernel] = []
        self._views: list[View] = []
        self._findings: list[Finding] = []
        self._taken: set[str] = set()
        self._refused: set[str] = set()
        self._nodes = list(graph.node)
        self._maker = {
            name: place for place, node in enumerate(self._nodes) for name in node.output if name
        }
        self._live = self._depending()

    def capture(self) -> Capture:
        for entry in self._graph.input:
            if entry.name not in self._weights and (kind := self._kind(entry.name)):
                self._known(entry.name, *kind, "input")
        self._refuse_disorder()
        for place, node in enumerate(self._nodes):
            if not self._live.isdisjoint(node.output):
                self._call(node, place)
        outputs = [self._tensor(e.name, f"output {e.name!r}") for e in self._graph.output]
        results = [Result(one.storage, "output", None, one.view) for one in outputs if one]
        if self._findings:
            raise InputError(self._findings).in_file(self._file)
        if not self._kernels:
            expected = "at least one that depends on an input"
            raise _error(self._file, "nodes", "none", expected, "name another model")
        return Capture(
            format="milp-plan-capture",
            version=1,
            name=Path(self._file).stem,
            mode="inference",
            torch="",
            onnx=self._opset,
            nodes=len(self._nodes),
            storages=tuple(self._storages),
            kernels=tuple(self._kernels),
            results=tuple(dict.fromkeys(results)),
            views=tuple(self._views),
        )

    def _depending(self) -> set[str]:
        """Return tensors whose numbers depend on those of an input, shapes apart."""
        live = {entry.name for entry in self._graph.input} - self._weights.keys()
        for node in self._graph.node:
            if node.op_type not in ("Shape", "Size") and live.intersection(_reads(node)):
                live.update(name for name in node.output if name)
        return live

    # nodes ---------------------------------------------------------------------------------------

    def _call(self, node: Any, place: int) -> None:
        operator = _operator(node)
        if node.op_type in CONTROL:
            problem, remedy = "branches or repeats", "take control flow out of the model"
            self._refuse(node, problem, "one sequence of operators", remedy)
            self._refused.update(node.output)
            return
        where = self._where(node)
        arguments = tuple(self._tensor(name, where) if name else None for name in node.input)
        if operator in VIEWS and arguments and arguments[0] is not None:
            self._view(place, node.output[0], arguments[0])
            self._mask(node, place)
            return
        made = tuple(self._made(node, name) for name in node.output)
        kernel = Kernel(
            name=self._unique(node, place),
            operator=operator,
            phase="forward",
            module=module_of(node),
            arguments=arguments,
            keywords=dict(self._attributes(node)),
            results=made,
            pointwise=operator in POINTWISE,
        )
        self._kernels.append(kernel)

    def _mask(self, node: Any, place: int) -> None:
        """Record the mask of a dropout, if it is used: all ones."""
        read_names = {name for other in self._nodes for name in _reads(other)}
        read_names |= {entry.name for entry in self._graph.output}
        for name in read_names.intersection(node.output[1:]) - {""}:
            made = self._made(node, name)
            self._kernels.append(
                Kernel(
                    name=self._unique(node, place),
                    operator=_operator(node),
                    phase="forward",
                    module=module_of(node),
                    results=(made,),
                    flops=0,
                )
            )

    def _view(self, place: int, name: str, source: Tensor) -> Tensor | None:
        """Record that a node gives an existing tensor another form."""
        node = self._nodes[place]
        kind = self._kind(name)
        if kind is None:
            self._refuse_unknown(node, name)
            return None
        shape, dtype = kind
        tensor = self._tensors[name] = Tensor(source.storage, shape, dtype, len(self._views))
        unique = self._unique(node, place)
        self._views.append(
            View(unique, _operator(node), (source,), (Tensor(source.storage, shape, dtype),))
        )
        return tensor

    def _made(self, node: Any, name: str) -> Tensor | None:
        if not name:
            return None
        kind = self._kind(name)
        if kind is None:
            self._refuse_unknown(node, name)
            return None
        return self._known(name, *kind, "result")

    def _attributes(self, node: Any) -> Iterator[tuple[str, Argument]]:
        """Yield attributes that are numbers, texts or lists of them, for formulas."""
        for entry in node.attribute:
            value = self._onnx.helper.get_attribute_value(entry)
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            if isinstance(value, int | str):
                yield entry.name, value
            elif isinstance(value, list) and all(isinstance(item, int) for item in value):
                yield entry.name, tuple(value)

    # tensors -------------------------------------------------------------------------------------

    def _tensor(self, name: str, reader: str) -> Tensor | None:
        """Return an existing tensor: made, or known before the first kernel.

        Results of nodes before the first kernel get their kind from their shape; a weight in
        another order or shape is the weight.
        """
        if name in self._tensors or name in self._refused:
            return self._tensors.get(name)
        if name in self._weights:
            entry = self._weights[name]
            shape, dtype = tuple(entry.dims), self._type(entry.data_type)
            whole = dtype.startswith(("int", "uint64", "bool"))  # sizes, axes and masks
            return self._known(name, shape, dtype, "constant" if whole else "parameter")
        place = self._maker.get(name)
        if place is None:
            self._refused.add(name)
            remedy = "run onnx.checker on it"
            self._findings.append(
                Finding(reader, f"no tensor {name!r}", "one of the graph", remedy)
            )
            return None
        maker = self._nodes[place]
        if _operator(maker) in RELAYOUTS and maker.input[0]:
            source = self._tensor(maker.input[0], reader)
            return None if source is None else self._view(place, name, source)
        kind = self._kind(name)
        if kind is None:
            self._refuse_unknown(maker, name)
            return None
        return self._known(name, *kind, "constant")

    def _known(self, name: str, shape: tuple[int, ...], dtype: str, kind: Any) -> Tensor:
        number = (
            self._weights[name].data_type if name in self._weights else self._types[name].elem_type
        )
        halves = self._onnx.TensorProto.DataType.Name(number) in HALVES
        size = (prod(shape) + 1) // 2 if halves else prod(shape) * ELEMENT_BYTES[dtype]
        tensor = self._tensors[name] = Tensor(len(self._storages), shape, dtype)
        self._storages.append(Storage(name, size, kind, dtype))
        return tensor

    def _kind(self, name: str) -> tuple[tuple[int, ...], str] | None:
        """Return shape and type of a tensor, where shape inference knows all of it."""
        found = self._types.get(name)
        if found is None or not found.HasField("shape"):
            return None
        sizes = [dim.dim_value for dim in found.shape.dim if dim.HasField("dim_value")]
        if len(sizes) < len(found.shape.dim):
            return None
        return tuple(sizes), self._type(found.elem_type)

    def _type(self, number: int) -> str:
        """Return PyTorch's name of a type; numbers of half a byte are stored as bytes."""
        name = str(self._onnx.TensorProto.DataType.Name(number))
        if name in HALVES:
            return "uint8"
        name = NAMES.get(name.lower(), name.lower().replace("float8e", "float8_e"))
        if name not in ELEMENT_BYTES:
            expected = f"one of {', '.join(ELEMENT_BYTES)}"
            raise _error(self._file, "type of numbers", name, expected, "take it out of the model")
        return name

    def _unique(self, node: Any, place: int) -> str:
        name = node.name or f"{node.op_type}_{place}"
        unique, count = name, 1
        while unique in self._taken:
            count += 1
            unique = f"{name}:{count}"
        self._taken.add(unique)
        return unique

    def _refuse_disorder(self) -> None:
        """Refuse nodes before their inputs, duplicate names, and sparse weights."""
        known = self._weights.keys() | {entry.name for entry in self._graph.input}
        made = Counter(name for node in self._nodes for name in node.output)
        remedy = "run onnx.checker on it"
        for place, node in enumerate(self._nodes):
            for name in dict.fromkeys(_reads(node)):
                if self._maker.get(name, -1) >= place:
                    found, expected = f"reads {name!r}, which comes later", "nodes in order"
                    self._refuse(node, found, expected, remedy)
                    self._refused.add(name)
            for name in node.output:
                if name and (name in known or made[name] > 1):
                    found, expected = f"makes {name!r}, which is made twice", "a name for each"
                    self._refuse(node, found, expected, remedy)
                    self._refused.add(name)
        for entry in self._graph.sparse_initializer:
            name, remedy = entry.values.name, "export the model with dense weights"
            self._findings.append(Finding(f"weights {name!r}", "sparse", "dense weights", remedy))
            self._refused.add(name)

    def _refuse_unknown(self, node: Any, name: str) -> None:
        """Refuse a tensor without a shape, with the library's reason for the first one."""
        self._refused.add(name)
        why, self._reason = f" ({self._reason})" if self._reason else "", ""
        remedy = "export the model with fixed sizes, and without sizes that data decide"
        self._refuse(node, f"makes {name!r} of unknown shape{why}", "fixed shapes", remedy)

    def _refuse(self, node: Any, found: str, expected: str, remedy: str) -> None:
        found = f"{node.op_type} {found}"
        self._findings.append(Finding(self._where(node), found, expected, remedy))

    def _where(self, node: Any) -> str:
        name = repr(node.name) if node.name else f"without a name, of {node.output[0]!r}"
        return f"module {module_of(node) or 'of the model itself'!r}, node {name}"


def module_of(node: Any) -> str | None:
    """Return the path of the module that a node was exported from, if the exporter gives it.

    PyTorch's newer exporter keeps a list of scopes, the last of which is the node itself; its
    older one, and others, write a path into the node's name: ``/h.0/h.0.attn/MatMul``.
    """
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    scopes = metadata.get("pkg.torch.onnx.name_scopes", "")
    if scopes:
        names = [name.strip(" '\"") for name in scopes.strip("[]").split(",")]
        return names[-2] if len(names) > 1 else ""
    steps = [step for step in node.name.split("/")[:-1] if step]
    if not steps:
        return None
    path = ""
    for step in steps:
        path = step if step.startswith(f"{path}.") or not path else f"{path}.{step}"
    return path


def _operator(node: Any) -> str:
    """Return the name of a node's operator in captured graphs."""
    operator = f"{(node.domain or 'onnx').split('.')[-1]}.{node.op_type}"
    return operator.replace("ai.", "").replace("onnx.ml.", "ml.")


def _reads(node: Any) -> list[str]:
    """Return the tensors that a node reads, including those of inner graphs."""
    inner = [graph for entry in node.attribute for graph in (entry.g, *entry.graphs)]
    below = [name for graph in inner for sub in graph.node for name in _reads(sub)]
    return [*node.input, *below, *(entry.name for graph in inner for entry in graph.output)]


def _error(file: str, where: str, found: str, expected: str, remedy: str) -> InputError:
    return InputError([Finding(where, found, expected, remedy, file)])
