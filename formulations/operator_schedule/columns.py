"""What the columns of a scheduling model mean: placements, flows and uses, by name.

A decision that is already taken is the number 1 or 0 in place of a column, so that restricted
models shrink by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milp_plan.api import Leg, Placement, ScheduleSets, TransferTask, label

Column = Any
Copy = tuple[str, tuple[str, ...], str]
"""Value, target and layout of what a transfer makes."""


def choose(column: Column) -> None:
    """Set a column to 1 in a start; nothing to do where the decision is a number already."""
    if not isinstance(column, int):
        column.set_value(1)


class Columns:
    """Look-up of decision columns.

    Parameters
    ----------
    sets
        Sets of the problem.
    transfers
        Transfer tasks the model schedules.
    """

    def __init__(self, sets: ScheduleSets, transfers: tuple[TransferTask, ...]) -> None:
        self.sets = sets
        self.task = {task.name: task for task in transfers}
        self.owner = _owners(sets)
        self.places: dict[tuple[str, Placement], Column] = {}
        self.flows: dict[tuple[str, str, Placement, Placement], Column] = {}
        self.use: dict[tuple[str, Placement, tuple[str, ...]], Column] = {}

    @property
    def deciders(self) -> list[str]:
        """Operators that own placement columns, in topological order."""
        return [name for name in self.sets.operators if name not in self.owner]

    def owned(self, name: str, placement: Placement) -> tuple[str, Placement]:
        """Owner of an operator's column, and its placement on the same devices."""
        owner = self.owner.get(name, name)
        if owner == name:
            return name, placement
        devices = placement.devices
        return owner, next(p for p in self.sets.placements[owner] if p.devices == devices)

    def place(self, name: str, placement: Placement) -> Column:
        """Whether an operator has this placement."""
        return self.places[self.owned(name, placement)]

    def decided_placements(self, chosen: Mapping[Any, float]) -> dict[str, Placement]:
        """Placement of every operator, given the values of the placement columns."""

        def weight(name: str, placement: Placement) -> float:
            owner, own = self.owned(name, placement)
            return chosen.get((owner, label(own)), 0.0)

        return {
            name: max(places, key=lambda p, n=name: weight(n, p))  # type: ignore[misc]
            for name, places in self.sets.placements.items()
        }

    def decided_sources(self, used: Mapping[Any, float]) -> dict[Copy, tuple[str, ...]]:
        """Where copies leave from, given the values of the use columns."""
        found: dict[Copy, tuple[str, ...]] = {}
        for task in self.task.values():
            for leg in task.legs:
                name = (task.name, label(leg.combination[0]), "+".join(leg.route.source))
                if used.get(name, 0.0) > 0.5:
                    found[leg.route.key] = leg.route.source
        return found

    def on(self, name: str, device: str) -> list[Column]:
        """Columns whose sum says whether an operator runs on a device."""
        return [self.place(name, p) for p in self.sets.placements[name] if device in p.devices]

    def flow(self, task: TransferTask, leg: Leg) -> Column:
        """Whether the pair of placements of a leg is chosen."""
        return self.flows[(task.producer, leg.consumer, *leg.combination)]

    def uses(self, task: TransferTask) -> list[tuple[Column, Any]]:
        """(column, route) for each way a transfer can run; the columns sum to its presence."""
        if task.shared:
            ways = {(leg.combination[0], leg.route.source): leg.route for leg in task.legs}
            return [(self.use[task.name, *way], route) for way, route in ways.items()]
        return [(self.flow(task, leg), leg.route) for leg in task.legs]

    def column(self, reference: tuple[Any, ...]) -> Column:
        """Column that a reference of the memory sets means."""
        kind, *index = reference
        if kind == "place":
            return self.place(*index)
        return self.use[tuple(index)] if kind == "use" else self.flows[tuple(index)]

    def lengths(self, name: str) -> list[tuple[int, Column]]:
        """(ticks, column) whose products sum to the length of a task."""
        if name in self.task:
            return [(route.duration_ns, use) for use, route in self.uses(self.task[name])]
        places = self.sets.placements[name]
        found = [(self.sets.duration[name, p], self.place(name, p)) for p in places]
        ticks = {length for length, _ in found}
        return [(ticks.pop(), 1)] if len(ticks) == 1 else found

    def holds(self, name: str) -> dict[str, list[Column]]:
        """Resource -> columns whose sum says whether a task holds it."""
        return {place: [column for _, column in parts] for place, parts in self.work(name).items()}

    def work(self, name: str) -> dict[str, list[tuple[int, Column]]]:
        """Resource -> (ticks, column) whose products sum to the time a task holds it."""
        found: dict[str, list[tuple[int, Column]]] = {}
        if name in self.task:
            for use, route in self.uses(self.task[name]):
                for resource in route.resources:
                    found.setdefault(resource, []).append((route.duration_ns, use))
        else:
            for placement in self.sets.placements[name]:
                ticks = self.sets.duration[name, placement]
                for device in placement.devices:
                    found.setdefault(device, []).append((ticks, self.place(name, placement)))
        return found

    def short(self, name: str) -> int:
        """Least length of a task while it is present."""
        return self.task[name].shortest_ns if name in self.task else self.sets.shortest[name]

    def surely_before(self, first: str, second: str) -> bool:
        """Whether precedence alone puts one task (while present) before the other."""
        producer = self.task[second].producer if second in self.task else second
        after = self.sets.surely_after if first in self.task else self.sets.graph.descendants
        return producer in after[first] or (second in self.task and producer == first)


def _owners(sets: ScheduleSets) -> dict[str, str]:
    """Operators that share the columns of their group's first member (one option per site)."""
    found: dict[str, str] = {}
    for members in sets.graph.groups.values():
        sites = [[p.devices for p in sets.placements[name]] for name in members]
        if all(set(row) == set(sites[0]) and len(set(row)) == len(row) for row in sites):
            found.update(dict.fromkeys(members[1:], members[0]))
    return found
