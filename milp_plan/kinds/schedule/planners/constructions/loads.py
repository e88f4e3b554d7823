"""Loads of layers and units on sites: ticks and bytes, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import PlanningProblem
from milp_plan.core.view import view

from .structure import Pass, Structure, structure

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Loads of every layer on a site.

    Parameters
    ----------
    work, returning
        Ticks of one step, infinite where a layer cannot run; the part behind the forward pass.
    fixed
        Persistent bytes.
    """

    work: Floats
    returning: Floats
    fixed: Floats


class LayerLoads:
    """Loads by unit and by layer; sites of the same device classes share their arrays.

    Attributes
    ----------
    kind
        Site -> number of its kind: the classes of its devices, in order.
    speed
        Device -> operators it can run over the ticks they take there; 0 if it can run none.
    flying, working
        Layer -> bytes that each micro-batch in flight keeps, bytes while an operator runs.
    crossing
        Position -> mean ticks that the transfers of one step over a cut there take.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.structure: Structure = structure(problem)
        self.view = self.structure.view
        devices = problem.cluster.devices
        classes = [
            tuple(devices[device].device_class for device in site) for site in self.view.sites
        ]
        numbers: dict[tuple[str, ...], int] = {}
        self.kind = [numbers.setdefault(key, len(numbers)) for key in classes]
        self._example = [self.kind.index(number) for number in range(len(numbers))]
        self._rows: dict[int, Rows] = {}
        self._home: dict[tuple[int, int], int] = {}
        self.speed = [self._speed(self.kind[device]) for device in range(self.view.num_devices)]

    def room(self, site: int) -> float:
        """Return the bytes of the smallest device of a site."""
        limits = [self.view.memory[device] for device in self.view.sites[site]]
        return float(min((limit for limit in limits if limit is not None), default=np.inf))

    def home(self, unit: int, site: int) -> int:
        """Return the site inside that site where a unit runs best; -1 if none can run it.

        A unit without an option as wide as a process group runs on one of its devices.
        """
        able = self.view.unit_sites[unit]
        if site in able:
            return site
        key = (unit, site)
        if key not in self._home:
            devices = set(self.view.sites[site])
            inside = [other for other in able if devices.issuperset(self.view.sites[other])]
            self._home[key] = min(inside, key=lambda other: self.ticks(unit, other), default=-1)
        return self._home[key]

    def ticks(self, unit: int, site: int) -> int:
        """Return the ticks of all operators of a unit on a site it can run on."""
        best = self.structure.best
        return sum(best[operator][site].duration for operator in self.view.units[unit])

    def rows(self, site: int) -> Rows:
        """Return the loads of every layer on a site."""
        kind = self.kind[site]
        if kind not in self._rows:
            self._rows[kind] = self._compile(self._example[kind])
        return self._rows[kind]

    def _compile(self, site: int) -> Rows:
        s, count = self.structure, len(self.structure.layers)
        work, returning, fixed = np.zeros(count), np.zeros(count), np.zeros(count)
        for layer, units in enumerate(s.layers):
            seen: set[tuple[int, str, int]] = set()
            for unit in units:
                home = self.home(unit, site)
                if home < 0:
                    work[layer] = np.inf
                    continue
                for operator in self.view.units[unit]:
                    spot = s.best[operator][home]
                    work[layer] += spot.duration
                    returning[layer] += spot.duration * (s.passes[operator] != Pass.FORWARD)
                    seen.update(spot.persists)
            fixed[layer] = sum(amount for _, _, amount in seen)
        return Rows(work, returning, fixed)

    def _speed(self, kind: int) -> float:
        site, best = self._example[kind], self.structure.best
        ticks = [best[op][site].duration for op in self.structure.template if site in best[op]]
        return len(ticks) / (1 + sum(ticks)) if ticks else 0.0

    @cached_property
    def flying(self) -> Floats:
        """Layer -> bytes that each micro-batch in flight keeps."""
        kept = self.structure.kept
        return np.array([float(sum(kept[u] for u in us)) for us in self.structure.layers])

    @cached_property
    def heads(self) -> tuple[Floats, Floats]:
        """Layer -> earliest start of its forward pass, and of all that comes after it."""
        s = self.structure
        result = np.full((2, len(s.layers)), np.inf)
        for operator in s.template:
            layer = s.layer_of[self.view.unit[operator]]
            later = int(s.passes[operator] is not Pass.FORWARD)
            result[later, layer] = min(result[later, layer], s.head[operator])
        result[~np.isfinite(result)] = 0.0
        return result[0], result[1]

    @cached_property
    def widest(self) -> list[int]:
        """Unit -> bytes that the widest of its operators needs while it runs."""
        spots = self.view.spots
        return [
            max(min(spot.working_bytes for spot in spots[op]) for op in members)
            for members in self.view.units
        ]

    @cached_property
    def working(self) -> Floats:
        """Layer -> bytes that the widest of its operators needs while it runs."""
        widest = self.widest
        return np.array([float(max(widest[u] for u in us)) for us in self.structure.layers])

    @cached_property
    def crossing(self) -> Floats:
        """Position -> ticks that transfers over a cut before that layer take in one step."""
        s, view = self.structure, self.view
        change = np.zeros(len(s.layers) + 1)
        within = set(s.template)
        for value, producer in enumerate(view.producer):
            if producer in within:
                here = s.layer_of[view.unit[producer]]
                there = [s.layer_of[view.unit[r]] for r in view.consumers[value] if r in within]
                if there and (min(there) < here or max(there) > here):
                    change[min(here, *there) + 1] += s.travel[value] * s.repeats
                    change[max(here, *there) + 1] -= s.travel[value] * s.repeats
        return np.cumsum(change)


@view
def loads(problem: PlanningProblem) -> LayerLoads:
    """Return the loads of a problem."""
    return LayerLoads(problem)
