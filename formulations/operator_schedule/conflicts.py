"""Whether two tasks hold a resource both, as few variables as tell it.

Tasks that hold the same resources by the same variables are of one *kind*: the operators of a
colocation group, the transfers between two groups. Two tasks of one kind meet wherever they are
present; whether two kinds meet is one sum or one variable, however many tasks are of them.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from milp_plan.api import add_le

from .sequence import Sequence

Pair = tuple[str, str]


class ConflictPairs:
    """Variable ``conflict``; ``share``: conflict >= on[x,r] + on[y,r] - 1 for each resource r.

    Parameters
    ----------
    sequence
        What each task holds.
    m
        Pyomo model to which variables and constraints are added.
    """

    def __init__(self, sequence: Sequence, m: Any) -> None:
        self.m, self.columns, self.held = m, sequence.columns, sequence.held
        m.conflict, m.share = pyo.Var(pyo.Any, bounds=(0, 1), dense=False), pyo.ConstraintList()
        first: dict[Any, str] = {}
        self.kind = {name: first.setdefault(self._signature(name), name) for name in self.held}
        self.known: dict[Pair, Any] = {}
        self.lower: dict[Pair, list[Any]] = {}

    def _signature(self, name: str) -> Any:
        return frozenset(
            (resource, tuple(sorted(map(id, columns))))
            for resource, columns in self.held[name].items()
        )

    def of(self, first: str, second: str) -> Any:
        """Number, sum or variable: 1 where both tasks hold some resource."""
        one, other = sorted((self.kind[first], self.kind[second]))
        if (one, other) not in self.known:
            self.known[one, other] = self._make(one, other)
        return self.known[one, other]

    def _make(self, one: str, other: str) -> Any:
        if one == other:
            return self._present(one)
        together = self.columns.one_device(one, other)
        if together is not None:
            return together
        column = self.m.conflict[one, other]
        self.lower[one, other] = rows = []
        for resource, columns in self.held[one].items():
            if resource in self.held[other]:
                both = pyo.quicksum(columns) + pyo.quicksum(self.held[other][resource])
                rows.append(both - 1)
                add_le(self.m.share, both - 1, column)
        return column

    def _present(self, name: str) -> Any:
        """1 where a task holds anything."""
        if name not in self.columns.task:
            return 1
        return pyo.quicksum(n * c for n, c in self.columns.presence(name, lambda r: r.resources))

    def encode(self) -> None:
        """Set the variables to the least values that the others allow."""
        for key, rows in self.lower.items():
            self.m.conflict[key].set_value(max(0, *(pyo.value(row) for row in rows)))
