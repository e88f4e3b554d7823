"""Alpha-beta times of collectives on ``n`` devices joined by equal links.

``alpha`` is the latency of a step, ``beta`` the time per byte, ``b`` the bytes of the larger side
of the collective (the whole tensor). Ring and pairwise algorithms, as in Thakur, Rabenseifner and
Gropp, "Optimization of Collective Communication Operations in MPICH", 2005:

=============== ======================================
all-gather      ``(n-1) alpha + (n-1)/n b beta``
reduce-scatter  ``(n-1) alpha + (n-1)/n b beta``
all-reduce      ``2 (n-1) alpha + 2 (n-1)/n b beta``
all-to-all      ``(n-1) alpha + (n-1)/n b beta`` (through a switch; b is one device's buffer)
point to point  ``alpha + b beta``
=============== ======================================

All times are ticks, rounded up.
"""

from __future__ import annotations

from milp_plan.core import TICKS_PER_SECOND, ceil_div

from .devices import LinkSpec


def _steps(link: LinkSpec, devices: int, num_bytes: int, rounds: int) -> int:
    if devices < 1 or num_bytes < 0:
        raise ValueError(f"{devices} devices and {num_bytes} bytes, expected at least 1 and 0")
    steps = rounds * (devices - 1)
    wire = steps * num_bytes * TICKS_PER_SECOND
    return steps * link.latency_ns + ceil_div(wire, devices * link.achieved_bytes_per_s)


def all_gather_ns(link: LinkSpec, devices: int, num_bytes: int) -> int:
    """Return the time until every device holds all ``num_bytes``, starting from its share."""
    return _steps(link, devices, num_bytes, 1)


def reduce_scatter_ns(link: LinkSpec, devices: int, num_bytes: int) -> int:
    """Return the time until every device holds its share of the sum of ``num_bytes``."""
    return _steps(link, devices, num_bytes, 1)


def all_reduce_ns(link: LinkSpec, devices: int, num_bytes: int) -> int:
    """Return the time until every device holds the sum of tensors of ``num_bytes``."""
    return _steps(link, devices, num_bytes, 2)


def all_to_all_ns(link: LinkSpec, devices: int, num_bytes: int) -> int:
    """Return the time until every device has sent an equal part of its bytes to every other."""
    return _steps(link, devices, num_bytes, 1)


def point_to_point_ns(link: LinkSpec, num_bytes: int) -> int:
    """Return the time of one message."""
    return link.latency_ns + ceil_div(num_bytes * TICKS_PER_SECOND, link.achieved_bytes_per_s)
