"""Schedules whose weight gradients follow the input gradients at once: GPipe, 1F1B, eager 1F1B.

Where the problem splits the backward, W comes right after B; the input gradient then leaves
before W, and ``(p−1)(F+B+W)`` below becomes ``(p−1)(F+B)``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from ..shop import Shop
from ..timing import Words, memory_peaks, times
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


def fitted_eager_words(shop: Shop) -> Words | None:
    """Between 1F1B and eager 1F1B: as many forwards ahead as memory allows; the shortest of these.

    Device d of p runs p−1−d+e forwards ahead, at most 2(p−1−d), at most as many as its memory
    holds, and no more than the device before it, which would never feed them; every e from 0 to
    p−1 is tried. With room for eager 1F1B this is no longer than that. Source: the warm-ups of
    arXiv 2211.05322; those between are this project's.
    """
    layout = layout_of(shop)
    if layout is None or not layout.placed("line"):
        return None
    last = layout.devices - 1
    most = [_room_ahead(shop, layout, device) for device in range(layout.devices)]

    def ahead(extra: int, device: int) -> int:
        least = last - device
        return max(least, min(2 * least, least + extra, most[device]))

    rows = {
        tuple(accumulate((ahead(extra, d) for d in range(layout.devices)), min))
        for extra in range(last + 1)
    }
    best: tuple[int, Words] | None = None
    for row in sorted(rows):
        words = _pairs(shop, lambda _, device, row=row: row[device])  # type: ignore[misc]
        assert words is not None
        starts = times(shop, words)
        stop = max(line[-1] + kind.duration for kind, line in zip(shop.kinds, starts, strict=True))
        if best is None or stop < best[0]:
            best = (stop, words)
    return None if best is None else best[1]


def _room_ahead(shop: Shop, layout: Layout, device: int) -> int:
    """Most forwards ahead that a device has memory for; its word alone decides that."""
    machine, least = layout.machines[device], layout.devices - 1 - device
    limit = shop.limits[machine]
    for count in range(2 * least, least, -1):
        words = _pairs(
            shop,
            lambda _, other, count=count: (  # type: ignore[misc]
                count if other == device else layout.devices - 1 - other
            ),
        )
        if words is not None and (limit is None or memory_peaks(shop, words)[machine] <= limit):
            return count
    return least


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
    "fitted_1f1b": fitted_eager_words,
}
