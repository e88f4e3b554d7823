"""States of the chain: how each group of operators runs, and which operators run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import NamedTuple

from milp_plan.core import Placement, Plan
from milp_plan.kinds.schedule.planners.indexed import Indexed, Spot

from .simulator import Step

GROW = 0.5
"""Chance that twice as many units change together."""

WHOLE = 0.25
"""Chance that all that are alike change together."""

Way = tuple[Spot, ...]
"""One spot per operator of a unit, all on one site."""


class ChainState(NamedTuple):
    """A way for each unit, and the operators whose results are dropped and made again."""

    ways: tuple[Way, ...]
    again: frozenset[int]


class States:
    """The states of a problem, and the steps each of them stands for.

    A unit is a colocation group, or an operator without one. Its *ways* are the sites on which it
    can run, each with every option that bears the same name for all its operators; where they
    share no name, with the fastest option of each.

    Parameters
    ----------
    view
        The problem.
    order
        Operators in the order in which they are simulated, producers before consumers.
    """

    def __init__(self, view: Indexed, order: Sequence[str]) -> None:
        self.view = view
        self.order = view.numbers(order)
        self.ways = [list(self._ways(unit)) for unit in range(len(view.units))]
        graph = view.problem.graph
        self.recomputable = [op.recomputable for op in graph.operators]
        made = [False] * view.num_operators
        for value in view.values:
            if value.producer is not None and any(map(self._late, value.consumers)):
                made[view.index[value.producer]] = True
        lasts = [min(spot.duration for spot in spots) > 0 for spots in view.spots]
        self.droppable = [
            operator
            for operator in range(view.num_operators)
            if self.recomputable[operator] and made[operator] and lasts[operator]
        ]
        """Operators that may run again and have a reader that may not."""

    def _late(self, name: str) -> bool:
        return not self.recomputable[self.view.index[name]]

    def _ways(self, unit: int) -> Iterator[Way]:
        view = self.view
        members = view.units[unit]
        for site in view.unit_sites[unit]:
            listed = [
                {spot.placement.option: spot for spot in view.spots[op] if spot.site == site}
                for op in members
            ]
            common = [name for name in listed[0] if all(name in spots for spots in listed)]
            for name in common:
                yield tuple(spots[name] for spots in listed)
            if not common:
                yield view.unit_spots(unit, site)

    def of_plan(self, plan: Plan) -> ChainState:
        """Return the state nearest to a plan: its sites and, where the ways have them, options."""
        placements = {run.operator: run.placement for run in plan.runs}
        return self.placed(placements)

    def placed(self, placements: Mapping[str, Placement]) -> ChainState:
        """Return the state nearest to placements of all operators; nothing runs again."""
        view, ways = self.view, []
        for unit, members in enumerate(view.units):
            wanted = [view.spot(op, placements[view.names[op]]) for op in members]
            ways.append(max(self.ways[unit], key=lambda way: _alike(way, wanted)))
        return ChainState(tuple(ways), frozenset())

    def steps(self, state: ChainState) -> list[Step]:
        """Return the operators in the order of the state, those that run again just in time.

        What is dropped is made again before the first operator reads it that may not run again
        itself. If all its readers are such, it is kept.
        """
        view, steps = self.view, list[Step]()
        spots = {spot.operator: spot for way in state.ways for spot in way}
        read = [False] * view.num_operators
        done = [False] * view.num_operators

        def take(operator: int) -> None:
            for value, _ in spots[operator].reads:
                read[view.producer[value]] = True
            steps.append(spots[operator])

        def make_again(reader: int) -> None:
            for value, _ in spots[reader].reads:
                maker = view.producer[value]
                if maker in state.again and read[maker] and not done[maker]:
                    done[maker] = True
                    make_again(maker)
                    take(maker)

        for operator in self.order:
            if not self.recomputable[operator]:
                make_again(operator)
            take(operator)
        return steps

    def neighbour(self, state: ChainState, rng: Random) -> ChainState:
        """Draw another way or another degree for a unit, or for some units that are alike.

        Alike are units with the same ways, such as those of one layer in every block; those that
        change together follow each other.
        """
        if self.droppable and rng.random() < 0.5:
            drawn = set(_some(self._alike_droppable, rng))
            other = state.again - drawn if rng.random() < 0.5 else state.again | drawn
            return state._replace(again=other if other != state.again else state.again ^ drawn)
        ways, drawn_units = list(state.ways), _some(self._alike_units, rng)
        number = rng.randrange(len(self.ways[drawn_units[0]]))
        for unit in drawn_units:
            ways[unit] = self.ways[unit][number]
        return state._replace(ways=tuple(ways))

    @cached_property
    def _alike_units(self) -> list[list[int]]:
        """Units by what their ways are: sites, options and ticks."""
        found: dict[object, list[int]] = {}
        for unit, ways in enumerate(self.ways):
            key = tuple((spot.placement, spot.duration) for way in ways for spot in way)
            found.setdefault(key, []).append(unit)
        return list(found.values())

    @cached_property
    def _alike_droppable(self) -> list[list[int]]:
        """Droppable operators, those of units that are alike together."""
        droppable = set(self.droppable)
        found = [
            [op for unit in units for op in self.view.units[unit] if op in droppable]
            for units in self._alike_units
        ]
        return [operators for operators in found if operators]


def _some(families: Sequence[Sequence[int]], rng: Random) -> Sequence[int]:
    """Members of one family that follow each other, often one alone; large families come often."""
    number = rng.randrange(sum(map(len, families)))
    for family in families:
        if number < len(family):
            break
        number -= len(family)
    if rng.random() < WHOLE:
        return family
    count = 1
    while count < len(family) and rng.random() < GROW:
        count *= 2
    first = rng.randrange(max(1, len(family) - count + 1))
    return family[first : first + count]


def _alike(way: Way, wanted: Sequence[Spot]) -> tuple[bool, int]:
    same = sum(a.placement == b.placement for a, b in zip(way, wanted, strict=True))
    return way[0].site == wanted[0].site, same
