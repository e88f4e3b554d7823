"""Earliest starts of tasks in an order: precedence first, then the order of their keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any


@dataclass(slots=True)
class _Task:
    """Length of a task, the resources that it occupies, and the tasks before it."""

    key: Any
    ticks: int
    resources: tuple[Any, ...]
    release: int
    before: set[int] = field(default_factory=set)


class Network:
    """Tasks in an order; of two tasks on a common resource, the one with the lower key is first."""

    def __init__(self) -> None:
        self.tasks: list[_Task] = []

    def add(self, key: Any, ticks: int, resources: Iterable[Any] = (), release: int = 0) -> int:
        """Add a task and return its number."""
        self.tasks.append(_Task(key, ticks, tuple(resources), release))
        return len(self.tasks) - 1

    def precede(self, before: int, after: int) -> None:
        """Make a task start after another one has stopped."""
        self.tasks[after].before.add(before)

    def starts(self) -> list[int] | None:
        """Return the earliest starts; ``None`` where tasks wait for each other in a cycle.

        Tasks are taken one after the other, of those whose predecessors are taken the one of lowest
        key. Each starts when all of these have stopped and what it holds is free, so no task of
        this order can start earlier.
        """
        missing = [len(task.before) for task in self.tasks]
        after: list[list[int]] = [[] for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            for before in task.before:
                after[before].append(number)
        ready = [(t.key, n) for n, t in enumerate(self.tasks) if not missing[n]]
        heapify(ready)
        start, free = [-1] * len(self.tasks), dict[Any, int]()
        while ready:
            number = heappop(ready)[1]
            task = self.tasks[number]
            times = [start[before] + self.tasks[before].ticks for before in task.before]
            begin = max([task.release, *times, *(free.get(name, 0) for name in task.resources)])
            start[number] = begin
            free.update(dict.fromkeys(task.resources, begin + task.ticks))
            for follower in after[number]:
                missing[follower] -= 1
                if not missing[follower]:
                    heappush(ready, (self.tasks[follower].key, follower))
        return start if all(begin >= 0 for begin in start) else None
