"""First starts and last stops over micro-batches, as operators of their own.

Micro-batches run in any order, so no single copy of an operator is known to be late. But the
*last* of the copies to stop is later than all of them, and whichever it is, its micro-batch still
has to go through what follows. The same holds backward for the *first* copy to start.

For a family X of copies x@0, x@1, ... in one group, two operators of no length are added, on the
devices of the group:

- ``first X``, no later than any copy starts; for an edge from family X to family Y (x@m to y@m
  for all m of Y), ``first Y`` comes after ``first X`` + duration of x + transfer, because the
  micro-batch that is first at Y has been at X;
- ``last X``, no earlier than any copy stops; for an edge (for all m of X) ``last Y`` comes after
  ``last X`` + transfer + duration of y.

- where transfers take turns, the values of such an edge leave one device for another one after
  the other, so ``last Y`` comes after ``first X`` + duration of x + all transfers + duration of y
  when the groups are on different devices.

All are moments of every plan, so bounds on the extended frame hold for the problem. They let
the one-device arguments of :mod:`.heads` weigh a crossing against running whole families in turn,
which is the trade-off of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter

from .frame import Edge, Frame, Link, SitedOption
from .sites import least

Family = dict[int, int]
"""Micro-batch -> number of the operator in the frame."""


def with_milestones(frame: Frame) -> Frame:
    """Return the frame with first starts and last stops added; itself without micro-batches."""
    families = families_of(frame)
    if not families:
        return frame
    size = len(frame.names)
    first = {key: size + number for number, key in enumerate(families)}
    last = {key: size + len(families) + number for number, key in enumerate(families)}
    names = list(frame.names)
    states = list(frame.states)
    units = list(frame.unit)
    edges = list(frame.edges)
    for label, numbers in (("first", first), ("last", last)):
        for key in numbers:
            member = next(iter(families[key].values()))
            names.append(f"{label} of {key[1]!r}")
            units.append(frame.unit[member])
            states.append(_moments(frame.states[member]))
    for key, family in families.items():
        for member in family.values():
            edges.append(_tie(states, first[key], member))
            edges.append(_tie(states, member, last[key]))
    edges += _chains(frame, families, states, (first, last))
    return frame.derive(names, states, units, _sorted(len(names), edges), edges)


def families_of(frame: Frame) -> dict[tuple[int, str], Family]:
    """Return copies of one operator over micro-batches, where they share a group."""
    result: dict[tuple[int, str], Family] = {}
    for number, name in enumerate(frame.names):
        batch = frame.problem.graph.operator(name).micro_batch
        if batch is not None:
            key = (frame.unit[number], name.removesuffix(f"@{batch}"))
            result.setdefault(key, {})[batch] = number
    return {key: family for key, family in result.items() if len(family) > 1}


def _moments(states: list[SitedOption]) -> list[SitedOption]:
    """One state of no length per site type."""
    by_site = {state.site: state for state in states}
    return [SitedOption(state.option, site, 0) for site, state in by_site.items()]


def _tie(states: list[list[SitedOption]], source: int, target: int) -> Edge:
    """Order two operators of one group."""
    never = Link(None, None, None)
    links = [
        [Link(0, None, None) if a.site == b.site else never for b in states[target]]
        for a in states[source]
    ]
    return Edge(source, target, (), links)


def _chains(
    frame: Frame,
    families: dict[tuple[int, str], Family],
    states: list[list[SitedOption]],
    numbers: tuple[dict[tuple[int, str], int], dict[tuple[int, str], int]],
) -> Iterator[Edge]:
    first, last = numbers
    place = {v: (key, batch) for key, family in families.items() for batch, v in family.items()}
    between: dict[tuple[tuple[int, str], tuple[int, str]], dict[int, Edge]] = {}
    for edge in frame.edges:
        if edge.source in place and edge.target in place:
            (before, a), (after, b) = place[edge.source], place[edge.target]
            if a == b:
                between.setdefault((before, after), {})[a] = edge
    for (before, after), edges in between.items():
        if edges.keys() >= families[after].keys():
            ends = (first[before], first[after])
            yield _chain(frame, states, ends, list(edges.values()), delay_of_source=True)
        if edges.keys() >= families[before].keys():
            ends = (last[before], last[after])
            yield _chain(frame, states, ends, list(edges.values()), delay_of_source=False)
        if frame.takes_turns:
            yield _queue(frame, states, (first[before], last[after]), list(edges.values()))


def _chain(
    frame: Frame,
    states: list[list[SitedOption]],
    ends: tuple[int, int],
    edges: list[Edge],
    delay_of_source: bool,
) -> Edge:
    """Join two moments by the least wait over the edges of all micro-batches."""
    links = [
        [_least_wait(frame, edges, a.site, b.site, delay_of_source) for b in states[ends[1]]]
        for a in states[ends[0]]
    ]
    return Edge(*ends, (), links)


def _queue(
    frame: Frame, states: list[list[SitedOption]], ends: tuple[int, int], edges: list[Edge]
) -> Edge:
    """Join the first start and the last stop of two families by all transfers between them."""
    links = [
        [_turns(frame, edges, a.site, b.site) for b in states[ends[1]]] for a in states[ends[0]]
    ]
    return Edge(*ends, (), links)


def _turns(frame: Frame, edges: list[Edge], a: int, b: int) -> Link:
    if frame.types[a].gang > 1 or frame.types[b].gang > 1:
        return _least_wait(frame, edges, a, b, delay_of_source=True)
    each = [_least_wait(frame, [edge], a, b) for edge in edges]
    ends = [
        min(
            state.duration
            for edge in edges
            for state in frame.states[getattr(edge, end)]
            if state.site == site
        )
        for end, site in (("source", a), ("target", b))
    ]
    near = least(*(link.near for link in each))
    enter = [link.enter for link in each]
    queue = None if None in enter else sum(n for n in enter if n is not None) + sum(ends)
    return Link(None if near is None else near + sum(ends), queue, queue)


def _least_wait(
    frame: Frame, edges: list[Edge], a: int, b: int, delay_of_source: bool | None = None
) -> Link:
    best = Link(None, None, None)
    for edge in edges:
        for i, before in enumerate(frame.states[edge.source]):
            for j, after in enumerate(frame.states[edge.target]):
                if (before.site, after.site) == (a, b):
                    delay = 0
                    if delay_of_source is not None:
                        delay = (before if delay_of_source else after).duration
                    link = (n if n is None else n + delay for n in edge.links[i][j])
                    best = Link(*(least(*pair) for pair in zip(best, link, strict=True)))
    return best


def _sorted(size: int, edges: list[Edge]) -> list[int]:
    """Order all operators so that edges lead from left to right."""
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(size), ()))
    for edge in edges:
        sorter.add(edge.target, edge.source)
    return list(sorter.static_order())
