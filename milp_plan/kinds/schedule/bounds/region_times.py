"""Least times from a fork to a join, and of a path out and back, by search over placements.

Between a fork u and a join v lie parallel branches. Whatever shares a device takes turns, whatever
does not pays for the way there; bounds that look at one device at a time see half of that. So the
placements of small *regions* are searched. A training step goes through a region twice: forward
from u to v, and later back from b to a, with groups that stay where they are. Both ways are short
for different placements, so they are searched together.

Proof. Take any plan, keep the operators strictly between u and v, and let time begin when u stops.
What is kept is a schedule of the region on the plan's devices: exclusive, with its edges and
transfers. For a placement, heads and tails are raised along edges, by predecessors and followers on
the same device (one machine, in order of heads or tails), and then no device, and no channel or
port, can be done before Jackson's preemptive schedule of its operators or transfers with their
heads and tails. A transfer is one per value and device, however many readers, of the least length
that any reader allows. While some places are open, their operators take their least times on a
device of their own, which only makes all of this smaller, so a branch whose time is at least the
best complete one can be cut. The least of what is left holds for every plan. Equal devices are told
apart only once used. Operators of a group share their place; the lasting bytes of the groups of one
device must fit beside each other and beside what each of these operators needs as it runs. Nothing
is said of other operators, so this holds under every communication model.

For two regions u .. v and b .. a with v before b, each operator is in one of them, and a plan's
placement is one of those searched, so the sum of both times is at least the least sum. From the
stop of u to the start of a it takes that long, and v, what is between v and b, and b.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from milp_plan.core import CommunicationModel
from milp_plan.core.budget import Budget

from .frame import Edge
from .region_search import CHANNEL, DELAY, ENDLESS, ENDPOINT, Parts, least_times
from .regions import Region
from .view import FAR, Array, Separations, scale_for

_PLACEMENTS = 40_000, 250_000
"""Most placements of a region, complete or partial, in each of the two orders of places."""
_PLACEMENTS_OF_PAIR = 20_000, 20_000
"""The same for a pair of regions, whose times alone are known."""
_LARGEST_PAIRED = 1000
"""Most operators of a graph in which pairs are searched."""
_MODELS = {
    CommunicationModel.DELAY: DELAY,
    CommunicationModel.CHANNEL: CHANNEL,
    CommunicationModel.ENDPOINT: ENDPOINT,
}


def region_times(plain: Separations, regions: list[Region], budget: Budget) -> Array:
    """Return the least time from the stop of u to the start of v; ``-FAR`` where nothing was found.

    Parameters
    ----------
    plain
        Separations of a frame, forward, all of whose operators take one device.
    regions
        Regions of the frame.
    budget
        Gives up with :class:`OutOfTime`.
    """
    result = np.full(plain.through.shape, -FAR, dtype=np.int64)
    search = RegionSearch(plain, budget)
    for region in regions:
        result[region.fork, region.join] = search.least((region,), (0,))
    if plain.view.size <= _LARGEST_PAIRED:
        raised = Separations(plain.view, budget, segments=result)
        _Ways(search, regions, raised).fill(result)
    plain.view.frame.homes = search.homes
    return result


class _Ways:
    """Pairs of regions, one on the way out and one on the way back, from the inside outward."""

    def __init__(self, search: RegionSearch, regions: list[Region], raised: Separations) -> None:
        self.search, self.regions, self.raised = search, regions, raised
        self.frame = raised.view.frame
        self.durations = raised.view.durations

    def fill(self, found: Array) -> None:
        """Raise the time from the fork of the first to the join of the second."""
        pairs = sorted(self._pairs(), key=lambda pair: -pair[0].fork)
        apart = self.raised.through - self.durations[:, None]
        done: list[tuple[int, int, int]] = []
        for out, back in pairs:
            inner = int(apart[out.join, back.fork])
            for fork, join, time in done:
                ends = apart[out.join, fork], apart[join, back.fork]
                before = 0 if fork == out.join else int(ends[0]) + int(self.durations[fork])
                after = 0 if join == back.fork else int(ends[1]) + int(self.durations[join])
                if min(before, after) >= 0:
                    inner = max(inner, before + time + after)
            known = int(found[out.fork, out.join]), int(found[back.fork, back.join])
            both = self.search.least((out, back), known)
            own = int(self.durations[[out.join, back.fork]].sum())
            time = both + own + inner
            done.append((out.fork, back.join, time))
            found[out.fork, back.join] = max(found[out.fork, back.join], time)

    def _pairs(self) -> Iterable[tuple[Region, Region]]:
        """Return pairs of regions that share more groups with each other than with others."""
        unit = self.frame.unit
        units = [{unit[v] for v in region.inside} for region in self.regions]
        common: dict[tuple[int, int], int] = {}
        for a, out in enumerate(self.regions):
            for b, back in enumerate(self.regions):
                shared = len(units[a] & units[b])
                fits = self.raised.through[out.join, back.fork] >= 0 and out.join != back.fork
                if shared > 1 and fits:
                    common[a, b] = shared
        for (a, b), shared in common.items():
            others = (n for (x, y), n in common.items() if (x == a) != (y == b))
            if shared >= max(others, default=0):
                yield self.regions[a], self.regions[b]


class RegionSearch:
    """Searches regions; regions that are alike are searched once."""

    def __init__(self, plain: Separations, budget: Budget) -> None:
        self.frame, self.tick, self.budget = plain.view.frame, plain.view.tick, budget
        self.reach = plain.through >= 0
        self.done: dict[bytes, tuple[int, list[tuple[int, int]] | None]] = {}
        self.homes: list[dict[int, tuple[int, int]]] = []
        frame = self.frame
        self.colours = len(frame.terrain.count)
        limits = [m for m in frame.terrain.memory_bytes if m is not None]
        self.byte_unit = scale_for(2 * (sum(frame.holdings.packed) + max(limits, default=0)) + 1)
        self.into: list[list[Edge]] = [[] for _ in frame.names]
        for edge in frame.edges:
            self.into[edge.target].append(edge)
        self.room = np.array(
            [
                ENDLESS if limit is None else limit // self.byte_unit
                for limit in frame.terrain.memory_bytes
            ],
            dtype=np.int64,
        )

    def least(self, regions: tuple[Region, ...], known: tuple[int, ...]) -> int:
        """Return the least sum of the times of regions; each has a known least time."""
        self.budget.check()
        parts = self.parts(regions)
        arrays = [entry for entry in parts if isinstance(entry, np.ndarray)]
        key = b"|".join(str(entry.shape).encode() + entry.tobytes() for entry in arrays)
        if key not in self.done:
            least = np.array(known, dtype=np.int64)
            limits = _PLACEMENTS if len(regions) == 1 else _PLACEMENTS_OF_PAIR
            self.done[key] = searched(parts, least, limits)
        value, devices = self.done[key]
        if devices is not None:
            units = (self.frame.unit[v] for r in regions for v in (r.fork, *r.inside, r.join))
            self.homes.append(dict(zip(dict.fromkeys(units), devices, strict=True)))
        return value

    def parts(self, regions: tuple[Region, ...]) -> Parts:
        """Return the regions as arrays; forks and joins take no time."""
        frame = self.frame
        members: list[int] = []
        first = [0]
        for region in regions:
            members += [region.fork, *region.inside, region.join]
            first.append(len(members))
        places: dict[int, int] = {}
        place = [places.setdefault(frame.unit[v], len(places)) for v in members]
        ticks = np.array([self.ticks_of(v) for v in members], dtype=np.int64)
        for at in first[:-1]:
            ticks[at] = 0
        for at in first[1:]:
            ticks[at - 1] = 0
        fits = np.zeros((len(places), self.colours), dtype=np.int64)
        for v in members:
            for state in frame.states[v]:
                fits[places[frame.unit[v]], self._colour(state.site)] = 1
        own = [frame.holdings.packed[unit] // self.byte_unit for unit in places]
        beside = [0] * len(places)
        for v, at in zip(members, place, strict=True):
            beside[at] = max(beside[at], frame.beside(v) // self.byte_unit)
        after = np.zeros((len(members), len(members)), dtype=np.int64)
        for low, high in pairwise(first):
            listed = members[low:high]
            after[low:high, low:high] = np.triu(self.reach[np.ix_(listed, listed)], 1)
        edge_at, edge_from, links, sent = self._edges(members, first)
        return Parts(
            np.array(first, dtype=np.int64),
            np.array(place, dtype=np.int64),
            ticks,
            edge_at,
            edge_from,
            *links,
            after,
            *self._values(sent),
            fits,
            np.array(own, dtype=np.int64),
            np.array(beside, dtype=np.int64),
            self.room,
            np.array(frame.terrain.count, dtype=np.int64),
            _MODELS[frame.problem.cluster.communication],
        )

    def _colour(self, site: int) -> int:
        return self.frame.types[site].colours[0]

    def ticks_of(self, v: int) -> list[int]:
        """Return the fewest ticks by colour, and of all."""
        result = [ENDLESS] * self.colours
        for state in self.frame.states[v]:
            at = self._colour(state.site)
            result[at] = min(result[at], state.duration // self.tick)
        return [*result, min(result)]

    def _edges(
        self, members: list[int], first: list[int]
    ) -> tuple[Array, Array, tuple[Array, Array, Array], list[tuple[int, int, Edge]]]:
        edge_at, edge_from = [0], []
        near, enter, least = [], [], []
        sent: list[tuple[int, int, Edge]] = []
        for low, high in pairwise(first):
            inside = {v: low + at for at, v in enumerate(members[low:high])}
            for v in members[low:high]:
                for edge in self.into[v]:
                    if edge.source in inside:
                        a = inside[edge.source]
                        edge_from.append(a)
                        one, other = self._links(edge)
                        near.append(one)
                        enter.append(other)
                        least.append(min(one.min(), other.min()))
                        sent.append((a, inside[v], edge))
                edge_at.append(len(edge_from))
        shape = len(edge_from), self.colours
        links = (
            np.array(near, dtype=np.int64).reshape(shape),
            np.array(enter, dtype=np.int64).reshape(*shape, self.colours),
            np.array(least, dtype=np.int64),
        )
        numbers = np.array(edge_at, dtype=np.int64), np.array(edge_from, dtype=np.int64)
        return *numbers, links, sent

    def _links(self, edge: Edge) -> tuple[Array, Array]:
        """Return the least ticks on one device of each colour, and between two devices."""
        near = np.full(self.colours, ENDLESS, dtype=np.int64)
        enter = np.full((self.colours, self.colours), ENDLESS, dtype=np.int64)
        for i, before in enumerate(self.frame.states[edge.source]):
            for j, after in enumerate(self.frame.states[edge.target]):
                link = edge.links[i][j]
                a, b = self._colour(before.site), self._colour(after.site)
                if link.near is not None and a == b:
                    near[a] = min(near[a], link.near // self.tick)
                if link.enter is not None:
                    enter[a, b] = min(enter[a, b], link.enter // self.tick)
        return near, enter

    def _values(self, sent: list[tuple[int, int, Edge]]) -> tuple[Array, Array, Array, Array]:
        """Return the values, who makes and who reads them, and what they take."""
        listed: dict[tuple[int, str], list[tuple[int, Array]]] = {}
        for a, v, edge in sent:
            for value in edge.values:
                way = self._sending(edge, value.name)
                listed.setdefault((a, value.name), []).append((v, way))
        reader_at = [0]
        readers: list[int] = []
        ticks: list[Array] = []
        for entries in listed.values():
            readers += [v for v, _ in entries]
            ticks += [entry for _, entry in entries]
            reader_at.append(len(readers))
        return (
            np.array([a for a, _ in listed], dtype=np.int64),
            np.array(reader_at, dtype=np.int64),
            np.array(readers, dtype=np.int64),
            np.array(ticks, dtype=np.int64).reshape(len(readers), self.colours, self.colours),
        )

    def _sending(self, edge: Edge, name: str) -> Array:
        """Return the least ticks of one value between devices of each pair of colours."""
        frame = self.frame
        value = next(entry for entry in edge.values if entry.name == name)
        result = np.full((self.colours, self.colours), ENDLESS, dtype=np.int64)
        for before in frame.states[edge.source]:
            for after in frame.states[edge.target]:
                way = frame.terrain.transit(
                    value,
                    before.option.layout_written(name),
                    before.site,
                    after.option.layout_read(name),
                    after.site,
                )
                if way.enter is not None:
                    a, b = self._colour(before.site), self._colour(after.site)
                    result[a, b] = min(result[a, b], way.enter // self.tick)
        return result


def searched(
    parts: Parts, known: Array, most: tuple[int, int]
) -> tuple[int, list[tuple[int, int]] | None]:
    """Return the least sum of the parts' times, by two orders of places with a limit each.

    Also says where each place is in the best placement: (colour, number among these devices).
    """
    best, reached, devices = 0, ENDLESS, None
    for rule, limit in zip((_by_work, _by_branch), most, strict=True):
        order = rule(parts)
        home = np.full(len(order) + 1, ENDLESS, dtype=np.int64)
        found, tried = least_times(_ordered(parts, order), known, limit, home)
        best = max(best, found)
        if home[-1] < reached:
            reached, devices = home[-1], home[:-1][np.argsort(order)]
        if tried <= limit:
            break
    return best, None if devices is None else _named(parts, devices)


def _named(parts: Parts, devices: Array) -> list[tuple[int, int]]:
    """Return the devices of a search as (colour, number)."""
    counts = np.minimum(parts.machines, len(parts.bytes))
    names = [(colour, n) for colour, count in enumerate(counts) for n in range(count)]
    return [names[device] for device in devices]


def _ordered(parts: Parts, order: list[int]) -> Parts:
    """Return the places in another order."""
    place = np.argsort(order)[parts.place]
    return parts._replace(
        place=place,
        fits=parts.fits[order],
        bytes=parts.bytes[order],
        beside=parts.beside[order],
    )


def _ends(parts: Parts) -> list[int]:
    """Return the places of sources and sinks: they decide most about the others."""
    ends = [at for part in zip(parts.first[:-1], parts.first[1:] - 1, strict=True) for at in part]
    return list(dict.fromkeys(parts.place[ends].tolist()))


def _by_work(parts: Parts) -> list[int]:
    """Return an order of places: ends, then the most work first."""
    work = np.bincount(parts.place, parts.ticks[:, -1])
    return list(dict.fromkeys([*_ends(parts), *np.argsort(-work, kind="stable").tolist()]))


def _by_branch(parts: Parts) -> list[int]:
    """Return an order of places: ends, then one branch after the other."""
    result = _ends(parts)
    following: list[list[int]] = [[] for _ in parts.place]
    for v in range(len(parts.place)):
        for a in parts.edge_from[parts.edge_at[v] : parts.edge_at[v + 1]]:
            following[a].append(v)
    todo = parts.first[:-1].tolist()
    while todo:
        v = todo.pop(0)
        result.append(int(parts.place[v]))
        todo[:0] = following[v]
        following[v] = []
    return list(dict.fromkeys([*result, *range(len(parts.bytes))]))
