"""The serial law: a device loads inputs, runs operators and stores outputs one after the other.

Source: Tarnawski et al. (NeurIPS 2020, arXiv 2006.16423), sections 3 (latency) and 5 (throughput).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .budget import LARGEST_SETTING
from .errors import Finding
from .graph import FULL

if TYPE_CHECKING:
    from .cluster import Cluster
    from .graph import ComputationGraph, Value

BACKWARD_KINDS = ("backward", "backward-input", "backward-weight")
"""Kinds of operators whose time and values belong to the backward pass."""


class Contiguity(StrEnum):
    """Which sets of operators one device may run."""

    FREE = "free"
    """Any set."""
    CHAIN = "chain"
    """The devices can be numbered so that no value of the forward pass goes to an earlier one.
    The values of a colocation group without a forward operator count in reverse."""


class Passes(StrEnum):
    """How the bottleneck is computed from the loads of the forward and the backward pass."""

    JOINT = "joint"
    """The largest sum of both on one device."""
    SEPARATE = "separate"
    """The largest forward load of any device plus the largest backward load of any device; what
    a transfer takes belongs to the pass of the operator that makes the value."""


@dataclass(frozen=True)
class SerialLaw:
    """The law by which transfers are work of the devices at their two ends.

    A device of a paying class is charged, on top of its operators, for every value it reads that
    was made elsewhere, and for every value it makes that is read elsewhere: each value once per
    direction, however many readers and other devices there are. Other devices pay nothing.

    Parameters
    ----------
    payers
        Device classes whose devices pay for transfers.
    contiguity, passes
        The sets of operators of a device, and the load, for objective bottleneck.
    calls
        For objective latency: maximum number of invocations of a paying device, which run one
        after the other. Each starts when all its inputs are available, and makes its outputs
        available when it ends. Devices that do not pay run any number of operators at a time.
    """

    payers: tuple[str, ...]
    contiguity: Contiguity = Contiguity.FREE
    passes: Passes = Passes.JOINT
    calls: int | None = None


def transfer_ticks(cluster: Cluster, value: Value) -> int:
    """Return the ticks that each end of a value's transfer is charged (all channels are equal)."""
    if not cluster.channels:
        return 0
    return cluster.channels[0].transfer_ticks(value.payload(FULL), value.messages)


def serial_findings(law: SerialLaw, graph: ComputationGraph, cluster: Cluster) -> Iterator[Finding]:
    """Report why a graph and a cluster cannot be planned under the law."""
    classes = {entry.name for entry in cluster.device_classes}
    for name in law.payers:
        if name not in classes:
            found, known = f"unknown device class {name!r}", f"some of {sorted(classes)}"
            yield Finding("serial.payers", found, known, "correct the name")
    if law.calls is not None and not 1 <= law.calls <= LARGEST_SETTING:
        expected = f"from 1 to {LARGEST_SETTING}"
        yield Finding("serial.calls", str(law.calls), expected, "correct it, or leave it out")
    if len({(c.latency_ticks, c.bandwidth_bytes_per_s) for c in cluster.channels}) > 1:
        found = "channels of several speeds"
        expected = "one latency and bandwidth for all: a value is charged once for all readers"
        yield Finding("channels", found, expected, "make them alike, or drop the serial law")
    devices = len(cluster.devices)
    if len(cluster.channels) < devices * (devices - 1):
        expected = "a channel for every ordered pair of devices"
        yield Finding("channels", f"{len(cluster.channels)}", expected, "add the missing ones")
    for operator in graph.operators:
        if len(operator.options) > 1 or operator.options[0].gang > 1:
            found = f"{len(operator.options)} options, the first on {operator.options[0].gang}"
            where = f"operator {operator.name!r}"
            yield Finding(where, found, "one option on one device", "keep one option")
