"""Schedules of given modes and priorities by events: no device waits while it could work.

Memory is counted as the schedule is made: what would not fit yet waits, so that a schedule that is
returned fits at every instant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from reader import Copy, Instance, Mode, Plan

Priorities = Sequence[float]
"""The larger, the earlier."""

RUN, SEND = 0, 1


class Dispatcher:
    """One schedule under construction; see :func:`dispatch`."""

    def __init__(
        self,
        instance: Instance,
        modes: list[Mode],
        priorities: Priorities,
        cutoff: int | None,
        window: int | None,
    ) -> None:
        self.instance, self.modes = instance, modes
        self.priorities, self.cutoff, self.window = priorities, cutoff, window
        self.left = Counter(operator.micro_batch for operator in instance.operators)
        self.held: dict[int, list[int]] = defaultdict(list)
        self.sites = [instance.sites[mode.site] for mode in modes]
        self.starts = [0] * len(modes)
        self.sends: dict[Copy, int] = {}
        self.now = 0
        self.events: list[tuple[int, int, Any]] = []
        self.queues: list[list[tuple[float, int]]] = [[] for _ in instance.devices]
        self.busy = [False] * len(instance.devices)
        self.holders: set[Any] = set()
        self.limits = [float("inf") if room is None else room for room in instance.rooms]
        self.tight = instance.may_bind
        self.late = False

    def run(self) -> Plan | None:
        """Return the schedule, or ``None``: no transfer for a reader, no room, or too long."""
        supplies = self.instance.supplies(self.modes)
        if supplies is None or not self._lay_persistent():
            return None
        self._count_users(supplies)
        for number, missing in enumerate(self.missing):
            if not missing:
                self._offer(number)
        self.waiting: list[tuple[float, int, Copy]] = []
        done = 0
        while True:
            self._start_runs()
            self._start_sends()
            if self.late:
                return None
            if not self.events:
                break
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, kind, what = heappop(self.events)
                if kind == RUN:
                    done += 1
                    self._stop_run(what)
                else:
                    self._stop_send(what)
        if done < len(self.modes):
            return None  # nothing fits any more
        return Plan(self.modes, self.starts, self.sends)

    def _lay_persistent(self) -> bool:
        self.used = [0] * len(self.limits)
        laid: set[tuple[int, str, int]] = set()
        for value in self.instance.persistent:
            for reader in value.readers:
                layout = self.instance.reads(reader, self.modes[reader], value)
                for device in self.sites[reader]:
                    if (value.number, layout, device) not in laid:
                        laid.add((value.number, layout, device))
                        self.used[device] += value.size[layout]
        return all(used <= limit for used, limit in zip(self.used, self.limits, strict=True))

    def _count_users(self, supplies: dict[Copy, Any]) -> None:
        """What each operator waits for, and how many uses keep each copy."""
        instance, modes = self.instance, self.modes
        self.supplies = supplies
        self.missing = [0] * len(modes)
        self.native_users: dict[tuple[int, int], int] = defaultdict(int)
        self.native_readers: dict[int, list[int]] = defaultdict(list)
        self.reads_native: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.reads_copy: dict[int, list[Copy]] = defaultdict(list)
        self.copies_of: dict[int, list[Copy]] = defaultdict(list)
        self.copy_users: dict[Copy, int] = {}
        for copy, (one, readers) in supplies.items():
            self.copies_of[copy.value].append(copy)
            self.copy_users[copy] = len(readers)
            for device in one.source:
                self.native_users[copy.value, device] += 1
            for reader in readers:
                self.missing[reader] += 1
                self.reads_copy[reader].append(copy)
        for value in instance.made:
            made = self.sites[value.producer]
            for device in made if value.kept else ():
                self.native_users[value.number, device] += 1  # the end of the plan
            for reader in value.readers:
                needed = instance.needs(value, modes[value.producer], reader, modes[reader])
                by_send = {device for one in needed or () for device in one.target}
                self.missing[reader] += 1  # the value itself, made
                self.native_readers[value.number].append(reader)
                if needed and len(needed[0].target) > 1:
                    continue  # a change of layout: nothing is read where it was made
                for device in self.sites[reader]:
                    if device in made and device not in by_send:
                        self.native_users[value.number, device] += 1
                        self.reads_native[reader].append((value.number, device))

    def _offer(self, number: int) -> None:
        batch = self.instance.operators[number].micro_batch
        if self.window is not None and batch >= self.window and self.left[batch - self.window]:
            self.held[batch].append(number)
            return
        for device in self.sites[number]:
            heappush(self.queues[device], (-self.priorities[number], number))

    def _fits(self, site: Sequence[int], size: int) -> bool:
        return all(self.used[d] + size <= self.limits[d] for d in site)

    def _hold(self, site: Sequence[int], size: int) -> None:
        for device in site:
            self.used[device] += size

    # -- operators --------------------------------------------------------------------------------

    def _needed(self, number: int) -> int:
        """Bytes of what an operator makes, and of its workspace."""
        instance, mode = self.instance, self.modes[number]
        operator = instance.operators[number]
        values = (instance.made[place] for place in operator.makes)
        made = sum(value.size[instance.writes(number, mode, value)] for value in values)
        return made + operator.workspace(mode)

    def _start_runs(self) -> None:
        again = True
        while again:
            again = False
            for device, queue in enumerate(self.queues):
                if not self.busy[device] and queue:
                    again |= self._start_first(queue)

    def _start_first(self, queue: list[tuple[float, int]]) -> bool:
        """Start the first in a queue that can; gangs wait for all of their devices."""
        passed, started = [], False
        while queue and not started:
            entry = heappop(queue)
            number = entry[1]
            site = self.sites[number]
            size = self._needed(number)
            if any(self.busy[d] for d in site):
                passed.append(entry)
                break  # its other devices come to it as well: what is first there is first here
            if self.tight and not self._fits(site, size):
                passed.append(entry)
                continue
            started = True
            self._start_run(number, site, size)
        for entry in passed:
            heappush(queue, entry)
        return started

    def _start_run(self, number: int, site: Sequence[int], size: int) -> None:
        for device in site:
            self.busy[device] = True
            own = self.queues[device]
            entry = (-self.priorities[number], number)
            if len(site) > 1 and entry in own:  # taken from one queue, and still in the others
                own.remove(entry)
                own.sort()
        self.starts[number] = self.now
        self._hold(site, size)
        stop = self.now + self.modes[number].length
        self.late |= self.cutoff is not None and stop + self.instance.tails[number] >= self.cutoff
        heappush(self.events, (stop, RUN, number))

    def _stop_run(self, number: int) -> None:
        instance, mode = self.instance, self.modes[number]
        operator, site = instance.operators[number], self.sites[number]
        for device in site:
            self.busy[device] = False
        self._hold(site, -operator.workspace(mode))
        batch = operator.micro_batch
        self.left[batch] -= 1
        if self.window is not None and not self.left[batch]:
            for held in self.held.pop(batch + self.window, ()):
                self._offer(held)
        for place in operator.makes:
            value = instance.made[place]
            size = value.size[instance.writes(number, mode, value)]
            for device in site:
                if not self.native_users[place, device]:
                    self.used[device] -= size
            for copy in self.copies_of[place]:
                readers = self.supplies[copy][1]
                most = max(self.priorities[reader] for reader in readers)
                heappush(self.waiting, (-most, place, copy))
            for reader in self.native_readers[place]:
                self._arrive(reader)
        for place, device in self.reads_native[number]:
            self._release_native(place, device)
        for copy in self.reads_copy[number]:
            self.copy_users[copy] -= 1
            if not self.copy_users[copy]:
                self._hold(copy.target, -instance.made[copy.value].size[copy.layout])

    def _release_native(self, place: int, device: int) -> None:
        self.native_users[place, device] -= 1
        if not self.native_users[place, device]:
            value = self.instance.made[place]
            layout = self.instance.writes(value.producer, self.modes[value.producer], value)
            self.used[device] -= value.size[layout]

    def _arrive(self, reader: int) -> None:
        self.missing[reader] -= 1
        if not self.missing[reader]:
            self._offer(reader)

    # -- transfers --------------------------------------------------------------------------------

    def _start_sends(self) -> None:
        passed = []
        while self.waiting:
            entry = heappop(self.waiting)
            copy = entry[2]
            one = self.supplies[copy][0]
            size = self.instance.made[copy.value].size[copy.layout]
            free = not any(held in self.holders for held in one.held)
            if not free or (self.tight and not self._fits(copy.target, size)):
                passed.append(entry)
                continue
            self.holders.update(one.held)
            self._hold(copy.target, size)
            self.sends[copy] = self.now
            heappush(self.events, (self.now + one.length, SEND, copy))
        self.waiting = sorted(passed)

    def _stop_send(self, copy: Copy) -> None:
        one, readers = self.supplies[copy]
        self.holders.difference_update(one.held)
        for device in one.source:
            self._release_native(copy.value, device)
        for reader in readers:
            self._arrive(reader)


def dispatch(
    instance: Instance,
    modes: list[Mode],
    priorities: Priorities,
    cutoff: int | None = None,
    window: int | None = None,
) -> Plan | None:
    """Return the schedule of modes by priorities, or ``None`` if there is none below the cutoff.

    With a window, no operator of a micro-batch starts before the micro-batch that is ``window``
    earlier is complete; what belongs to no micro-batch is not held back.
    """
    return Dispatcher(instance, modes, priorities, cutoff, window).run()
