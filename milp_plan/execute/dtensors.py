"""Runs the joint graph of a captured step on several processes, with distributed tensors.

Each process runs every node on its shards. A placement changes only where the plan requires it: the
graph runs under ``ExplicitRedistributionContext``, in which PyTorch refuses any other change that
communicates; it may still cut or mask replicated tensors, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from milp_plan.capture.inputs import path_of
from milp_plan.capture.nodes import CHECKS
from milp_plan.capture.placements import entries
from milp_plan.capture.record import LOSS_GRADIENT
from milp_plan.core import Finding, InputError
from milp_plan.io.placement_wire import TorchPlacements

from .shares import run_shares, runs_here

COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
}
"""PyTorch's name of a collective -> ours."""


class Distributed:
    """A mesh of processes, and the placements of tensors on it.

    Parameters
    ----------
    plan
        The placements.
    mesh
        PyTorch's mesh of processes.
    aliases
        Further names of tied parameters -> name in the plan.
    """

    def __init__(self, plan: TorchPlacements, mesh: Any, aliases: Mapping[str, str]) -> None:
        self._plan = plan
        self._mesh = mesh
        self._aliases = aliases
        self._copies: dict[tuple[str, str], Any] = {}
        self._names: dict[str, str] = {}

    def step(self, graph: Any, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """Run a joint graph; return its results in its order, and the collectives that ran.

        Parameters
        ----------
        graph
            An ``fx.Graph`` of forward and backward pass.
        inputs
            Name of an input node -> tensor, distributed by :meth:`shared`.

        Raises
        ------
        InputError
            A placement must change where the plan has no change, or an operator on parts has no
            rule; the error names the node.
        """
        import torch
        from torch.distributed.tensor._utils import ExplicitRedistributionContext
        from torch.distributed.tensor.debug import CommDebugMode

        self._names = {
            node.name: self._aliases.get(name, name)
            for node in graph.nodes
            if node.op == "placeholder" and (name := input_name(node))
        }
        known = {node.name for node in graph.nodes}
        unknown = [name for name in (*self._plan.pins, *self._plan.reads) if name not in known]
        if unknown:
            raise InputError([_unknown(name) for name in unknown])
        counter = CommDebugMode()
        results: list[Any] = []
        values: dict[Any, Any] = {}
        with torch.no_grad(), counter, ExplicitRedistributionContext():
            for node in graph.nodes:
                if node.op == "output":
                    results = self._results(node, values)
                elif not is_check(node):
                    value = self._value(node, values, inputs)
                    pin = self._plan.pins.get(node.name)
                    where = f"pins[{node.name!r}]"
                    values[node] = value if pin is None else self.placed(value, pin, where)
        counts: dict[str, int] = {}
        for collective, count in counter.get_comm_counts().items():
            name = str(collective).rpartition(".")[2]
            name = COLLECTIVES.get(name, name)
            counts[name] = counts.get(name, 0) + count
        return results, counts

    def shared(self, tensor: Any, placement: str, where: str) -> Any:
        """Distribute a tensor that is whole on every process; nothing is sent.

        Raises
        ------
        InputError
            It cannot be split like that; ``where`` names the cause.
        """
        from torch.distributed.tensor import distribute_tensor

        placements = self._placements(tensor, placement, where)
        return distribute_tensor(tensor.detach(), self._mesh, placements, src_data_rank=None)

    def whole(self, tensor: Any) -> Any:
        """Return a tensor that every process has made by itself as a replicated one."""
        return self.shared(tensor, "R" * self._mesh.ndim, "a constant")

    def placed(self, tensor: Any, placement: str, where: str) -> Any:
        """Change the placement of a distributed tensor.

        Shards are made contiguous: views of distributed tensors trust the strides of the whole.

        Raises
        ------
        InputError
            It cannot be placed like that; ``where`` names the cause.
        """
        if not hasattr(tensor, "placements"):
            found, expected = "a node with several results", "one tensor"
            raise InputError([Finding(where, found, expected, "pin its getitem nodes")])
        placements = self._placements(tensor, placement, where)
        same = all(
            have == want or (have.is_partial() and want.is_partial())
            for have, want in zip(tensor.placements, placements, strict=True)
        )
        if same:
            return tensor
        if any(
            want.is_partial() and not have.is_partial() and not have.is_replicate()
            for have, want in zip(tensor.placements, placements, strict=True)
        ):
            found = f"{text_of(tensor)} to become {placement}"
            remedy = "place it otherwise: only what is whole can become a pending sum"
            raise InputError([Finding(where, found, "R or S(d)", remedy)])
        return self._contiguous(tensor.redistribute(self._mesh, placements))

    def _value(self, node: Any, values: Mapping[Any, Any], inputs: Mapping[str, Any]) -> Any:
        import torch

        if node.op == "placeholder":
            return inputs[node.name]
        if node.op == "get_attr":
            return self.whole(getattr(node.graph.owning_module, node.target))

        def fetch(read: Any) -> Any:
            copies = self._plan.reads.get(node.name, {})
            copy = copies.get(read.name, copies.get(self._names.get(read.name, read.name)))
            return values[read] if copy is None else self._copy(node, read, values[read], copy)

        args = torch.fx.map_arg(node.args, fetch)
        kwargs = torch.fx.map_arg(node.kwargs, fetch)
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            args = (self._contiguous(args[0]), *args[1:])
        if node.target is torch.ops.aten.cat.default:
            args = (_of_one_rank(args[0]), *args[1:])
        try:
            if runs_here(node):
                return run_shares(node, args, kwargs, self._mesh)
            if _replicated((args, kwargs)):
                return self._alone(node, args, kwargs)
            value = node.target(*args, **kwargs)
        except (LookupError, RuntimeError, ValueError, AssertionError) as error:
            raise _refused(node, args, error) from error
        if isinstance(value, torch.Tensor) and not hasattr(value, "placements"):
            return self.whole(value)
        return value

    def _alone(self, node: Any, args: Any, kwargs: Any) -> Any:
        """Run on every process a node whose inputs are all replicated, with or without a rule."""
        import torch

        def local(item: Any) -> Any:
            return item.to_local() if hasattr(item, "placements") else item

        tree_map = torch.utils._pytree.tree_map
        made = node.target(*tree_map(local, tuple(args)), **tree_map(local, dict(kwargs)))
        return tree_map(lambda one: self.whole(one) if isinstance(one, torch.Tensor) else one, made)

    def _copy(self, reader: Any, read: Any, value: Any, placement: str) -> Any:
        """Return a value at another placement, made once for all its readers."""
        key = (read.name, placement)
        if key not in self._copies:
            where = f"reads[{reader.name!r}][{read.name!r}]"
            self._copies[key] = self.placed(value, placement, where)
        return self._copies[key]

    def _results(self, node: Any, values: Mapping[Any, Any]) -> list[Any]:
        results = []
        descriptions = node.meta.get("desc") or [None] * len(node.args[0])
        for result, description in zip(node.args[0], descriptions, strict=True):
            value = values.get(result)
            parameter = parameter_of(description)
            placement = self._plan.gradients.get(self._aliases.get(parameter, parameter))
            if value is not None and placement is not None:
                value = self.placed(value, placement, f"gradients[{parameter!r}]")
            results.append(value)
        return results

    def _contiguous(self, tensor: Any) -> Any:
        from torch.distributed.tensor import DTensor

        local = tensor.to_local()
        if local.is_contiguous() and tensor.is_contiguous():
            return tensor
        stride = [1]
        for size in reversed(tensor.shape[1:]):
            stride.insert(0, stride[0] * max(size, 1))
        return DTensor.from_local(
            local.contiguous(),
            self._mesh,
            tensor.placements,
            run_check=False,
            shape=tensor.shape,
            stride=tuple(stride[: len(tensor.shape)]),
        )

    def _placements(self, tensor: Any, placement: str, where: str) -> list[Any]:
        """Return PyTorch's placements; it gathers uneven splits wrongly, so they are refused."""
        from torch.distributed.tensor import Partial, Replicate, Shard

        left = list(tensor.shape)
        placements: list[Any] = []
        for axis, entry in enumerate(entries(placement)):
            if not entry.startswith("S"):
                placements.append(Replicate() if entry == "R" else Partial())
                continue
            dim, parts = int(entry[2:-1]), self._mesh.size(axis)
            if dim >= len(left) or left[dim] % parts:
                problem = f"{placement} of a tensor of shape {tuple(tensor.shape)}"
                expected = f"a dimension that {parts} processes divide"
                raise InputError([Finding(where, problem, expected, "cut another dimension")])
            left[dim] //= parts
            placements.append(Shard(dim))
        return placements


def parameter_of(description: Any) -> str:
    """Return the parameter whose gradient a result is; empty for other results."""
    return path_of(getattr(getattr(description, "grad_of", None), "target", ""))


def _of_one_rank(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors without empty ones of another rank, such as caches at their first step."""
    rank = max(tensor.ndim for tensor in tensors)
    return [tensor for tensor in tensors if tensor.ndim == rank]


def is_check(node: Any) -> bool:
    """Return whether a node only checks its inputs: fake tensors have passed it already."""
    return node.op == "call_function" and not node.users and str(node.target).startswith(CHECKS)


def _replicated(arguments: Any) -> bool:
    """Return whether all distributed tensors among arguments, at least one, are replicated."""
    import torch

    leaves = torch.utils._pytree.tree_leaves(arguments)
    read = [leaf for leaf in leaves if hasattr(leaf, "placements")]
    return bool(read) and all(one.is_replicate() for leaf in read for one in leaf.placements)


def is_other(description: Any) -> bool:
    """Return whether a result is not the loss: a gradient, or a buffer that changes."""
    return type(description).__name__ in {"GradAOTOutput", "InputMutationAOTOutput"}


def input_name(node: Any) -> str:
    """Return the name of an input of the joint graph in a plan."""
    description = node.meta["desc"]
    if type(description).__name__ == "TangentAOTInput":
        return LOSS_GRADIENT
    has_path = hasattr(description, "target")
    return path_of(description.target) if has_path else str(description.expr())


def _unknown(name: str) -> Finding:
    remedy = "make the file again with the installed release of PyTorch"
    return Finding(f"node {name!r}", "no such node", "a node of the captured graph", remedy)


def _refused(node: Any, args: Sequence[Any], error: Exception) -> InputError:
    """Return a long message of PyTorch as one finding, with the placements of the node."""
    import torch

    read = [
        f"{argument.name} {text_of(value)}"
        for argument, value in zip(node.args, args, strict=True)
        if isinstance(argument, torch.fx.Node)
    ]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0][:300] if lines else type(error).__name__
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    module = path_of(list(stack.values())[-1][0]) if stack else "the model itself"
    where = f"node {node.name!r} of module {module!r}"
    found = f"{node.target} of {', '.join(read) or 'nothing'}: {message}"
    expected = "placements that the operator takes as they are"
    return InputError([Finding(where, found, expected, "pin what it reads to another placement")])


def text_of(value: Any) -> str:
    """Return a distributed tensor's placement as in the file."""
    if not hasattr(value, "placements"):
        return "?"
    return "".join(
        "R" if entry.is_replicate() else "P" if entry.is_partial() else f"S({entry.dim})"
        for entry in value.placements
    )
