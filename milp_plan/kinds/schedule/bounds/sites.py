"""Sites of a cluster, collapsed into types, and the least time a value takes between types.

Any partition of the devices gives valid lower bounds, because times between two types are the
least over all pairs of sites of these types. Devices are distinguished by class, memory and,
repeatedly, by the links that join them to devices already distinguished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from milp_plan.core import FULL, TICKS_PER_SECOND, Channel, Cluster, Value, ceil_div

Links = frozenset[tuple[int, int]]
"""(latency, bandwidth) pairs of which none is better in both."""


class Transit(NamedTuple):
    """Least ticks of a value between two site types; ``None`` where the law allows no way.

    ``same`` is for one and the same site, ``inside`` for another site whose devices all belong
    to the producer's, ``enter`` for a reader with a device outside the producer's site, ``leave``
    for a producer with a device outside the reader's site.
    """

    same: int | None
    inside: int | None
    enter: int | None
    leave: int | None


@dataclass(frozen=True, slots=True)
class SiteType:
    """Sites that look alike: colours of their devices, in sorted order, with multiplicity."""

    colours: tuple[int, ...]
    sites: tuple[tuple[str, ...], ...]
    memory_bytes: int | None

    @property
    def gang(self) -> int:
        """Devices per site."""
        return len(self.colours)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Link choices between two site types, by how the sites lie to each other."""

    inside: bool
    inside_strict: bool
    enter: Links
    leave: Links
    shift_inside: Links
    shift_enter: Links
    shift_leave: Links


def least(*numbers: int | None) -> int | None:
    """Return the smallest number that is not ``None``."""
    return min((number for number in numbers if number is not None), default=None)


def colours(cluster: Cluster) -> dict[str, int]:
    """Return the colour of each device: equal for devices the refinement cannot tell apart."""
    keys: dict[str, object] = {d.name: (d.device_class, d.memory_bytes) for d in cluster.devices}
    count = 0
    while True:
        numbers: dict[object, int] = {}
        colour = {name: numbers.setdefault(key, len(numbers)) for name, key in keys.items()}
        if len(numbers) == count:
            return colour
        count = len(numbers)
        ends: dict[str, list[tuple[int, int, int, int]]] = {name: [] for name in colour}
        for link in cluster.channels:
            cost = (link.latency_ticks, link.bandwidth_bytes_per_s)
            ends[link.source].append((0, colour[link.target], *cost))
            ends[link.target].append((1, colour[link.source], *cost))
        keys = {name: (colour[name], tuple(sorted(ends[name]))) for name in colour}


def _frontier(links: Iterable[tuple[int, int]]) -> Links:
    kept: list[tuple[int, int]] = []
    for latency, bandwidth in sorted(set(links), key=lambda link: (link[0], -link[1])):
        if not kept or bandwidth > kept[-1][1]:
            kept.append((latency, bandwidth))
    return frozenset(kept)


def _cost(link: Channel) -> tuple[int, int]:
    return (link.latency_ticks, link.bandwidth_bytes_per_s)


