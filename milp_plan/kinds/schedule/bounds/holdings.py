"""Least bytes that operators must hold on a device.

A *unit* is a colocation group, or an operator without one: what is sure to share its devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core import MemoryLaw, Option, PlanningProblem, Value


class Holdings:
    """Least bytes per device of units, operators and values.

    Parameters
    ----------
    problem
        Any problem; its memory law decides what counts.
    members
        Operators of each unit.

    Attributes
    ----------
    own
        Persistent bytes per unit, such that units on one device need at least the sum of theirs.
    packed
        The same with everything that lies there the whole time: under the static law, also the
        copies that the unit makes.
    final
        The same with everything that lies there at the end: also what the unit makes and is kept.
    """

    def __init__(self, problem: PlanningProblem, members: tuple[tuple[str, ...], ...]) -> None:
        self.problem = problem
        self.members = members
        self.static = problem.memory_law is MemoryLaw.STATIC
        graph = problem.graph
        self.always_runs = {
            name: all(problem.duration_ticks(name, p) for p in problem.unlike_placements(name))
            for unit in members
            for name in unit
        }
        self._layouts = {
            name: {
                value.name: [option.layout_read(value.name) for option in operator.options]
                for value in graph.inputs[name]
            }
            for operator in graph.operators
            for name in (operator.name,)
        }
        self.shared = tuple(self._persistent(unit) for unit in members)
        self.own = self._charged_once()
        self.packed = tuple(
            number + self._written(unit) for number, unit in zip(self.own, members, strict=True)
        )
        self.results = tuple(self._kept(unit) for unit in members)
        """Value -> fewest bytes that it takes at the end on a device of the unit that makes it."""
        self.final = tuple(
            number if self.static else number + sum(kept.values())
            for number, kept in zip(self.packed, self.results, strict=True)
        )

    def _persistent(self, unit: Iterable[str]) -> dict[str, int]:
        """List persistent values of a unit, each with the fewest bytes any member needs of it."""
        result: dict[str, int] = {}
        for name in unit:
            for value in self.problem.graph.inputs[name]:
                if value.persistent:
                    few = min(value.bytes[layout] for layout in self._layouts[name][value.name])
                    result[value.name] = max(result.get(value.name, 0), few)
        return result

    def _charged_once(self) -> tuple[int, ...]:
        """Return the bytes per unit such that units on one device need at least the sum of theirs.

        A persistent value that several units read lies once on a device; it is charged to its
        first unit only, by the fewest bytes any reader needs.
        """
        seen: set[str] = set()
        charged = []
        for values in self.shared:
            charged.append(sum(number for name, number in values.items() if name not in seen))
            seen.update(values)
        return tuple(charged)

    def _written(self, unit: Iterable[str]) -> int:
        """Bytes of native copies that a device of the unit's site is charged statically."""
        if not self.static:
            return 0
        outputs = self.problem.graph.outputs
        return sum(self._least_written(value) for name in unit for value in outputs[name])

    def _kept(self, unit: Iterable[str]) -> dict[str, int]:
        """List what a unit makes that stays to the end, each with its fewest bytes."""
        outputs = self.problem.graph.outputs
        made = (value for name in unit for value in outputs[name] if value.is_kept)
        return {value.name: self._least_written(value) for value in made}

    def _least_written(self, value: Value) -> int:
        """Return the fewest bytes of the native copy on each device of its site."""
        assert value.producer is not None
        return min(
            value.bytes[option.layout_written(value.name)]
            for option in self.problem.graph.operator(value.producer).options
        )

    def lasting(self, unit: int) -> int:
        """Return the bytes that lie on a device of a unit all the time because of that unit."""
        return sum(self.shared[unit].values()) + self._written(self.members[unit])

    def running(self, name: str, unit: int, option: Option, duration: int) -> int:
        """Return the bytes a device of the site needs while the operator runs, or at the end.

        Inputs are held until their reader stops, outputs from their producer's start, each in
        its layout; persistent values of the whole unit lie beside them all the time, and at the
        end its results. An operator that lasts no time holds only the latter two.
        """
        values = dict(self.shared[unit])
        for value in self.problem.graph.inputs[name]:
            if value.persistent:
                exact = value.bytes[option.layout_read(value.name)]
                values[value.name] = max(values[value.name], exact)
        held = sum(values.values())
        if self.static:
            return held + self.passing(name, option)
        results = dict(self.results[unit])
        for value in self.problem.graph.outputs[name]:
            if value.is_kept:
                results[value.name] = value.bytes[option.layout_written(value.name)]
        return held + max(sum(results.values()), self.passing(name, option) if duration else 0)

    def passing(self, name: str, option: Option) -> int:
        """Bytes of inputs, outputs and workspace of one operator on each device of its site."""
        graph = self.problem.graph
        held = option.workspace_bytes
        held += sum(
            value.bytes[option.layout_read(value.name)]
            for value in graph.inputs[name]
            if not value.persistent
        )
        return held + sum(
            value.bytes[option.layout_written(value.name)] for value in graph.outputs[name]
        )

    def beside(self, name: str) -> int:
        """Return the fewest bytes that lie beside those of ``packed`` while the operator runs.

        Statically the copies are in ``packed`` already, and only the workspace is left.
        """
        options = self.problem.graph.operator(name).options
        if self.static:
            return min(option.workspace_bytes for option in options)
        if not self.always_runs[name]:
            return 0
        return min(self.passing(name, option) for option in options)

    def copy_bytes(self, value: Value) -> int:
        """Fewest bytes that one complete copy of a produced value takes, over all its devices.

        A native copy fills every device of the producer's site, a transferred one lies on one
        device at least. At every instant from the producer's start to the last reader's stop one
        of them is there, because a native copy stays until the transfers made from it stop. Of
        what is kept, the native copy is there to the end.
        """
        graph = self.problem.graph
        assert value.producer is not None
        made = [
            option.gang * value.bytes[option.layout_written(value.name)]
            for option in graph.operator(value.producer).options
        ]
        read = [
            value.bytes[layout]
            for consumer in (() if value.is_kept else value.consumers)
            for layout in self._layouts[consumer][value.name]
        ]
        return min(made + read)
