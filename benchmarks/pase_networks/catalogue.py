"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable

from pase_costs import LayerGraph

from milp_plan.core import Finding, InputError

from .alexnet import alexnet
from .inception import inception3
from .resnet import resnet101
from .rnnlm import rnnlm
from .transformer import transformer

NETWORKS: dict[str, Callable[[], LayerGraph]] = {
    "alexnet": alexnet,
    "inception3": inception3,
    "resnet101": resnet101,
    "rnnlm": rnnlm,
    "transformer": transformer,
}
"""With the batches of PaSE's evaluation: 128 samples for image networks, 64 for the others."""


def network(name: str) -> LayerGraph:
    """Draw a network of :data:`NETWORKS`."""
    if name not in NETWORKS:
        expected = "one of " + ", ".join(NETWORKS)
        raise InputError([Finding("network", repr(name), expected, "choose one of them")])
    return NETWORKS[name]()
