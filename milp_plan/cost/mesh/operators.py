"""Operators as nests of loops over tensors: possible splits on a mesh, and their consequences.

A split of a loop splits every tensor dimension that the loop runs over. A tensor that the loop does
not run over is needed whole; if it is written, its parts are terms of a sum. That alone gives the
collectives of a matrix product, a convolution or an embedding. Others (statistics of
a norm, halos of a convolution) are listed as *exchanges*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from milp_plan.core import Finding, InputError

SAMPLES = "b"
"""Loop over the samples of a batch."""

EXCHANGES = ("all_reduce", "halo")
"""Kinds of exchange; a halo is one message to a neighbour on either side, one after the other."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop; ``whole`` loops are never split."""

    name: str
    extent: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a tensor.

    Parameters
    ----------
    extent
        Number of elements.
    loops
        Loops whose split splits it, the outermost first; none for a dimension that stays whole.
        For a merged dimension its leading factor, so that parts are contiguous.
    """

    extent: int
    loops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that an operator reads or writes.

    Parameters
    ----------
    name
        Display name.
    dims
        Its dimensions.
    element_bytes
        Bytes of an element.
    gradient
        Whether a gradient flows back through it.
    term
        Whether a linear operator is linear in it; a factor, such as a weight of a mean, is not.
    """

    name: str
    dims: tuple[Dim, ...]
    element_bytes: int = 2
    gradient: bool = True
    term: bool = True

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of each dimension."""
        return tuple(dim.extent for dim in self.dims)

    @property
    def elements(self) -> int:
        """Total number of elements."""
        return prod(self.extents)

    @property
    def loops(self) -> frozenset[str]:
        """Loops that run over it."""
        return frozenset(loop for dim in self.dims for loop in dim.loops)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective inside an operator, along the axes that split ``loop``.

    Parameters
    ----------
    kind
        One of :data:`EXCHANGES`.
    loop
        The loop; nothing happens where it is not split.
    elements, element_bytes
        Size of the buffer before any split.
    loops
        Loops whose splits make the buffer of one device smaller.
    forward, backward
        Number of times that it happens in each pass.
    """

    kind: str
    loop: str
    elements: int
    element_bytes: int = 4
    loops: tuple[str, ...] = ()
    forward: int = 1
    backward: int = 1


@dataclass(frozen=True)
class MeshOperator:
    """An operator.

    Parameters
    ----------
    kind
        Display name, such as ``"matmul"``.
    loops
        Loops of the operator.
    inputs
        Tensors from other operators, or from outside.
    parameters
        Weights of the operator.
    output
        The tensor that it writes.
    flops
        Floating-point operations of a forward pass, a multiply-add counts as two.
    exchanges
        Collectives that do not follow from loops and tensors.
    linear
        Whether the output of a sum is the sum of outputs, so that sums may stay pending through it.
    backward_passes
        Work of the backward pass in units of the forward pass.
    moved_elements
        Elements read and written between fused parts; split by every split.
    saved_elements
        Other elements saved for the backward pass, without inputs and output; split likewise.
    gathered
        Parameters of which only the requested rows are read (embedding tables).
    """

    kind: str
    loops: tuple[Loop, ...]
    inputs: tuple[Tensor, ...]
    output: Tensor
    flops: int
    parameters: tuple[Tensor, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    linear: bool = False
    backward_passes: int = 1
    moved_elements: int = 0
    saved_elements: int = 0
    gathered: bool = False

    def __post_init__(self) -> None:
        findings = list(_findings(self))
        if findings:
            raise InputError(findings)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that it reads and writes."""
        return (*self.inputs, *self.parameters, self.output)

    def batched(self, samples: int) -> MeshOperator:
        """Return the operator for a number of samples, given the one for a single sample."""

        def tensor(old: Tensor) -> Tensor:
            dims = tuple(
                replace(dim, extent=dim.extent * samples) if SAMPLES in dim.loops else dim
                for dim in old.dims
            )
            return replace(old, dims=dims)

        loops = tuple(
            replace(loop, extent=loop.extent * samples) if loop.name == SAMPLES else loop
            for loop in self.loops
        )
        exchanges = tuple(
            replace(one, elements=one.elements * samples) if SAMPLES in one.loops else one
            for one in self.exchanges
        )
        return replace(
            self,
            loops=loops,
            inputs=tuple(tensor(one) for one in self.inputs),
            output=tensor(self.output),
            flops=self.flops * samples,
            exchanges=exchanges,
            moved_elements=self.moved_elements * samples,
            saved_elements=self.saved_elements * samples,
        )


def _findings(operator: MeshOperator) -> list[Finding]:
    where = f"operator {operator.kind!r}"
    names = [loop.name for loop in operator.loops]
    known = set(names)
    findings = []
    if len(known) < len(names):
        findings.append(Finding(f"{where} loops", str(names), "each name once", "rename a loop"))
    used = {loop for tensor in operator.tensors for loop in tensor.loops}
    used |= {loop for one in operator.exchanges for loop in (one.loop, *one.loops)}
    for loop in sorted(used - known):
        expected = f"one of {', '.join(names)}"
        findings.append(Finding(f"{where} loop", repr(loop), expected, "add the loop"))
    for one in operator.exchanges:
        if one.kind not in EXCHANGES:
            expected = f"one of {', '.join(EXCHANGES)}"
            findings.append(Finding(f"{where} exchange", repr(one.kind), expected, "correct it"))
    extents = [extent for tensor in operator.tensors for extent in tensor.extents]
    if min([*extents, *(loop.extent for loop in operator.loops)], default=1) < 1:
        findings.append(Finding(where, "an extent below 1", "at least 1", "correct it"))
    return findings


def tensor(name: str, *dims: tuple[int, str], element_bytes: int = 2) -> Tensor:
    """Return a tensor; each dimension is (extent, loop), ``""`` for one that stays whole."""
    made = tuple(Dim(extent, (loop,) if loop else ()) for extent, loop in dims)
    return Tensor(name, made, element_bytes)


def loops(**extents: int) -> tuple[Loop, ...]:
    """Return loops by name and extent."""
    return tuple(Loop(name, extent) for name, extent in extents.items())
