"""Runs attention, convolutions, normalisations, pools and experts on the parts of each process.

PyTorch's distributed tensors have no rules for most of them, and wrong ones for convolutions. Their
nests (``milp_plan.capture.local_nests``) say how they may be split: the placements of the inputs
determine the loop that each axis of the mesh splits, and that determines the placements of the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from milp_plan.capture.local_nests import ATTENTION_RULES, EXPERT_RULES, IMAGE_RULES, SAMPLES
from milp_plan.capture.nests import Nested, nested
from milp_plan.capture.operators import ELEMENTWISE
from milp_plan.cost.mesh import Layout
from milp_plan.cost.mesh import Tensor as MeshTensor
from milp_plan.io.capture_wire import Argument, Kernel, Tensor

KNOWN = {*ATTENTION_RULES, *ELEMENTWISE, *EXPERT_RULES, *IMAGE_RULES}
"""Operators that run on parts here."""


def runs_here(node: Any) -> bool:
    """Return whether a node is one of these operators."""
    return node.op == "call_function" and _name(node) in KNOWN


def run_shares(node: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Any:
    """Run a node on the parts of distributed tensors; return distributed results.

    Parameters
    ----------
    node
        A node of a captured graph.
    args, kwargs
        Its arguments, distributed tensors among them.
    mesh
        PyTorch's mesh of processes.

    Raises
    ------
    ValueError
        The placements of the tensors match no split of the operator.
    """
    import torch

    call = _call(node)
    nest = nested(call)
    arguments = (tuple(args), dict(kwargs))
    read = [item for item in torch.utils._pytree.tree_leaves(arguments) if _lies(item)]
    loops = [
        _loop(nest, [tensor.placements[axis] for tensor in read], mesh.size(axis))
        for axis in range(mesh.ndim)
    ]
    cuts = tuple((str(axis), loop) for axis, loop in enumerate(loops) if loop)
    expected = iter(
        _placements(Layout(tuple(_axes(dim.loops, cuts) for dim in tensor.dims)), mesh.ndim)
        for tensor in nest.operator.inputs
    )

    def part(item: Any) -> Any:
        return item.redistribute(mesh, next(expected)).to_local() if _lies(item) else item

    here, named = torch.utils._pytree.tree_map(part, arguments)
    share = Share(node.target, here, named, loops, mesh)
    made = OPERATORS.get(_name(node), Share.run)(share)
    several = isinstance(node.meta["val"], list | tuple)
    layouts = _layouts(call, nest, cuts)
    whole = [
        None if layout is None else _distributed(value, layout, like, mesh)
        for value, layout, like in zip(
            made if several else [made],
            layouts,
            node.meta["val"] if several else [node.meta["val"]],
            strict=True,
        )
    ]
    return tuple(whole) if several else whole[0]


@dataclass(frozen=True)
class Share:
    """The part of an operator that one process runs.

    Parameters
    ----------
    target
        PyTorch's operator.
    args, kwargs
        Its arguments, with the process's parts of tensors among them.
    loops
        Loop that each axis of the mesh splits; empty where all along it do the same.
    mesh
        PyTorch's mesh of processes.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    loops: Sequence[str]
    mesh: Any

    def run(self, changed: Mapping[int, Any] | None = None) -> Any:
        """Run the operator, with other arguments at some places."""
        changed = changed or {}
        args = (changed.get(place, arg) for place, arg in enumerate(self.args))
        return self.target(*args, **self.kwargs)

    def parts(self, loop: str) -> int:
        """Return the number of parts into which the mesh splits a loop."""
        return prod(self.mesh.size(axis) for axis, cut in enumerate(self.loops) if cut == loop)

    def place(self, loop: str) -> int:
        """Return the number of this process's part of a loop; the first axis is the outermost."""
        own, place = self.mesh.get_coordinate(), 0
        for axis, cut in enumerate(self.loops):
            if cut == loop:
                place = place * self.mesh.size(axis) + own[axis]
        return place

    def added(self, tensor: Any, loop: str) -> Any:
        """Return the sum over the processes along a loop."""
        from torch.distributed.tensor import DTensor, Partial, Replicate

        pending = [Partial() if cut == loop else Replicate() for cut in self.loops]
        terms = DTensor.from_local(tensor, self.mesh, pending, run_check=False)
        return terms.redistribute(self.mesh, [Replicate()] * self.mesh.ndim).to_local()


