"""Hanayo: micro-batches go down and up the devices in waves."""

from __future__ import annotations

from ..shop import Shop
from ..timing import Words
from .expert import Expert
from .lines import layout_of


def hanayo_words(shop: Shop) -> Words | None:
    """Hanayo with w waves: a placement of 2w chunks per device, down and up again.

    Works in units of p micro-batches. In slots of one pass (F or whole backward), micro-batch j
    of the S = 2pw stages runs F of stage s in slot 2j+s and its backward in slot 2j+2S−1−s; a
    device is asked for one pass per slot, its passes alternate between the two directions, and
    the next unit follows 2S slots later without a gap. Devices take their passes in slot order.

    Source: Liu et al., "Hanayo: Harnessing Wave-like Pipeline Parallelism", SC 2023, arXiv
    2308.15762; order derived anew from Chimera's by folding it, as section 3 there does. With
    equal stages, free transfers and F = B+W the bubble is (p−1)F/w (F of a device's share).
    """
    layout = layout_of(shop)
    if layout is None or layout.chunks % 2 or not layout.placed("wave"):
        return None
    p, stages = layout.devices, len(layout.cells[0])
    slots: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(p)]
    for cell in layout.cells[0]:
        for batch in range(layout.counts[0]):
            unit, place = divmod(batch, p)
            begin = 2 * stages * unit + 2 * place
            slots[cell.device].append((begin + cell.stage, (cell.forward,)))
            slots[cell.device].append((begin + 2 * stages - 1 - cell.stage, cell.both))
    return layout.words([[k for _, kinds in sorted(row) for k in kinds] for row in slots])


WORDS: dict[str, Expert] = {"hanayo": hanayo_words}
