"""ONNX files, forward passes only: captured as graphs like PyTorch's own.

The library ``onnx`` reads the file, puts functions in the place of their calls and finds shapes;
weights beside the file are never read. What depends on no input (weights that are transposed, sizes
computed from shapes) is there before the first kernel, as every runtime folds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from milp_plan.core import BackendUnavailableError, Finding, InputError
from milp_plan.io.capture_wire import Argument, Capture, Kernel, Result, Storage, Tensor, View

from .onnx_operators import POINTWISE, VIEWS
from .record import ELEMENT_BYTES

SUFFIX = ".onnx"

NO_ONNX = "the library onnx is not installed; pip install 'milp_plan[onnx]'"

NAMES = {"float": "float32", "double": "float64"}
"""ONNX's names of types of numbers that are not PyTorch's."""

HALVES = {"INT4", "UINT4", "FLOAT4E2M1"}
"""Types of numbers two of which lie in a byte."""


CONTROL = ("If", "Loop", "Scan")


def capture_onnx(path: str | Path, dimensions: Mapping[str, int] | None = None) -> Capture:
    """Capture the forward pass of an ONNX file.

    Parameters
    ----------
    path
        The file; weights beside it need not be there.
    dimensions
        Sizes of dimensions that the file leaves open, by their names.

    Raises
    ------
    BackendUnavailableError
        The library ``onnx`` is not installed.
    InputError
        It is no ONNX file; with every open dimension, else every node whose results have no
        known shape or that branches.
    """
    try:
        import onnx
        from onnx.inliner import inline_local_functions
        from onnx.shape_inference import infer_shapes
    except ImportError as error:
        raise BackendUnavailableError(NO_ONNX) from error
    file = str(path)
    if not Path(path).is_file():
        raise _error(file, "file", "no such file", "an ONNX file", "check the path")
    try:
        model = onnx.load(file, load_external_data=False)
        opset = next(
            entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")
        )
        model = inline_local_functions(model)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise _error(file, "file", said, "an ONNX model", "export it again") from error
    _fix_dimensions(model.graph, dict(dimensions or {}), file)
    try:
        model = infer_shapes(model, data_prop=True)
    except Exception as error:
        said = f"shapes that do not fit ({str(error).splitlines()[0]})"
        raise _error(file, "graph", said, "a valid model", "run onnx.checker on it") from error
    return _Reading(model.graph, Path(path).stem, opset, file).capture()


def _fix_dimensions(graph: Any, given: dict[str, int], file: str) -> None:
    """Put numbers in the place of open dimensions of the inputs."""
    weights = {entry.name for entry in graph.initializer}
    findings, used = [], set()
    for entry in graph.input:
        for place, dim in enumerate(entry.type.tensor_type.shape.dim):
            if entry.name in weights or dim.WhichOneof("value") == "dim_value":
                continue
            name = dim.dim_param or f"{entry.name}.{place}"
            used.add(name)
            if name in given:
                dim.dim_value = given[name]
            else:
                where = f"input {entry.name!r}, dimension {place}"
                found, remedy = f"the open size {name!r}", f"give it: --dimension {name}=N"
                findings.append(Finding(where, found, "a number", remedy))
    for name in given.keys() - used:
        expected = f"one of {', '.join(sorted(used)) or 'none, all sizes are fixed'}"
        findings.append(Finding("--dimension", repr(name), expected, "correct the name"))
    if findings:
        raise InputError(findings).in_file(file)


class _Reading:
    """One graph while it is read."""

    def __init__(self, graph: Any, name: str, opset: int, file: str) -> None:
        import onnx

        self._onnx = onnx
        self._graph, self._name, self._opset, self._file = graph, name, opset, file
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

    def capture(self) -> Capture:
        for entry in self._graph.input:
            if entry.name not in self._weights and (kind := self._kind(entry.name)):
                self._known(entry.name, *kind, "input")
        live = self._live()
        for place, node in enumerate(self._graph.node):
            if node.op_type in CONTROL and any(name in live for name in node.output):
                self._refuse(node, "branches or repeats", "take control flow out of the model")
            elif any(name in live for name in node.output):
                self._call(node, place)
        results = tuple(
            Result(found.storage, "output", None, found.view)
            for entry in self._graph.output
            if (found := self._tensor(entry.name)) is not None
        )
        if self._findings:
            raise InputError(self._findings).in_file(self._file)
        if not self._kernels:
            expected = "at least one that depends on an input"
            raise _error(self._file, "nodes", "none", expected, "name another model")
        return Capture(
            format="milp-plan-capture",
            version=1,
            name=self._name,
            mode="inference",
            torch="",
            onnx=str(self._opset),
            nodes=len(self._graph.node),
            storages=tuple(self._storages),
            kernels=tuple(self._kernels),
            results=tuple(dict.fromkeys(results)),
            views=tuple(self._views),
        )

    def _live(self) -> set[str]:
        """Tensors whose numbers depend on those of an input; shapes are known without."""
        live = {entry.name for entry in self._graph.input} - self._weights.keys()
        for node in self._graph.node:
            if node.op_type not in ("Shape", "Size") and live.intersection(_reads(node)):
                live.update(node.output)
        return live

    # nodes ---------------------------------------------------------------------------------------

    def _call(self, node: Any, place: int) -> None:
        operator = f"{(node.domain or 'onnx').split('.')[-1]}.{node.op_type}"
        operator = operator.replace("ai.", "").replace("onnx.ml.", "ml.")
        arguments = tuple(self._tensor(name) if name else None for name in node.input)
        if operator in VIEWS and isinstance(arguments[0], Tensor):
            self._view(node, place, operator, arguments[0])
            return
        results = tuple(self._made(node, name) for name in node.output)
        kernel = Kernel(
            name=self._unique(node.name or f"{node.op_type}_{place}"),
            operator=operator,
            phase="forward",
            module=module_of(node),
            arguments=arguments,
            keywords=dict(self._attributes(node)),
            results=results,
            pointwise=operator in POINTWISE,
        )
        self._kernels.append(kernel)

    def _view(self, node: Any, place: int, operator: str, source: Tensor) -> None:
        kind = self._kind(node.output[0])
        if kind is None:
            self._refuse(node, f"makes {node.output[0]!r} of unknown shape")
            return
        shape, dtype = kind
        name = self._unique(node.name or f"{node.op_type}_{place}")
        seen = Tensor(source.storage, shape, dtype, len(self._views))
        self._views.append(View(name, operator, (source,), (Tensor(*_plain(seen)),)))
        self._tensors[node.output[0]] = seen

    def _made(self, node: Any, name: str) -> Tensor | None:
        if not name:
            return None
        kind = self._kind(name)
        if kind is None:
            self._refuse(node, f"makes {name!r} of unknown shape")
            return None
        return self._known(name, *kind, "result")

    def _attributes(self, node: Any) -> Iterator[tuple[str, Argument]]:
        """Attributes that are numbers, texts or lists of them; formulas read some."""
        for entry in node.attribute:
            value = self._onnx.helper.get_attribute_value(entry)
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            if isinstance(value, int | str):
                yield entry.name, value
            elif isinstance(value, list) and all(isinstance(item, int) for item in value):
                yield entry.name, tuple(value)

    # tensors -------------------------------------------------------------------------------------

    def _tensor(self, name: str) -> Tensor | None:
        """A tensor that is there: made, or known before the first kernel."""
        if name in self._tensors:
            return self._tensors[name]
        if name in self._weights:
            entry = self._weights[name]
            shape, dtype = tuple(entry.dims), self._type(entry.data_type)
            whole = dtype.startswith(("int", "uint64", "bool"))  # sizes, axes and masks
            return self._known(name, shape, dtype, "constant" if whole else "parameter")
        kind = self._kind(name)
        return None if kind is None else self._known(name, *kind, "constant")

    def _known(self, name: str, shape: tuple[int, ...], dtype: str, kind: Any) -> Tensor:
        number = (
            self._weights[name].data_type if name in self._weights else self._types[name].elem_type
        )
        halves = self._onnx.TensorProto.DataType.Name(number) in HALVES
        size = (prod(shape) + 1) // 2 if halves else prod(shape) * ELEMENT_BYTES[dtype]
        found = self._tensors[name] = Tensor(len(self._storages), shape, dtype)
        self._storages.append(Storage(name, size, kind, dtype))
        return found

    def _kind(self, name: str) -> tuple[tuple[int, ...], str] | None:
        """Shape and type of numbers of a tensor, where shape inference found all of it."""
        found = self._types.get(name)
        if found is None or not found.HasField("shape"):
            return None
        sizes = [dim.dim_value for dim in found.shape.dim if dim.WhichOneof("value") == "dim_value"]
        if len(sizes) < len(found.shape.dim):
            return None
        return tuple(sizes), self._type(found.elem_type)

    def _type(self, number: int) -> str:
        """PyTorch's name of a type of numbers; what lies two to a byte is kept as bytes."""
        name = str(self._onnx.TensorProto.DataType.Name(number))
        if name in HALVES:
            return "uint8"
        name = NAMES.get(name.lower(), name.lower().replace("float8e", "float8_e"))
        if name not in ELEMENT_BYTES:
            expected = f"one of {', '.join(ELEMENT_BYTES)}"
            raise _error(self._file, "type of numbers", name, expected, "take it out of the model")
        return name

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._taken:
            count += 1
            unique = f"{name}:{count}"
        self._taken.add(unique)
        return unique

    def _refuse(self, node: Any, found: str, remedy: str = "") -> None:
        where = f"module {module_of(node) or 'of the model itself'!r}, node {node.name!r}"
        remedy = remedy or "export the model with fixed sizes, and without sizes that data decide"
        expected = "tensors of fixed shapes"
        self._findings.append(Finding(where, f"{node.op_type} {found}", expected, remedy))


def module_of(node: Any) -> str | None:
    """Path of the module that a node was exported from, as far as the exporter says it.

    PyTorch's newer exporter keeps a list of scopes, the last of which is the node itself; its
    older one, and others, write a path into the node's name: ``/h.0/h.0.attn/MatMul``.
    """
    said = {entry.key: entry.value for entry in node.metadata_props}
    scopes = said.get("pkg.torch.onnx.name_scopes", "")
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


def _reads(node: Any) -> list[str]:
    """Tensors that a node reads, those of the graphs inside it included."""
    inner = [graph for entry in node.attribute for graph in (entry.g, *entry.graphs)]
    return [*node.input, *(name for graph in inner for sub in graph.node for name in _reads(sub))]


def _plain(tensor: Tensor) -> tuple[int, tuple[int, ...], str]:
    return tensor.storage, tensor.shape, tensor.dtype


def _error(file: str, where: str, found: str, expected: str, remedy: str) -> InputError:
    return InputError([Finding(where, found, expected, remedy, file)])
