"""Kernels that a compiler runs as one: chains of elementwise work, copies and reductions.

Fusing comes before merging, so that a step's total work is the same at every granularity.
"""

from __future__ import annotations

from math import prod

from milp_plan.io.capture_wire import Capture, Kernel

from .grouping import Groups
from .operators import STREAMS
from .passes import block_of, homes, kinds, sources
from .record import tensors_made, tensors_read
from .work import operator_of


def fused(capture: Capture) -> list[tuple[int, ...]]:
    """Return groups of kernels that run as one, each in captured order.

    A kernel joins one that it reads from where both stream through the same number of elements,
    in one block of the model and one part of the step. Matrix products, convolutions, attention,
    gathers and pools stay alone, as in PyTorch's own compiler.
    """
    before, kind = sources(capture), kinds(capture)
    block = [block_of(home) for home in homes(capture)]
    streams = [_streams(kernel) for kernel in capture.kernels]
    elements = [_elements(kernel) for kernel in capture.kernels]
    groups = Groups(len(capture.kernels))
    for place in range(len(capture.kernels)):
        mine = block[place], kind[place], elements[place]
        for source in sorted(before[place], reverse=True) if streams[place] else ():
            alike = streams[source] and mine == (block[source], kind[source], elements[source])
            if alike and groups.may_join(groups.of[source], before[place]):
                groups.join(place, groups.of[source], before[place])
                break
        else:
            groups.open(place, before[place])
    return [tuple(members) for members in groups.members]


def alone(capture: Capture) -> list[tuple[int, ...]]:
    """Return every kernel as a group of its own: eager PyTorch."""
    return [(place,) for place in range(len(capture.kernels))]


def _streams(kernel: Kernel) -> bool:
    return kernel.pointwise or operator_of(kernel) in STREAMS


def _elements(kernel: Kernel) -> int:
    """Elements of the largest tensor that a kernel touches."""
    touched = (*tensors_read(kernel), *tensors_made(kernel))
    return max((prod(tensor.shape) for tensor in touched), default=0)
