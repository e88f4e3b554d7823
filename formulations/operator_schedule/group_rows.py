"""Head, work and tail of colocation groups, with the journeys that their placements call for.

The operators of a group run one after the other, on one device. A *level* of a group is the set of
its operators with a head (or tail) of at least this many ticks. ``begin[g,l]`` is at most the first
start in a level, ``rest[g,l]`` at most the time from its last stop to the end::

    begin[g,l] >= begin[f,j] + least work of f + least journey from f to g
    makespan >= begin[g,l] + work of g in both levels + sum of work of h * conflict[g,h] + rest[g,j]

In the first constraint level j of group f has a producer of each operator by which level l can
begin. In the second constraint the sum is over groups h, and only what has an ancestor in the one
and a descendant in the other level of g counts. An operator without a group is a group by itself.

Source: this project; heads and tails of one machine are Carlier's (1982, European Journal of
Operational Research 11, 42-47).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import add_le, spread_levels

MOST_GROUPS = 150
"""Groups of a model beyond which constraints of theirs would be more than they help."""


@dataclass(frozen=True)
class Level:
    """Operators of a group with a head (or tail) of at least ``ticks``."""

    group: str
    ticks: int
    names: frozenset[str] = field(compare=False)


class Side:
    """Levels by heads (or by tails), and a time for each.

    Parameters
    ----------
    model
        Builder of the model.
    members
        Operators of each group, in topological order.
    most
        Levels of a group.
    forward
        By heads; else by tails, where what is said of producers holds for consumers.
    """

    def __init__(self, model: Any, members: dict[str, list[str]], most: int, forward: bool) -> None:
        self.model, self.sets, self.forward = model, model.sets, forward
        graph = self.sets.graph
        self.near = graph.predecessors if forward else graph.successors
        self.beyond = graph.ancestors if forward else graph.descendants
        self.ticks = self.sets.heads if forward else self.sets.tails
        self.group = {name: group for group, names in members.items() for name in names}
        self.levels = {
            group: [
                Level(group, t, frozenset(n for n in names if self.ticks[n] >= t))
                for t in spread_levels((self.ticks[n] for n in names), most)
            ]
            for group, names in members.items()
        }
        self.times: dict[Level, Any] = {}
        self.known: dict[Level, dict[str, int]] = {}

    def declare(self, family: str) -> None:
        """Add the variables of groups with several operators."""
        m, unit = self.model.m, self.model.unit
        column = pyo.Var(pyo.Any, bounds=(0, m.makespan.ub), dense=False)
        m.add_component(family, column)
        for group, levels in self.levels.items():
            alone = len(levels[0].names) == 1
            for level in levels:
                if alone:
                    self.times[level] = self.time(group)
                else:
                    self.times[level] = column[group, level.ticks]
                    column[group, level.ticks].setlb(level.ticks / unit)

    def time(self, name: str) -> Any:
        """Ticks before an operator starts, or after it stops, in units."""
        m = self.model.m
        return m.start[name] if self.forward else m.makespan - self.model.stop(name)

    def encode(self) -> None:
        """Set the variables as the starts say."""
        for level, column in self.times.items():
            if len(self.levels[level.group][0].names) > 1:
                column.set_value(min(pyo.value(self.time(name)) for name in level.names))

    def write(self, rows: Any) -> None:
        """Add what is known of each level's time."""
        for levels in self.levels.values():
            for level in levels:
                ends = [n for n in level.names if level.names.isdisjoint(self.near[n])]
                if len(levels[0].names) > 1:
                    for name in sorted(ends):
                        add_le(rows, self.times[level], self.time(name))
                self.journeys(rows, level, sorted(ends))

    def journeys(self, rows: Any, level: Level, ends: list[str]) -> None:
        """Constraints from each group with a neighbour of every operator at a level's end."""
        near = [{self.group[other] for other in self.near[name]} for name in ends]
        for group in sorted(set.intersection(*near)):
            if len(self.levels[group][0].names) == len(self.levels[level.group][0].names) == 1:
                continue  # a constraint of ``precede``
            pairs = []
            for name in ends:
                others = [other for other in self.near[name] if self.group[other] == group]
                pairs.append((max(others, key=self.ticks.__getitem__), name))
            least = min(self.ticks[other] for other, _ in pairs)
            before = [other for other in self.levels[group] if other.ticks <= least][-1]
            if before == level:
                continue
            if before not in self.known:
                self.known[before] = self.depths(before)
            work = min(self.known[before][other] for other, _ in pairs) / self.model.unit
            ordered = pairs if self.forward else [pair[::-1] for pair in pairs]
            wait = self.model.timed_sum(self.model.columns.least_wait(ordered))
            add_le(rows, self.times[before] + work + wait, self.times[level])

    def depths(self, level: Level) -> dict[str, int]:
        """Least work of a level along chains that end with an operator, itself included."""
        order = self.sets.operators if self.forward else self.sets.operators[::-1]
        found: dict[str, int] = {}
        for name in order:
            if name in level.names:
                near = (found[other] for other in self.near[name] if other in level.names)
                found[name] = max(near, default=0) + self.sets.shortest[name]
        return found


