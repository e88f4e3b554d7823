"""The automatic zero-bubble schedule: a greedy that places one micro-batch after another.

Source: Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", arXiv 2401.10241, section 3.1 (the
heuristic), with the choices of the authors' public scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..shop import Kind, Shop
from ..timing import Words, times, value_of
from .lines import Layout, placed_layout

_F, _B, _W = range(3)


@dataclass(frozen=True, slots=True)
class Flags:
    """Open choices of the greedy; the best of all eight settings counts.

    Parameters
    ----------
    punctual
        No warm-up forward may delay a device's first B. Otherwise forwards go on until it is due.
    hold_back
        A forward waits where the next device is two ahead and B would have to wait for it.
    filling
        W fills a gap too short for it even where the device still has fewer bubbles than others.
    """

    punctual: bool
    hold_back: bool
    filling: bool


class _Full(Exception):
    """Memory does not suffice for the next task, whatever W runs before it."""


class _Stage:
    """A device while its schedule is built.

    ``left`` are the bytes that F, B and W leave behind (negative where they release some);
    ``needs`` the bytes that must be free before they start, so that all that runs can be finished:
    a forward leaves room for its B, and B for its W.
    """

    __slots__ = ("bubble", "held", "left", "limit", "needs", "now", "ran", "row", "stops", "ticks")

    def __init__(self, kinds: Sequence[Kind], limit: int | None) -> None:
        self.row: list[int] = []
        self.ticks = [kind.duration for kind in kinds]
        self.limit = limit
        self.ran = [0, 0, 0]  # F, B, W that ran
        self.stops: list[list[int]] = [[], [], []]
        self.held = self.now = self.bubble = 0
        forward, backward, weight = (kind.alloc for kind in kinds)
        self.left = [kind.alloc - kind.free for kind in kinds]
        backward = max(backward, self.left[_B] + weight)
        forward = max(forward, self.left[_F] + max(backward, weight))
        self.needs = [forward, backward, weight]

    @property
    def pending(self) -> int:
        """Number of W that could run now."""
        return self.ran[_B] - self.ran[_W]

    def fits(self, role: int, held: int | None = None) -> bool:
        held = self.held if held is None else held
        return self.limit is None or held + self.needs[role] <= self.limit


class _Greedy:
    """Schedules all devices, micro-batch after micro-batch; runs W early enough for memory."""

    def __init__(self, layout: Layout, limits: Sequence[int | None], flags: Flags) -> None:
        self.flags = flags
        self.count = layout.counts[0]
        self.cells = layout.cells[0]
        kinds = layout.shop.kinds
        self.stages = []
        for cell, limit in zip(self.cells, limits, strict=True):
            assert cell.weight is not None
            triple = [kinds[cell.forward], kinds[cell.backward], kinds[cell.weight]]
            self.stages.append(_Stage(_counted(triple), limit))
        pairs = list(zip(self.cells, self.cells[1:], strict=False))
        self.down = [0] + [layout.lags[a.forward, b.forward] for a, b in pairs]
        self.up = [layout.lags[b.backward, a.backward] for a, b in pairs] + [0]
        self.worst = 0  # bubbles of the device with most

    def run(self) -> list[list[int]]:
        """Return the rows of F, B, W by device.

        Raises
        ------
        _Full
            A memory limit cannot be met this way.
        """
        devices = range(len(self.stages))
        self.warm_up()
        for _ in range(1, self.count):
            chosen = [self.admits(device) for device in devices]
            for device in reversed(devices[:-1]):
                chosen[device] = chosen[device] and chosen[device + 1]
            for device in devices:
                if chosen[device]:
                    self.forward(device)
            for device in reversed(devices):
                self.backward(device)
        for device in devices:
            self.weights(device, self.stages[device].pending)
        names = [(cell.forward, cell.backward, cell.weight) for cell in self.cells]
        return [
            [triple[role] for role in stage.row]  # type: ignore[misc]
            for stage, triple in zip(self.stages, names, strict=True)
        ]

    # -- single tasks --------------------------------------------------------------------------

    def arrival(self, device: int, role: int) -> int:
        """Return when the input of the next F or B of a device arrives."""
        number = self.stages[device].ran[role]
        if role == _F and device > 0:
            return self.stages[device - 1].stops[_F][number] + self.down[device]
        if role == _B and device < len(self.stages) - 1:
            return self.stages[device + 1].stops[_B][number] + self.up[device]
        return 0

    def put(self, device: int, role: int) -> None:
        stage = self.stages[device]
        begin = max(stage.now, self.arrival(device, role) if role != _W else 0)
        if stage.ran[_F]:
            stage.bubble += begin - stage.now
            self.worst = max(self.worst, stage.bubble)
        stage.now = begin + stage.ticks[role]
        stage.stops[role].append(stage.now)
        stage.held += stage.left[role]
        stage.ran[role] += 1
        stage.row.append(role)

    def weights(self, device: int, number: int) -> None:
        for _ in range(number):
            self.put(device, _W)

    def make_room(self, device: int, role: int) -> None:
        """Run W until the next task fits into memory."""
        stage = self.stages[device]
        while not stage.fits(role):
            if not stage.pending:
                raise _Full
            self.put(device, _W)

    def fill(self, device: int, until: int) -> None:
        """Run W in the gap before ``until``; one that is too long only if it seems worth it."""
        stage = self.stages[device]
        while stage.pending and stage.now + stage.ticks[_W] <= until:
            self.put(device, _W)
        gap = until - stage.now
        if stage.pending and gap > 0 and (self.flags.filling or gap > self.worst - stage.bubble):
            self.put(device, _W)

    # -- one micro-batch -----------------------------------------------------------------------

    def warm_up(self) -> None:
        """First micro-batch, with the forwards each device runs ahead before its first B."""
        devices = range(len(self.stages))
        for device in devices:
            self.make_room(device, _F)
            self.put(device, _F)
        ahead = self.ahead()
        for device in devices:
            for _ in range(ahead[device]):
                self.put(device, _F)
        for device in reversed(devices):
            self.make_room(device, _B)
            self.put(device, _B)

    def ahead(self) -> list[int]:
        """Return how many forwards fit between a device's first forward and its first backward.

        Each device runs fewer than the one before, unless it runs all there are.
        """
        ahead = [0] * len(self.stages)
        back = self.stages[-1].now + self.stages[-1].ticks[_B]  # when the first B is done
        for device in reversed(range(len(self.stages) - 1)):
            stage = self.stages[device]
            due = back + self.up[device]
            held, now = stage.held, stage.now
            while 1 + ahead[device] < self.count and stage.fits(_F, held):
                if now + stage.ticks[_F] > due if self.flags.punctual else now >= due:
                    break
                held += stage.left[_F]
                now += stage.ticks[_F]
                ahead[device] += 1
            back = max(now, due) + stage.ticks[_B]
        for device in range(1, len(ahead)):
            if 1 + min(ahead[device - 1 : device + 1]) < self.count:
                ahead[device] = max(0, min(ahead[device], ahead[device - 1] - 1))
        return ahead

    def admits(self, device: int) -> bool:
        """Return whether a device runs a forward before the next B."""
        stage = self.stages[device]
        if stage.ran[_F] >= self.count:
            return False
        if not self.flags.hold_back or device == len(self.stages) - 1:
            return True
        after = self.stages[device + 1]
        if stage.ran[_F] < after.ran[_F] + 2:
            return True
        due = after.now + after.ticks[_F] + after.ticks[_B] + self.up[device]
        if stage.now >= due:
            return False
        held, room = stage.held, 0
        for _ in range(stage.pending):
            if stage.fits(_F, held):
                break
            held += stage.left[_W]
            room += stage.ticks[_W]
        if stage.now + room + stage.ticks[_F] <= due:
            return True
        return due - stage.now > self.worst - stage.bubble

    def forward(self, device: int) -> None:
        self.make_room(device, _F)
        if device > 0:
            self.fill(device, self.arrival(device, _F))
        self.put(device, _F)

    def backward(self, device: int) -> None:
        stage = self.stages[device]
        self.make_room(device, _B)
        if device < len(self.stages) - 1:
            self.fill(device, self.arrival(device, _B))
        if device == 0 and stage.ran[_F] == self.count:
            self.weights(device, stage.pending)  # no device waits for its B any more
        self.put(device, _B)


def zb_auto_words(shop: Shop) -> Words | None:
    """Automatic zero-bubble schedule under the problem's memory limits; best of eight settings.

    Source: arXiv 2401.10241, section 3.1. It minimises the problem's objective; the authors
    minimise the longest span.
    """
    layout = placed_layout(shop, "line", split=True)
    if layout is None:
        return None
    limits = []
    for cell, machine in zip(layout.cells[0], layout.machines, strict=True):
        counts = _activation([shop.kinds[kind] for kind in (cell.forward, *cell.both)])
        limits.append(shop.limits[machine] if counts else None)
    return _best(layout, limits)


def zb_1p_words(shop: Shop) -> Words | None:
    """ZB-1p: the automatic zero-bubble schedule with the memory of p activations per device.

    Source: arXiv 2401.10241, section 5. It has the peak memory of 1F1B.
    """
    return _times_p(shop, 1)


def zb_2p_words(shop: Shop) -> Words | None:
    """ZB-2p: the automatic zero-bubble schedule with the memory of 2p activations per device.

    Source: arXiv 2401.10241, section 5.
    """
    return _times_p(shop, 2)


def _times_p(shop: Shop, factor: int) -> Words | None:
    layout = placed_layout(shop, "line", split=True)
    if layout is None:
        return None
    limits = []
    for cell in layout.cells[0]:
        kinds = _counted([shop.kinds[kind] for kind in (cell.forward, *cell.both)])
        limits.append(factor * layout.devices * _activation(kinds))
    return _best(layout, limits)


def _counted(kinds: Sequence[Kind]) -> list[Kind]:
    """Return F, B and W; activations without bytes count as one, from F to W."""
    forward, backward, weight = kinds
    if _activation(kinds):
        return [forward, backward, weight]
    return [replace(forward, alloc=1), backward, replace(weight, free=1)]


def _activation(kinds: Sequence[Kind]) -> int:
    """Return the most bytes that one micro-batch alone holds on its device."""
    held = most = 0
    for kind in kinds:
        held += kind.alloc
        most = max(most, held)
        held -= kind.free
    return most


def _best(layout: Layout, limits: Sequence[int | None]) -> Words | None:
    """Return the words of the best setting, the first among equals."""
    candidates: list[tuple[int, Words]] = []
    for setting in product([True, False], repeat=3):
        try:
            words = layout.words(_Greedy(layout, limits, Flags(*setting)).run())
        except _Full:
            continue
        candidates.append((value_of(layout.shop, times(layout.shop, words)), words))
    return min(candidates, key=lambda entry: entry[0])[1] if candidates else None
