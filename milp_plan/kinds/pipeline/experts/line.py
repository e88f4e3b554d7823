"""Schedules that go through the devices in order: GPipe, 1F1B and its variants, ZB-H1 and ZB-H2.

In all but the last two W comes right after B where the problem splits the backward; the input
gradient then leaves before W, and ``(p−1)(F+B+W)`` below becomes ``(p−1)(F+B)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from ..shop import Shop
from ..timing import Words, memory_peaks, times
from .lines import Layout, layout_of, placed_layout


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
    """Between 1F1B and eager 1F1B: as many forwards ahead as fit in memory; the shortest one.

    Device d of p runs p−1−d+e forwards ahead, at most 2(p−1−d), at most as many as its memory
    holds, and no more than the device before it, which would never feed them; every e from 0 to
    p−1 is tried. With room for eager 1F1B this is no longer than that. Source: the warm-ups of
    arXiv 2211.05322; the values in between are this project's.
    """
    layout = placed_layout(shop, "line")
    if layout is None:
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
    """Return the most forwards ahead that fit on a device; its word alone decides that."""
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
    layout = placed_layout(shop, "line")
    if layout is None:
        return None
    rows = []
    for cell in layout.cells[0]:
        warm = min(layout.counts[0], ahead(layout, cell.device))
        row = [cell.forward] * warm
        row += [cell.forward, *cell.both] * (layout.counts[0] - warm)
        rows.append(row + list(cell.both) * warm)
    return layout.words(rows)


def interleaved_words(shop: Shop) -> Words | None:
    """Interleaved 1F1B: groups of p micro-batches pass chunk after chunk; v ≥ 2, p divides m.

    Source: Narayanan et al. (Megatron-LM), arXiv 2104.04473, section 2.2. Device d runs
    2(p−1−d) + (v−1)p chunk forwards ahead. With equal stages and free transfers the bubble is
    (p−1)(F+B+W)/v of one device's share ((p−1)(F+B)/v where the backward is split and W ≤ B), and
    device d holds one chunk activation more than it runs ahead, or all mv.
    """
    layout = placed_layout(shop, "interleaved")
    if layout is None:
        return None
    devices, chunks, count = layout.devices, layout.chunks, layout.counts[0]
    if chunks < 2 or devices < 2 or count % devices:
        return None
    rows = []
    for device in range(devices):
        cells = layout.cells[0][device::devices]
        forwards = [[cells[chunk].forward] for chunk in _turns(devices, chunks, count)]
        backwards = [list(cells[-1 - chunk].both) for chunk in _turns(devices, chunks, count)]
        warm = min(len(forwards), 2 * (devices - 1 - device) + (chunks - 1) * devices)
        turns = forwards[:warm]
        for forward, backward in zip(forwards[warm:], backwards, strict=False):
            turns += [forward, backward]
        turns += backwards[len(forwards) - warm :]
        rows.append([kind for turn in turns for kind in turn])
    return layout.words(rows)


def _turns(devices: int, chunks: int, count: int) -> Iterator[int]:
    """Yield the chunk of each forward: p micro-batches on the first chunk, then on the next."""
    for _ in range(count // devices):
        for chunk in range(chunks):
            yield from [chunk] * devices


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
    """Return words with ``pace``·(p−1−d) forwards ahead and W ``pace``·d micro-batches after B."""
    layout = placed_layout(shop, "line", split=True)
    if layout is None:
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