class Terrain:
    """The cluster in the form that bounds use.

    Parameters
    ----------
    cluster
        Its sites of the gangs in ``gangs`` are typed.
    gangs
        Gang sizes that occur.
    """

    def __init__(self, cluster: Cluster, gangs: Iterable[int]) -> None:
        self.cluster = cluster
        self.colour = colours(cluster)
        result: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
        for gang in sorted(set(gangs)):
            for site in cluster.sites(gang):
                key = tuple(sorted(self.colour[name] for name in site))
                result.setdefault(key, []).append(site)
        self.types = tuple(
            SiteType(key, tuple(sites), self._memory(sites[0])) for key, sites in result.items()
        )
        self._ways: dict[tuple[int, int], _Ways] = {}
        self._ticks: dict[tuple[object, ...], Transit] = {}

    @cached_property
    def count(self) -> tuple[int, ...]:
        """Devices of each colour."""
        numbers = list(self.colour.values())
        return tuple(numbers.count(colour) for colour in range(max(numbers) + 1))

    @cached_property
    def memory_bytes(self) -> tuple[int | None, ...]:
        """Memory of a device of each colour."""
        memory: dict[int, int | None] = {}
        for device in self.cluster.devices:
            memory[self.colour[device.name]] = device.memory_bytes
        return tuple(memory[colour] for colour in range(len(memory)))

    @cached_property
    def device_class(self) -> tuple[str, ...]:
        """Class of a device of each colour."""
        classes = {self.colour[d.name]: d.device_class for d in self.cluster.devices}
        return tuple(classes[colour] for colour in range(len(classes)))

    def _memory(self, site: tuple[str, ...]) -> int | None:
        return least(*(self.cluster.device(name).memory_bytes for name in site))

    def _ways_between(self, a: int, b: int) -> _Ways:
        if (a, b) not in self._ways:
            self._ways[a, b] = self._find_ways(a, b)
        return self._ways[a, b]

    def _find_ways(self, a: int, b: int) -> _Ways:
        inside = inside_strict = False
        pools: dict[str, list[tuple[int, int]]] = {}
        for source in self.types[a].sites:
            for target in self.types[b].sites:
                if source == target:
                    continue
                within = set(target) <= set(source)
                leaves = not set(source) <= set(target)
                if within:
                    inside = True
                    inside_strict = inside_strict or leaves
                names = ["inside" if within else "enter", *(["leave"] if leaves else [])]
                for name in names:
                    if not within:
                        pools.setdefault(name, []).extend(self._broadcast(source, target))
                    pools.setdefault("shift_" + name, []).extend(self._shift(source, target))
        fronts = {name: _frontier(links) for name, links in pools.items()}
        none: Links = frozenset()
        return _Ways(
            inside,
            inside_strict,
            *(
                fronts.get(name, none)
                for name in ("enter", "leave", "shift_inside", "shift_enter", "shift_leave")
            ),
        )

    def _broadcast(self, source: tuple[str, ...], target: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the links of which every way to serve all missing devices takes one at least."""
        result: list[tuple[int, int]] = []
        for b in target:
            if b in source:
                continue
            links = [link for a in source if (link := self.cluster.channel(a, b)) is not None]
            if not links:
                return []
            result += [_cost(link) for link in links]
        return result

    def _shift(self, source: tuple[str, ...], target: tuple[str, ...]) -> list[tuple[int, int]]:
        if len(source) != len(target):
            return []
        result: list[tuple[int, int]] = []
        for a, b in zip(source, target, strict=True):
            if a != b:
                link = self.cluster.channel(a, b)
                if link is None:
                    return []
                result.append(_cost(link))
        return result

    def transit(self, value: Value, native: str, a: int, wanted: str, b: int) -> Transit:
        """Return the least ticks from layout ``native`` on ``a`` to layout ``wanted`` on ``b``."""
        change = 0 if native == wanted else value.reshard_ticks.get((native, wanted))
        if change is None:
            return Transit(None, None, None, None)
        payload = value.payload(wanted)
        key = (payload, value.messages, change, native == wanted, wanted == FULL, a, b)
        if key not in self._ticks:
            self._ticks[key] = self._transit(value, payload, change, (native, a), (wanted, b))
        return self._ticks[key]

    def _transit(
        self, value: Value, payload: int, change: int, made: tuple[str, int], read: tuple[str, int]
    ) -> Transit:
        (native, a), (wanted, b) = made, read
        ways = self._ways_between(a, b)
        same = change if a == b else None

        def over(links: Links) -> int | None:
            wire = (
                value.messages * latency
                + ceil_div(payload * TICKS_PER_SECOND, bandwidth)
                + value.messages
                - 1
                for latency, bandwidth in links
            )
            ticks = least(*wire)
            return None if ticks is None else change + ticks

        if native == wanted != FULL:
            return Transit(
                same, over(ways.shift_inside), over(ways.shift_enter), over(ways.shift_leave)
            )
        inside = change if ways.inside else None
        strict = change if ways.inside_strict else None
        return Transit(same, inside, over(ways.enter), least(strict, over(ways.leave)))
