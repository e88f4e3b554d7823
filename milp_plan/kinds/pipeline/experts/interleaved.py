"""Interleaved 1F1B: several chunks of the model per device, in rounds."""

from __future__ import annotations

from collections.abc import Iterator

from ..shop import Shop
from ..timing import Words
from .expert import Expert
from .lines import layout_of


def interleaved_words(shop: Shop) -> Words | None:
    """Interleaved 1F1B: groups of p micro-batches pass chunk after chunk; v ≥ 2, p divides m.

    Source: Narayanan et al. (Megatron-LM), arXiv 2104.04473, section 2.2. Device d runs
    2(p−1−d) + (v−1)p chunk forwards ahead. With equal stages and free transfers the bubble is
    (p−1)(F+B+W)/v of one device's share ((p−1)(F+B)/v where the backward is split and W ≤ B), and
    device d holds one chunk activation more than it runs ahead, or all mv.
    """
    layout = layout_of(shop)
    if layout is None or len(layout.cells) > 1 or not layout.placed("interleaved"):
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
    """Chunk of each forward in turn: p micro-batches on the first chunk, then on the next."""
    for _ in range(count // devices):
        for chunk in range(chunks):
            yield from [chunk] * devices


WORDS: dict[str, Expert] = {"interleaved_1f1b": interleaved_words}
