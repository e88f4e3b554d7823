"""Head, work and tail of colocation groups, with the journeys that their placements call for.

The operators of a group run one after the other, so the makespan is at least the first start of a
group, its work, and what follows its last stop. ``begin[g]`` is at most the first start of group g
and ``rest[g]`` at most the time after its last stop::

    begin[g] >= begin[f] + least work of f before g + least journey from f to g
    makespan >= begin[g] + work of g + sum of work of h * meets[g,h] + rest[g]

f is a group with a producer of each operator by which g can begin. The sum is over groups h none of
whose operators can start before g begins, nor stop after g ends: each first operator of h has an
ancestor in g, each last one a descendant. An operator without a group is a group by itself.

Source: this project; heads and tails of one machine are Carlier's (1982, European Journal of
Operational Research 11, 42-47).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import at_most


class GroupRows:
    """Rows ``journey`` and ``occupied`` and columns ``begin`` and ``rest`` of a model.

    Parameters
    ----------
    model
        Builder with ``m`` (column ``makespan``), ``sets``, ``columns``, ``meetings``, ``lengths``,
        ``earliest``, ``unit``, ``stop`` and ``timed_sum``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.sets, self.columns = model, model.sets, model.columns
        self.graph = self.sets.graph
        self.group = {n: self.columns.owner.get(n, n) for n in self.sets.operators}
        self.members: dict[str, list[str]] = {}
        for name, group in self.group.items():
            self.members.setdefault(group, []).append(name)
        self.one_device = all(
            len(p.devices) == 1 for places in self.sets.placements.values() for p in places
        )
        self.ends = {True: self._ends(self.graph.predecessors), False: self._ends(self.graph.successors)}
        self.begin: dict[str, Any] = {}
        self.rest: dict[str, Any] = {}

    def _ends(self, near: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Members of each group with no neighbour in it on one side."""
        return {
            group: [n for n in names if all(self.group[o] != group for o in near[n])]
            for group, names in self.members.items()
        }

    def write(self) -> None:
        """Add columns and rows; none where every group is one operator."""
        m, sets, unit = self.model.m, self.sets, self.model.unit
        many = [group for group, names in self.members.items() if len(names) > 1]
        if not many:
            return
        most = m.makespan.ub
        m.begin = pyo.Var(many, bounds=(0, most))
        m.rest = pyo.Var(many, bounds=(0, most))
        m.journey, m.occupied = pyo.ConstraintList(), pyo.ConstraintList()
        for group, names in self.members.items():
            if len(names) > 1:
                self.begin[group], self.rest[group] = m.begin[group], m.rest[group]
                m.begin[group].setlb(min(self.model.earliest[n] for n in names) / unit)
                m.rest[group].setlb(min(sets.tails[n] for n in names) / unit)
            else:
                self.begin[group] = m.start[group]
                self.rest[group] = m.makespan - self.model.stop(group)
        for group in many:
            for name in self.ends[True][group]:
                at_most(m.journey, m.begin[group], m.start[name])
            for name in self.ends[False][group]:
                at_most(m.journey, self.model.stop(name) + m.rest[group], m.makespan)
        self.journeys(forward=True)
        self.journeys(forward=False)
        for group in self.members:
            self.occupied(group)

    def journeys(self, *, forward: bool) -> None:
        """``begin`` behind ``begin`` of groups before, ``rest`` before ``rest`` of groups after."""
        near = self.graph.predecessors if forward else self.graph.successors
        depth = self._depths(near, forward=forward)
        times = self.begin if forward else self.rest
        for group, ends in self.ends[forward].items():
            found = [{} for _ in ends]
            for name, by_group in zip(ends, found, strict=True):
                for other in near[name]:
                    deepest = by_group.get(self.group[other])
                    if deepest is None or depth[other] > depth[deepest]:
                        by_group[self.group[other]] = other
            for other in set.intersection(*(set(by_group) for by_group in found)):
                if len(self.members[group]) == len(self.members[other]) == 1:
                    continue  # a row of ``precede``
                pairs = [(by[other], n) for n, by in zip(ends, found, strict=True)]
                work = min(depth[first] for first, _ in pairs) / self.model.unit
                ordered = pairs if forward else [(n, first) for first, n in pairs]
                at_most(
                    self.model.m.journey,
                    times[other] + work + self.model.timed_sum(self.columns.least_wait(ordered)),
                    times[group],
                )

    def _depths(self, near: Mapping[str, Sequence[str]], *, forward: bool) -> dict[str, int]:
        """Least work of a group up to the end of a member, itself included, along its chain."""
        order = self.sets.operators if forward else self.sets.operators[::-1]
        found: dict[str, int] = {}
        for name in order:
            own = [found[o] for o in near[name] if self.group[o] == self.group[name]]
            found[name] = max(own, default=0) + self.sets.shortest[name]
        return found

    def occupied(self, group: str) -> None:
        """Head, work and tail of a group and of groups that meet it between its ends."""
        m = self.model.m
        total = self.begin[group] + self.work(group) + self.rest[group]
        inside = [h for h in self.members if h != group and self.within(h, group)]
        if self.one_device:
            meets = self.model.meetings
            for other in inside:
                least = sum(self.sets.shortest[n] for n in self.members[other])
                if least and self.meet(group, other):
                    total += least / self.model.unit * meets.of(group, other)
        if inside or len(self.members[group]) > 1:
            at_most(m.occupied, total, m.makespan)

    def meet(self, first: str, second: str) -> bool:
        """Whether two groups may share a device."""
        held = self.model.sequence.held
        return not held[first].keys().isdisjoint(held[second])

    def work(self, group: str) -> Any:
        """Length of all operators of a group."""
        return pyo.quicksum(self.model.lengths[name] for name in self.members[group])

    def within(self, inner: str, outer: str) -> bool:
        """Whether no operator of a group starts before another group begins, or stops after it."""
        names = set(self.members[outer])
        return all(
            not names.isdisjoint(self.graph.ancestors[n]) for n in self.ends[True][inner]
        ) and all(not names.isdisjoint(self.graph.descendants[n]) for n in self.ends[False][inner])
