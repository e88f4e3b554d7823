"""Fuses kernels that a compiler runs as one: elementwise work, copies and reductions.

Fusing comes before merging, so that a step's total work is the same at every granularity.
"""

from __future__ import annotations

from math import prod

from milp_plan.io.capture_wire import Capture, Kernel

from .grouping import Groups
from .operators import STREAMS
from .passes import Edges, block_of, homes, kinds, sources, without_module
from .record import made_by, tensors_made, tensors_read
from .work import operator_of


def fused(capture: Capture) -> list[tuple[int, ...]]:
    """Return groups of kernels that run as one, each in captured order.

    A kernel joins one that it reads from where both stream through the same number of elements,
    in one block of the model and one part of the step. Matrix products, convolutions, attention,
    gathers and pools stay separate, as in PyTorch's own compiler. Where no module is known only
    chains are fused, in which each kernel is the only reader of the previous one: independent
    kernels can still run in parallel.
    """
    before, kind = sources(capture), kinds(capture)
    block = [block_of(home) for home in homes(capture)]
    streams = [_streams(kernel) for kernel in capture.kernels]
    elements = [_elements(kernel) for kernel in capture.kernels]
    links = _links(capture, before)
    unknown = without_module(capture)
    groups = Groups(len(capture.kernels))
    for place in range(len(capture.kernels)):
        mine = block[place], kind[place], elements[place]
        for source in sorted(before[place], reverse=True) if streams[place] else ():
            alike = streams[source] and mine == (block[source], kind[source], elements[source])
            alike = alike and (place not in unknown or (source, place) in links)
            if alike and groups.may_join(groups.of[source], before[place]):
                groups.join(place, groups.of[source], before[place])
                break
        else:
            groups.open(place, before[place])
    return [tuple(members) for members in groups.members]


def _links(capture: Capture, before: Edges) -> set[tuple[int, int]]:
    """Return pairs of kernels: the second reads the first alone, and nothing else does."""
    outputs = {result.storage for result in capture.results}
    readers: list[set[int]] = [set() for _ in capture.kernels]
    for storage, place in made_by(capture).items():
        readers[place] |= {-1} if storage in outputs else set()
    for place, sources_of in enumerate(before):
        for source in sources_of:
            readers[source].add(place)
    return {
        (sources_of[0], place)
        for place, sources_of in enumerate(before)
        if len(sources_of) == 1 and readers[sources_of[0]] == {place}
    }


def alone(capture: Capture) -> list[tuple[int, ...]]:
    """Return every kernel as a group of its own, as in eager PyTorch."""
    return [(place,) for place in range(len(capture.kernels))]


def _streams(kernel: Kernel) -> bool:
    return kernel.pointwise or operator_of(kernel) in STREAMS


def _elements(kernel: Kernel) -> int:
    """Return the number of elements of the largest tensor of a kernel."""
    touched = (*tensors_read(kernel), *tensors_made(kernel))
    return max((prod(tensor.shape) for tensor in touched), default=0)
