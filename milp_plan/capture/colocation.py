"""Groups of operators that share a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from milp_plan.core import UPDATE_KIND, Operator


class Colocation:
    """Sets of operators that share a device."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def join(self, name: str, others: Iterable[str]) -> None:
        """Put others on the device of ``name``."""
        for other in others:
            self._parent[self._root(other)] = self._root(name)

    def _root(self, name: str) -> str:
        while self._parent.setdefault(name, name) != name:
            name = self._parent[name]
        return name

    def grouped(self, operators: Sequence[Operator]) -> list[Operator]:
        """Return the operators with their groups, each named after its first update."""
        names: dict[str, str] = {}
        for operator in operators:
            if operator.kind == UPDATE_KIND:
                names.setdefault(self._root(operator.name), operator.name.removesuffix(".U"))
        return [
            replace(operator, group=names[self._root(operator.name)])
            if operator.name in self._parent
            else operator
            for operator in operators
        ]
