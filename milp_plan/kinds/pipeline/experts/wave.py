"""Schedules in units of p micro-batches, passes in slot order: Chimera and Hanayo."""

from __future__ import annotations

from ..shop import Shop
from ..timing import Words
from .lines import Layout, placed_layout


def chimera_words(shop: Shop) -> Words | None:
    """Chimera with direct concatenation: units of p micro-batches, half from each end.

    For an even number p of devices. In slots of one pass (F or whole backward), micro-batch j of
    a direction runs F of stage s in slot 2j+s and its backward in slot 2j+2p−1−s. The two
    directions then never use the same slot, and consecutive units, 2p slots apart, do not collide
    either, so devices take their passes in slot order.

    Source: Li, Hoefler, "Chimera", SC 2021, arXiv 2107.06925, section 3. With equal stages and
    free transfers the bubble is (p/2−1)(F+B+W) for F = B+W; one unit with B+W = 2F lasts
    3p+2(p−2) forwards. A device holds p/2 to p activations of a stage per unit.
    """
    layout = placed_layout(shop, "dualpipe")
    if layout is None or layout.devices % 2:
        return None
    return _in_slot_order(layout, layout.devices // 2)


def hanayo_words(shop: Shop) -> Words | None:
    """Hanayo with w waves: a placement of 2w chunks per device, down and up again.

    Works in units of p micro-batches. In slots of one pass (F or whole backward), micro-batch j
    of the S = 2pw stages runs F of stage s in slot 2j+s and its backward in slot 2j+2S−1−s; a
    device has one pass per slot; its passes alternate between the two directions, and
    the next unit follows 2S slots later without a gap. Devices take their passes in slot order.

    Source: Liu et al., "Hanayo: Harnessing Wave-like Pipeline Parallelism", SC 2023, arXiv
    2308.15762; order derived from Chimera's by folding it, as in its section 3. With
    equal stages, free transfers and F = B+W the bubble is (p−1)F/w (F of a device's share).
    """
    layout = placed_layout(shop, "wave")
    if layout is None or layout.chunks % 2:
        return None
    return _in_slot_order(layout, layout.devices)


def _in_slot_order(layout: Layout, per_unit: int) -> Words:
    """Return the words in which each device takes its passes in the order of their slots.

    In a unit, micro-batch j of a route of S stages runs F of stage s in slot 2j+s and its whole
    backward in slot 2j+2S−1−s; units follow each other after 2S slots.
    """
    slots: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in layout.machines]
    for row, count in zip(layout.cells, layout.counts, strict=True):
        length = 2 * len(row)
        for cell in row:
            for batch in range(count):
                unit, place = divmod(batch, per_unit)
                begin = length * unit + 2 * place
                slots[cell.device].append((begin + cell.stage, (cell.forward,)))
                slots[cell.device].append((begin + length - 1 - cell.stage, cell.both))
    return layout.words([[k for _, kinds in sorted(row) for k in kinds] for row in slots])
