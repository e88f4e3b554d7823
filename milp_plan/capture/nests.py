"""PyTorch's operators as nests of loops (``milp_plan.cost.mesh``): possible splits.

A nest names for each tensor, dimension by dimension, the loop that runs over it, in one letter, and
``.`` for a dimension that stays whole: a product of matrices is ``mk, kn -> mn``. From that follow
all placements on a mesh: split along ``m``, the first matrix and the result are split; along ``k``,
both matrices are and the result is a pending sum. Only splits after which each process computes its
part alone are offered, except for batch normalisations (:mod:`.local_nests`): no statistics of
other normalisations are exchanged, no halos of a convolution.

An operator without a nest runs whole on every process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd

from milp_plan.core import Finding, InputError
from milp_plan.cost.mesh import Dim, Layout, Loop, Mapping, MeshOperator, reshape, written
from milp_plan.cost.mesh import Tensor as MeshTensor
from milp_plan.io.capture_wire import Kernel, Tensor, View

from .local_nests import ATTENTION_RULES, EXPERT_RULES, IMAGE_RULES
from .loops import WHOLE, Nest, Rule, each
from .operators import ELEMENTWISE
from .record import ELEMENT_BYTES, tensors_of

GETITEM = "getitem"
"""Operator that selects one result of another operator."""


@dataclass(frozen=True)
class Nested:
    """An operator with the loops of its tensors.

    Parameters
    ----------
    operator
        Loops, tensors read, and the first result.
    others
        Further results; ``None`` for missing ones.
    masked
        Loops along which PyTorch marks the result as a masked sum: it must be summed at
        once, before any other use.
    agreed
        Loops along which results without them are whole.
    """

    operator: MeshOperator
    others: tuple[MeshTensor | None, ...] = ()
    masked: str = ""
    agreed: str = ""

    @property
    def results(self) -> tuple[MeshTensor | None, ...]:
        """Return all results."""
        return (self.operator.output, *self.others)

    def written(self, mapping: Mapping) -> tuple[Layout | None, ...]:
        """Return the layout of each result."""
        return tuple(
            None if result is None else self._written(result, mapping) for result in self.results
        )

    def _written(self, result: MeshTensor, mapping: Mapping) -> Layout:
        raw = written(result, mapping)
        known = {axis for axis, loop in mapping if loop in self.agreed}
        return replace(raw, partial=tuple(axis for axis in raw.partial if axis not in known))

    def inside(self, mapping: Mapping) -> tuple[str, ...]:
        """Return the collectives inside the operator, by kind, one for each axis."""
        return tuple(
            one.kind for one in self.operator.exchanges for _, loop in mapping if loop == one.loop
        )


def nested(call: Kernel | View, flops: int = 0) -> Nested:
    """Return the loops of a kernel or a view.

    Parameters
    ----------
    call
        The call.
    flops
        Number of its operations.

    Raises
    ------
    InputError
        Its tensors do not fit the operator.
    """
    try:
        return _nested(call, flops)
    except (AssertionError, IndexError, ValueError, ZeroDivisionError) as error:
        read = ", ".join(str(list(tensor.shape)) for tensor in tensors_of(call))
        found = f"{call.operator} of {read or 'nothing'}"
        expected, remedy = "tensors that such an operator reads", "capture the model again"
        raise InputError([Finding(f"node {call.name!r}", found, expected, remedy)]) from error


def _nested(call: Kernel | View, flops: int) -> Nested:
    name = ".".join(call.operator.split(".")[:2])
    read = tensors_of(call)
    if name in RESHAPES:
        return _reshaped(read[0], call.results[0])
    nest = RULES[name](call) if name in RULES else _unlisted(call, name)
    if nest is None:
        nest = _whole(call)
    return _operator(name, call, nest, flops)


def _operator(name: str, call: Kernel | View, nest: Nest, flops: int) -> Nested:
    read, made = tensors_of(call), call.results
    pairs = [
        (letter, extent)
        for tensor, letters in zip((*read, *made), (*nest.reads, *nest.makes), strict=True)
        if tensor is not None and letters is not None
        for letter, extent in zip(letters, tensor.shape, strict=True)
        if letter != WHOLE
    ]
    extents = dict(nest.extents)
    for letter, extent in pairs:
        extents[letter] = gcd(extents.get(letter, 0), extent)
    terms = nest.terms or (False,) * len(read)
    inputs = tuple(
        replace(_tensor(f"x{place}", tensor, letters), term=term)
        for place, (tensor, letters, term) in enumerate(zip(read, nest.reads, terms, strict=True))
    )
    results = [
        None if tensor is None or letters is None else _tensor(f"y{place}", tensor, letters)
        for place, (tensor, letters) in enumerate(zip(made, nest.makes, strict=True))
    ]
    first = next(place for place, result in enumerate(results) if result is not None)
    output = results[first]
    assert output is not None
    others = sum(result.elements for result in results[first + 1 :] if result is not None)
    operator = MeshOperator(
        name,
        tuple(Loop(letter, extent) for letter, extent in extents.items()),
        inputs,
        output,
        flops,
        linear=any(nest.terms),
        moved_elements=others,
        exchanges=nest.exchanges,
    )
    return Nested(operator, tuple(results[first + 1 :]), nest.masked, nest.agreed)


def _tensor(name: str, tensor: Tensor, letters: str) -> MeshTensor:
    dims = tuple(
        Dim(max(extent, 1), () if letter == WHOLE else (letter,))
        for extent, letter in zip(tensor.shape, letters, strict=True)
    )
    return MeshTensor(name, dims, ELEMENT_BYTES[tensor.dtype])


def _reshaped(read: Tensor, made: Tensor | None) -> Nested:
    assert made is not None
    reshaped = reshape(tuple(read.shape), tuple(made.shape))
    size = ELEMENT_BYTES[read.dtype]
    source = replace(reshaped.inputs[0], element_bytes=size)
    return Nested(
        replace(reshaped, inputs=(source,), output=replace(reshaped.output, element_bytes=size))
    )


# nests -------------------------------------------------------------------------------------------


def _whole(call: Kernel | View) -> Nest:
    return Nest(
        tuple(WHOLE * len(tensor.shape) for tensor in tensors_of(call)),
        tuple(None if made is None else WHOLE * len(made.shape) for made in call.results),
    )


def _unlisted(call: Kernel | View, name: str) -> Nest | None:
    if isinstance(call, Kernel) and call.pointwise and tensors_of(call):
        return _elementwise(call, name)
    return None


def _elementwise(call: Kernel | View, name: str = "") -> Nest | None:
    """Return the nest of an elementwise operator; broadcast dimensions are read whole."""
    results = {made.shape for made in call.results if made is not None}
    if len(results) != 1:
        return None
    (shape,) = results
    letters = each(len(shape))
    reads = []
    for tensor in tensors_of(call):
        missing = len(shape) - len(tensor.shape)
        reads.append(
            "".join(
                WHOLE if extent != shape[missing + place] else letters[missing + place]
                for place, extent in enumerate(tensor.shape)
            )
        )
    makes = tuple(None if made is None else letters for made in call.results)
    return Nest(tuple(reads), makes, _terms(call, name, len(reads)))


def _terms(call: Kernel | View, name: str, reads: int) -> tuple[bool, ...]:
    """Return tensors in which an operator is linear: terms of a sum, a product's first factor."""
    made = call.results[0]
    if made is None or not made.dtype.startswith(("float", "bfloat")):
        return ()
    if name in SUMS:
        return (True,) * reads if reads == SUMS[name] else ()
    if name in FACTORS:
        return (True, *(False,) * (reads - 1))
    return ()


