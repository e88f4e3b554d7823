"""V-Half and V-Min: V placement (stage s and stage 2p−1−s on one device) with little memory."""

from __future__ import annotations

from collections.abc import Callable

from ..shop import Shop
from ..timing import Words
from .building_blocks import Block, Orders, orders_of, v_half, v_min
from .lines import Layout, layout_of


def v_half_words(shop: Shop) -> Words | None:
    """V-Half: half of 1F1B's memory, needs split gradients.

    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, section
    3.3, and the greedy reordering of repository sail-sg/zero-bubble-pipeline-parallelism. With
    F = B = W and free transfers the bubble is at most half of 1F1B's; (p+2)//2 activations of a
    device's share are held.
    """
    return _from_block(shop, v_half)


def v_min_words(shop: Shop) -> Words | None:
    """V-Min: a third of 1F1B's memory, needs split gradients.

    Source: as V-Half. With F = B = W and free transfers the bubble is at most two thirds of
    1F1B's, and longer where the times differ; (p+4)//3 activations of a device's share are held.
    """
    return _from_block(shop, v_min)


def _from_block(shop: Shop, block: Callable[[int], Block]) -> Words | None:
    layout = v_layout(shop)
    if layout is None:
        return None
    return v_words(layout, orders_of(block(layout.devices), layout.counts[0]))


def v_layout(shop: Shop) -> Layout | None:
    """Return the layout of a shop with a V placement and split gradients, or ``None``."""
    layout = layout_of(shop)
    return layout if layout is not None and layout.placed("v") and layout.split else None


def v_words(layout: Layout, orders: Orders) -> Words:
    """Words of orders of legs (see :mod:`.building_blocks`)."""
    p, row = layout.devices, layout.cells[0]
    rows: list[list[int]] = []
    for device, order in enumerate(orders):
        down, up = row[device], row[2 * p - 1 - device]
        assert down.weight is not None
        assert up.weight is not None
        kinds = (down.forward, up.forward, up.backward, down.backward, up.weight, down.weight)
        rows.append([kinds[leg] for leg in order])
    return layout.words(rows)
