"""Converts PyTorch's graph of nodes to kernels and storages.

A node whose results are in existing memory is a view, and no kernel. The order is
that of the graph, which is the order in which eager PyTorch runs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.io.capture_wire import (
    Argument,
    Capture,
    Kernel,
    Result,
    Scalar,
    Storage,
    Tensor,
    View,
)

from .operators import ELEMENTWISE
from .record import LOSS_GRADIENT

CHECKS = ("aten._assert", "aten.sym_constrain", "aten._functional_assert", "aten._linalg_check")
"""Nodes that only check their inputs; they have no result."""


class Recorder:
    """Records one graph.

    Parameters
    ----------
    text
        User's name of the model, for findings.
    flops
        Operator -> formula of the user's file.
    prefix
        Path of the user's module inside the captured one.
    """

    def __init__(
        self, text: str, flops: Mapping[str, Callable[..., int]], *, prefix: str = ""
    ) -> None:
        import torch

        self._torch = torch
        self._text = text
        self._flops = flops
        self._prefix = prefix
        self._storages: list[Storage] = []
        self._places: dict[int, int] = {}
        self._uses: dict[Any, Tensor] = {}
        self._kernels: list[Kernel] = []
        self._views: list[View] = []
        self._findings: list[Finding] = []

    def capture(self, graph: Any, name: str, mode: str, release: str) -> Capture:
        """Record a graph.

        Raises
        ------
        InputError
            A node is no kernel of tensors of fixed shapes, the loss is no scalar, or it
            depends on no parameter.
        """
        results: tuple[Result, ...] = ()
        for node in graph.nodes:
            if node.op == "placeholder":
                self._input(node)
            elif node.op == "get_attr":
                self._known(node, "constant", node.name)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = self._results(node, mode)
        if self._findings:
            raise InputError(self._findings).in_file(self._text)
        trained = {result.of for result in results if result.kind == "gradient"}
        return Capture(
            format="milp-plan-capture",
            version=1,
            name=name,
            mode="training" if mode == "training" else "inference",
            torch=release.split("+", maxsplit=1)[0],
            nodes=len(graph.nodes),
            storages=tuple(
                _trained(storage) if place in trained else storage
                for place, storage in enumerate(self._storages)
            ),
            kernels=tuple(self._kernels),
            results=results,
            views=tuple(self._views),
        )

    # inputs --------------------------------------------------------------------------------------

    def _input(self, node: Any) -> None:
        description = node.meta.get("desc")
        kind = type(description).__name__
        if kind == "ParamAOTInput":
            self._known(node, "parameter", self._path(description.target))
        elif kind == "BufferAOTInput":
            lifted = "lifted" in description.target or "constant" in description.target
            self._known(node, "constant" if lifted else "buffer", self._path(description.target))
        elif kind == "TangentAOTInput":
            self._known(node, "constant", LOSS_GRADIENT)
        else:
            self._known(node, "input", getattr(description, "expr", lambda: node.name)())

    def _known(self, node: Any, kind: Any, name: str) -> None:
        """Record a tensor that exists before the first kernel."""
        value = node.meta.get("val")
        if not self._is_tensor(value):
            return
        key = self._key(value)
        if key in self._places:
            place = self._places[key]
            storage = self._storages[place]
            self._storages[place] = Storage(
                storage.name,
                storage.bytes,
                storage.kind,
                storage.dtype,
                storage.trained,
                (*storage.aliases, name),
            )
        else:
            self._add(value, kind, name)
        self._uses[node] = self._use(value)

    # kernels -------------------------------------------------------------------------------------

    def _call(self, node: Any) -> None:
        values = node.meta.get("val")
        if node.target.__name__ == "getitem" and node.target.__module__ == "_operator":
            source = node.args[0].meta.get("val")
            if isinstance(source, list | tuple) and self._is_tensor(values):
                whole = self._uses.get(node.args[0], self._use(values))
                self._uses[node] = self._view(node, "getitem", (whole, node.args[1]), [values])
                return
        operator = str(node.target)
        several = isinstance(values, list | tuple)
        made = list(values) if several else [values]
        tensors = [item for item in made if self._is_tensor(item)]
        if not tensors:
            if not operator.startswith(CHECKS) and node.users:
                self._refuse(node, operator, "returns no tensor but a number that tensors hold")
            return
        before = len(self._storages)
        results = tuple(self._made(item, node.name) for item in made)
        if len(self._storages) > before:
            self._kernel(node, operator, results)
            if not several and results[0] is not None:
                self._uses[node] = results[0]
        else:
            read = tuple(self._argument(node, argument) for argument in node.args)
            self._uses[node] = self._view(node, operator, read, tensors)

    def _view(
        self, node: Any, operator: str, arguments: tuple[Argument, ...], made: list[Any]
    ) -> Tensor:
        """Record a view; return the tensor that its readers read, of several ones the first."""
        place = len(self._views)
        results = tuple(self._use(item) for item in made)
        self._views.append(View(node.name, operator, arguments, results))
        first = results[0]
        return Tensor(first.storage, first.shape, first.dtype, place)

    def _made(self, item: Any, name: str) -> Tensor | None:
        if not self._is_tensor(item):
            return None
        if self._key(item) not in self._places:
            self._add(item, "result", name)
        return self._use(item)

    def _kernel(self, node: Any, operator: str, results: tuple[Tensor | None, ...]) -> None:
        kernel = Kernel(
            name=node.name,
            operator=operator,
            phase="backward" if _is_backward(node) else "forward",
            module=self._module(node),
            arguments=tuple(self._argument(node, argument) for argument in node.args),
            keywords={
                name: self._argument(node, argument) for name, argument in node.kwargs.items()
            },
            results=results,
            pointwise=self._pointwise(node, operator),
            flops=self._given(node, operator),
        )
        self._kernels += _split_convolution(kernel)

    def _pointwise(self, node: Any, operator: str) -> bool:
        short = ".".join(operator.split(".")[:2])
        return short in ELEMENTWISE or self._torch.Tag.pointwise in getattr(node.target, "tags", ())

    def _given(self, node: Any, operator: str) -> int | None:
        """Return the operations by the formula of the user's file."""
        short = ".".join(operator.split(".")[:2])
        formula = self._flops.get(operator, self._flops.get(short))
        if formula is None:
            return None

        def value(item: Any) -> Any:
            return item.meta["val"] if isinstance(item, self._torch.fx.Node) else item

        args = self._torch.fx.map_arg(node.args, value)
        kwargs = self._torch.fx.map_arg(node.kwargs, value)
        try:
            found = int(formula(*args, **kwargs, out=node.meta["val"]))
        except Exception as error:
            self._refuse(node, operator, f"its formula in FLOPS fails: {error}")
            return None
        if found < 0:
            self._refuse(node, operator, f"its formula in FLOPS gives {found}")
            return None
        return found

    def _argument(self, node: Any, item: Any) -> Argument:
        if isinstance(item, list | tuple):
            return tuple(self._entry(node, entry) for entry in item)
        return self._entry(node, item)

    def _entry(self, node: Any, item: Any) -> Tensor | Scalar:
        if isinstance(item, self._torch.fx.Node):
            if item in self._uses:
                return self._uses[item]
            self._refuse(node, str(node.target), f"reads {item.name}, whose size is not fixed")
            return None
        if item is None or isinstance(item, bool | int | str):
            return item
        if isinstance(item, float):
            return item if math.isfinite(item) else str(item)
        return str(item).removeprefix("torch.")

    def _module(self, node: Any) -> str | None:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        if not stack:
            return None
        return self._path(list(stack.values())[-1][0])

    def _path(self, path: str) -> str:
        if path == self._prefix:
            return ""
        return path.removeprefix(f"{self._prefix}.") if self._prefix else path

    # results -------------------------------------------------------------------------------------

    def _results(self, node: Any, mode: str) -> tuple[Result, ...]:
        outputs = list(node.args[0])
        descriptions = node.meta.get("desc") or [None] * len(outputs)
        found = []
        named = {name: place for place, s in enumerate(self._storages) for name in _names(s)}
        for output, description in zip(outputs, descriptions, strict=True):
            if not isinstance(output, self._torch.fx.Node) or output not in self._uses:
                continue
            place, view = self._uses[output].storage, self._uses[output].view
            kind = type(description).__name__
            if kind == "GradAOTOutput":
                target = getattr(description.grad_of, "target", None)
                if target is not None:
                    found.append(Result(place, "gradient", named[self._path(target)], view))
            elif kind == "InputMutationAOTOutput":
                target = getattr(description.mutated_input, "target", None)
                buffer = None if target is None else named[self._path(target)]
                found.append(Result(place, "mutation", buffer, view))
            else:
                loss = mode == "training" and all(result.kind != "loss" for result in found)
                found.append(Result(place, "loss" if loss else "output", None, view))
                if loss:
                    self._check_loss(output)
        unique = tuple(dict.fromkeys(found))
        if mode == "training" and all(result.kind != "gradient" for result in unique):
            self._findings.append(
                Finding(
                    "loss",
                    "no gradient of any parameter",
                    "a loss that depends on parameters",
                    "train the module (requires_grad), or capture it with --mode inference",
                )
            )
        return unique

    def _check_loss(self, node: Any) -> None:
        value = node.meta["val"]
        if value.numel() != 1 or not value.is_floating_point():
            found = f"shape {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
            remedy = "return the loss first, or capture it with --mode inference"
            self._findings.append(Finding("first output", found, "the scalar loss", remedy))

    # storages ------------------------------------------------------------------------------------

    def _is_tensor(self, item: Any) -> bool:
        return isinstance(item, self._torch.Tensor)

    def _key(self, tensor: Any) -> int:
        return int(tensor.untyped_storage()._cdata)

    def _add(self, tensor: Any, kind: Any, name: str) -> None:
        self._places[self._key(tensor)] = len(self._storages)
        taken = {storage.name for storage in self._storages} if kind != "result" else None
        count = sum(1 for _ in self._same_name(name)) if kind == "result" else 0
        unique = f"{name}:{count}" if count else name
        if taken is not None and unique in taken:
            unique = f"{unique} ({kind})"
        self._storages.append(
            Storage(unique, int(tensor.untyped_storage().nbytes()), kind, _dtype(tensor))
        )

    def _same_name(self, name: str) -> Iterable[Storage]:
        """Return storages that the same node made just before."""
        for storage in reversed(self._storages):
            if storage.kind != "result" or storage.name.split(":")[0] != name:
                return
            yield storage

    def _use(self, tensor: Any) -> Tensor:
        shape = tuple(int(size) for size in tensor.shape)
        return Tensor(self._places[self._key(tensor)], shape, _dtype(tensor))

    def _refuse(self, node: Any, operator: str, found: str) -> None:
        where = f"module {self._module(node) or 'of the model itself'!r}, node {node.name!r}"
        remedy = "take what depends on values of tensors out of the model, or fix its sizes"
        expected = "tensors of fixed shapes"
        self._findings.append(Finding(where, f"{operator} {found}", expected, remedy))


