"""What collective operations send over each level of links, without any rate.

A group of ``n`` ranks, ``stride`` devices apart, is ``inner`` ranks in each node times ``outer``
nodes. Collectives are hierarchical: first in the node, then between nodes with the share that each
rank of the node has, as NCCL's rings do over one adapter per device. With ``b`` the bytes of the
whole tensor:

=============== ====================================== ========================================
operation       bytes of a device in the node          bytes of a device between nodes
=============== ====================================== ========================================
all-gather      ``(inner-1)/inner b``                  ``(outer-1)/outer b/inner``
reduce-scatter  the same                               the same
all-reduce      twice that                             twice that
all-to-all      ``(inner-1)/(inner outer) b``          ``(outer-1)/outer b``
=============== ====================================== ========================================

For all-to-all ``b`` is what one device sends, its own part included. Where every node gets a part
once and spreads it, a device sends that part between nodes and ``(inner-1)/inner b`` in its own
(DeepSeek-AI, arXiv:2412.19437, section 3.2.2). Rounds are the doublings that
a message needs to reach every rank, ``ceil(log2 n)``, twice for an all-reduce. Source: Thakur,
Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from typing import NamedTuple


class Traffic(NamedTuple):
    """What one device sends.

    Parameters
    ----------
    node_bytes, network_bytes
        Bytes in the node, and between nodes.
    rounds
        Latencies in a row.
    calls
        Number of collective operations.
    """

    node_bytes: float = 0.0
    network_bytes: float = 0.0
    rounds: float = 0.0
    calls: float = 0.0

    def plus(self, other: Traffic) -> Traffic:
        """Return both, one after the other."""
        return Traffic(*map(add, self, other))

    def times(self, factor: float) -> Traffic:
        """Return the traffic ``factor`` times."""
        return Traffic(*[factor * value for value in self])


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate.

    Parameters
    ----------
    ranks
        How many.
    stride
        Devices from one rank to the next.
    node_devices
        Devices of a node.
    """

    ranks: int
    stride: int
    node_devices: int

    @property
    def inner(self) -> int:
        """Ranks in one node."""
        return min(self.ranks, max(1, self.node_devices // self.stride))

    @property
    def outer(self) -> float:
        """Nodes that the group lies on."""
        return self.ranks / self.inner

    @property
    def _doublings(self) -> int:
        return (self.ranks - 1).bit_length()

    def all_gather(self, num_bytes: float) -> Traffic:
        """Return the traffic after which every rank has all ``num_bytes``."""
        if self.ranks == 1:
            return Traffic()
        inner, outer = self.inner, self.outer
        node = (inner - 1) / inner * num_bytes
        network = (outer - 1) / outer * num_bytes / inner
        return Traffic(node, network, self._doublings, 1)

    def reduce_scatter(self, num_bytes: float) -> Traffic:
        """Return the traffic after which every rank has its share of the sum."""
        return self.all_gather(num_bytes)

    def all_reduce(self, num_bytes: float) -> Traffic:
        """Return the traffic after which every rank has the sum of tensors of ``num_bytes``."""
        gathered = self.all_gather(num_bytes)
        node, network, rounds, calls = gathered
        return Traffic(2 * node, 2 * network, 2 * rounds, calls)

    def all_to_all(self, num_bytes: float, network_bytes: float | None = None) -> Traffic:
        """Return the traffic in which a device sends an equal part of its bytes to every rank.

        With ``network_bytes`` only these go to nodes, its own included, which spread all of them.
        """
        if self.ranks == 1:
            return Traffic()
        spread = self.inner if network_bytes is not None else self.ranks
        between = num_bytes if network_bytes is None else network_bytes
        node = (self.inner - 1) / spread * num_bytes
        network = (self.ranks - self.inner) / self.ranks * between
        return Traffic(node, network, self._doublings, 1)

    def ring_pass(self, num_bytes: float) -> Traffic:
        """Return the traffic of passing ``num_bytes`` of every rank once around the ring."""
        if self.ranks == 1:
            return Traffic()
        wire = (self.ranks - 1) * num_bytes
        if self.outer > 1:
            return Traffic(0.0, wire, self.ranks - 1, self.ranks - 1)
        return Traffic(wire, 0.0, self.ranks - 1, self.ranks - 1)


def point_to_point(num_bytes: float, across_nodes: bool) -> Traffic:
    """Return the traffic of one message."""
    if across_nodes:
        return Traffic(0.0, num_bytes, 1, 1)
    return Traffic(num_bytes, 0.0, 1, 1)
