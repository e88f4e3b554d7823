"""What the variables of a scheduling model mean: placements, flows and uses, by name.

A decision that is already taken is the number 1 or 0 in place of a variable, so that restricted
models shrink by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from milp_plan.api import Leg, Placement, Route, ScheduleSets, TransferTask, label

Column = Any
Pair = tuple[str, str]
Combination = tuple[Placement, Placement]
Spot = tuple[str, Placement]
Weights = list[tuple[int, Column]]
"""(ticks, variable) whose products sum to a time; the variable may be the number 1."""
Copy = tuple[str, tuple[str, ...], str]
"""Value, target and layout of what a transfer makes."""


def set_to_one(column: Column) -> None:
    """Set a variable to 1 in a start; nothing to do where the decision is a number already."""
    if not isinstance(column, int):
        column.set_value(1)


class Columns:
    """Look-up of decision variables.

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
        self.representative = _representatives(sets)
        self._represented = dict(self._representation())
        self.shortest = sets.shortest | {task.name: task.shortest_ticks for task in transfers}
        self.places: dict[tuple[str, Placement], Column] = {}
        self.flows: dict[tuple[str, str, Placement, Placement], Column] = {}

        self.together: dict[Pair, Column] = {}
        self.sent: dict[str, Column] = {}
        self.sums: dict[frozenset[int], Column] = {}
        self.use: dict[tuple[str, Placement, tuple[str, ...]], Column] = {}

    @cached_property
    def rank(self) -> dict[str, int]:
        """Position of each decider."""
        return {name: number for number, name in enumerate(self.group_representatives)}

    @cached_property
    def group_representatives(self) -> list[str]:
        """Operators that own placement variables, in topological order."""
        return [name for name in self.sets.operators if name not in self.representative]

    def represented(self, name: str, placement: Placement) -> tuple[str, Placement]:
        """Representative of an operator, and its placement on the same devices."""
        return self._represented[name, placement]

    def _representation(self) -> Iterator[tuple[Spot, Spot]]:
        for name, places in self.sets.placements.items():
            representative = self.representative.get(name, name)
            at = {p.devices: p for p in self.sets.placements[representative]}
            for placement in places:
                own = placement if representative == name else at[placement.devices]
                yield (name, placement), (representative, own)

    def represented_combinations(self, pair: Pair) -> tuple[Pair, dict[Combination, Combination]]:
        """Representatives of a pair, in order; their placements -> the pair's."""
        names = tuple(self.representative.get(name, name) for name in pair)
        turned = self.rank[names[0]] > self.rank[names[1]]
        found = {}
        for both in self.sets.combinations[pair]:
            one, other = (self._represented[spot][1] for spot in zip(pair, both, strict=True))
            found[(other, one) if turned else (one, other)] = both
        return (names[1], names[0]) if turned else (names[0], names[1]), found

    def place(self, name: str, placement: Placement) -> Column:
        """Whether an operator has this placement."""
        return self.places[self.represented(name, placement)]

    def decided_placements(self, chosen: Mapping[Any, float]) -> dict[str, Placement]:
        """Placement of every operator, given the values of the placement variables."""

        def weight(name: str, placement: Placement) -> float:
            representative, own = self.represented(name, placement)
            return chosen.get((representative, label(own)), 0.0)

        return {
            name: max(places, key=lambda p, n=name: weight(n, p))  # type: ignore[misc]
            for name, places in self.sets.placements.items()
        }

    def decided_sources(self, used: Mapping[Any, float]) -> dict[Copy, tuple[str, ...]]:
        """Where copies leave from, given the values of the use variables."""
        found: dict[Copy, tuple[str, ...]] = {}
        for task in self.task.values():
            for leg in task.legs:
                name = (task.name, label(leg.combination[0]), "+".join(leg.route.source))
                if used.get(name, 0.0) > 0.5:
                    found[leg.route.key] = leg.route.source
        return found

    def on(self, name: str, device: str) -> list[Column]:
        """Variables whose sum says whether an operator runs on a device."""
        return [self.place(name, p) for p in self.sets.placements[name] if device in p.devices]

    def one_device(self, first: str, second: str) -> Column | None:
        """Whether two operators that exchange values share a device: a variable, if any."""
        one, other = (self.representative.get(name, name) for name in (first, second))
        return self.together.get((one, other), self.together.get((other, one)))

    def flow(self, task: TransferTask, leg: Leg) -> Column:
        """Whether the pair of placements of a leg is chosen."""
        return self.flows[(task.producer, leg.consumer, *leg.combination)]

    def uses(self, task: TransferTask) -> list[tuple[Column, Any]]:
        """(variable, route) for each way a transfer can run; the variables sum to its presence."""
        if task.shared:
            ways = {(leg.combination[0], leg.route.source): leg.route for leg in task.legs}
            return [(self.use[task.name, *way], route) for way, route in ways.items()]
        return [(self.flow(task, leg), leg.route) for leg in task.legs]

    def calls(self, task: TransferTask, consumer: str) -> Weights:
        """Weights that sum to 1 where a consumer calls for a shared task."""
        called = {leg.combination: 1 for leg in task.legs if leg.consumer == consumer}
        return self.pair_weights((task.producer, consumer), called)

    def pair_weights(self, pair: Pair, ticks: Mapping[Combination, int]) -> Weights:
        """Weights that sum to the ticks of a pair's chosen placements; 0 where none are given."""
        every = self.sets.combinations[pair]
        weights = [(ticks.get(both, 0), self.flows[(*pair, *both)]) for both in every]
        reads = dict.fromkeys(read for _, read in ticks)
        if len(reads) == len(self.sets.placements[pair[1]]):
            return self.one_of(weights, 1)
        found: Weights = []
        for read in reads:
            into = [w for w, both in zip(weights, every, strict=True) if both[1] == read]
            found += self.one_of(into, self.place(pair[1], read))
        return found

    def wait(self, pair: Pair) -> Weights:
        """Ticks of the longest transfer between a producer and a consumer."""
        if pair in self.sets.local_pairs:
            return []
        return self.one_of([(t, self.flows[(*pair, *both)]) for both, t in self._waits(pair)], 1)

    def least_wait(self, pairs: Sequence[Pair]) -> Weights:
        """Least ticks that any of some pairs of two groups' operators waits."""
        if not self.sets.local_pairs.isdisjoint(pairs):
            return []
        least: dict[int, tuple[int, Column]] = {}
        for pair in pairs:
            for both, ticks in self._waits(pair):
                column = self.flows[(*pair, *both)]
                least[id(column)] = min(ticks, least.get(id(column), (ticks, 0))[0]), column
        return self.one_of(list(least.values()), 1)

    def _waits(self, pair: Pair) -> Iterator[tuple[Combination, int]]:
        for both, needed in self.sets.combinations[pair].items():
            yield both, max((r.duration_ticks for way in needed.values() for r in way), default=0)

    def column(self, reference: tuple[Any, ...]) -> Column:
        """Variable that a reference of the memory sets means."""
        kind, *index = reference
        if kind == "place":
            return self.place(*index)
        return self.use[tuple(index)] if kind == "use" else self.flows[tuple(index)]

    def lengths(self, name: str) -> Weights:
        """Weights that sum to the length of a task."""
        task = self.task.get(name)
        if task is None:
            places = self.sets.placements[name]
            return self.one_of(
                [(self.sets.duration[name, p], self.place(name, p)) for p in places], 1
            )
        if task.shared:
            return self.substitute_sums(
                [(route.duration_ticks, use) for use, route in self.uses(task)]
            )
        ticks = {leg.combination: leg.route.duration_ticks for leg in task.legs}
        return self.pair_weights((task.producer, task.legs[0].consumer), ticks)

    def presence(self, name: str, which: Callable[[Route], Any]) -> Weights:
        """Weights that sum to 1 where a transfer takes a route of some kind."""
        task = self.task[name]
        if task.shared:
            return self.substitute_sums(
                [(1, use) for use, route in self.uses(task) if which(route)]
            )
        taken = {leg.combination: 1 for leg in task.legs if which(leg.route)}
        return self.pair_weights((task.producer, task.legs[0].consumer), taken)

    def one_of(self, weights: Weights, whole: Column) -> Weights:
        """Weights with the same sum and fewer variables, for variables that sum to ``whole``.

        They are relative to the most common ticks.
        """
        most = Counter(ticks for ticks, _ in weights).most_common(1)
        base = most[0][0] if most else 0
        found = [(base, whole)] if base else []
        return found + self.substitute_sums(
            [(t - base, column) for t, column in weights if t != base]
        )

    def substitute_sums(self, weights: Weights) -> Weights:
        """Weights with the same sum, with the variable of a sum for its parts."""
        parts: dict[int, list[Column]] = {}
        for ticks, column in weights:
            if not (isinstance(column, int) and column == 0):
                parts.setdefault(ticks, []).append(column)
        found: Weights = []
        for ticks, columns in parts.items():
            total = self.sums.get(frozenset(map(id, columns)))
            found += [(ticks, c) for c in (columns if total is None else [total])]
        return found

    def holds(self, name: str) -> dict[str, list[Column]]:
        """Resource -> variables whose sum says whether a task holds it."""
        return {place: [column for _, column in parts] for place, parts in self.work(name).items()}

    def work(self, name: str) -> dict[str, list[tuple[int, Column]]]:
        """Resource -> (ticks, variable) whose products sum to the time a task holds it."""
        found: dict[str, list[tuple[int, Column]]] = {}
        if name in self.task:
            for use, route in self.uses(self.task[name]):
                for resource in route.resources:
                    found.setdefault(resource, []).append((route.duration_ticks, use))
        else:
            for placement in self.sets.placements[name]:
                ticks = self.sets.duration[name, placement]
                for device in placement.devices:
                    found.setdefault(device, []).append((ticks, self.place(name, placement)))
        return found

    def short(self, name: str) -> int:
        """Least length of a task while it is present."""
        return self.shortest[name]

    def surely_before(self, first: str, second: str) -> bool:
        """Whether precedence alone puts one task (while present) before the other."""
        producer = self.task[second].producer if second in self.task else second
        after = self.sets.surely_after if first in self.task else self.sets.graph.descendants
        return producer in after[first] or (second in self.task and producer == first)


def _representatives(sets: ScheduleSets) -> dict[str, str]:
    """Operators that share the variables of their group's first member (one option per site)."""
    found: dict[str, str] = {}
    for members in sets.graph.groups.values():
        sites = [[p.devices for p in sets.placements[name]] for name in members]
        if all(set(row) == set(sites[0]) and len(set(row)) == len(row) for row in sites):
            found.update(dict.fromkeys(members[1:], members[0]))
    return found
