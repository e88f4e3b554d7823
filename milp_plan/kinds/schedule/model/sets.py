"""Index sets of a scheduling formulation: placements, flows, transfer tasks.

Everything here follows from the problem alone; no variable and no solver is in sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from milp_plan.core import FormulationError, Placement, PlanningProblem, Value
from milp_plan.cost.routes import Route, routes, send_choices

from .windows import Combination, Pair, Ways, Windows

Key = tuple[str, tuple[str, ...], str]
"""A copy that a transfer makes: value, target, layout."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One way a transfer task can run: for this consumer, between these two placements."""

    consumer: str
    combination: Combination
    route: Route


@dataclass(frozen=True, slots=True)
class TransferTask:
    """A journey that may be needed. Present when one of its legs is chosen.

    ``shared`` tasks serve several consumers that may choose independently, or may leave from
    several devices; a task that is not shared has at most one chosen leg, given by the flow of its
    single deciding consumer.
    """

    name: str
    value: str
    producer: str
    legs: tuple[Leg, ...]
    consumers: tuple[str, ...]
    shared: bool

    @property
    def shortest_ticks(self) -> int:
        """Least time it takes when it is needed."""
        return min(leg.route.duration_ticks for leg in self.legs)

    @property
    def longest_ticks(self) -> int:
        """Most time it takes."""
        return max(leg.route.duration_ticks for leg in self.legs)


