"""Completes words of devices with words of channels, where transfers hold channels."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ..shop import Shop
from ..timing import Deadlock, Words


def with_channels(shop: Shop, words: Sequence[Sequence[int]]) -> Words:
    """Complete the words of devices: each channel serves transfers first come, first served.

    Parameters
    ----------
    shop
        The shop.
    words
        A word per machine; those of channels are replaced. Without channels they stay as they
        are.

    Raises
    ------
    Deadlock
        The words of devices wait for each other in a circle.
    """
    if len(shop.machines) == shop.num_devices:
        return words
    return _Replay(shop, words).run()


class _Replay:
    """An event simulation: tasks stop in time order, so channels get requests in time order."""

    def __init__(self, shop: Shop, words: Sequence[Sequence[int]]) -> None:
        self.shop = shop
        self.words = [list(word) for word in words]
        for channel in range(shop.num_devices, len(words)):
            self.words[channel] = []
        self.done = [0] * len(shop.kinds)  # micro-batches that are complete, in order
        self.stops: list[list[int]] = [[] for _ in shop.kinds]
        self.started = [0] * len(shop.kinds)
        self.free = [0] * len(words)
        self.cursor = [0] * len(words)
        self.queues: list[list[tuple[int, int, int]]] = [[] for _ in words]
        self.events: list[tuple[int, int, int]] = []  # (stop, machine, kind)
        self.requests = 0

    def run(self) -> Words:
        machines = range(len(self.words))
        for machine in machines:
            self.device(machine, 0)
        while self.events:
            now = self.events[0][0]
            touched: set[int] = set()
            while self.events and self.events[0][0] == now:
                _, machine, kind = heapq.heappop(self.events)
                self.done[kind] += 1
                touched |= {machine} | self.release(kind, now)
            for machine in sorted(touched):
                if machine < self.shop.num_devices:
                    self.device(machine, now)
                else:
                    self.channel(machine, now)
        for entry, row in zip(self.shop.kinds, self.started, strict=True):
            if row != entry.count:
                raise Deadlock(f"{entry.name} runs {row} of {entry.count} times")
        return self.words

    def release(self, kind: int, now: int) -> set[int]:
        """Queue the transfers that waited for a task; return machines that may go on."""
        touched = set()
        for after, _ in self.shop.after[kind]:
            machine = self.shop.kinds[after].machine
            touched.add(machine)
            if machine >= self.shop.num_devices:
                self.requests += 1
                heapq.heappush(self.queues[machine], (now, self.requests, after))
        return touched

    def start(self, machine: int, kind: int, begin: int) -> None:
        stop = begin + self.shop.kinds[kind].duration
        self.stops[kind].append(stop)
        self.started[kind] += 1
        self.free[machine] = stop
        heapq.heappush(self.events, (stop, machine, kind))

    def device(self, machine: int, now: int) -> None:
        """Start the next tasks of a word, as long as the times of all they wait for are known."""
        if machine >= self.shop.num_devices:
            return
        word = self.words[machine]
        while self.cursor[machine] < len(word):
            kind = word[self.cursor[machine]]
            number = self.started[kind]
            begin = max(self.free[machine], now)
            for a, lag in self.shop.before[kind]:
                if self.done[a] <= number:
                    return
                begin = max(begin, self.stops[a][number] + lag)
            self.start(machine, kind, begin)
            self.cursor[machine] += 1

    def channel(self, machine: int, now: int) -> None:
        """Start the transfer that was requested first, once the channel is free."""
        if self.queues[machine] and self.free[machine] <= now:
            _, _, kind = heapq.heappop(self.queues[machine])
            self.words[machine].append(kind)
            self.start(machine, kind, now)
