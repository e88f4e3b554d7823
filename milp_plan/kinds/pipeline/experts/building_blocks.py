"""Orders on a V placement from the slots of one micro-batch: repeat, squeeze, reorder.

A micro-batch crosses the devices four times: forward down and up the V, backward down and up.
These crossings are *legs* 0 to 3; legs 0 and 2 go from device 0 to device p−1, legs 1 and 3 back.
A *building block* gives the slot of each leg on each device; a pass takes one slot, and the next
micro-batch runs :data:`PERIOD` slots later. Weight gradients take slots that are left.

Source: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

PERIOD = 6
"""Passes of a device per micro-batch: two forwards, two input gradients, two weight gradients."""

WEIGHT = 4
"""Number of weight gradients in orders: 4 for those of leg 2, 5 for those of leg 3."""

Block = Sequence[tuple[int, int, int, int]]
"""Device -> slot of each leg for the first micro-batch."""

Orders = list[list[int]]
"""Device -> legs and weight gradients in the order in which it runs them."""

_FORWARDS = (0, 1)


def v_half(devices: int) -> Block:
    """Half of 1F1B's memory: down two slots per device, up one (source: section 3.3)."""
    p, wait = devices, 0 if devices % 2 else 3
    return [
        (2 * d, 3 * p - d - 2, 3 * p + wait + 2 * d - 1, 6 * p + wait - d - 2) for d in range(p)
    ]


def v_min(devices: int) -> Block:
    """A third of 1F1B's memory: one slot per device (source: section 3.3)."""
    p, wait = devices, 0 if devices % 3 else 2
    return [(d, 2 * p - d - 1, 2 * p + wait + d, 4 * p + wait - d - 1) for d in range(p)]


def orders_of(block: Block, micro_batches: int, *, steady: bool = True) -> Orders:
    """Order of each device after repeating, squeezing and reordering a building block.

    First passes move into earlier idle slots of their device while the pipeline fills and drains,
    never above the memory that the repeated block needs. Then weight gradients are taken out,
    passes of the end move once more as if these would wait, and weight gradients fill what is
    left. All in unit slots: how long passes last in truth does not change the order.

    Parameters
    ----------
    block
        Slots of a device differ modulo :data:`PERIOD`, and rise along the legs.
    micro_batches
        At least 1.
    steady
        Whether the steady state stays as it is repeated; otherwise its passes move too.
    """
    grid = repeated(block, micro_batches)
    grid.fill_weights()
    grid.move_up(grid.peak(), steady)
    grid.squeeze()
    grid.move_up_before_weights(steady)
    grid.fill_weights()
    grid.squeeze()
    return grid.orders()


def repeated(block: Block, micro_batches: int) -> SlotGrid:
    """Return the block once per micro-batch, without weight gradients."""
    batches = range(micro_batches)
    return SlotGrid([[[slot + PERIOD * j for j in batches] for slot in legs] for legs in block])


