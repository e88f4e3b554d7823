"""The memory law as constraints: what is alive when something is allocated fits.

A device's memory can only peak where something is allocated. So at the start of every task that
allocates (an *event*), everything that has been allocated and not yet released is summed up::

    alive[c, e] >= read[r, c] + on[e, d] - 1 - later[e, maker of c] - ended[r, e]

for each holder r of holding c: unless the maker starts later than the event, or the holder has
stopped when the event starts, the holding counts. Each bit set to 1 is a truth about time (a
constraint of ``started`` or ``stopped``); a bit left at 0 only counts more. Exact, and without a
time index. What stays to the end has no ``ended``.

Under the static law there is no time: every copy a device ever holds counts, and its largest
workspace (variable ``room``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyomo.environ as pyo

from milp_plan.api import add_le

from .columns import Columns
from .conflicts import ConflictPairs
from .memory_units import Held, MemoryUnits
from .retention import Holding, copies, holdings, persistent, workspaces
from .sequence import Interval, Sequence


class Builder(Protocol):
    """What the constraints need of the scheduling model they are added to.

    ``m`` is the Pyomo model, with ``start`` variables; times are in units of ``unit`` ticks, bytes
    as ``memory_units`` counts them; ``earliest`` and ``latest`` bound starts. Different starts
    differ by at least ``tick`` ticks, in the model by ``strict`` units.
    """

    m: Any
    columns: Columns
    sequence: Sequence
    conflicts: ConflictPairs
    unit: float
    memory_units: MemoryUnits
    tick: int
    strict: float
    earliest: dict[str, int]
    latest: dict[str, int]

    def order(self, first: str, second: str) -> Any:
        """Variable or number: 1 where the first of two tasks that meet comes first."""
        ...

    def after_if(self, rows: Any, first: str, second: str, bit: Any) -> None:
        """Add: bit = 1 -> the second task starts no earlier than the first stops."""
        ...

    def add_capacity(self, device: str, held: list[Held]) -> None:
        """Add: what is held fits on the device."""
        ...

    def add_cover_cuts(self, device: str, held: list[Held]) -> None:
        """Add: what exceeds the device by very little is not all there."""
        ...


class MemoryRows:
    """Constraints and variables of the memory law, added to a scheduling model device by device."""

    def __init__(self, model: Builder) -> None:
        self.model, self.m, self.columns = model, model.m, model.columns
        self.sets = model.columns.sets
        self.lower: dict[Any, list[Any]] = {}  # variable -> expressions it must reach
        m = self.m
        # implied by the others, but HiGHS 1.15.1 loses plans of models that leave them continuous
        m.keep = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.alive = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.ended = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        m.later = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
        for family in ("kept", "started", "stopped", "living", "capacity"):
            m.add_component(family, pyo.ConstraintList())

    def encode(self, times: Mapping[str, Interval]) -> None:
        """Set the bits as the times say; ``keep`` and ``alive`` to the least values they allow."""
        for reader, event in self.m.ended:
            done = times[reader].stop_ticks <= times[event].start_ticks
            self.m.ended[reader, event].set_value(int(done))
        for event, maker in self.m.later:
            later = times[maker].start_ticks >= times[event].start_ticks + self.model.tick
            self.m.later[event, maker].set_value(int(later))
        for (family, *key), expressions in self.lower.items():
            reached = max(0.0, *(pyo.value(expression) for expression in expressions))
            self.m.component(family)[tuple(key)].set_value(min(1.0, reached))

    def write_all(self, devices: list[str]) -> None:
        """Write the constraints of devices whose memory may overflow."""
        for device in devices:
            self.write(device)

    def write(self, device: str) -> None:
        """At the start of every allocating task, what is alive on the device fits."""
        base = self.persistent(device)
        self.model.add_capacity(device, base)
        self.model.add_cover_cuts(device, base)
        items = holdings(self.sets, device)
        for event in dict.fromkeys(item.maker for item in items):
            present = [self.columns.column(r) for r in self.presence(items, event, device)]
            terms: list[Held] = []
            for number, item in enumerate(items):
                if self.alive(device, number, item, event, present):
                    column = self.m.alive[device, number, event]
                    terms.append((item.bytes, column))
            self.model.add_capacity(device, base + terms)
            self.model.add_cover_cuts(device, base + terms)

    def presence(self, items: list[Holding], event: str, device: str) -> Iterable[tuple[Any, ...]]:
        """Variables that say whether an allocating task is on the device."""
        if event in self.sets.shortest:
            return [("place", event, p) for p in self.sets.placements[event] if device in p.devices]
        return dict.fromkeys(
            reference
            for item in items
            if item.maker == event
            for reference, _ in item.holders[0].references
        )

    def persistent(self, device: str) -> list[Held]:
        """Persistent values on the device."""
        terms: list[Held] = []
        for item in persistent(self.sets, device):
            sums = {
                tuple(sorted(id(self.columns.column(r)) for r in columns)): columns
                for columns in item.consumers
            }
            if len(sums) == 1:
                kept = pyo.quicksum(self.columns.column(r) for r in item.consumers[0])
            else:
                kept = self.m.keep[item.label, device]
                for columns in sums.values():
                    reached = pyo.quicksum(self.columns.column(r) for r in columns)
                    add_le(self.m.kept, reached, kept)
                    self.lower.setdefault(("keep", item.label, device), []).append(reached)
            terms.append((item.bytes, kept))
        return terms

    def alive(
        self, device: str, number: int, item: Holding, event: str, present: list[Any]
    ) -> bool:
        """Make ``alive`` reach 1 when the holding counts at the event; say whether it ever does."""
        later = self.later(event, item.maker, device)
        if isinstance(later, int) and later == 1:
            return False
        found = False
        for holder in item.holders:
            if item.stays:
                columns = [self.columns.column(r) for r, _ in holder.references]
                reached = pyo.quicksum(columns) - later
                if holder.task != event:
                    reached += pyo.quicksum(present) - 1
            elif holder.task == event:  # it runs: what it holds is alive, unless it takes no time
                columns = [self.columns.column(r) for r, ticks in holder.references if ticks]
                reached = pyo.quicksum(columns) - later
            else:
                ended = self.ended(holder.task, event, device)
                if isinstance(ended, int) and ended == 1:
                    continue
                makes = holder.task == item.maker  # a maker that takes no time keeps nothing
                columns = [
                    self.columns.column(r) for r, ticks in holder.references if ticks or not makes
                ]
                conflict = pyo.quicksum(columns) + pyo.quicksum(present) - 1
                reached = conflict - later - ended
            if columns:
                key = (device, number, event)
                add_le(self.m.living, reached, self.m.alive[key])
                self.lower.setdefault(("alive", *key), []).append(reached)
                found = True
        return found

    def share_device(self, first: str, second: str, device: str) -> bool:
        """Whether both are operators that may run on the device."""
        operators = self.sets.shortest
        return all(n in operators and self.columns.on(n, device) for n in (first, second))

    def ended(self, reader: str, event: str, device: str) -> Any:
        """1 where the reader has stopped when the event starts: a constant, or a variable."""
        columns = self.columns
        if columns.surely_before(reader, event):
            return 1
        if columns.short(event) + columns.short(reader) > 0:  # else both may stop where they start
            if columns.surely_before(event, reader):
                return 0
            if self.share_device(reader, event, device):
                return self.model.order(reader, event)
        if self.model.earliest[reader] + columns.short(reader) > self.model.latest[event]:
            return 0
        if (reader, event) not in self.m.ended:
            bit = self.m.ended[reader, event]
            self.model.after_if(self.m.stopped, reader, event, bit)
        return self.m.ended[reader, event]

    def later(self, event: str, maker: str, device: str) -> Any:
        """1 where the maker has not started when the event starts: a constant, or a variable."""
        columns, model = self.columns, self.model
        if maker == event or columns.surely_before(maker, event):
            return 0
        if columns.short(event) > 0:
            if columns.surely_before(event, maker):
                return 1
            if self.share_device(event, maker, device):
                return model.order(event, maker)
        if (event, maker) not in self.m.later:
            big = max(0, model.latest[event] - model.earliest[maker]) / model.unit + model.strict
            bit = self.m.later[event, maker]
            start = self.m.start
            add_le(self.m.started, start[event] + model.strict - big * (1 - bit), start[maker])
        return self.m.later[event, maker]


class StaticRows(MemoryRows):
    """The memory law without a clock: what a device ever holds fits at once."""

    def __init__(self, model: Builder) -> None:
        super().__init__(model)
        self.m.room = pyo.Var(pyo.Any, bounds=(0, None), dense=False)
        self.m.workspace = pyo.ConstraintList()
        self.needed: dict[str, list[Any]] = {}  # device -> workspace of each operator there

    def encode(self, times: Mapping[str, Interval]) -> None:
        """Set ``keep`` and ``room`` to the least values they allow."""
        super().encode(times)
        for device, sizes in self.needed.items():
            self.m.room[device].set_value(max(pyo.value(size) for size in sizes))

    def write(self, device: str) -> None:
        """Persistent values, copies and the largest workspace fit together."""
        units = self.model.memory_units
        held = self.persistent(device)
        held += [(item.bytes, self.maker_here(item)) for item in copies(self.sets, device)]
        self.model.add_cover_cuts(device, held)
        unit = units.unit_of(device)
        by_operator: dict[str, list[Any]] = {}
        for item in workspaces(self.sets, device):
            size = units.amount(item.bytes, device) / unit * self.maker_here(item)
            by_operator.setdefault(item.maker, []).append(size)
            self.model.add_cover_cuts(device, [*held, (item.bytes, self.maker_here(item))])
        if by_operator:
            room = self.m.room[device]
            self.needed[device] = [pyo.quicksum(sizes) for sizes in by_operator.values()]
            for size in self.needed[device]:
                add_le(self.m.workspace, size, room)
            held.append((unit, room))
        self.model.add_capacity(device, held)

    def maker_here(self, item: Holding) -> Any:
        """Sum of the variables that say whether a holding is made."""
        return pyo.quicksum(self.columns.column(r) for r, _ in item.holders[0].references)