def _same(call: Kernel | View) -> Nest:
    """Return the nest of one unchanged tensor."""
    letters = each(len(tensors_of(call)[0].shape))
    return Nest((letters,), (letters,), (True,))


def _product(_call: Kernel | View) -> Nest:
    return Nest(("mk", "kn"), ("mn",))


def _biased_product(call: Kernel | View) -> Nest:
    bias, made = tensors_of(call)[0], call.results[0]
    assert made is not None
    letters = "mn"[2 - len(bias.shape) :]
    pairs = zip(letters, bias.shape, made.shape[2 - len(bias.shape) :], strict=True)
    read = "".join(letter if have == full else WHOLE for letter, have, full in pairs)
    return Nest((read, "mk", "kn"), ("mn",))


def _batched_product(_call: Kernel | View) -> Nest:
    return Nest(("bmk", "bkn"), ("bmn",))


def _permuted(order: Callable[[Kernel | View, int], list[int]]) -> Rule:
    def rule(call: Kernel | View) -> Nest:
        rank = len(tensors_of(call)[0].shape)
        letters = each(rank)
        places = order(call, rank)
        return Nest((letters,), ("".join(letters[place] for place in places),), (True,))

    return rule


def _turned(_call: Kernel | View, rank: int) -> list[int]:
    return list(range(rank))[::-1]


