"""Least times near a fork or a join, by one-device arguments on its neighbourhood alone.

Separations of pairs follow paths; they do not see that parallel branches either take turns on one
device or pay for two crossings. Heads do (:mod:`.heads`), but only from the start of the whole
graph. So heads are computed once more from each operator with several followers, over those that
come soon after it, and tails from each with several predecessors.

Proof. Let a be an operator, and keep only operators that depend on it. In any plan they start
after a stops; moved so that this is time 0 they are a schedule of the part of the graph in which a
takes no time. A head in this part is a time before which its operator cannot start after a stops.
Every predecessor within the part of an operator that is kept is kept too, up to a limit in
topological order, so no argument uses an operator that is missing: leaving out later ones removes
conditions. Backward the same.
"""

from __future__ import annotations

import numpy as np

from milp_plan.core.budget import Budget

from .frame import Edge, SitedOption
from .heads import HeadPass
from .view import FAR, Array, Separations, View

REACH = 48
"""Most operators of the neighbourhood of a fork or join."""


def neighbourhood_times(plain: Separations, budget: Budget) -> Array:
    """Return the least time from the stop of u to the start of v; ``-FAR`` where nothing was found.

    Parameters
    ----------
    plain
        Separations of a frame, forward.
    budget
        Gives up with :class:`OutOfTime`.
    """
    result = np.full(plain.through.shape, -FAR, dtype=np.int64)
    for backward in (False, True):
        _Side(plain, backward, budget).fill(result)
    np.fill_diagonal(result, -FAR)
    return result


class _Side:
    """Forks of one direction of time; neighbourhoods that are alike are evaluated once."""

    def __init__(self, plain: Separations, backward: bool, budget: Budget) -> None:
        self.frame, self.tick = plain.view.frame, plain.view.tick
        self.reach = plain.through >= 0
        self.backward, self.budget = backward, budget
        frame = self.frame
        self.after: list[list[Edge]] = [[] for _ in frame.names]
        self.before: list[list[Edge]] = [[] for _ in frame.names]
        for edge in frame.edges:
            self.after[edge.source].append(edge)
            self.before[edge.target].append(edge)
        self.done: dict[object, Array] = {}

    def fill(self, found: Array) -> None:
        """Raise the entries of pairs in some neighbourhood."""
        for root in range(len(self.frame.names)):
            self.budget.check()
            part = self._part(root)
            inside = set(part)
            edges = [e for v in part for e in self.after[v] if e.target in inside]
            if not self._worth(root, edges):
                continue
            heads = self._heads(root, part, edges)
            if self.backward:
                found[part[::-1], root] = np.maximum(found[part[::-1], root], heads)
            else:
                found[root, part] = np.maximum(found[root, part], heads)

    def _part(self, root: int) -> list[int]:
        """Return the root and the nearest of those that come after it (before it), in order."""
        if self.backward:
            return [*np.flatnonzero(self.reach[:root, root])[-REACH:].tolist(), root]
        return [root, *(np.flatnonzero(self.reach[root, root + 1 :])[:REACH] + root + 1).tolist()]

    def _worth(self, root: int, edges: list[Edge]) -> bool:
        """Return whether branches that begin at the root meet again."""
        sides = [(e.target, e.source) if self.backward else (e.source, e.target) for e in edges]
        if self.backward:
            sides.reverse()
        starts = {late for early, late in sides if early == root}
        branch = {v: {v} for v in starts}
        for early, late in sorted(sides, reverse=self.backward):
            if early != root:
                branch[late] = branch.get(late, set()) | branch[early]
        return any(len(entry) > 1 and v not in starts for v, entry in branch.items())

    def _heads(self, root: int, part: list[int], edges: list[Edge]) -> Array:
        """Return the least start of each operator of the part after the root stops."""
        frame = self.frame
        states = list(frame.states)
        states[root] = [SitedOption(state.option, state.site, 0) for state in states[root]]
        key = self._signature(root, part, edges)
        if key not in self.done:
            names, unit = list(frame.names), list(frame.unit)
            part_frame = frame.derive(names, states, unit, part, edges)
            view = View(part_frame, self.backward, self.tick)
            heads = HeadPass(view, Separations(view, self.budget), self.budget).run()
            self.done[key] = np.array([min(FAR, *ends) for ends in heads], dtype=np.int64)
        return self.done[key]

    def _signature(self, root: int, part: list[int], edges: list[Edge]) -> object:
        """All that heads of a part depend on."""
        frame = self.frame
        place = {v: number for number, v in enumerate(part)}
        units: dict[int, int] = {}
        operators = tuple(
            (
                units.setdefault(frame.unit[v], len(units)),
                frame.holdings.packed[frame.unit[v]],
                frame.beside(v),
                tuple((state.site, state.duration) for state in frame.states[v]),
            )
            for v in part
        )
        links = tuple((place[e.source], place[e.target], tuple(map(tuple, e.links))) for e in edges)
        return place[root], operators, links
