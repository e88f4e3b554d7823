"""Compute times of operators: the roofline model.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009; with an efficiency on each roof and a launch overhead.
"""

from __future__ import annotations

from milp_plan.core import TICKS_PER_SECOND, ceil_div

from .devices import DeviceSpec


def roofline_ns(spec: DeviceSpec, flops: int, num_bytes: int) -> int:
    """Return the ticks of one operator on one device, rounded up.

    The larger of the time to compute ``flops`` and the time to move ``num_bytes`` through the
    device's memory, at the rates large kernels reach, plus the launch overhead.
    """
    compute = ceil_div(
        flops * TICKS_PER_SECOND * 1000, spec.peak_flops_per_s * spec.compute_permille
    )
    memory = ceil_div(
        num_bytes * TICKS_PER_SECOND * 1000, spec.memory_bytes_per_s * spec.memory_permille
    )
    return max(compute, memory) + spec.launch_ns
