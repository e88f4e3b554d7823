"""What a plan is worth, as one variable and the constraints that carry it.

====================  =========================================================================
``span``              makespan >= stop[i] + tail[i]
``workload``          makespan >= head + work on r of tasks between head and tail + tail
``occupied``          makespan >= head + work + tail of a group: see :mod:`.group_rows`
``device_span``       first[d] <= start[i] + M (1 - on[i,d]);  last[d] >= stop[i] - M (1 - on[i,d])
``device_span``       widest >= last[d] - first[d]
``device_load``       widest >= sum of duration on d: a device runs one operator at a time
``resource_load``     busiest >= sum of duration on r, for each device, channel and port
``capacity``          peak >= bytes on d (the constraints of memory)
====================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import Objective, Scale, ScheduleSets, add_le

from .group_rows import GroupRows
from .retention import devices_at_risk
from .work_rows import WorkRows


def tick_of(sets: ScheduleSets) -> int:
    """Ticks of which every start in some optimal plan is a multiple.

    What durations have in common, but not for spans: two devices may share out a circle of waits,
    a fraction of it each.
    """
    return 1 if sets.problem.objective is Objective.SPAN else sets.tick


class Goal:
    """The objective of a model under construction.

    Parameters
    ----------
    model
        Builder with ``m``, ``sets``, ``columns``, ``names``, ``unit``, ``memory_units``,
        ``horizon``, ``tick``, windows and ``stop``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.sets = model, model.sets

    def limited_devices(self) -> list[str]:
        """Devices whose memory needs constraints."""
        return devices_at_risk(self.sets)

    @property
    def column(self) -> Any:
        """Variable of the objective."""
        raise NotImplementedError

    def scale(self) -> Scale:
        """Unit and grain of the objective, and what margins may add to it."""
        model = self.model
        return Scale(model.unit, model.tick, model.margin * len(model.names))

    def declare(self) -> None:
        """Declare the variable, in its unit, with the bound that is known."""
        raise NotImplementedError

    def write(self) -> None:
        """Add the constraints."""

    def encode(self, makespan: float) -> None:
        """Set the variable from the other variables and the makespan, all in units of the model."""
        raise NotImplementedError

    def at_least(self, unit: float, upper: float | None = None) -> Any:
        """Return a variable with the known bound as its lower one."""
        return pyo.Var(bounds=(max(0, self.model.guide.bound or 0) / unit, upper))


class Makespan(Goal):
    """Stop of the last operator."""

    @property
    def column(self) -> Any:
        """Variable of the objective."""
        return self.model.m.makespan

    def declare(self) -> None:
        """Declare the variables."""
        model = self.model
        model.m.makespan = self.at_least(model.unit, model.horizon / model.unit)

    def write(self) -> None:
        """Add the constraints."""
        m, model = self.model.m, self.model
        m.span = pyo.ConstraintList()
        for name in self.sets.operators:
            add_le(m.span, model.stop(name) + self.sets.tails[name] / model.unit, m.makespan)
        WorkRows(model).write(model.options.load_thresholds)
        self.groups = GroupRows(model)
        self.groups.write(model.options.load_thresholds)

    def encode(self, makespan: float) -> None:
        """Set the variables from those of times and places."""
        self.model.m.makespan.set_value(makespan)
        self.groups.encode()


class Span(Goal):
    """Longest time from the first start to the last stop of a device."""

    @property
    def column(self) -> Any:
        """Variable of the objective."""
        return self.model.m.widest

    def declare(self) -> None:
        """Declare the variables."""
        model = self.model
        model.m.widest = self.at_least(model.unit)
        within = (0, model.horizon / model.unit)
        model.m.first = pyo.Var(model.devices, bounds=within)
        model.m.last = pyo.Var(model.devices, bounds=within)

    def write(self) -> None:
        """Add the constraints."""
        model, m = self.model, self.model.m
        m.device_span, m.device_load = pyo.ConstraintList(), pyo.ConstraintList()
        for device in model.devices:
            for name in self.sets.operators:
                on = model.columns.on(name, device)
                if on:
                    off = 1 - sum(on)
                    late = (model.horizon - model.earliest[name]) / model.unit * off
                    add_le(m.device_span, m.first[device], m.start[name] + late)
                    early = model.latest_stop[name] / model.unit * off
                    add_le(m.device_span, model.stop(name) - early, m.last[device])
            add_le(m.device_span, m.last[device] - m.first[device], m.widest)
        works = _works(model, self.sets.operators)
        for total in works.values():
            add_le(m.device_load, total, m.widest)

    def encode(self, makespan: float) -> None:
        """Set the variables from those of times and places."""
        del makespan
        m, model = self.model.m, self.model
        widest = m.widest.lb
        for device in model.devices:
            here = [
                name
                for name in self.sets.operators
                if pyo.value(sum(model.columns.on(name, device))) > 0.5
            ]
            first = min((m.start[name].value for name in here), default=0.0)
            last = max((pyo.value(model.stop(name)) for name in here), default=0.0)
            m.first[device].set_value(first)
            m.last[device].set_value(last)
            widest = max(widest, last - first)
        m.widest.set_value(widest)


class Bottleneck(Goal):
    """Busy time of the busiest device, channel or port."""

    @property
    def column(self) -> Any:
        """Variable of the objective."""
        return self.model.m.busiest

    def scale(self) -> Scale:
        """Say what it counts in; no margin adds to it."""
        return Scale(self.model.unit, self.model.tick)

    def declare(self) -> None:
        """Declare the variables."""
        self.model.m.busiest = self.at_least(self.model.unit)

    def write(self) -> None:
        """Add the constraints."""
        model, m = self.model, self.model.m
        m.resource_load = pyo.ConstraintList()
        for total in _works(model, model.names).values():
            add_le(m.resource_load, total, m.busiest)

    def encode(self, makespan: float) -> None:
        """Set the variables from those of times and places."""
        del makespan
        m = self.model.m
        totals = [pyo.value(total) for total in _works(self.model, self.model.names).values()]
        m.busiest.set_value(max([m.busiest.lb, *totals]))


class PeakMemory(Goal):
    """Largest number of bytes on any device at any instant."""

    @property
    def column(self) -> Any:
        """Variable of the objective."""
        return self.model.m.peak

    def limited_devices(self) -> list[str]:
        """All: each of them may be the fullest."""
        return list(self.model.devices)

    def scale(self) -> Scale:
        """Say what it counts in; no margin adds to it."""
        return Scale(self.model.memory_units.unit, self.model.memory_units.grain)

    def declare(self) -> None:
        """Declare the variables."""
        units = self.model.memory_units
        most = None if units.most is None else units.most / units.unit
        self.model.m.peak = self.at_least(units.unit, most)

    def encode(self, makespan: float) -> None:
        """Set the variables from those of times and places."""
        del makespan
        m = self.model.m
        totals = [pyo.value(row.body) for row in m.capacity.values()]
        m.peak.set_value(max([m.peak.lb, *totals]))


def _works(model: Any, names: Iterable[str]) -> dict[str, Any]:
    """Resource -> time for which these tasks hold it, in units."""
    terms: dict[str, list[Any]] = {}
    for name in names:
        for resource, parts in model.columns.work(name).items():
            terms.setdefault(resource, []).extend(t / model.unit * c for t, c in parts if t)
    return {resource: pyo.quicksum(found) for resource, found in terms.items() if found}


GOALS: dict[Objective, type[Goal]] = {
    Objective.MAKESPAN: Makespan,
    Objective.SPAN: Span,
    Objective.BOTTLENECK: Bottleneck,
    Objective.PEAK_MEMORY: PeakMemory,
}