class ScheduleSets:
    """Sets of a problem whose operators and transfers are to be scheduled.

    Parameters
    ----------
    problem
        Any problem with a schedule.
    within
        Ticks by which plans must end: what none of them can use is left out. ``None`` keeps all.
    steps
        Count steps: whatever takes time takes one. For what depends on order alone.
    """

    def __init__(
        self,
        problem: PlanningProblem,
        within: int | None = None,
        *,
        steps: bool = False,
    ) -> None:
        self.problem, self.steps = problem, steps
        self.graph = problem.graph
        self.operators = problem.graph.topological_order
        self.placements = {name: problem.placements(name) for name in self.operators}
        self.duration = {
            (name, placement): self._counted(problem.duration_ticks(name, placement))
            for name in self.operators
            for placement in self.placements[name]
        }
        self.group = {op.name: op.group or f"\0{op.name}" for op in problem.graph.operators}
        self.combinations: dict[Pair, dict[Combination, Ways]] = {
            pair: dict(self._combine(pair)) for pair in self.values_between
        }
        self.windows: Windows | None = None
        if within is not None:
            self._narrow(within)
        self.shortest = {
            name: min(self.duration[name, p] for p in self.placements[name])
            for name in self.operators
        }
        self.longest = {
            name: max(self.duration[name, p] for p in self.placements[name])
            for name in self.operators
        }

    def _counted(self, ticks: int) -> int:
        return min(1, ticks) if self.steps else ticks

    def _counted_route(self, route: Route) -> Route:
        return (
            replace(route, duration_ticks=1) if self.steps and route.duration_ticks > 1 else route
        )

    def _narrow(self, within: int) -> None:
        """Leave out what no plan that ends in time can use."""
        self.windows = windows = Windows(
            self.duration, self.combinations, self.graph.groups, within
        )
        if windows.empty:
            return
        local = {pair for pair in self.combinations if self._is_local(pair)}
        self.placements = {
            name: tuple(p for p in places if (name, p) in windows.left)
            for name, places in self.placements.items()
        }
        self.duration = {
            spot: self.duration[spot] for spot in self.duration if spot in windows.left
        }
        self.combinations = {
            pair: {
                both: needed
                for both, needed in entry.items()
                if both in windows.open[pair]
                # no flow is modelled for local pairs: rows of time forbid what is too long
                or (pair in local and windows.left.issuperset(zip(pair, both, strict=True)))
            }
            for pair, entry in self.combinations.items()
        }

    @property
    def empty(self) -> bool:
        """Whether no plan at all ends in time; then nothing has been left out."""
        return self.windows is not None and self.windows.empty

    @cached_property
    def values_between(self) -> dict[Pair, tuple[Value, ...]]:
        """(producer, consumer) -> values that flow between them."""
        result: dict[Pair, list[Value]] = {}
        for value in self.graph.values:
            if value.producer is not None:
                for consumer in value.consumers:
                    result.setdefault((value.producer, consumer), []).append(value)
        return {pair: tuple(values) for pair, values in result.items()}

    def _combine(self, pair: Pair) -> Iterator[tuple[Combination, Ways]]:
        producer, consumer = pair
        same_site = self.group[producer] == self.group[consumer]
        for made in self.placements[producer]:
            for read in self.placements[consumer]:
                if same_site and made.devices != read.devices:
                    continue
                needed: dict[str, tuple[Route, ...]] = {}
                for value in self.values_between[pair]:
                    ways = routes(self.problem, value, made, consumer, read)
                    if ways is None:
                        break
                    needed[value.name] = tuple(map(self._counted_route, ways))
                else:
                    yield (made, read), needed

    @cached_property
    def local_pairs(self) -> frozenset[Pair]:
        """Pairs that always share a site and never need a transfer: no flow is modelled."""
        return frozenset(pair for pair in self.combinations if self._is_local(pair))

    def _is_local(self, pair: Pair) -> bool:
        producer, consumer = pair
        if self.group[producer] != self.group[consumer]:
            return False
        result = self.combinations[pair]
        same_site = [
            made.devices == read.devices
            for made in self.placements[producer]
            for read in self.placements[consumer]
        ]
        transfers = any(ways for needed in result.values() for ways in needed.values())
        return len(result) == sum(same_site) and not transfers

    @cached_property
    def transfers(self) -> tuple[TransferTask, ...]:
        """Transfer tasks, in value order."""
        result: list[TransferTask] = []
        for value in self.graph.values:
            if value.producer is not None:
                result += self._transfers_of(value, value.producer)
        return tuple(result)

    def _transfers_of(self, value: Value, producer: str) -> list[TransferTask]:
        legs = [
            Leg(consumer, combination, self._counted_route(choice))
            for consumer in value.consumers
            for combination, needed in self.combinations[producer, consumer].items()
            for route in needed[value.name]
            for choice in self.ways(combination[0], route)
            if self._in_time((producer, consumer), combination, choice)
        ]
        if not legs:
            return []
        consumers = tuple(dict.fromkeys(leg.consumer for leg in legs))
        decider = self._decider(legs, consumers)
        if decider is not None:
            chosen = tuple(leg for leg in legs if leg.consumer == decider)
            name = f"send {value.name}"
            return [TransferTask(name, value.name, producer, chosen, consumers, shared=False)]
        by_key: dict[Key, list[Leg]] = {}
        for leg in legs:
            by_key.setdefault(leg.route.key, []).append(leg)
        tasks = []
        for (name, target, layout), members in by_key.items():
            readers = tuple(dict.fromkeys(leg.consumer for leg in members))
            label = f"send {name} to {'+'.join(target)}" + (
                "" if layout == "full" else f" {layout}"
            )
            choices = {(leg.consumer, leg.combination) for leg in members}
            shared = len(readers) > 1 or len(choices) < len(members)
            tasks.append(TransferTask(label, name, producer, tuple(members), readers, shared))
        return tasks

    def _in_time(self, pair: Pair, combination: Combination, route: Route) -> bool:
        if self.windows is None or self.windows.empty:
            return True
        return self.windows.fits(pair, combination, route.duration_ticks)

    def _decider(self, legs: list[Leg], consumers: tuple[str, ...]) -> str | None:
        """Return the consumer whose flow alone decides a single journey, if there is one.

        That is so when no pair of placements calls for two routes and every consumer with a route
        runs at one site with one option per site, so that they all call for the same copy.
        """
        seen: dict[tuple[str, Combination], Route] = {}
        for leg in legs:
            if (leg.consumer, leg.combination) in seen:
                return None
            seen[leg.consumer, leg.combination] = leg.route
        if len(consumers) == 1:
            return consumers[0]
        if len({self.group[c] for c in consumers}) > 1:
            return None
        by_site: list[dict[tuple[Placement, tuple[str, ...]], Route]] = []
        for consumer in consumers:
            sites = [placement.devices for placement in self.placements[consumer]]
            if len(set(sites)) < len(sites):
                return None
            by_site.append(
                {
                    (made, read.devices): route
                    for (name, (made, read)), route in seen.items()
                    if name == consumer
                }
            )
        return consumers[0] if all(table == by_site[0] for table in by_site) else None

    def ways(self, made: Placement, route: Route) -> tuple[Route, ...]:
        """Every transfer that makes the same copy: one per source, or the reshard alone."""
        return send_choices(self.problem, self.graph.value(route.value), route, made.devices)

    @cached_property
    def surely_after(self) -> dict[str, frozenset[str]]:
        """Transfer task -> operators that start after it stops, whenever it is present."""
        result = {}
        for task in self.transfers:
            per_reader = [self.graph.descendants[c] | {c} for c in task.consumers]
            join = frozenset.intersection if task.shared else frozenset.union
            result[task.name] = join(*per_reader)
        return result

    @cached_property
    def serial_ticks(self) -> int:
        """Time in which everything can run one after the other: no plan needs longer."""
        journeys = sum(task.longest_ticks for task in self.transfers)
        return sum(self.longest.values()) + journeys

    @cached_property
    def heads(self) -> dict[str, int]:
        """Operator -> earliest start in any plan."""
        result: dict[str, int] = {}
        for name in self.operators:
            before = self.graph.predecessors[name]
            result[name] = max((result[b] + self.shortest[b] for b in before), default=0)
        return result

    @cached_property
    def tails(self) -> dict[str, int]:
        """Operator -> least time between its stop and the end of any plan."""
        result: dict[str, int] = {}
        for name in reversed(self.operators):
            after = self.graph.successors[name]
            result[name] = max((result[a] + self.shortest[a] for a in after), default=0)
        return result

    @cached_property
    def tick(self) -> int:
        """Greatest common divisor of all durations: some optimal plan uses only multiples of it."""
        result = 0
        for ticks in self.duration.values():
            result = gcd(result, ticks)
        for task in self.transfers:
            for leg in task.legs:
                result = gcd(result, leg.route.duration_ticks)
        return max(1, result)


