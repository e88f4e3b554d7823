"""A problem in the form that bounds use: operators by number, their states, and their edges.

A *state* is an option on a type of sites. States that no plan can use are removed first: too
large for the memory there, apart from the rest of their colocation group, or out of reach of a
neighbour. When an operator loses its last state, the problem is infeasible, and the frame says
why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from milp_plan.core import CommunicationModel, Option, PlanningProblem, Value
from milp_plan.core.amounts import needed_and_available, size_text
from milp_plan.core.bound import Infeasible

from .holdings import Holdings
from .sites import SiteType, Terrain, Transit, least


@dataclass(frozen=True, slots=True)
class SitedOption:
    """An option on a type of sites, with its ticks there."""

    option: Option
    site: int
    duration: int


class Link(NamedTuple):
    """Least ticks between the ends of an edge in given states.

    ``near`` when the reader's devices all belong to the producer's site, ``enter`` when some does
    not, ``leave`` when the producer has a device outside the reader's site; ``None`` where
    impossible.
    """

    near: int | None
    enter: int | None
    leave: int | None

    @property
    def any(self) -> int | None:
        """Least ticks over all positions of the sites."""
        if self.near is None or self.enter is None:
            return self.enter if self.near is None else self.near
        return min(self.near, self.enter)


@dataclass
class Edge:
    """All values that go from one operator to another; ``links[i][j]`` by their states."""

    source: int
    target: int
    values: tuple[Value, ...]
    links: list[list[Link]]


class Frame:
    """The compiled problem; operators are numbered in topological order.

    Parameters
    ----------
    problem
        Any problem.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        graph = problem.graph
        self.names = graph.topological_order
        self.index = {name: number for number, name in enumerate(self.names)}
        self._set_units()
        self.holdings = Holdings(problem, tuple(self._names(unit) for unit in self.units))
        gangs = {option.gang for operator in graph.operators for option in operator.options}
        self.terrain = Terrain(problem.cluster, gangs)
        self.obstacle: Infeasible | None = None
        self.homes: list[dict[int, tuple[int, int]]] = []
        """Of regions that were searched: unit -> (colour, which device of it), at its best."""
        self.states = [self._fitting(number) for number in range(len(self.names))]
        self._share_types()
        self.edges = list(self._find_edges())
        self._prune()

    def derive(
        self,
        names: list[str],
        states: list[list[SitedOption]],
        unit: list[int],
        order: list[int],
        edges: list[Edge],
    ) -> Frame:
        """Return a frame with more operators, renumbered to ``order``.

        Names that are not in the graph stand for moments, which hold nothing.
        """
        frame = Frame.__new__(Frame)
        frame.problem, frame.holdings, frame.terrain = self.problem, self.holdings, self.terrain
        frame.obstacle, frame.unit_names = self.obstacle, self.unit_names
        number = {old: new for new, old in enumerate(order)}
        frame.names = tuple(names[old] for old in order)
        frame.index = {name: new for new, name in enumerate(frame.names)}
        frame.states = [states[old] for old in order]
        frame.unit = [unit[old] for old in order]
        frame.units = [[] for _ in self.units]
        for new, entry in enumerate(frame.unit):
            frame.units[entry].append(new)
        frame.edges = [
            Edge(number[edge.source], number[edge.target], edge.values, edge.links)
            for edge in edges
        ]
        return frame

    def beside(self, number: int) -> int:
        """Return the least bytes besides lasting ones while an operator runs."""
        name = self.names[number]
        return self.holdings.beside(name) if self.problem.graph.has_operator(name) else 0

    def _set_units(self) -> None:
        graph = self.problem.graph
        numbers: dict[tuple[bool, str], int] = {}
        members: list[list[int]] = []
        self.unit: list[int] = []
        for number, name in enumerate(self.names):
            group = graph.operator(name).group
            key = (group is not None, name if group is None else group)
            if key not in numbers:
                numbers[key] = len(numbers)
                members.append([])
            self.unit.append(numbers[key])
            members[numbers[key]].append(number)
        self.units = members
        self.unit_names = [name for _, name in numbers]

    def _names(self, numbers: list[int]) -> tuple[str, ...]:
        return tuple(self.names[number] for number in numbers)

    @property
    def types(self) -> tuple[SiteType, ...]:
        """Types of sites."""
        return self.terrain.types

    @cached_property
    def single(self) -> bool:
        """Whether every operator runs on one device, whatever its option."""
        return all(self.types[s.site].gang == 1 for states in self.states for s in states)

    @property
    def takes_turns(self) -> bool:
        """Whether transfers from one device to another run one at a time."""
        return self.problem.cluster.communication is not CommunicationModel.DELAY

    def size_text(self, amount: int) -> str:
        """Write bytes in the units of the problem."""
        return size_text(self.problem.units, amount)

    def _fitting(self, number: int) -> list[SitedOption]:
        """Return the states of one operator whose devices can hold what it needs while it runs."""
        name = self.names[number]
        result: list[SitedOption] = []
        tight: tuple[int, int] | None = None
        for option in self.problem.graph.operator(name).options:
            for position, site in enumerate(self.types):
                classes = {self.terrain.device_class[colour] for colour in site.colours}
                if site.gang != option.gang or not classes <= set(option.duration_ticks):
                    continue
                duration = max(option.duration_ticks[entry] for entry in classes)
                needed = self.holdings.running(name, self.unit[number], option, duration)
                if site.memory_bytes is not None and needed > site.memory_bytes:
                    tight = min(tight or (needed, site.memory_bytes), (needed, site.memory_bytes))
                else:
                    result.append(SitedOption(option, position, duration))
        if not result and tight is not None:
            most = self._most_memory(number)
            needs, there = needed_and_available(self.problem.units, tight[0], most)
            self._block(
                f"operator {name!r} needs at least {needs} on each of its "
                f"devices while it runs (persistent values of its group, inputs, outputs, "
                f"workspace) or at the end (with results), and no device it can run on has more "
                f"than {there}",
                (name,),
                tight[0],
                most,
            )
        return result

    def _most_memory(self, number: int) -> int:
        """Return the largest limit among the site types the operator has an option for."""
        operator = self.problem.graph.operator(self.names[number])
        return max(
            site.memory_bytes or 0
            for site in self.types
            for option in operator.options
            if option.gang == site.gang
            and all(self.terrain.device_class[c] in option.duration_ticks for c in site.colours)
        )

    def _block(
        self,
        reason: str,
        subjects: tuple[str, ...],
        needed: int | None = None,
        available: int | None = None,
    ) -> None:
        if self.obstacle is None:
            self.obstacle = Infeasible(reason, subjects, needed, available)

    def _share_types(self) -> bool:
        """Restrict groups to site types that all members can use; return whether any changed."""
        changed = False
        for unit in self.units:
            common = set(range(len(self.types)))
            for number in unit:
                common &= {state.site for state in self.states[number]}
            for number in unit:
                kept = [state for state in self.states[number] if state.site in common]
                if len(kept) < len(self.states[number]):
                    changed = True
                    self.states[number] = kept
            if not common and self.obstacle is None:
                self._block(
                    "no set of devices has the memory and the options for all operators of group "
                    f"{self.unit_names[self.unit[unit[0]]]!r}: {', '.join(self._names(unit))}",
                    self._names(unit),
                )
        return changed

    def _find_edges(self) -> Iterator[Edge]:
        between: dict[tuple[int, int], list[Value]] = {}
        for value in self.problem.graph.values:
            if value.producer is not None:
                for consumer in value.consumers:
                    ends = (self.index[value.producer], self.index[consumer])
                    between.setdefault(ends, []).append(value)
        for (source, target), values in between.items():
            yield Edge(source, target, tuple(values), self._links(source, target, values))

    def _links(self, source: int, target: int, values: list[Value]) -> list[list[Link]]:
        return [
            [self._link((source, before), (target, after), values) for after in self.states[target]]
            for before in self.states[source]
        ]

    def _link(
        self, made: tuple[int, SitedOption], read: tuple[int, SitedOption], values: list[Value]
    ) -> Link:
        (source, before), (target, after) = made, read
        ways = [
            self.terrain.transit(
                value,
                before.option.layout_written(value.name),
                before.site,
                after.option.layout_read(value.name),
                after.site,
            )
            for value in values
        ]
        if self.unit[source] == self.unit[target]:
            return Link(_slowest(way.same for way in ways), None, None)
        near = least(
            _slowest(way.same for way in ways),
            _slowest(way.inside for way in ways),
        )
        if near is not None and not self._fit_together(source, target, before.site, after.site):
            near = None
        if self._in_turn(before, after):
            return Link(near, _total(ways), _total(ways))
        return Link(near, _slowest(way.enter for way in ways), _slowest(way.leave for way in ways))

    def _in_turn(self, before: SitedOption, after: SitedOption) -> bool:
        """Return whether values between the two are sent one at a time, over one channel."""
        return self.takes_turns and self.types[before.site].gang == self.types[after.site].gang == 1

    def _fit_together(self, source: int, target: int, a: int, b: int) -> bool:
        """Return whether the units of both ends can share a device of these types."""
        final = self.holdings.final
        needed = final[self.unit[source]] + final[self.unit[target]]
        shared = set(self.types[a].colours) & set(self.types[b].colours)
        limits = [self.terrain.memory_bytes[colour] for colour in shared]
        return any(limit is None or needed <= limit for limit in limits)

    def _prune(self) -> None:
        """Remove states without a partner across some edge, until none is left to remove."""
        changed = True
        while changed and self.obstacle is None:
            changed = False
            for edge in self.edges:
                changed |= self._keep_partners(edge)
            if changed and self._share_types():
                for edge in self.edges:
                    edge.links = self._links(edge.source, edge.target, list(edge.values))

    def _keep_partners(self, edge: Edge) -> bool:
        links = edge.links
        rows = [i for i, row in enumerate(links) if any(link.any is not None for link in row)]
        columns = [
            j
            for j in range(len(self.states[edge.target]))
            if any(row[j].any is not None for row in links)
        ]
        if not rows:
            names = (self.names[edge.source], self.names[edge.target])
            self._block(
                f"no route leads {', '.join(repr(v.name) for v in edge.values)} from any placement "
                f"of {names[0]!r} to any placement of {names[1]!r} (channels, changes of layout, "
                "colocation and memory taken together)",
                names,
            )
            return False
        changed = self._keep(edge.source, rows)
        return self._keep(edge.target, columns) or changed

    def _keep(self, number: int, kept: list[int]) -> bool:
        """Restrict an operator to these states, in every table about it."""
        if len(kept) == len(self.states[number]):
            return False
        self.states[number] = [self.states[number][i] for i in kept]
        for edge in self._edges_at[number]:
            if edge.source == number:
                edge.links = [edge.links[i] for i in kept]
            else:
                edge.links = [[row[j] for j in kept] for row in edge.links]
        return True

    @cached_property
    def _edges_at(self) -> list[list[Edge]]:
        result: list[list[Edge]] = [[] for _ in self.names]
        for edge in self.edges:
            result[edge.source].append(edge)
            result[edge.target].append(edge)
        return result

    @cached_property
    def least_duration(self) -> list[int]:
        """Fewest ticks of each operator."""
        return [min(state.duration for state in states) for states in self.states]

    @cached_property
    def least_area(self) -> list[int]:
        """Fewest device-ticks of each operator: its duration times the devices it holds."""
        return [
            min(state.duration * self.types[state.site].gang for state in states)
            for states in self.states
        ]

    @cached_property
    def most_gang(self) -> list[int]:
        """Most devices each operator can hold."""
        return [max(self.types[state.site].gang for state in states) for states in self.states]


def _slowest(numbers: Iterator[int | None]) -> int | None:
    """Return the largest; ``None`` if any is."""
    result = list(numbers)
    return None if None in result else max(n for n in result if n is not None)


def _total(ways: list[Transit]) -> int | None:
    """Return the ticks of all values one after the other; ``None`` if one has no way."""
    numbers = [way.enter for way in ways]
    return None if None in numbers else sum(n for n in numbers if n is not None)
