"""The chain law as a partial order: blocks that share a device, their order and their costs.

Devices of a plan under ``Contiguity.CHAIN`` can be numbered so that no arc goes back. So the
classes of devices 1 to j form an *ideal* (with a class come all classes before it), for each j,
and a plan is a chain of ideals whose differences go to devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .graph import Floats, SerialGraph, depth_first_order

Bits = NDArray[np.uint64]
LARGEST_EXACT = 2**53
"""Below this, whole numbers and their sums are exact as floats."""


def bit_rows(sets: Iterable[int], count: int) -> Bits:
    """Return sets of numbers below ``count``, each as bits of a number, as rows of 64-bit words."""
    words = max(1, -(-count // 64))
    data = b"".join(entry.to_bytes(8 * words, "little") for entry in sets)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, words)


def unpacked(rows: Bits, count: int) -> NDArray[np.uint8]:
    """Return rows of bits as 0 and 1, ``count`` per row."""
    as_bytes = np.ascontiguousarray(rows).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little")[:, :count]


def bit_set(members: Iterable[int]) -> int:
    """Return a set of numbers as bits of one number."""
    return sum(1 << member for member in members)


@dataclass(frozen=True)
class ChainGraph:
    """Blocks of classes that share a device, numbered so that arcs go to higher numbers.

    Parameters
    ----------
    graph
        The hypergraph that was read.
    unit
        Ticks per unit of ``work``, ``host_work`` and ``cost``. Where it is 1 these are exact.
    blocks
        Classes of each block.
    before
        Blocks with an arc to each block.
    on_payer, on_host
        Whether a block can run there.
    work, host_work
        Time on a payer and on a host, by block and pass (forward, backward); 0 where it cannot run.
    size
        Bytes of each block.
    pins
        Blocks of each net: at least two.
    cost
        Charge of each paying device with a part of a net, but not all of it, by pass.
    """

    graph: SerialGraph
    unit: int
    blocks: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]
    on_payer: NDArray[np.bool_]
    on_host: NDArray[np.bool_]
    work: Floats
    host_work: Floats
    size: tuple[int, ...]
    pins: tuple[tuple[int, ...], ...]
    cost: Floats

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def exact(self) -> bool:
        """Whether sums of times are exact."""
        return self.unit == 1

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that each block has an arc to."""
        rows: list[list[int]] = [[] for _ in self.blocks]
        for number, earlier in enumerate(self.before):
            for other in earlier:
                rows[other].append(number)
        return tuple(map(tuple, rows))

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Blocks that come before each block, directly or not, as bits of a number."""
        masks: list[int] = []
        for earlier in self.before:
            bits = 0
            for other in earlier:
                bits |= masks[other] | 1 << other
            masks.append(bits)
        return tuple(masks)

    @cached_property
    def nets_of(self) -> tuple[tuple[int, ...], ...]:
        """Nets of each block."""
        rows: list[list[int]] = [[] for _ in self.blocks]
        for number, pins in enumerate(self.pins):
            for block in pins:
                rows[block].append(number)
        return tuple(map(tuple, rows))

    def bits(self, sets: Iterable[int]) -> Bits:
        """Return sets of blocks, each as bits of a number, as rows of bits."""
        return bit_rows(sets, len(self))

    def places(self, devices: Sequence[int]) -> list[int]:
        """Return the device of each class from the device of each block."""
        places = [0] * len(self.graph)
        for block, device in zip(self.blocks, devices, strict=True):
            for number in block:
                places[number] = device
        return places

    def devices(self, places: Sequence[int]) -> list[int]:
        """Return the device of each block from the device of each class."""
        return [places[block[0]] for block in self.blocks]


def chain_graph(graph: SerialGraph) -> ChainGraph:
    """Return the order with classes on cycles fused: the chain law puts them on one device."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # takes a quarter of a second to load

    count = len(graph)
    before, after = (np.array(graph.arcs, dtype=np.intp).reshape(-1, 2)).T
    matrix = coo_array((np.ones(len(before)), (before, after)), shape=(count, count))
    _, label = connected_components(matrix, directed=True, connection="strong")
    blocks: dict[int, list[int]] = {}
    for number in range(count):
        blocks.setdefault(int(label[number]), []).append(number)
    return grouped(graph, [tuple(block) for block in blocks.values()])


def grouped(graph: SerialGraph, blocks: Sequence[tuple[int, ...]]) -> ChainGraph:
    """Return the order of given blocks, which must be acyclic."""
    blocks, before = _sorted_blocks(graph, blocks)
    home = {number: i for i, block in enumerate(blocks) for number in block}
    unit = _unit(graph)
    nets: dict[tuple[int, ...], list[int]] = {}
    for net in graph.nets:
        pins = tuple(sorted({home[number] for number in (net.source, *net.readers)}))
        if len(pins) > 1 and net.ticks:
            nets.setdefault(pins, [0, 0])[net.backward] += net.ticks
    return ChainGraph(
        graph,
        unit,
        tuple(blocks),
        before,
        np.array([all(graph.work[i] is not None for i in b) for b in blocks], dtype=np.bool_),
        np.array([all(graph.host_work[i] is not None for i in b) for b in blocks], dtype=np.bool_),
        _times(blocks, graph.work, graph.backward_work, unit),
        _times(blocks, graph.host_work, graph.backward_host_work, unit),
        tuple(sum(graph.size[number] for number in block) for block in blocks),
        tuple(nets),
        np.array([[t / unit for t in both] for both in nets.values()]).reshape(-1, 2),
    )


def _sorted_blocks(
    graph: SerialGraph, blocks: Sequence[tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], tuple[tuple[int, ...], ...]]:
    """Return blocks in a depth-first order of the arcs, and the arcs."""
    home = {number: i for i, block in enumerate(blocks) for number in block}
    arcs = {(home[a], home[b]) for a, b in graph.arcs if home[a] != home[b]}
    after: list[list[int]] = [[] for _ in blocks]
    missing = [0] * len(blocks)
    for a, b in sorted(arcs):
        after[a].append(b)
        missing[b] += 1
    order = depth_first_order(missing, after)
    assert len(order) == len(blocks), "blocks wait for each other"
    number = {block: i for i, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in blocks]
    for a, b in sorted(arcs):
        before[number[b]].append(number[a])
    return [tuple(sorted(blocks[i])) for i in order], tuple(tuple(sorted(b)) for b in before)


def _unit(graph: SerialGraph) -> int:
    """Return 1 where every sum of ticks is exact as a float, else the source's unit."""
    total = sum(net.ticks for net in graph.nets) * 2
    total += sum(ticks or 0 for ticks in (*graph.work, *graph.host_work))
    return 1 if total < LARGEST_EXACT else graph.problem.units.time_scale


def _times(
    blocks: Sequence[tuple[int, ...]],
    work: Sequence[int | None],
    backward: Sequence[int],
    unit: int,
) -> Floats:
    rows = []
    for block in blocks:
        if any(work[number] is None for number in block):
            rows.append((0.0, 0.0))
            continue
        later = sum(backward[number] for number in block)
        rows.append(((sum(work[number] or 0 for number in block) - later) / unit, later / unit))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
