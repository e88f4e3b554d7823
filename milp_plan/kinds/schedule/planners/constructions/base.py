"""Common parts of families of placements: sites of stages, memory, names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from milp_plan.core import PlanningProblem

from .assignment import Assigned, Care, Regions, assignment
from .cuts import Memory
from .loads import LayerLoads, loads
from .shapes import lines

WEIGHTS = (0.03, 0.05, 0.01, 0.002, 0.1, 0.02, 0.2, 0.0, 0.005, 0.07, 0.3, 0.15, 0.5, 1.0)
"""Weights of the load relative to the finish that are tried."""

CARES = (Care(0.0, False), Care(1.0, True), Care(1.0, False), Care(0.0, True), Care(2.0, True))
"""Settings of the memory penalty that are tried where memory binds."""

_MEMORIES = (("1F1B", True), ("1F1B", False), ("all", True), ("one", False))
"""Micro-batches in flight, and whether stages on one site share its memory."""


class Layout(NamedTuple):
    """A placement: site of every unit, option of every operator; its name."""

    name: str
    assigned: Assigned

    @property
    def key(self) -> tuple[tuple[int, ...], bytes]:
        """Equal for equal placements."""
        return self.assigned.sites, self.assigned.options.tobytes()


class Base:
    """What the families of one problem share."""

    def __init__(self, problem: PlanningProblem, window: int | None = None) -> None:
        self.loads: LayerLoads = loads(problem)
        self.structure = self.loads.structure
        batches = self.structure.num_batches
        self.at_once = batches if window is None else min(window, batches)
        self.assignment = assignment(problem)
        self.lines = list(lines(self.loads))
        self.tight = self.loads.view.memory_binds
        self.used = {site for sites in self.loads.view.unit_sites for site in sites}
        self.num_layers = len(self.structure.layers)

    @cached_property
    def num_memories(self) -> int:
        """Number of different ways to count memory."""
        if not self.tight:
            return 1
        return len(_MEMORIES) if self.at_once > 1 else 2

    def memory(self, stages: int, way: int) -> Memory:
        """Return what each stage may hold."""
        batches = self.at_once
        flying, parted = _MEMORIES[way]
        steady = [min(batches, stages - stage) for stage in range(stages)]
        ways = {"1F1B": steady, "all": [batches] * stages, "one": [1] * stages}
        return Memory(ways[flying], parted)

    def inside(self, row: Sequence[int]) -> list[int]:
        """Return the sites that some unit can use within the devices of a row of sites."""
        view = self.loads.view
        devices = {device for site in row for device in view.sites[site]}
        return [site for site in sorted(self.used) if devices.issuperset(view.sites[site])]

    def expanded(
        self, name: str, sites: Sequence[int], bounds: Sequence[int] | None
    ) -> Layout | None:
        """Return the sites of all units from those of the stages."""
        if bounds is None:
            return None
        result = [-1] * len(self.loads.view.units)
        for stage, site in enumerate(sites):
            for units in self.structure.layers[bounds[stage] : bounds[stage + 1]]:
                for unit in units:
                    result[unit] = self.loads.home(unit, site)
        return Layout(name, self.assignment.equip(result)) if min(result) >= 0 else None

    def placed(
        self, name: str, where: Regions, weight: int, care: int, order: int
    ) -> Layout | None:
        """Return the planner of assignments by earliest finish plus load."""
        assigned = self.assignment.place(where, WEIGHTS[weight], CARES[care], order)
        if assigned is None:
            return None
        return Layout(f"{name}, weight {WEIGHTS[weight]}, care {care}, order {order}", assigned)

    @property
    def num_cares(self) -> int:
        """Number of different ways to count memory in an assignment."""
        return len(CARES) if self.tight else 1
