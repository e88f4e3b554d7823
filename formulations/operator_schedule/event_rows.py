"""The memory law where devices are alike: constraints for each event, wherever it happens.

With one memory size, and whole copies on single devices, nothing depends on *which* device an
event is on: what counts is what lies together with it. So ``alive[c,e]`` needs no device::

    alive[c,e] >= reads[r,c] + here[e] + together[c,e] - 2 - later[e, maker of c] - ended[r,e]

``reads``: holder r keeps c; ``here``: the event happens; ``together``: c lies on its device. That
is as many times fewer variables and constraints as there are devices. A place is a group, *wherever
it runs*, or a device, for copies that may be sent to several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import FULL, MemoryLaw, PlanningProblem, TransferTask, Value, add_le

from .memory_rows import MemoryRows
from .memory_units import Held


@dataclass(frozen=True)
class Place:
    """A device, or the device of an operator."""

    operator: str = ""
    device: str = ""


@dataclass(frozen=True)
class Holder:
    """A task that keeps a copy until it stops: terms that are all 1 if it does.

    ``lasting``: the same, if it takes time.
    """

    task: str
    reads: tuple[Any, ...]
    lasting: tuple[Any, ...] | None


@dataclass(frozen=True)
class StoredCopy:
    """Bytes at a place from the start of ``maker`` until the last holder stops, or to the end."""

    maker: str
    place: Place
    bytes: int
    holders: list[Holder] = field(compare=False)
    stays: bool = False


def devices_are_alike(problem: PlanningProblem) -> bool:
    """Whether memory is the same everywhere, and every copy whole and on one device."""
    options = [option for operator in problem.graph.operators for option in operator.options]
    layouts = {layout for o in options for layout in (*o.reads.values(), *o.writes.values())}
    return (
        problem.memory_law is MemoryLaw.INSTANT
        and len({device.memory_bytes for device in problem.cluster.devices}) == 1
        and layouts <= {FULL}
        and all(option.gang == 1 for option in options)
    )


class EventRows(MemoryRows):
    """Constraints and variables of the memory law for devices that are alike."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.transfer_holders: dict[str, Holder] = {}

    def write_all(self, devices: list[str]) -> None:
        """At each allocating task what lies on its device fits; persistent values do by device."""
        if not devices:
            return
        for device in devices:
            base = self.persistent(device)
            self.model.add_capacity(device, base)
            self.model.add_cover_cuts(device, base)
        items = [*self.workspaces(), *self.copies()]
        places = {item.maker: item.place for item in items}
        known: dict[Place, list[Held]] = {}
        for event, place in places.items():
            if place not in known:
                known[place] = self.lasting_values(place)
            held = [*known[place]]
            for number, item in enumerate(items):
                column = self.counted(number, item, event, place)
                if not isinstance(column, int) or column:
                    held.append((item.bytes, column))
            self.model.add_capacity(devices[0], held)
            self.model.add_cover_cuts(devices[0], held)

    def together(self, one: Place, other: Place) -> Any:
        """1 where two places are one device."""
        if one.device and other.device:
            return int(one == other)
        if one.device or other.device:
            device, name = one.device or other.device, one.operator or other.operator
            return _sum(self.columns.on(name, device))
        first, second = one.operator, other.operator
        held = self.model.sequence.held
        if held[first].keys().isdisjoint(held[second]):
            return 0
        return self.model.conflicts.of(first, second)

    def of(self, name: str) -> Place:
        """Where an operator runs."""
        return Place(self.columns.representative.get(name, name))

    def share_device(self, first: str, second: str, device: str) -> bool:
        """Whether both are operators that may run on one device."""
        held = self.model.sequence.held
        return (
            first in self.sets.shortest
            and second in self.sets.shortest
            and not held[first].keys().isdisjoint(held[second])
        )

    # -- what may lie somewhere --------------------------------------------------------------

    def lasting_values(self, place: Place) -> list[Held]:
        """Persistent values on the device of a place."""
        found: list[Held] = []
        for value in self.sets.graph.values:
            size = value.bytes.get(FULL, 0) if value.persistent else 0
            terms = {
                id(term): term
                for term in (self.together(self.of(c), place) for c in value.consumers)
                if not _is(term, 0)
            }
            if not size or not terms:
                continue
            if any(_is(term, 1) for term in terms.values()):
                kept: Any = 1
            elif len(terms) == 1:
                kept = next(iter(terms.values()))
            else:
                key = f"{value.name}/{FULL}", place.operator or place.device
                kept = self.m.keep[key]
                for term in terms.values():
                    add_le(self.m.kept, term, kept)
                    self.lower.setdefault(("keep", *key), []).append(term)
            found.append((size, kept))
        return found

    def workspaces(self) -> Iterator[StoredCopy]:
        """Yield the workspace of each operator."""
        for name in self.sets.operators:
            sizes: dict[int, list[Any]] = {}
            for p in self.sets.placements[name]:
                size = self.sets.graph.operator(name).option(p.option).workspace_bytes
                if size and self.sets.duration[name, p]:
                    sizes.setdefault(size, []).append(p)
            for size, places in sizes.items():
                runs = self.chosen(name, places)
                yield StoredCopy(name, self.of(name), size, [Holder(name, (runs,), (runs,))])

    def copies(self) -> Iterator[StoredCopy]:
        """Yield the copy where each value is made, and those that are sent."""
        for value in self.sets.graph.values:
            size = value.bytes.get(FULL, 0)
            if value.producer is None or not size:
                continue
            tasks = [task for task in self.sets.transfers if task.value == value.name]
            yield self.made(value, value.producer, size, tasks)
            for task in tasks:
                yield self.sent(task, size)

    def made(self, value: Value, maker: str, size: int, tasks: list[TransferTask]) -> StoredCopy:
        """Return the copy where a value is made; its readers there and its transfers keep it."""
        holders = [self.runs(maker)]
        if value.is_kept:
            return StoredCopy(maker, self.of(maker), size, holders, stays=True)
        for reader in value.consumers:
            there = self.together(self.of(maker), self.of(reader))
            if not _is(there, 0):
                holders.append(self.runs(reader, there))
        holders += [self.travels(task) for task in tasks]
        return StoredCopy(maker, self.of(maker), size, holders)

    def sent(self, task: TransferTask, size: int) -> StoredCopy:
        """Return the copy that a transfer makes; the readers that call for it keep it."""
        holders = [own := self.travels(task)]
        for reader in task.consumers:
            called = own.reads[0]
            if task.shared:
                called = _weighted(self.columns.calls(task, reader))
            holders.append(self.runs(reader, called))
        return StoredCopy(task.name, self.target(task), size, holders)

    def target(self, task: TransferTask) -> Place:
        """Where a transfer goes: to a device, or wherever its reader is."""
        targets = {leg.route.target for leg in task.legs}
        if task.shared or len(targets) == 1:
            return Place(device=next(iter(targets))[0])
        return self.of(task.legs[0].consumer)

    def runs(self, name: str, *when: Any) -> Holder:
        """Return an operator as a holder, under conditions."""
        places = self.sets.placements[name]
        lasting = [p for p in places if self.sets.duration[name, p]]
        timed = (*when, self.chosen(name, lasting)) if lasting else None
        return Holder(name, when or (1,), timed)

    def travels(self, task: TransferTask) -> Holder:
        """Return a transfer as a holder."""
        if task.name not in self.transfer_holders:
            every = _weighted(self.columns.presence(task.name, lambda _route: True))
            ticks = {leg.route.duration_ticks > 0 for leg in task.legs}
            lasting: tuple[Any, ...] | None = (every,) if True in ticks else None
            if len(ticks) > 1:
                timed = self.columns.presence(task.name, lambda route: route.duration_ticks > 0)
                lasting = (_weighted(timed),)
            self.transfer_holders[task.name] = Holder(task.name, (every,), lasting)
        return self.transfer_holders[task.name]

    def chosen(self, name: str, places: list[Any]) -> Any:
        """1 where an operator has one of some placements."""
        if len(places) == len(self.sets.placements[name]):
            return 1
        return _sum([self.columns.place(name, p) for p in places])

    # -- constraints ---------------------------------------------------------------------------

    def counted(self, number: int, item: StoredCopy, event: str, place: Place) -> Any:
        """Return whether something lies on an event's device: a number, a sum, a variable."""
        together = self.together(item.place, place)
        if _is(together, 0):
            return 0
        later = self.later(event, item.maker, "")
        if _is(later, 1):
            return 0
        bounds = [
            (terms, [bit for bit in (later, ended) if not _is(bit, 0)])
            for terms, ended in self.reasons(item, event, together)
        ]
        for terms, without in bounds:
            if not terms and not without:
                return 1
            if len(terms) == 1 and not without and (terms[0] is together or len(bounds) == 1):
                return terms[0]  # no other reason says more
        if not bounds:
            return 0
        column = self.m.alive[number, event]
        for terms, without in bounds:
            reached = pyo.quicksum(terms) - (len(terms) - 1) - pyo.quicksum(without)
            add_le(self.m.living, reached, column)
            self.lower.setdefault(("alive", number, event), []).append(reached)
        return column

    def reasons(
        self, item: StoredCopy, event: str, together: Any
    ) -> Iterator[tuple[list[Any], Any]]:
        """Yield terms that are 1 where a holder has something at an event, and whether it ended."""
        task = self.columns.task.get(event)
        for holder in item.holders:
            here = 1 if task is None else self.travels(task).reads[0]
            terms, ended = holder.reads, 0
            if holder.task == event:
                if event != item.maker and task is not None:
                    continue  # it leaves from there, and happens where it arrives
                here = 1
            elif not item.stays:
                ended = self.ended(holder.task, event, "")
            if not item.stays and holder.task in {event, item.maker}:
                terms = holder.lasting or (0,)  # what takes no time keeps nothing
            found = {id(term): term for term in (*terms, here, together) if not _is(term, 1)}
            if not _is(ended, 1) and not any(_is(term, 0) for term in found.values()):
                yield list(found.values()), ended


def _is(term: Any, number: int) -> bool:
    return isinstance(term, int) and term == number


def _sum(columns: list[Any]) -> Any:
    """Sum of variables; a number where all of them are numbers."""
    if all(isinstance(column, int) for column in columns):
        return sum(columns)
    return columns[0] if len(columns) == 1 else pyo.quicksum(columns)


def _weighted(weights: list[tuple[int, Any]]) -> Any:
    return _sum([c if w == 1 else w * c for w, c in weights])
