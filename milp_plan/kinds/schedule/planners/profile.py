"""Two step functions of time: what a resource is busy with, and how much memory a device holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Busy:
    """Disjoint busy intervals of one resource, in order.

    A task without length is a point: it may stand at the boundary of another interval, never
    strictly inside it (law 3).
    """

    __slots__ = ("starts", "stops")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []

    def earliest(self, ready: int, duration: int) -> int:
        """Return the earliest start at or after ``ready`` of a gap of that length."""
        stops = self.stops
        if not stops or stops[-1] <= ready:
            return ready
        starts = self.starts
        time = ready
        for i in range(bisect_right(stops, time), len(stops)):
            if starts[i] >= time + duration:
                break
            time = stops[i]
        return time

    def last(self, ready: int) -> int:
        """Return the earliest start at or after ``ready`` behind everything else."""
        return max(ready, self.stops[-1]) if self.stops else ready

    def add(self, start: int, stop: int) -> None:
        """Occupy an interval that :meth:`earliest` found."""
        stops = self.stops
        if not stops or stops[-1] <= start:
            self.starts.append(start)
            stops.append(stop)
            return
        i = bisect_right(stops, start)
        self.starts.insert(i, start)
        stops.insert(i, stop)


class Profile:
    """Bytes held on one device over time, against a limit.

    ``limit`` is the memory that persistent values leave; ``levels[i]`` holds on
    ``[times[i], times[i + 1])`` and the last level holds for ever.
    """

    __slots__ = ("_ever", "levels", "limit", "times")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.times = [0]
        self.levels = [0]
        self._ever = 0  # no level was ever higher

    def add(self, start: int, stop: int | None, amount: int) -> None:
        """Change the level by ``amount`` on ``[start, stop)``, or from ``start`` for ever."""
        if stop is not None and stop <= start:
            return
        levels = self.levels
        first = self._breakpoint(start)
        last = len(levels) if stop is None else self._breakpoint(stop)
        for i in range(first, last):
            levels[i] += amount
        if amount > 0:
            self._ever = max(self._ever, *levels[first:last])

    def _breakpoint(self, time: int) -> int:
        times = self.times
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            self.levels.insert(i, self.levels[i - 1])
        return i

    @property
    def final(self) -> int:
        """Level after everything known so far."""
        return self.levels[-1]

    @property
    def top(self) -> int:
        """Largest level at any time."""
        return max(self.levels)

    def earliest_open(self, ready: int, amount: int) -> int | None:
        """Return the earliest time from which ``amount`` more fits for ever, or ``None``."""
        levels, times = self.levels, self.times
        room = self.limit - amount
        if self._ever <= room:
            return ready
        if levels[-1] > room:
            return None
        i = len(levels) - 1
        while times[i] > ready:
            if levels[i - 1] > room:
                return times[i]
            i -= 1
        return ready

    def earliest_window(self, ready: int, duration: int, amount: int) -> int | None:
        """Return the earliest start of a window in which ``amount`` more fits, or ``None``."""
        levels, times = self.levels, self.times
        room = self.limit - amount
        if duration == 0 or self._ever <= room:
            return ready
        time, i = ready, bisect_right(times, ready) - 1
        count = len(levels)
        while i < count and times[i] < time + duration:
            if levels[i] > room:
                if i + 1 == count:
                    return None
                time = times[i + 1]
            i += 1
        return time

    def fits(self, start: int, stop: int, amount: int) -> bool:
        """Return whether ``amount`` more fits on ``[start, stop)``."""
        return stop <= start or self.earliest_window(start, stop - start, amount) == start