class SlotGrid:
    """Slots of all passes: ``legs[device][leg][micro-batch]``, and those of W per device."""

    def __init__(self, legs: list[list[list[int]]]) -> None:
        self.legs = legs
        self.weights: list[list[int]] = [[] for _ in legs]

    def fill_weights(self) -> None:
        """Put each weight gradient into the first idle slot after its input gradient."""
        for device, rows in enumerate(self.legs):
            pending = 0
            slots: list[int] = []
            for slot, leg in enumerate(_timeline(rows)):
                if leg is None and pending:
                    slots.append(slot)
                    pending -= 1
                pending += leg is not None and leg not in _FORWARDS
            end = rows[3][-1] + 1
            self.weights[device] = slots + list(range(end, end + pending))

    def orders(self) -> Orders:
        """Return the order of each device; in idle slots weight gradients of leg 2 go first."""
        orders: Orders = []
        for rows in self.legs:
            order: list[int] = []
            pending = [0, 0]

            def weight(order: list[int] = order, pending: list[int] = pending) -> None:
                which = 0 if pending[0] else 1
                if pending[which]:
                    pending[which] -= 1
                    order.append(WEIGHT + which)

            for leg in _timeline(rows):
                if leg is None:
                    weight()
                    continue
                order.append(leg)
                if leg not in _FORWARDS:
                    pending[leg - 2] += 1
            while any(pending):
                weight()
            orders.append(order)
        return orders

    def held(self, device: int) -> list[int]:
        """Return the stage activations on a device in each slot, from F to W."""
        rows = self.legs[device]
        steps = [0] * (1 + max(rows[3][-1], self.weights[device][-1]))
        for slot in (*rows[0], *rows[1]):
            steps[slot] += 1
        for slot in self.weights[device]:
            steps[slot] -= 1
        return list(accumulate(steps))

    def peak(self) -> int:
        """Return the largest number of stage activations on any device."""
        return max(max(self.held(device)) for device in range(len(self.legs)))

    def waits_for(self, device: int, leg: int, batch: int) -> int:
        """Return the slot of the last pass that this one waits for; -1 for none."""
        rows = self.legs[device]
        if leg == WEIGHT:
            return sorted(rows[2] + rows[3])[batch]
        last = rows[leg][batch - 1] if batch else -1
        before = device + 1 if leg % 2 else device - 1
        if 0 <= before < len(self.legs):
            last = max(last, self.legs[before][leg][batch])
        elif leg:
            last = max(last, rows[leg - 1][batch])
        return last

    def passes(self, weights: bool) -> list[tuple[int, int, int, int]]:
        """Return (slot, device, leg, micro-batch) in slot order."""
        return sorted(
            (slot, device, leg, batch)
            for device, rows in enumerate(self.legs)
            for leg, row in enumerate([*rows, self.weights[device]] if weights else rows)
            for batch, slot in enumerate(row)
        )

    def squeeze(self) -> None:
        """Start every pass as early as the order of its device allows."""
        last = [-1] * len(self.legs)
        for _, device, leg, batch in self.passes(weights=True):
            row = self.weights[device] if leg == WEIGHT else self.legs[device][leg]
            waits = -1 if leg == WEIGHT else self.waits_for(device, leg, batch)
            row[batch] = last[device] = 1 + max(last[device], waits)

    def move_up(self, cap: int, steady: bool) -> None:
        """Move passes to earlier idle slots of their device.

        The steady state stays if ``steady``; it lasts from the first leg 3 to the last leg 0 of
        device 0. No device may hold more than ``cap`` activations.
        """
        devices = range(len(self.legs))
        books: list[_MemoryBook] = [_WeightsPlaced(self.held(device), cap) for device in devices]
        first = (self.legs[0][3][0], 0, 3, 0)
        last = self.last_entry
        for entry in self.passes(weights=True):
            self.offer(entry, books, not steady or entry < first or entry > last)

    def move_up_before_weights(self, steady: bool) -> None:
        """Move passes of the end up as if weight gradients were not yet placed.

        Weight gradients fill the first idle slots, and no device may hold more than now.
        """
        books: list[_MemoryBook] = [_WeightsFloating(_timeline(rows)) for rows in self.legs]
        cap = max(book.peak for book in books if isinstance(book, _WeightsFloating))
        for book in books:
            book.cap = cap
        last = self.last_entry
        for entry in self.passes(weights=False):
            self.offer(entry, books, not steady or entry > last)

    @property
    def last_entry(self) -> tuple[int, int, int, int]:
        """Return the last pass that enters the pipeline."""
        row = self.legs[0][0]
        return (row[-1], 0, 0, len(row) - 1)

    def offer(
        self, entry: tuple[int, int, int, int], books: Sequence[_MemoryBook], moves: bool
    ) -> None:
        """Give a pass its first idle slot that memory admits, if it moves; mark it as busy."""
        slot, device, leg, batch = entry
        book = books[device]
        if moves:
            begin = 1 + self.waits_for(device, leg, batch)
            if leg == WEIGHT and batch:
                begin = max(begin, 1 + self.weights[device][batch - 1])
            for target in range(begin, slot):
                if target not in book.busy and book.allows(leg, slot, target):
                    book.move(leg, slot, target)
                    slot = target
                    break
            row = self.weights[device] if leg == WEIGHT else self.legs[device][leg]
            row[batch] = slot
        book.busy.add(slot)


class _MemoryBook(Protocol):
    """Activations on a device, and its busy slots."""

    busy: set[int]
    cap: int

    def allows(self, leg: int, slot: int, target: int) -> bool:
        """Return whether a pass may move up without breaking the cap."""
        ...

    def move(self, leg: int, slot: int, target: int) -> None:
        """Move a pass."""
        ...


class _WeightsPlaced:
    """Memory of a device whose weight gradients have slots."""

    def __init__(self, held: list[int], cap: int) -> None:
        self.held, self.cap = held, cap
        self.busy: set[int] = set()

    def allows(self, leg: int, slot: int, target: int) -> bool:
        return leg not in _FORWARDS or max(self.held[target:slot]) < self.cap

    def move(self, leg: int, slot: int, target: int) -> None:
        change = 1 if leg in _FORWARDS else -1 if leg == WEIGHT else 0
        for at in range(target, slot):
            self.held[at] += change


class _WeightsFloating:
    """Memory of a device whose weight gradients run in the first idle slots."""

    def __init__(self, timeline: list[int | None]) -> None:
        self.timeline = timeline
        self.busy: set[int] = set()
        self.cap = 0
        self.states = list(self.run(0, (0, 0)))
        self.peak = max(held for held, _ in self.states)

    def run(self, begin: int, state: tuple[int, int]) -> list[tuple[int, int]]:
        """Return (activations, pending weight gradients) after each slot from ``begin`` on."""
        held, pending = state
        states = []
        for leg in self.timeline[begin:]:
            if leg is None:
                if pending:
                    held, pending = held - 1, pending - 1
            elif leg in _FORWARDS:
                held += 1
            else:
                pending += 1
            states.append((held, pending))
        return states

    def allows(self, leg: int, slot: int, target: int) -> bool:  # noqa: ARG002
        self.swap(slot, target)
        before = self.states[target - 1] if target else (0, 0)
        fits = all(held <= self.cap for held, _ in self.run(target, before))
        self.swap(slot, target)
        return fits

    def move(self, leg: int, slot: int, target: int) -> None:  # noqa: ARG002
        self.swap(slot, target)
        before = self.states[target - 1] if target else (0, 0)
        self.states[target:] = self.run(target, before)

    def swap(self, slot: int, target: int) -> None:
        line = self.timeline
        line[slot], line[target] = line[target], line[slot]


def _timeline(rows: list[list[int]]) -> list[int | None]:
    """Return slot -> leg that runs there."""
    timeline: list[int | None] = [None] * (1 + rows[3][-1])
    for leg, row in enumerate(rows):
        for slot in row:
            timeline[slot] = leg
    return timeline
