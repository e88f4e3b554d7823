"""Hydra's shard partitioner: consecutive layers, as many as fit beside a buffer.

Source: Nagrecha (2021), whose pilot runs grow a shard layer by layer until memory is out; here the
bytes of layers are known. With a buffer as large as a shard, the next one can be loaded while one
computes: the reserve is what buys double buffering.
"""

from __future__ import annotations

from collections.abc import Sequence


def partition(sizes: Sequence[int], memory: int, buffer: int) -> list[range] | None:
    """Return shards as ranges of layers.

    Each takes as many layers as fit; no partition into ranges within the limit has fewer shards,
    since the first k of these reach at least as far as the first k of any other.

    Parameters
    ----------
    sizes
        Bytes of each layer on a device.
    memory, buffer
        Bytes of a device, and what is held back of them.

    Returns
    -------
    list of range or None
        ``None`` where a layer does not fit by itself.
    """
    limit, begin, held = memory - buffer, 0, 0
    shards: list[range] = []
    for place, size in enumerate(sizes):
        if size > limit:
            return None
        if held + size > limit:
            shards.append(range(begin, place))
            begin, held = place, 0
        held += size
    return [*shards, range(begin, len(sizes))] if sizes else []