def _swapped(call: Kernel | View, rank: int) -> list[int]:
    first, second = (_number(call, place) % rank for place in (1, 2))
    places = list(range(rank))
    places[first], places[second] = places[second], places[first]
    return places


def _reordered(call: Kernel | View, rank: int) -> list[int]:
    order = call.arguments[1]
    assert isinstance(order, tuple)
    return [int(place) % rank for place in order if isinstance(place, int)]


def _number(call: Kernel | View, place: int, otherwise: int = 0) -> int:
    number = call.arguments[place] if len(call.arguments) > place else otherwise
    return number if isinstance(number, int) else otherwise


def _expanded(call: Kernel | View) -> Nest | None:
    """Return the nest of an expansion; added or repeated dimensions are whole."""
    nest = _elementwise(call)
    if nest is None:
        return None
    (read,), (made,) = nest.reads, nest.makes
    letters = "".join(letter if letter in read else WHOLE for letter in made or "")
    return Nest((read,), (letters,), (True,))


def _along(place: int, *, linear: bool = True) -> Rule:
    """Return the rule for equal tensors, whole along the dimension of argument ``place``.

    An empty tensor of any rank, which ``cat`` ignores, is whole.
    """

    def rule(call: Kernel | View) -> Nest:
        read = tensors_of(call)
        rank = max(len(tensor.shape) for tensor in read)
        dim = _number(call, place) % max(rank, 1)
        letters = "".join(WHOLE if d == dim else c for d, c in enumerate(each(rank)))
        reads = tuple(letters if len(t.shape) == rank else WHOLE * len(t.shape) for t in read)
        made = tuple(None if one is None else letters for one in call.results)
        return Nest(reads, made, (True,) * len(read) if linear else ())

    return rule


def _selected(call: Kernel | View) -> Nest:
    rank = len(tensors_of(call)[0].shape)
    dim = _number(call, 1) % rank
    letters = "".join(WHOLE if d == dim else c for d, c in enumerate(each(rank)))
    return Nest((letters,), (letters[:dim] + letters[dim + 1 :],), (True,))


def _reduced(*, total: bool) -> Rule:
    """Return the rule of a reduction: sums may be pending along its loops; means are whole."""

    def rule(call: Kernel | View) -> Nest | None:
        (read,), made = tensors_of(call), call.results[0]
        assert made is not None
        rank = len(read.shape)
        dims = call.arguments[1] if len(call.arguments) > 1 else None
        listed = dims if isinstance(dims, tuple) else ()
        places = {int(d) % rank for d in listed if isinstance(d, int)} or set(range(rank))
        letters = each(rank)
        if not total:
            letters = "".join(WHOLE if d in places else c for d, c in enumerate(letters))
        keeps = len(made.shape) == rank
        kept = "".join(
            WHOLE if d in places else letters[d] for d in range(rank) if keeps or d not in places
        )
        return Nest((letters,), (kept,), (True,) if total else ())

    return rule


def _normalised(call: Kernel | View) -> Nest:
    """Free rows, whole normalised dimensions: x, weight and bias; result, mean, deviation."""
    read = tensors_of(call)
    made = call.results[0]
    assert made is not None
    lead, tail = _rows(call, 1, len(made.shape))
    reads = (lead + WHOLE * tail, *(WHOLE * len(tensor.shape) for tensor in read[1:]))
    return Nest(reads, tuple(_cut(lead, one) for one in call.results))


def _normalised_backward(call: Kernel | View) -> Nest:
    """Gradients of weight and bias are sums over rows."""
    read = tensors_of(call)
    lead, tail = _rows(call, 2, len(read[0].shape))
    rows = lead + WHOLE * tail
    statistics = tuple(_cut(lead, tensor) or "" for tensor in read[2:4])
    reads = (rows, rows, *statistics, *(WHOLE * len(tensor.shape) for tensor in read[4:]))
    made = tuple(
        None if one is None else rows if place == 0 else WHOLE * len(one.shape)
        for place, one in enumerate(call.results)
    )
    return Nest(reads, made)


