"""Zero-bubble schedules of one stage per device: ZB-H1, ZB-H2, and the automatic greedy one.

Source of all: Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", arXiv 2401.10241.
"""

from __future__ import annotations

from ..shop import Shop
from ..timing import Words
from .expert import Expert
from .lines import layout_of


def zb_h1_words(shop: Shop) -> Words | None:
    """ZB-H1: 1F1B whose weight gradients lag d micro-batches behind on device d.

    Source: arXiv 2401.10241, section 2.1. With equal stages and free transfers the bubble is
    (p−1)(F+B−W) for m ≥ p and W ≤ B; in general (p−1)(F+B) − (min(m, p)−1)·min(B, W). Every
    device holds min(m, p) activations at its peak, no more than the first one in 1F1B.
    """
    return _lagging(shop, 1)


def zb_h2_words(shop: Shop) -> Words | None:
    """ZB-H2: 2(p−1−d) forwards ahead on device d, weight gradients 2d micro-batches behind.

    Source: arXiv 2401.10241, section 2.2. With equal stages, m ≥ 2p−1 and transfers of c the
    bubble of the longest **span** is (p−1)(F+B+2c−2W)⁺ (for c = 0, or W ≤ B and c ≤ F, B); that of
    the makespan is (p−1)(F+c), if that is more. Every device holds min(m, 2p−1) activations.
    """
    return _lagging(shop, 2)


def _lagging(shop: Shop, pace: int) -> Words | None:
    """Warm up with ``pace``·(p−1−d) forwards, run W ``pace``·d micro-batches after B."""
    layout = layout_of(shop)
    if layout is None or not layout.placed("line") or not layout.split:
        return None
    rows = []
    count = layout.counts[0]
    for cell in layout.cells[0]:
        assert cell.weight is not None
        warm = min(count, pace * (layout.devices - 1 - cell.device))
        behind = min(count, pace * cell.device)
        row = [cell.forward] * warm
        for batch in range(count):
            if batch < count - warm:
                row.append(cell.forward)
            row.append(cell.backward)
            if batch >= behind:
                row.append(cell.weight)
        rows.append(row + [cell.weight] * behind)
    return layout.words(rows)


WORDS: dict[str, Expert] = {
    "zb_h1": zb_h1_words,
    "zb_h2": zb_h2_words,
}
