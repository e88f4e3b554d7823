"""Start times of the tasks of a layout, and the memory of every device over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import OperatorRun, Plan, PlanningProblem, Transfer

from .layout import Layout, Task

Ints = NDArray[np.int64]


def starts_of(tasks: list[Task]) -> list[int]:
    """Start of each task: as early as its inputs, its device's order and its channels allow.

    Transfers that wait for the same channel or port go by urgency.
    """
    clock = _Clock(tasks)
    clock.go()
    assert clock.started == len(tasks), "tasks wait for each other in a circle"
    return clock.start


def patient_starts(problem: PlanningProblem, layout: Layout) -> list[int] | None:
    """Return starts of tasks that wait for memory; ``None`` where some would wait for ever."""
    room = Room(problem, layout)
    clock = _Clock(layout.tasks, room)
    clock.go()
    return clock.start if room.done == len(layout.tasks) else None


class Room:
    """Free memory of every device while tasks start and stop.

    Parameters
    ----------
    problem, layout
        Limits and persistent values; tasks and copies.
    """

    def __init__(self, problem: PlanningProblem, layout: Layout) -> None:
        self.free: dict[str, float] = {
            device.name: float("inf") if device.memory_bytes is None else device.memory_bytes
            for device in problem.cluster.devices
        }
        self.needs: list[dict[str, int]] = [{} for _ in layout.tasks]
        """Bytes that each task takes when it starts, by device."""
        self.gives: list[dict[str, int]] = [{} for _ in layout.tasks]
        """Bytes that are free again when it stops, whatever else reads them."""
        self.reads: list[list[int]] = [[] for _ in layout.tasks]
        self.left = [len(copy.readers) + 1 + copy.stays for copy in layout.copies]
        self.copies = layout.copies
        self.done = 0
        for number, copy in enumerate(layout.copies):
            for task in (copy.maker, *copy.readers):
                self.reads[task].append(number)
            for device in copy.place[1]:
                need = self.needs[copy.maker]
                need[device] = need.get(device, 0) + copy.bytes
        for number, device, size in workspaces(layout):
            self.needs[number][device] = self.needs[number].get(device, 0) + size
            self.gives[number][device] = size
        for device, size in layout.base.persistent_bytes.items():
            self.free[device] -= size

    def admits(self, task: int) -> bool:
        """Return whether there is room for what a task makes."""
        return all(size <= self.free[device] for device, size in self.needs[task].items())

    def start(self, task: int) -> None:
        """Take the room of a task."""
        for device, size in self.needs[task].items():
            self.free[device] -= size

    def stop(self, task: int) -> None:
        """Free what has no reader left."""
        self.done += 1
        for device, size in self.gives[task].items():
            self.free[device] += size
        for number in self.reads[task]:
            self.left[number] -= 1
            if not self.left[number]:
                for device in self.copies[number].place[1]:
                    self.free[device] += self.copies[number].bytes


class _Clock:
    """Runs the tasks of a layout from stop to stop."""

    def __init__(self, tasks: list[Task], room: Room | None = None) -> None:
        self.tasks, self.room = tasks, room
        self.missing = [len(task.before) + (task.anchor >= 0) for task in tasks]
        self.after: list[list[int]] = [[] for _ in tasks]
        self.anchored: dict[int, list[int]] = {}
        for number, task in enumerate(tasks):
            for before in task.before:
                self.after[before].append(number)
            if task.anchor >= 0:
                self.anchored.setdefault(task.anchor, []).append(number)
        self.start = [0] * len(tasks)
        self.started = 0
        self.busy: dict[str, int] = {}
        self.stops: list[tuple[int, int]] = []
        self.lagging: list[tuple[int, int]] = []
        self.waiting: list[tuple[float, int]] = []

    def go(self) -> None:
        """Start everything."""
        for number, missing in enumerate(self.missing):
            if not missing and self.tasks[number].anchor < 0 and not self.tasks[number].before:
                self._ready(number, 0)
        self._serve(0)
        while self.stops or self.lagging:
            now = min(events[0][0] for events in (self.stops, self.lagging) if events)
            while self.lagging and self.lagging[0][0] == now:
                self._met(heappop(self.lagging)[1], now)
            while self.stops and self.stops[0][0] == now:
                _, number = heappop(self.stops)
                if self.room is not None:
                    self.room.stop(number)
                for follower in self.after[number]:
                    self._met(follower, now)
            self._serve(now)

    def _met(self, number: int, now: int) -> None:
        self.missing[number] -= 1
        if not self.missing[number]:
            self._ready(number, now)

    def _ready(self, number: int, now: int) -> None:
        task = self.tasks[number]
        if task.resources or self.room is not None:
            heappush(self.waiting, (task.urgency, number))
        else:
            self._begin(number, now)

    def _begin(self, number: int, now: int) -> None:
        self.start[number] = now
        self.started += 1
        if self.room is not None:
            self.room.start(number)
        heappush(self.stops, (now + self.tasks[number].ticks, number))
        for follower in self.anchored.get(number, ()):
            heappush(self.lagging, (now + self.tasks[follower].lag, follower))

    def _serve(self, now: int) -> None:
        left = []
        while self.waiting:
            entry = heappop(self.waiting)
            task = self.tasks[entry[1]]
            idle = all(self.busy.get(name, 0) <= now for name in task.resources)
            if idle and (self.room is None or self.room.admits(entry[1])):
                self.busy |= dict.fromkeys(task.resources, now + task.ticks)
                self._begin(entry[1], now)
            else:
                left.append(entry)
        self.waiting = left  # sorted, so a heap


class MemoryProfile:
    """Bytes on every device over time, under the memory law."""

    def __init__(self, problem: PlanningProblem, layout: Layout, start: list[int]) -> None:
        self.layout = layout
        self.start = np.array(start, dtype=np.int64)
        self.stop = self.start + np.array([task.ticks for task in layout.tasks], dtype=np.int64)
        end = int(self.stop.max(initial=0)) + 1
        self.until = np.array(
            [
                end
                if copy.stays
                else max(int(self.stop[task]) for task in (copy.maker, *copy.readers))
                for copy in layout.copies
            ],
            dtype=np.int64,
        )
        """When each copy is released; what stays, a tick behind the end."""
        self.makespan = max(
            int(self.stop[n]) for n, task in enumerate(layout.tasks) if task.number >= 0
        )
        self.limits = {d.name: d.memory_bytes for d in problem.cluster.devices}
        events: dict[str, list[tuple[int, int]]] = {name: [] for name in self.limits}
        for number, copy in enumerate(layout.copies):
            for device in copy.place[1]:
                events[device].append((int(self.start[copy.maker]), copy.bytes))
                events[device].append((int(self.until[number]), -copy.bytes))
        for number, device, size in workspaces(layout):
            events[device].append((int(self.start[number]), size))
            events[device].append((int(self.stop[number]), -size))
        fixed = layout.base.persistent_bytes
        self.steps = {name: _steps(events[name], fixed[name]) for name in self.limits}

    def excess(self) -> dict[str, int]:
        """Bytes above the limit times ticks, of each device that is too full at some time."""
        result = {}
        for name, limit in self.limits.items():
            if limit is None:
                continue
            times, held = self.steps[name]
            over = np.maximum(held[:-1] - limit, 0).astype(object)
            area = int((over * np.diff(times).astype(object)).sum()) if len(over) else 0
            if area:
                result[name] = area
        return result

    def peak(self, device: str) -> tuple[int, int]:
        """Time and bytes of the largest sum on a device."""
        times, held = self.steps[device]
        lasting = np.flatnonzero(np.diff(times) > 0)
        worst = int(lasting[held[lasting].argmax()])
        return int(times[worst]), int(held[worst])


def workspaces(layout: Layout) -> Iterator[tuple[int, str, int]]:
    """Yield task, device and bytes of every workspace."""
    sizes = layout.base.workspace_bytes
    for number, task in enumerate(layout.tasks if sizes else ()):
        if isinstance(task.made, OperatorRun) and task.made.operator in sizes:
            for device in task.made.devices:
                yield number, device, sizes[task.made.operator]


def _steps(events: list[tuple[int, int]], fixed: int) -> tuple[Ints, Ints]:
    """Return the times of changes, and what is held from then on."""
    if not events:
        return np.array([0, 1]), np.array([fixed, fixed])
    table = np.array(sorted(events), dtype=np.int64)
    times, first = np.unique(table[:, 0], return_index=True)
    return times, fixed + np.cumsum(np.add.reduceat(table[:, 1], first))


def plan_of(layout: Layout, start: list[int]) -> Plan:
    """Return the plan of a layout at these starts, without transfers that decisions left idle."""
    read = {copy.maker for copy in layout.copies if copy.readers}
    runs: list[OperatorRun] = []
    trips: list[Transfer] = []
    for number, (task, begin) in enumerate(zip(layout.tasks, start, strict=True)):
        if task.number < 0 and number not in read:
            continue
        made = replace(task.made, start_ticks=begin, stop_ticks=begin + task.ticks)
        if isinstance(made, OperatorRun):
            runs.append(made)
        else:
            trips.append(made)
    return Plan(layout.base.problem.name, tuple(runs), tuple(trips))
