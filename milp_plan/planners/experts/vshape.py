"""Schedules on a V placement: stage s and stage 2p−1−s on one device, one micro-batch size."""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.pipeline import Shop, Words

from .building_blocks import Block, Orders, orders_of, v_half, v_min
from .expert import Expert
from .lines import Layout, layout_of
from .zero_bubble_v import zb_v_words


def v_half_words(shop: Shop) -> Words | None:
    """V-Half.

    Source: Qi et al., arXiv 2405.15362.
    """
    return _from_block(shop, v_half)


def v_min_words(shop: Shop) -> Words | None:
    """V-Min.

    Source: Qi et al., arXiv 2405.15362.
    """
    return _from_block(shop, v_min)


def _from_block(shop: Shop, block: Callable[[int], Block]) -> Words | None:
    layout = _v_layout(shop)
    if layout is None:
        return None
    return _words(layout, orders_of(block(layout.devices), layout.counts[0]))


def _v_layout(shop: Shop) -> Layout | None:
    layout = layout_of(shop)
    return layout if layout is not None and layout.placed("v") and layout.split else None


def _words(layout: Layout, orders: Orders) -> Words:
    p, row = layout.devices, layout.cells[0]
    rows: list[list[int]] = []
    for device, order in enumerate(orders):
        down, up = row[device], row[2 * p - 1 - device]
        assert down.weight is not None
        assert up.weight is not None
        kinds = (down.forward, up.forward, up.backward, down.backward, up.weight, down.weight)
        rows.append([kinds[leg] for leg in order])
    return layout.words(rows)


WORDS: dict[str, Expert] = {"zb_v": zb_v_words, "v_half": v_half_words, "v_min": v_min_words}