def needed_routes(
    sets: ScheduleSets,
    placements: Mapping[str, Placement],
    sources: Mapping[Key, tuple[str, ...]] | None = None,
) -> dict[str, tuple[Route, tuple[str, ...]]]:
    """Transfer task name -> the route these placements call for and the consumers it serves.

    ``sources`` says for some copies which device of a process group they leave from; the others
    leave from the fastest.
    """
    names = {leg.route.key: task.name for task in sets.transfers for leg in task.legs}
    result: dict[str, tuple[Route, tuple[str, ...]]] = {}
    for value in sets.graph.values:
        if value.producer is None:
            continue
        for consumer in value.consumers:
            made, read = placements[value.producer], placements[consumer]
            ways = routes(sets.problem, value, made, consumer, read)
            if ways is None:
                raise FormulationError(
                    f"value {value.name!r}: found placements {made} and {read} with no route "
                    f"between them, expected an allowed pair; report this with the instance"
                )
            for route in ways:
                if route.key not in names:
                    raise FormulationError(
                        f"value {value.name!r}: found a copy {route.key}, expected one of those "
                        f"that end in time; report this with the instance"
                    )
                name = names[route.key]
                served = result[name][1] if name in result else ()
                source = (sources or {}).get(route.key, route.source)
                ways_there = sets.ways(made, route)
                chosen = next((way for way in ways_there if way.source == source), route)
                result[name] = (chosen, (*served, consumer))
    return result