# operators ---------------------------------------------------------------------------------------


def _convolution(share: Share) -> Any:
    """Run a convolution; only one process of those whose results are summed adds the bias."""
    bias, groups = share.args[2], share.args[8]
    if bias is not None and share.place("i"):
        bias = bias * 0
    return share.run({2: bias, 8: groups // share.parts("g")})


def _convolution_backward(share: Share) -> Any:
    sizes, groups = share.args[3], share.args[9]
    if sizes is not None:
        sizes = [size // share.parts("o") // share.parts("g") for size in sizes]
    return share.run({3: sizes, 9: groups // share.parts("g")})


def _normalised(share: Share) -> Any:
    """Normalise like a single process: mean and variance of all samples, unbiased running ones."""
    import torch

    values, weight, bias, mean, variance, added, momentum, epsilon = share.args
    if not added or share.parts(SAMPLES) == 1:
        return share.run()
    across = [dim for dim in range(values.ndim) if dim != 1]
    exact = values.double()
    count = values.numel() // values.shape[1] * share.parts(SAMPLES)
    sums = torch.stack([exact.sum(across), exact.square().sum(across)])
    here, squares = share.added(sums, SAMPLES) / count
    spread = (squares - here.square()).clamp(min=0)
    scale = (spread + epsilon).rsqrt()
    normal = (exact - _planes(here, values)) * _planes(scale, values)
    if weight is not None:
        normal = normal * _planes(weight, values)
    if bias is not None:
        normal = normal + _planes(bias, values)
    running = [
        known + momentum * (new.to(known.dtype) - known)
        for known, new in ((mean, here), (variance, spread * (count / (count - 1))))
    ]
    saved = [one.to(mean.dtype) for one in (here, scale)]
    return normal.to(values.dtype), *saved, *running


def _normalised_backward(share: Share) -> Any:
    import torch

    gradient, values, weight, _, _, mean, scale, added, _, required = share.args
    if not added or share.parts(SAMPLES) == 1:
        return share.run()
    across = [dim for dim in range(values.ndim) if dim != 1]
    count = values.numel() // values.shape[1] * share.parts(SAMPLES)
    exact = gradient.double()
    form = (values.double() - _planes(mean, values)) * _planes(scale, values)
    sums = torch.stack([exact.sum(across), (exact * form).sum(across)])
    total, product = share.added(sums, SAMPLES)
    left = exact - _planes(total / count, values) - form * _planes(product / count, values)
    factor = scale if weight is None else scale * weight
    gradient_in = (left * _planes(factor, values)).to(values.dtype)
    parameters = [one.to(scale.dtype) for one in (product, total)]
    pairs = zip((gradient_in, *parameters), required, strict=True)
    return tuple(one if is_required else None for one, is_required in pairs)


def _grouped(samples: int, groups: int) -> Callable[[Share], Any]:
    """Return a runner for operators with sizes from ``samples`` on, and groups at ``groups``."""

    def run(share: Share) -> Any:
        cut = {samples: SAMPLES, samples + 1: "g", groups: "g"}
        return share.run({at: share.args[at] // share.parts(loop) for at, loop in cut.items()})

    return run


def _experts(share: Share) -> Any:
    """Run the rows of local experts; those of others are zero."""
    rows, matrices, ends, *rest = share.args
    if share.parts("e") == 1:
        return share.run()
    count = len(matrices)
    first = share.place("e") * count
    bounds = [0, *ends.tolist()]
    start, stop = bounds[first], bounds[first + count]
    changed = {0: rows[start:stop], 2: ends[first : first + count] - start}
    if _name(share) in BACKWARD:
        gradient, *others = share.run({**changed, 3: rest[0][start:stop]})
        return _among(gradient, start, rows), *others
    made = share.run(changed)
    return _among(made, start, rows)


def _among(values: Any, start: int, rows: Any) -> Any:
    """Return rows placed from a start on, the others zero."""
    whole = values.new_zeros(len(rows), *values.shape[1:])
    whole[start : start + len(values)] = values
    return whole


def _planes(channels: Any, values: Any) -> Any:
    """Return one number per channel, broadcast to all of its pixels."""
    return channels.double().view(1, -1, *([1] * (values.ndim - 2)))


BACKWARD = frozenset({"transformers.grouped_mm_fallback_backward"})
"""Operators of experts that read a gradient and make two."""

OPERATORS: Mapping[str, Callable[[Share], Any]] = {
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten._native_batch_norm_legit_functional": _normalised,
    "aten.native_batch_norm_backward": _normalised_backward,
    "aten.native_group_norm": _grouped(3, 6),
    "aten.native_group_norm_backward": _grouped(5, 8),
    **dict.fromkeys(EXPERT_RULES, _experts),
}
"""Operators that run differently on a part than on the whole."""


# where tensors lie -------------------------------------------------------------------------------


def _name(node: Any) -> str:
    """Return the name of a node's operator or a share's."""
    return ".".join(str(node.target).split(".")[:2])


def _lies(item: Any) -> bool:
    return hasattr(item, "placements")


def _call(node: Any) -> Kernel:
    """Return a node as in a captured graph, without its storages."""
    values = node.meta["val"]
    made = values if isinstance(values, list | tuple) else [values]

    def entry(item: Any) -> Any:
        return _tensor(item.meta["val"]) if hasattr(item, "meta") else item

    def argument(item: Any) -> Argument:
        return tuple(map(entry, item)) if isinstance(item, list | tuple) else entry(item)

    return Kernel(
        node.name,
        str(node.target),
        "forward",
        None,
        tuple(map(argument, node.args)),
        {name: argument(item) for name, item in node.kwargs.items()},
        tuple(None if one is None else _tensor(one) for one in made),
    )


def _tensor(value: Any) -> Tensor:
    return Tensor(0, tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch."))


def _loop(nest: Nested, placements: Sequence[Any], parts: int) -> str:
    """Return the loop that an axis splits, by the placements along it; empty where all are whole.

    Whole tensors may have to be split, which costs nothing, where another tensor is split already.
    """
    operator = nest.operator
    extents = {loop.name: loop.extent for loop in operator.loops}
    loops = []
    for loop in ["", *(name for name, extent in extents.items() if extent % parts == 0)]:
        dims = [_cut(tensor, loop) for tensor in operator.inputs]
        lies = list(zip(placements, dims, strict=True))
        if all(have.is_shard(want) if want is not None else have.is_replicate()
               for have, want in lies):  # fmt: skip
            return loop
        if all(have.is_replicate() or (want is not None and have.is_shard(want))
               for have, want in lies):  # fmt: skip
            loops.append(loop)
    if not loops:
        raise ValueError("samples or channels of what it reads do not lie alike")
    return loops[0]


def _cut(tensor: MeshTensor, loop: str) -> int | None:
    """Return the dimension that a split of a loop splits."""
    return next((place for place, dim in enumerate(tensor.dims) if loop in dim.loops), None)


def _axes(loops: Sequence[str], cuts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(axis for axis, loop in cuts if loop in loops)


def _placements(layout: Layout, axes: int) -> list[Any]:
    from torch.distributed.tensor import Partial, Replicate, Shard

    placements: list[Any] = [Replicate() for _ in range(axes)]
    for axis in layout.partial:
        placements[int(axis)] = Partial()
    for place, names in enumerate(layout.dims):
        for axis in names:
            placements[int(axis)] = Shard(place)
    return placements


def _layouts(call: Kernel, nest: Nested, cuts: tuple[tuple[str, str], ...]) -> list[Layout | None]:
    """Return the layout of each result; ``None`` before the first one that is made."""
    missing = next(place for place, one in enumerate(call.results) if one is not None)
    return [*([None] * missing), *nest.written(cuts)]


def _distributed(value: Any, layout: Layout, like: Any, mesh: Any) -> Any:
    from torch.distributed.tensor import DTensor

    strides = [1]
    for size in reversed(like.shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return DTensor.from_local(
        value.contiguous(),
        mesh,
        _placements(layout, mesh.ndim),
        run_check=False,
        shape=like.shape,
        stride=tuple(strides[: len(like.shape)]),
    )
