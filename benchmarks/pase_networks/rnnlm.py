"""Language model of two LSTM layers (Jozefowicz et al. 2016), as in PaSE's evaluation."""

from __future__ import annotations

from pase_costs import LayerGraph, Recurrence, Tensor

from .drawing import Drawing

VOCABULARY, WIDTH, STEPS = 100_000, 2048, 256


def rnnlm(batch: int = 64, layers: int = 2) -> LayerGraph:
    """Embedding, all LSTM layers as one operator, projection, loss."""
    net = Drawing("rnnlm")
    sizes = {"b": batch, "s": STEPS, "e": WIDTH, "v": VOCABULARY}
    at = net.einsum("embedding", "bsv,ve->bse", [None, None], sizes)
    at = net.add(
        "lstm",
        "lstm",
        "tsbnk",
        (layers, STEPS, batch, WIDTH, WIDTH),
        Recurrence(),
        output=Tensor(((2,), (1,), (3,)), (batch, STEPS, WIDTH)),
        sources=[at],
        inputs=[Tensor(((2,), (1,), (4,)))],
        whole=(1,),
    )
    at = net.linear("projection", at, VOCABULARY)
    net.loss("loss", at)
    return net.graph()
