"""Placements with parallel branches where a search over regions found them best.

The bounds search the branches between a fork and its join, both ways of a training step together,
for the placement that takes least time (:mod:`.region_times`). What lies between
such regions follows the stages of a line; inside, devices are counted from the one of the fork.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...bounds.catalogue import frame_of
from .base import Base, Layout
from .cuts import Balance, cut
from .shapes import Shape

LARGEST = 2000
"""Most operators of a graph whose regions are searched."""

TURNS = 3
"""Number of ways to choose devices other than the fork's: next ones, earlier ones, idle ones."""


class Solved:
    """Regions at their best along a line: sites of the line, turn, whether a line has one stage."""

    def __init__(self, base: Base) -> None:
        self._base = base
        problem = base.structure.problem
        self._homes: list[dict[int, tuple[int, int]]] = []
        self._colours: list[int] = []
        if len(problem.graph.operators) <= LARGEST and not problem.allows_memory_saving:
            frame = frame_of(problem)
            latest = list(enumerate(frame.homes))  # both ways of a step together come last
            latest.sort(key=lambda entry: (-len(entry[1]), -entry[0]))
            self._homes = [home for _, home in latest]
            names = problem.cluster.device_names
            self._colours = [frame.terrain.colour[name] for name in names]
        self._regions = self._chosen()
        self._lines: list[Shape] = base.lines if self._homes else []

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        return len(self._lines), TURNS, 2

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice."""
        line, turn, several = choice
        base, row = self._base, self._lines[line].sites
        sites = row if several else row[:1]
        if several and len(row) == 1:
            return None
        memory = base.memory(len(sites), 0)
        bounds = cut(base.loads, sites, memory, Balance())
        name = f"regions as solved on {self._lines[line].name}, {len(sites)} stages, turn {turn}"
        plain = base.expanded(name, sites, bounds)
        if plain is None:
            return None
        result = self._arranged(list(plain.assigned.sites), turn, not several)
        return Layout(name, base.assignment.equip(result))

    def _chosen(self) -> dict[int, list[dict[int, tuple[int, int]]]]:
        """Regions by the unit of their fork, the largest first, each unit in one of them."""
        done: set[int] = set()
        chosen: dict[int, list[dict[int, tuple[int, int]]]] = {}
        for home in self._homes:
            fork, *inside = home
            if done.isdisjoint(inside):
                done.update(inside)
                chosen.setdefault(fork, []).append(home)
        return chosen

    def _arranged(self, found: list[int], turn: int, follow: bool) -> list[int]:
        """Put the regions into a placement in topological order; what is between may follow."""
        view = self._base.loads.view
        load = [0] * len(self._colours)
        done: set[int] = set()
        for unit, members in enumerate(view.units):
            before = [view.unit[other] for other in view.predecessors[members[0]]]
            if follow and unit not in done and before:
                site = found[max(before)]
                if site in view.unit_sites[unit]:
                    found[unit] = site
            for home in self._regions.get(unit, ()):
                inside = [other for other in home if other != unit]
                devices = self._devices(home, found[unit], turn, load)
                if devices is not None and all(
                    devices[home[other]] in view.unit_sites[other] for other in inside
                ):
                    done.update(inside)
                    for other in inside:
                        found[other] = devices[home[other]]
                        load[found[other]] += self._base.loads.ticks(other, found[other])
        return found

    def _devices(
        self, home: dict[int, tuple[int, int]], fork: int, turn: int, load: Sequence[int]
    ) -> dict[tuple[int, int], int] | None:
        """Device for each of a region; ``None`` if the fork's is of another colour than there."""
        first = next(iter(home.values()))
        if fork >= len(self._colours) or self._colours[fork] != first[0]:
            return None
        count = len(self._colours)
        others = [(fork + n) % count for n in range(1, count)]
        if turn == 1:
            others.reverse()
        elif turn == 2:
            others.sort(key=lambda device: load[device])
        devices = {first: fork}
        for place in home.values():
            if place not in devices:
                devices[place] = next(
                    device for device in others if self._colours[device] == place[0]
                )
                others.remove(devices[place])
        return devices
