"""From placement and priorities to a schedule and its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from milp_plan.core import OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.core.compiled import compiled

from ..indexed import Spot as IndexedSpot
from . import layout as at
from .ahead import look_ahead
from .events import run_events
from .holding import set_aside, static_excess, weigh
from .layout import NEVER, Ints
from .legs import find_legs, persistent_bytes
from .plain import is_plain, run_plain
from .tables import Compiled, compiled_problem


class Decoder:
    """List schedules of one problem, in compiled loops. One thread at a time may use it.

    A schedule is made by events: whatever is free takes the most urgent task that waits for it and
    for which there is memory. So plans obey all laws by construction; memory is counted as the
    checker does or more carefully (what a task without length frees counts after it).

    Parameters
    ----------
    problem
        A problem whose plans have a schedule, or the static memory law.

    Attributes
    ----------
    compiled
        Its arrays. Operators are numbered in topological order there and in all arrays here.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.compiled: Compiled = compiled_problem(problem)
        self.memory = self.compiled.memory.copy()
        self.site, self.option = self.memory.part(at.SITE), self.memory.part(at.OPTION)

    @property
    def size(self) -> int:
        """Number of operators."""
        return len(self.compiled.order)

    @property
    def limited(self) -> bool:
        """Whether memory can bind at all, and so is counted."""
        return bool(self.memory.size(at.LIMITED))

    # -- names and numbers -----------------------------------------------------------------------

    def place(self, placements: Mapping[str, Placement]) -> tuple[Ints, Ints]:
        """Return the site and option of every operator, as arrays."""
        view, compiled = self.compiled.view, self.compiled
        chosen = [placements[operator.name] for operator in compiled.operators]
        site = [view.site_index[placement.devices] for placement in chosen]
        option = [compiled.options[n, placement.option] for n, placement in enumerate(chosen)]
        return np.array(site, dtype=np.int64), np.array(option, dtype=np.int64)

    def of_spots(self, spots: Sequence[IndexedSpot]) -> tuple[Ints, Ints]:
        """Return the same from a spot of each operator, in the order of ``planners.indexed``."""
        return self.place(
            {self.compiled.view.names[spot.operator]: spot.placement for spot in spots}
        )

    def ranks(self, priority: Mapping[str, float]) -> Ints:
        """Return the ranks (the smallest is the most urgent) from priorities (the largest is)."""
        weights = np.array([-priority[operator.name] for operator in self.compiled.operators])
        return np.unique(weights, return_inverse=True)[1].astype(np.int64)

    # -- schedules -------------------------------------------------------------------------------

    def decode(
        self,
        site: Ints,
        option: Ints,
        rank: Ints,
        *,
        cutoff: int = NEVER,
        patient: bool = True,
        soft: bool = False,
        aside: float = 1.0,
        holding: bool = False,
    ) -> int | None:
        """Schedule a placement.

        Parameters
        ----------
        site, option
            Of each operator; colocated operators share a site.
        rank
            Of each operator, the smallest is the most urgent; of equals the first.
        cutoff
            In units; a schedule that cannot stop before it is given up.
        patient
            Whether a device waits for an operator that needs others as well, rather than take one
            that is less urgent.
        soft
            Whether a task that memory keeps from starting for ever starts all the same;
            :attr:`excess` is then the number of bytes above the limits.
        aside
            Share of the largest working set of operators that free memory which others leave free.
        holding
            Whether a transfer waits for a more urgent one whose value is being made, where it would
            be in its way.

        Returns
        -------
        int or None
            Last stop of an operator, in units; ``None`` where the cutoff, a missing channel or
            memory leaves no schedule.
        """
        self.site[:], self.option[:] = site, option
        self.memory.part(at.RANK)[: self.size] = rank
        result = decode(self.memory.a, self.memory.t, (patient, soft, holding), aside, cutoff)
        return None if result == NEVER else int(result)

    def fixed(self, site: Ints, option: Ints, start: Ints, planner: str = "") -> Plan:
        """A placement whose schedule is known: starts of operators, then of its legs, in units."""
        self.site[:], self.option[:] = site, option
        allowed = find_legs(self.memory.a, self.memory.t)
        assert allowed, "a placement that the law does not allow"
        self.memory.part(at.START)[: len(start)] = start
        return self.plan(planner)

    @property
    def excess(self) -> int:
        """Bytes by which the last schedule exceeds the memory of a device, at most."""
        peak = self.memory.part(at.PEAK) - self.memory.part(at.MEMORY)
        return int(max(0, peak.max())) if self.limited else 0

    def ticks(self, units: int) -> int:
        """Return the units as ticks."""
        return units * self.compiled.unit

    def plan(self, planner: str = "") -> Plan:
        """Return the last schedule as a plan."""
        compiled, start = self.compiled, self.memory.part(at.START)
        names = compiled.view.site_names
        runs: dict[int, OperatorRun] = {}
        for number, operator in enumerate(compiled.operators):
            devices = names[self.site[number]]
            option = compiled.flat[self.option[number]].name
            begin = self.ticks(int(start[number]))
            ticks = self.problem.duration_ticks(operator.name, Placement(option, devices))
            runs[compiled.order[number]] = OperatorRun(
                operator.name, option, devices, begin, begin + ticks
            )
        legs = range(self.memory.part(at.LEG_COUNT)[0])
        sent = tuple(self._transfer(n, self.ticks(int(start[self.size + n]))) for n in legs)
        ordered = tuple(runs[number] for number in range(self.size))
        return Plan(self.problem.name, ordered, sent, planner=planner)

    def _transfer(self, number: int, start: int) -> Transfer:
        compiled, view, memory = self.compiled, self.compiled.view, self.memory
        value = int(memory.part(at.LEG_VALUE)[number])
        name = view.values[value].name
        layout = list(compiled.layouts)[memory.part(at.LEG_LAYOUT)[number]]
        site = int(memory.part(at.LEG_TARGET)[number])
        maker = int(memory.part(at.PRODUCER)[value])
        home = int(self.site[maker])
        native = compiled.flat[self.option[maker]].layout_written(name)
        # A send goes to one device: the law's way there is one leg.
        result = view.legs(value, (home, native), (site, layout))
        assert result is not None, "a transfer that the law does not allow"
        devices = view.problem.cluster.device_names
        source = tuple(devices[device] for device in result[0].source)
        target = view.site_names[site]
        return Transfer(name, source, target, layout, start, start + result[0].duration)


@compiled
def decode(a: Ints, t: Ints, rules: tuple[bool, bool, bool], aside: float, cutoff: int) -> int:
    """Schedule the placement that stands in the arrays; as :meth:`Decoder.decode`."""
    if not find_legs(a, t):
        return NEVER
    if look_ahead(a, t) >= cutoff:
        return NEVER
    a[t[at.TIMED]] = 0
    if t[at.LIMITED]:
        weigh(a, t)
        persistent_bytes(a, t)
        if static_excess(a, t) > 0:
            if t[at.STATIC]:
                if not rules[1]:
                    return NEVER
            else:
                a[t[at.TIMED]] = 1
                set_aside(a, t, aside)
    if not a[t[at.TIMED]] and is_plain(a, t):
        return run_plain(a, t, rules[2], cutoff)
    return run_events(a, t, rules, cutoff)