class GroupRows:
    """Constraints ``journey`` and ``occupied`` and variables ``begin`` and ``rest`` of a model.

    Parameters
    ----------
    model
        Builder with ``m`` (variable ``makespan``), ``sets``, ``columns``, ``conflicts``,
        ``lengths``,
        ``sequence``, ``unit``, ``stop`` and ``timed_sum``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.sets = model, model.sets
        self.members: dict[str, list[str]] = {}
        for name in self.sets.operators:
            self.members.setdefault(model.columns.representative.get(name, name), []).append(name)
        self.sides: list[Side] = []

    def write(self, levels: int) -> None:
        """Add variables and constraints; none where every group is one operator."""
        m = self.model.m
        alone = all(len(names) == 1 for names in self.members.values())
        if not levels or alone or len(self.members) > MOST_GROUPS:
            return
        self.sides = [Side(self.model, self.members, levels, forward) for forward in (True, False)]
        m.journey, m.occupied = pyo.ConstraintList(), pyo.ConstraintList()
        for side, family in zip(self.sides, ("begin", "rest"), strict=True):
            side.declare(family)
            side.write(m.journey)
        for group in self.members:
            self.occupied(group)

    def encode(self) -> None:
        """Set the variables as the starts and the makespan say."""
        for side in self.sides:
            side.encode()

    def occupied(self, group: str) -> None:
        """Head, work and tail for each pair of levels of a group."""
        heads, tails = self.sides
        seen: set[Any] = set()
        for low in reversed(heads.levels[group]):
            for high in reversed(tails.levels[group]):
                names = low.names & high.names
                others = self.inside(group, low.names, high.names)
                key = names, tuple(others)
                if not names or key in seen:
                    continue
                seen.add(key)
                if len(names) == 1 and not others:
                    continue
                total = pyo.quicksum(self.model.lengths[name] for name in sorted(names))
                total += pyo.quicksum(
                    ticks / self.model.unit * self.model.conflicts.of(group, other)
                    for other, ticks in others
                )
                total += heads.times[low] + tails.times[high]
                add_le(self.model.m.occupied, total, self.model.m.makespan)

    def inside(
        self, group: str, low: frozenset[str], high: frozenset[str]
    ) -> list[tuple[str, int]]:
        """Other groups, with their least work behind one and before another level of a group."""
        graph, found = self.sets.graph, []
        held = self.model.sequence.held
        if not self.one_device:
            return []
        for other, names in self.members.items():
            if other == group or held[other].keys().isdisjoint(held[group]):
                continue
            ticks = sum(
                self.sets.shortest[n]
                for n in names
                if not low.isdisjoint(graph.ancestors[n])
                and not high.isdisjoint(graph.descendants[n])
            )
            if ticks:
                found.append((other, ticks))
        return found

    @property
    def one_device(self) -> bool:
        """Whether every placement is on one device: then groups that meet share a line of work."""
        return all(len(p.devices) == 1 for places in self.sets.placements.values() for p in places)
