"""Schedules whose weight gradients follow the input gradients at once: GPipe, 1F1B, eager 1F1B.

Where the problem splits the backward, W comes right after B; the input gradient then leaves
before W, and ``(p−1)(F+B+W)`` below becomes ``(p−1)(F+B)``.
"""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.pipeline import Shop, Words

from .expert import Expert
from .lines import Layout, layout_of


def gpipe_words(shop: Shop) -> Words | None:
    """GPipe: all forwards, then all backwards; any placement of one route.

    Source: Huang et al., arXiv 1811.06965. With equal stages, one per device, and transfers of
    c the bubble is (p−1)(F+B+W+2c), and every device holds m activations.
    """
    layout = layout_of(shop)
    if layout is None or len(layout.cells) > 1:
        return None
    rows: list[list[int]] = [[] for _ in layout.machines]
    for cell in layout.cells[0]:
        rows[cell.device] += [cell.forward] * layout.counts[0]
    for cell in reversed(layout.cells[0]):
        rows[cell.device] += list(cell.both) * layout.counts[0]
    return layout.words(rows)


def one_f_one_b_words(shop: Shop) -> Words | None:
    """1F1B: device d of p runs p−1−d forwards ahead, then pairs of one forward, one backward.

    Source: Narayanan et al. (PipeDream-Flush), arXiv 2006.09503. With equal stages and free
    transfers the bubble is (p−1)(F+B+W), and device d holds min(m, p−d) activations.
    """
    return _pairs(shop, lambda layout, device: layout.devices - 1 - device)


def eager_words(shop: Shop) -> Words | None:
    """Eager 1F1B: as 1F1B with 2(p−1−d) forwards ahead, which hides transfers.

    Source: Zhuang et al. (AlpaComm), arXiv 2211.05322. With equal stages and transfers of c, no
    longer than F or the backward, the bubble is (p−1)(F+B+W+2c), and device d holds
    min(m, 2(p−1−d)+1) activations.
    """
    return _pairs(shop, lambda layout, device: 2 * (layout.devices - 1 - device))


def _pairs(shop: Shop, ahead: Callable[[Layout, int], int]) -> Words | None:
    layout = layout_of(shop)
    if layout is None or not layout.placed("line"):
        return None
    rows = []
    for cell in layout.cells[0]:
        warm = min(layout.counts[0], ahead(layout, cell.device))
        row = [cell.forward] * warm
        row += [cell.forward, *cell.both] * (layout.counts[0] - warm)
        rows.append(row + list(cell.both) * warm)
    return layout.words(rows)


WORDS: dict[str, Expert] = {
    "gpipe": gpipe_words,
    "1f1b": one_f_one_b_words,
    "eager_1f1b": eager_words,
}
