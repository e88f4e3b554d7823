"""Room on devices in units that suit a solver: each memory has a unit of its own.

Beside a gigabyte a device of three bytes would vanish in the tolerances. So a memory is counted in
grains of its own, doubled until it has few enough units, and what is larger than it counts as
twice as large: neither a hundred million times, nor a byte too large, which would seem to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import Objective, PlanningProblem

from .units import memory_grain, memory_unit

Held = tuple[int, Any]
"""Bytes, and the variable (or number) that says whether they are there."""


NEAR, MOST_ITEMS, MOST_SETS = 1e-4, 40, 4000
"""Sets that exceed a memory by at most this part of it have constraints of their own, where there
are at most MOST_ITEMS items; MOST_SETS sets are looked at, those of large items first."""


class MemoryUnits:
    """What fits where.

    Parameters
    ----------
    problem
        Its devices and what may lie on them.
    cutoff
        Value of a known plan; of peak memory no device holds more in a plan worth finding.
    """

    def __init__(self, problem: PlanningProblem, cutoff: int | None) -> None:
        self.problem = problem
        self.grain = memory_grain(problem)
        self.most = cutoff if problem.objective is Objective.PEAK_MEMORY else None
        self.unit = memory_unit(problem, self.most)
        self.limits = {device.name: device.memory_bytes for device in problem.cluster.devices}

    def room(self, device: str) -> int | None:
        """Bytes that a device may hold; ``None`` for any number."""
        known = (self.limits[device], self.most)
        return min((amount for amount in known if amount is not None), default=None)

    def unit_of(self, device: str) -> int:
        """Bytes per unit of a device's room."""
        room = self.room(device)
        return int(self.unit if room is None else memory_unit(self.problem, room))

    def amount(self, size: int, device: str) -> int:
        """Bytes that something counts as: what does not fit at all, twice the room."""
        room = self.room(device)
        return size if room is None or size <= room else 2 * max(room, self.grain)

    def total(self, held: list[Held], device: str, unit: float) -> Any:
        """Return what is held on a device, in units of this many bytes."""
        return pyo.quicksum(self.amount(size, device) / unit * column for size, column in held)

    def limit(self, device: str) -> float | None:
        """Units of room; half a grain more where a unit is many, so that no plan is at an edge."""
        room = self.room(device)
        if room is None:
            return None
        unit = self.unit_of(device)
        return (room + (self.grain / 2 if unit > self.grain else 0)) / unit

    def tight_covers(self, held: list[Held], device: str) -> Iterator[list[Any]]:
        """Yield variables of each smallest set that exceeds a room by too little to be seen.

        A variable may miss its whole number by a tolerance, and that times the bytes of a large
        copy may be more than the set exceeds the room by. That not all of the variables are 1 says
        the same in numbers of one size.
        """
        room = self.room(device)
        items = sorted((item for item in held if item[0]), key=lambda item: -item[0])
        if room is None or len(items) > MOST_ITEMS:
            return
        most = room + max(1, int(room * NEAR))
        left = list(accumulate((size for size, _ in reversed(items)), initial=0))[::-1]
        open_sets: list[tuple[int, int, list[Any]]] = [(0, 0, [])]
        for _ in range(MOST_SETS):
            if not open_sets:
                return
            total, place, chosen = open_sets.pop()
            if total > room:  # the last item is the smallest, and without it the set fits
                if total <= most:
                    yield chosen
            elif total + left[place] > room:
                size, column = items[place]
                open_sets.append((total, place + 1, chosen))
                open_sets.append((total + size, place + 1, [*chosen, column]))