def _names(storage: Storage) -> tuple[str, ...]:
    return (storage.name, *storage.aliases) if storage.kind != "result" else ()


def _trained(storage: Storage) -> Storage:
    return Storage(storage.name, storage.bytes, storage.kind, storage.dtype, True, storage.aliases)


def _is_backward(node: Any) -> bool:
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _split_convolution(kernel: Kernel) -> list[Kernel]:
    """Split the backward pass of a convolution: for its input, and for its weights.

    Libraries run two kernels; only the first one stands between a layer and the layer before it.
    """
    if kernel.operator != "aten.convolution_backward.default":
        return [kernel]
    mask = kernel.arguments[10]
    assert isinstance(mask, tuple)
    if not mask[0] or not any(mask[1:]):
        return [kernel]
    parts = []
    for suffix, chosen in (("", (True, False, False)), (":weights", (False, *mask[1:]))):
        arguments = (*kernel.arguments[:10], chosen, *kernel.arguments[11:])
        results = tuple(
            result if required else None
            for result, required in zip(kernel.results, chosen, strict=True)
        )
        flops = None if kernel.flops is None else kernel.flops // 2
        parts.append(
            Kernel(
                kernel.name + suffix,
                kernel.operator,
                kernel.phase,
                kernel.module,
                arguments,
                kernel.keywords,
                results,
                kernel.pointwise,
                flops,
            )
        )
    return parts
