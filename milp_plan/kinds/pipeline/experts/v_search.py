"""Schedules on a V placement (stage s and stage 2p−1−s on one device) from building blocks.

V-Half and V-Min, and a search over blocks for any memory limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, product

from milp_plan.core.budget import now

from ..shop import Shop
from ..timing import Words, fits, times, value_of
from .building_blocks import (
    PERIOD,
    WEIGHT,
    Block,
    Orders,
    orders_of,
    repeated,
    v_half,
    v_min,
)
from .lines import Layout, placed_layout
from .zero_bubble_v import Board, Stuck, zb_v_words

_EFFORT = 4_000
"""Passes of one leg over all blocks that are tried, at least :data:`_MIN_BLOCKS` blocks."""
_MIN_BLOCKS, _MAX_BLOCKS = 2, 60


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
    layout = placed_layout(shop, "v", split=True)
    if layout is None:
        return None
    return v_words(layout, orders_of(block(layout.devices), layout.counts[0]))


def v_words(layout: Layout, orders: Orders) -> Words:
    """Return the words of orders of legs (see :mod:`.building_blocks`)."""
    p, row = layout.devices, layout.cells[0]
    rows: list[list[int]] = []
    for device, order in enumerate(orders):
        down, up = row[device], row[2 * p - 1 - device]
        assert down.weight is not None
        assert up.weight is not None
        kinds = (down.forward, up.forward, up.backward, down.backward, up.weight, down.weight)
        rows.append([kinds[leg] for leg in order])
    return layout.words(rows)


def v_auto_words(shop: Shop, until: float | None = None) -> Words | None:
    """Best V schedule that keeps the memory limits: ZB-V, V-Half, V-Min or another block.

    Blocks go down and up the V by 1 to 3 slots per device in each of the four legs, and wait 1 to
    6 slots where a leg turns. Those that the limits admit are ranked by an estimate with real
    times, and the best are made schedules; the number tried falls with the size of the pipeline,
    and none is started after ``until`` (``now``) where something fits.

    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, section
    3 (uniform offsets, search over building blocks); estimate and search are ours.
    """
    layout = placed_layout(shop, "v", split=True)
    if layout is None:
        return None
    best: tuple[int, Words] | None = None
    for words in _candidates(shop, layout):
        if best is not None and until is not None and now() >= until:
            break
        if fits(shop, words):
            value = value_of(shop, times(shop, words))
            if best is None or value < best[0]:
                best = (value, words)
    return None if best is None else best[1]


def _candidates(shop: Shop, layout: Layout) -> Iterator[Words]:
    for expert in (zb_v_words, v_half_words, v_min_words):
        words = expert(shop)
        if words is not None:
            yield words
    p, m = layout.devices, layout.counts[0]
    left = min(_MAX_BLOCKS, max(_MIN_BLOCKS, _EFFORT // (p * m)))
    room = _room(layout)
    seen = set()
    for block in _ranked(layout):
        if not left:
            return
        in_flight = 2 + max(legs[3] for legs in block) // PERIOD
        grid = repeated(block, min(m, in_flight))
        grid.fill_weights()
        peak = grid.peak()
        if room is not None and peak > room:
            continue
        left -= 1
        for steady in (True, False):
            orders = orders_of(block, m, steady=steady)
            key = tuple(map(tuple, orders))
            if key not in seen:
                seen.add(key)
                yield v_words(layout, orders)
                yield from _refilled(layout, orders, peak if room is None else room)


def _refilled(layout: Layout, orders: Orders, room: int) -> Iterator[Words]:
    """Yield words of the same legs, with weight gradients in the gaps that real times leave."""
    legs = [[leg for leg in order if leg < WEIGHT] for order in orders]
    for fill in (True, False):
        board = Board(layout, fill, fill, None)
        board.cap = min(room * board.unit, board.cap)
        try:
            board.follow(legs, fill)
        except Stuck:
            continue
        yield layout.words(board.rows)


def _room(layout: Layout) -> int | None:
    """Return the stage activations that fit on every device; ``None`` without limits."""
    p, row, kinds = layout.devices, layout.cells[0], layout.shop.kinds
    rooms = []
    for device, machine in enumerate(layout.machines):
        limit = layout.shop.limits[machine]
        held = sum(kinds[row[s].forward].alloc for s in (device, 2 * p - 1 - device))
        if limit is not None and held:
            rooms.append(2 * limit // held)
    return min(rooms, default=None)


@dataclass(frozen=True)
class _Shape:
    """A building block: slots per device of each leg, and slots to wait before legs 1, 2, 3."""

    steps: tuple[int, ...]
    waits: tuple[int, ...]

    def slots(self, device: int, devices: int) -> tuple[int, int, int, int]:
        """Return the slot of each leg on a device."""
        turns = list(accumulate((0, *self.waits)))
        done, slots = 0, []
        for leg, step in enumerate(self.steps):
            hops = devices - 1 - device if leg % 2 else device
            slots.append(turns[leg] + done + step * hops)
            done += step * (devices - 1)
        return (slots[0], slots[1], slots[2], slots[3])

    def block(self, devices: int) -> Block:
        """Return the slots on all devices."""
        return [self.slots(device, devices) for device in range(devices)]


def _ranked(layout: Layout) -> list[Block]:
    """Return the blocks without collisions, the smallest estimate of the makespan first."""
    p = layout.devices
    clock = _clock(layout)
    ranked: list[tuple[float, tuple[int, ...], _Shape]] = []
    for steps in product((1, 2, 3), repeat=4):
        for waits in product(range(1, PERIOD + 1), repeat=3):
            shape = _Shape(steps, waits)
            ends = [shape.slots(device, p) for device in (0, p - 1)]
            if any(len({slot % PERIOD for slot in legs}) < 4 for legs in ends):
                continue
            ranked.append((_estimate(layout, clock, ends), ends[0], shape))
    ranked.sort(key=lambda entry: entry[:2])
    blocks = (shape.block(p) for _, _, shape in ranked)
    return [b for b in blocks if all(len({s % PERIOD for s in legs}) == 4 for legs in b)]


def _clock(layout: Layout) -> list[list[tuple[int, int]]]:
    """Return the per end of the V, (start, stop) of each leg of a micro-batch that never waits."""
    p, row, kinds = layout.devices, layout.cells[0], layout.shop.kinds
    chain = [cell.forward for cell in row] + [cell.backward for cell in reversed(row)]
    now, spans = 0, []
    for before, kind in zip([None, *chain], chain, strict=False):
        if before is not None:
            now += layout.lags[before, kind]
        spans.append((now, now + kinds[kind].duration))
        now += kinds[kind].duration
    outer = [spans[at] for at in (0, 2 * p - 1, 2 * p, 4 * p - 1)]
    inner = [spans[at] for at in (p - 1, p, 3 * p - 1, 3 * p)]
    return [outer, inner]


def _estimate(
    layout: Layout, clock: list[list[tuple[int, int]]], ends: list[tuple[int, int, int, int]]
) -> float:
    """Estimate the makespan of a block: its least period, and the time of a micro-batch.

    If leg u of the k-th next micro-batch comes after leg v of this one on a device, k periods
    last at least from the start of u to the stop of v.
    """
    period = max(layout.shop.work) / layout.counts[0]
    for legs, spans in zip(ends, clock, strict=True):
        for u in range(4):
            for v in range(u, 4):
                later = (legs[v] - legs[u]) // PERIOD + 1
                period = max(period, (spans[v][1] - spans[u][0]) / later)
    waiting = ends[0][3] * period / PERIOD
    return period * (layout.counts[0] - 1) + max(waiting, clock[0][3][1])
