"""Transformer (Vaswani et al. 2017) for translation, base size, any depth."""

from __future__ import annotations

from pase_costs import LayerGraph, Nothing, Softmax, Tensor

from milp_plan.core import Finding, InputError

from .drawing import Drawing, same_axes

WIDTH, HEADS, HEAD, HIDDEN, VOCABULARY, LENGTH = 512, 8, 64, 2048, 50_000, 256
QKV = 3


def transformer(batch: int = 64, layers: int = 6) -> LayerGraph:
    """Encoder and decoder of this many layers each."""
    if layers < 1:
        raise InputError([Finding("layers", str(layers), "at least 1", "give more")])
    net = _Transformer(batch)
    source = net.embedded("source")
    for layer in range(layers):
        source = net.feed_forward(
            f"encoder{layer + 1}", net.attention(f"encoder{layer + 1} self", source)
        )
    target = net.embedded("target")
    for layer in range(layers):
        name = f"decoder{layer + 1}"
        target = net.attention(f"{name} self", target)
        target = net.feed_forward(name, net.attention(f"{name} cross", target, source))
    at = net.einsum("projection", "ble,ev->blv", [target, None], net.sizes)
    net.loss("loss", at)
    name = "transformer" if layers == 6 else f"transformer-{layers}"
    net.name = name
    return net.graph()


class _Transformer(Drawing):
    """Blocks of the Transformer over tensors [batch, length, width]."""

    def __init__(self, batch: int) -> None:
        super().__init__("transformer")
        self.sizes = {
            "b": batch,
            "l": LENGTH,
            "t": LENGTH,
            "e": WIDTH,
            "h": HEADS,
            "k": HEAD,
            "n": HIDDEN,
            "v": VOCABULARY,
            "s": QKV,
        }

    def embedded(self, name: str) -> int:
        """Dense embedding, and the sum with the positions (an input of the network)."""
        at = self.einsum(f"{name} embedding", "blv,ve->ble", [None, None], self.sizes)
        return self.add_up(f"{name} positions", at, None)

    def attention(self, name: str, query: int, memory: int | None = None) -> int:
        """Fused projections, scores, softmax, values, output, residual, normalisation."""
        if memory is None:
            fused = self.einsum(f"{name} qkv", "ble,sehk->sbhlk", [query, None], self.sizes)
        else:
            stack = self._stacked(f"{name} stack", [query, memory, memory])
            fused = self.einsum(f"{name} qkv", "sble,sehk->sbhlk", [stack, None], self.sizes)
        parts = self._unstacked(f"{name} split", fused)
        at = self.einsum(f"{name} scores", "bhlk,bhtk->bhlt", [parts, parts], self.sizes)
        at = self.pointwise(f"{name} softmax", "softmax", Softmax(3, LENGTH), at)
        at = self.einsum(f"{name} values", "bhlt,bhtk->bhlk", [at, parts], self.sizes)
        at = self.einsum(f"{name} output", "bhlk,hke->ble", [at, None], self.sizes)
        return self.normalise(f"{name} norm", self.add_up(f"{name} sum", at, query), axis=2)

    def feed_forward(self, name: str, source: int) -> int:
        """Two products with a pointwise function between them, residual, normalisation."""
        at = self.einsum(f"{name} up", "ble,en->bln", [source, None], self.sizes, fused=2)
        at = self.einsum(f"{name} down", "bln,ne->ble", [at, None], self.sizes)
        return self.normalise(f"{name} norm", self.add_up(f"{name} sum", at, source), axis=2)

    def _stacked(self, name: str, sources: list[int]) -> int:
        extents = (len(sources), *self.extents(sources[0]))
        reads = [Tensor(same_axes(4)[1:])] * len(sources)
        output = Tensor(same_axes(4), extents)
        return self.add(
            name,
            "stack",
            "sble",
            extents,
            Nothing(),
            output=output,
            sources=sources,
            inputs=reads,
            whole=(0,),
        )

    def _unstacked(self, name: str, source: int) -> int:
        extents = self.extents(source)
        output = Tensor(same_axes(5)[1:], extents[1:])
        reads = [Tensor(same_axes(5))]
        return self.add(
            name,
            "unstack",
            "sbhlk",
            extents,
            Nothing(),
            output=output,
            sources=[source],
            inputs=reads,
            whole=(0,),
        )
