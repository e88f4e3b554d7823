"""Work on devices and channels between heads and tails, as constraints of the makespan.

makespan >= least head + work of the tasks on a resource + least tail, for the tasks whose head and
tail are at least a level each. Source: Carlier 1982 (European Journal of Operational Research 11,
42-47), for one machine and given tasks; here what runs on a resource is decided by variables.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from milp_plan.api import add_le, spread_levels

Ends = tuple[str, int, int]
"""A task, and the least ticks before and after it."""


class WorkRows:
    """Constraints ``workload`` of a model of placed tasks.

    Parameters
    ----------
    model
        Builder with ``m`` (variable ``makespan``), ``sets``, ``columns``, ``transfers``,
        ``earliest`` and ``unit``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.sets = model, model.sets
        self.rows = model.m.workload = pyo.ConstraintList()

    def write(self, levels: int) -> None:
        """Add constraints for some levels of heads and tails; none for 0."""
        if not levels:
            return
        heads, tails = self.sets.heads, self.sets.tails
        seen = set()
        for low in spread_levels(heads.values(), levels):
            for high in spread_levels(tails.values(), levels):
                names = [n for n in heads if heads[n] >= low and tails[n] >= high]
                if frozenset(names) not in seen:
                    seen.add(frozenset(names))
                    self.between([(n, heads[n], tails[n]) for n in names])
        journeys = []
        for task in self.model.transfers:
            tail = min(tails[c] + self.sets.shortest[c] for c in task.consumers)
            journeys.append((task.name, self.model.earliest[task.name], tail))
        self.between(journeys)

    def between(self, tasks: list[Ends]) -> None:
        """One constraint per resource: earliest head + work on it + least tail."""
        unit = self.model.unit
        work: dict[str, list[Any]] = {}
        edges: dict[str, list[tuple[int, int]]] = {}
        for name, head, tail in tasks:
            for resource, parts in self.model.columns.work(name).items():
                work.setdefault(resource, []).extend(t / unit * c for t, c in parts if t)
                edges.setdefault(resource, []).append((head, tail))
        for resource, terms in work.items():
            if len(terms) > 1:
                fixed = min(h for h, _ in edges[resource]) + min(t for _, t in edges[resource])
                total = pyo.quicksum(terms) + fixed / unit
                add_le(self.rows, total, self.model.m.makespan)