def _rows(call: Kernel | View, place: int, rank: int) -> tuple[str, int]:
    shape = call.arguments[place]
    tail = len(shape) if isinstance(shape, tuple) else 1
    return each(rank - tail), tail


def _cut(lead: str, tensor: Tensor | None) -> str | None:
    """Return the loops of a tensor with rows and more; otherwise it is whole."""
    if tensor is None:
        return None
    if len(tensor.shape) < len(lead):
        return WHOLE * len(tensor.shape)
    return lead + WHOLE * (len(tensor.shape) - len(lead))


def _embedded(call: Kernel | View) -> Nest:
    """Rows of a table: split along these, each process has some, and the result is a sum."""
    _, places = tensors_of(call)
    letters = each(len(places.shape))
    return Nest(("VE", letters), (letters + "E",), masked="V")


def _embedded_backward(call: Kernel | View) -> Nest:
    _, places = tensors_of(call)
    letters = each(len(places.shape))
    return Nest((letters + "E", letters), (".E",))


def _picked_loss(call: Kernel | View) -> Nest:
    """Negative logarithms of the right classes: samples are free, their sums are pending."""
    read, rank = tensors_of(call), len(tensors_of(call)[0].shape)
    samples = "n" if rank > 1 else ""
    reads = (samples + WHOLE * (rank - len(samples)), samples or WHOLE, *_uncut(read[2:]))
    made = tuple(None if one is None else samples * len(one.shape) for one in call.results)
    return Nest(reads, made) if rank == 2 else _whole(call)


def _picked_loss_backward(call: Kernel | View) -> Nest:
    read = tensors_of(call)
    if len(read[1].shape) != 2:
        return _whole(call)
    first = "n" * len(read[0].shape)
    return Nest((first, "n.", "n", *_uncut(read[3:])), ("n.",))


def _uncut(tensors: list[Tensor]) -> tuple[str, ...]:
    return tuple(WHOLE * len(tensor.shape) for tensor in tensors)


RESHAPES = frozenset(
    f"aten.{name}" for name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze")
)
"""Views that merge and split dimensions."""

SUMS = {"aten.add": 2, "aten.sub": 2, "aten.neg": 1}
"""Elementwise operators through which PyTorch passes sums, and the number of their tensors."""

FACTORS = frozenset({"aten.mul", "aten.div"})
"""Elementwise operators that are linear in their first tensor."""

RULES: dict[str, Rule] = {
    GETITEM: _same,
    "aten.detach": _same,
    "aten.alias": _same,
    "aten.clone": _elementwise,
    "aten._to_copy": _elementwise,
    "aten.expand": _expanded,
    "aten.t": _permuted(_turned),
    "aten.transpose": _permuted(_swapped),
    "aten.permute": _permuted(_reordered),
    "aten.slice": _along(1),
    "aten.split": _along(2),
    "aten.split_with_sizes": _along(2),
    "aten.slice_backward": _along(2),
    "aten.cat": _along(1),
    "aten.select": _selected,
    "aten.mm": _product,
    "aten.addmm": _biased_product,
    "aten.bmm": _batched_product,
    "aten.sum": _reduced(total=True),
    "aten.mean": _reduced(total=False),
    "aten._softmax": _along(1, linear=False),
    "aten._log_softmax": _along(1, linear=False),
    "aten._softmax_backward_data": _along(2, linear=False),
    "aten._log_softmax_backward_data": _along(2, linear=False),
    "aten.native_layer_norm": _normalised,
    "aten._fused_rms_norm": _normalised,
    "aten.native_layer_norm_backward": _normalised_backward,
    "aten.embedding": _embedded,
    "aten.embedding_dense_backward": _embedded_backward,
    "aten.nll_loss_forward": _picked_loss,
    "aten.nll_loss_backward": _picked_loss_backward,
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **ATTENTION_RULES,
    **EXPERT_RULES,
    **IMAGE_RULES,
}
"""Operator -> its nest; elementwise ones need none."""
