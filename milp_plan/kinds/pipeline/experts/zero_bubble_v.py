"""ZB-V: a greedy schedule on a V placement that keeps every device busy once it has started."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from itertools import product
from math import lcm

from ..shop import Shop
from ..timing import Words
from .lines import Layout, placed_layout

_DOWN, _UP = (0, 2), (1, 3)
"""Legs of a micro-batch: forward down (0) and up (1) the V, backward down (2) and up (3)."""


class Stuck(Exception):
    """No device can go on: the rules or orders lead to a deadlock."""


def zb_v_words(shop: Shop) -> Words | None:
    """ZB-V: 1F1B's memory, no idle time on a device between its first and last pass.

    Device 0 first runs forwards down the V until the first micro-batch is back, as many as
    p activations of a device's share allow; all devices then take turns of one input gradient
    and one forward. A weight gradient fills a gap where it fits, where memory demands it, and
    where the wait is longer than the idle time that the worst device has anyway. Four variants
    of the last rule are tried, each again with the idle times that it led to, and the one with
    the shortest span is taken.

    Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 6, and
    repository sail-sg/zero-bubble-pipeline-parallelism; rules restated. With F = B = W of equal
    stages, free transfers and m ≥ 2p the span has no bubble, the makespan is (p−1)F/2 longer
    (F of a device's share), and device 0 holds the activations of p micro-batches.
    """
    layout = placed_layout(shop, "v", split=True)
    if layout is None:
        return None
    best: Board | None = None
    for fill_backward, fill_forward in product((True, False), repeat=2):
        board = _settled(layout, fill_forward, fill_backward)
        if board is not None and (best is None or board.bubble < best.bubble):
            best = board
            if not board.filled:  # the variants of the last rule do the same
                break
    return None if best is None else layout.words(best.rows)


def _settled(layout: Layout, fill_forward: bool, fill_backward: bool) -> Board | None:
    """Repeat with the idle times of the previous run, as long as the longest gets shorter."""
    best: Board | None = None
    idle: list[int] | None = None
    while True:
        board = Board(layout, fill_forward, fill_backward, idle)
        try:
            board.run()
        except Stuck:
            return best
        if best is not None and board.bubble >= best.bubble:
            return best
        if not board.filled:
            return board
        best, idle = board, board.idle


class Board:
    """Passes placed one after the other, each as early as its inputs and memory allow."""

    def __init__(
        self, layout: Layout, fill_forward: bool, fill_backward: bool, idle: list[int] | None
    ) -> None:
        p, row = layout.devices, layout.cells[0]
        self.fill_forward, self.fill_backward = fill_forward, fill_backward
        self.layout, self.devices, self.batches = layout, p, layout.counts[0]
        self.kinds: list[tuple[int, int, int, int]] = []
        self.weight_of: dict[int, int] = {}
        for device in range(p):
            down, up = row[device], row[2 * p - 1 - device]
            self.kinds.append((down.forward, up.forward, up.backward, down.backward))
            assert up.weight is not None
            assert down.weight is not None
            self.weight_of[up.backward], self.weight_of[down.backward] = up.weight, down.weight
        self.change, self.unit = self.memory()
        self.cap = 2 * p * self.unit
        self.stops: dict[int, list[int]] = {k: [] for k in self.change}
        self.own = [[self.stops[kind] for kind in kinds] for kinds in self.kinds]
        self.inputs = [[self.input(device, leg) for leg in range(4)] for device in range(p)]
        self.rows: list[list[int]] = [[] for _ in range(p)]
        self.clock = [0] * p
        self.held = [0] * p
        self.idle = [0] * p
        self.bubble = 0
        """Longest idle time of a device after its first forward."""
        self.pending: list[deque[int]] = [deque() for _ in range(p)]
        self.filled = False
        """Whether the last rule applied, so that its variants and idle times matter."""
        known = idle or [0] * p
        self.slack = [max(known) - entry for entry in known]

    def memory(self) -> tuple[dict[int, int], int]:
        """Return the change of memory by each kind, and the memory of a forward.

        Both count in parts of a stage's activation, whatever the bytes of the stage.
        """
        every = self.layout.shop.kinds
        parts: dict[int, Fraction] = {}
        for forward, backward in ((k[i], k[3 - i]) for k in self.kinds for i in (0, 1)):
            net = every[forward].alloc - every[forward].free
            freed = every[backward].free - every[backward].alloc
            early = min(Fraction(max(freed, 0), max(net, 1)), Fraction(1))
            parts[forward], parts[backward] = Fraction(1), -early
            parts[self.weight_of[backward]] = early - 1
        scale = lcm(*(part.denominator for part in parts.values()))
        return {kind: int(part * scale) for kind, part in parts.items()}, scale

    # -- state -------------------------------------------------------------------------------

    def input(self, device: int, leg: int) -> tuple[list[int], int]:
        """Return when a leg stops on the device before, and the lag from there."""
        if self.enters(device, leg):
            return [], 0
        other = device - 1 if leg in _DOWN else device + 1
        a, b = self.kinds[other][leg], self.kinds[device][leg]
        return self.stops[a], self.layout.lags[a, b]

    def count(self, device: int, leg: int) -> int:
        """Return how many micro-batches have run a leg on a device."""
        return len(self.own[device][leg])

    def arrival(self, device: int, leg: int) -> int | None:
        """Return when the next input of a leg comes from the device before; ``None`` if unknown."""
        stops, lag = self.inputs[device][leg]
        number = len(self.own[device][leg])
        return stops[number] + lag if number < len(stops) else None

    def enters(self, device: int, leg: int) -> bool:
        """Return whether a leg begins on this device, after the leg before."""
        return device == (0 if leg in _DOWN else self.devices - 1)

    def ready(self, device: int, leg: int) -> bool:
        """Return whether there is a next micro-batch whose inputs are all placed."""
        number = self.count(device, leg)
        if number >= self.batches or (leg and number >= self.count(device, leg - 1)):
            return False
        return self.enters(device, leg) or self.arrival(device, leg) is not None

    def fits(self, device: int, leg: int) -> bool:
        """Return whether memory suffices."""
        return self.held[device] + self.change[self.kinds[device][leg]] <= self.cap

    # -- moves -------------------------------------------------------------------------------

    def put(self, device: int, leg: int) -> None:
        """Run the next micro-batch of a leg."""
        kind = self.kinds[device][leg]
        start = self.clock[device]
        if not self.enters(device, leg):
            start = max(start, self.arrival(device, leg) or 0)
        if self.count(device, 0):
            self.idle[device] += start - self.clock[device]
            self.bubble = max(self.bubble, self.idle[device])
        self.append(device, kind, start)
        if kind in self.weight_of:
            self.pending[device].append(self.weight_of[kind])

    def put_weight(self, device: int) -> None:
        """Run the oldest weight gradient."""
        if not self.pending[device]:
            raise Stuck
        self.append(device, self.pending[device].popleft(), self.clock[device])

    def append(self, device: int, kind: int, start: int) -> None:
        """Note a kind at the end of a device's row."""
        self.rows[device].append(kind)
        self.clock[device] = start + self.layout.shop.kinds[kind].duration
        self.stops[kind].append(self.clock[device])
        self.held[device] += self.change[kind]

    def put_filled(self, device: int, leg: int, fill: bool) -> None:
        """Run the next micro-batch of a leg; weight gradients go first where that costs nothing."""
        while not self.fits(device, leg):
            self.put_weight(device)
        if not self.enters(device, leg):
            arrival = self.arrival(device, leg)
            assert arrival is not None
            while self.pending[device] and arrival >= self.clock[device] + self.next_weight(device):
                self.put_weight(device)
            idle = self.idle[device] + arrival - self.clock[device]
            if self.pending[device] and idle > self.bubble:
                self.filled = True
                if fill and idle > self.slack[device]:
                    self.put_weight(device)
        self.put(device, leg)

    def next_weight(self, device: int) -> int:
        """Return the ticks of the oldest weight gradient."""
        return self.layout.shop.kinds[self.pending[device][0]].duration

    # -- phases ------------------------------------------------------------------------------

    def run(self) -> None:
        """Place all passes.

        Raises
        ------
        Stuck
            The rules lead nowhere.
        """
        self.warm_up()
        self.even_out()
        while any(len(self.stops[kind]) < self.batches for kind in self.weight_of):
            if not self.backwards() + self.forwards():
                raise Stuck
        self.finish()

    def follow(self, orders: list[list[int]], fill: bool) -> None:
        """Place legs in the order of each device; weight gradients go where they fit.

        Raises
        ------
        Stuck
            The orders wait for each other, or memory does not suffice.
        """
        at = [0] * self.devices
        moved = True
        while moved:
            moved = False
            for device, order in enumerate(orders):
                while at[device] < len(order) and self.ready(device, order[at[device]]):
                    self.put_filled(device, order[at[device]], fill)
                    at[device] += 1
                    moved = True
        if any(done < len(order) for done, order in zip(at, orders, strict=True)):
            raise Stuck
        self.finish()

    def finish(self) -> None:
        """Run the weight gradients that are left."""
        for device in range(self.devices):
            while self.pending[device]:
                self.put_weight(device)

    def warm_up(self) -> None:
        """Run the first micro-batch forward; before it returns, others go down the V."""
        for device in range(self.devices):
            self.put(device, 0)
        for device in reversed(range(self.devices)):
            if device < self.devices - 1:
                self.send_down(device)
            self.put(device, 1)

    def send_down(self, last: int) -> None:
        """Run forwards on devices up to ``last`` while the first micro-batch is away."""
        arrival = self.arrival(last, 1)
        assert arrival is not None
        forward = self.kinds[last][0]
        ticks = self.layout.shop.kinds[forward].duration
        room = self.change[forward] * (2 + 2 * last)
        while (
            self.held[last] + room <= self.cap
            and self.clock[last] + ticks <= arrival
            and self.count(0, 0) < self.batches
            and all(self.fits(device, 0) for device in range(last + 1))
        ):
            for device in range(last + 1):
                self.put(device, 0)

    def even_out(self) -> None:
        """Run forwards on later devices, in turns, until they have as many as the one before."""
        leg = 0
        for device in range(1, self.devices):
            while self.behind(device):
                before = len(self.rows[device])
                for _ in range(2):
                    for other in reversed(range(device, self.devices)):
                        if self.ready(other, leg) and self.fits(other, leg):
                            self.put(other, leg)
                    leg = 1 - leg
                    if not self.behind(device):
                        break
                if len(self.rows[device]) == before:
                    break

    def behind(self, device: int) -> bool:
        """Return whether a device has run fewer forwards than the one before it."""
        here, there = (self.count(d, 0) + self.count(d, 1) for d in (device, device - 1))
        ups = self.count(device - 1, 1)
        return here < there or self.count(device, 1) <= ups < self.batches

    def backwards(self) -> int:
        """Run one input gradient per device, those up the V first; return their number."""
        legs = [self.backward_leg(device) for device in range(self.devices)]
        up = [device for device in reversed(range(self.devices)) if legs[device] == 3]
        down = [device for device in range(self.devices) if legs[device] == 2]
        done = 0
        for device in up + down:
            leg = legs[device]
            if self.ready(device, leg):
                self.put_filled(device, leg, leg == 3 or self.fill_backward)
                done += 1
        return done

    def backward_leg(self, device: int) -> int:
        """Return the leg that is next."""
        if self.count(device, 3) >= self.count(device, 2):
            return 2
        if self.enters(device, 3) or self.count(device, 2) >= self.batches:
            return 3
        return 3 if self.arrival(device, 3) is not None else 2

    def forwards(self) -> int:
        """Run one forward per device, up the V where there is one; return their number."""
        done = 0
        for device in range(self.devices):
            leg = next((leg for leg in (1, 0) if self.ready(device, leg)), None)
            if leg is not None and (self.fits(device, leg) or self.pending[device]):
                self.put_filled(device, leg, self.fill_forward)
                done += 1
        return done
