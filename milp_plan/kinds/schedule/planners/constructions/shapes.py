"""Sites of the stages of a pipeline: how many, in which order, how often each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .loads import LayerLoads


class Shape(NamedTuple):
    """Sites of consecutive stages, by name."""

    name: str
    sites: tuple[int, ...]


def lines(loads: LayerLoads) -> Iterator[Shape]:
    """Yield sequences of disjoint sites of one width: all of them first, then fewer.

    Fast devices come first or last; of a part of the devices, the fastest are taken.
    """
    view, speed = loads.view, loads.speed
    able = [device for device in range(view.num_devices) if speed[device] > 0]
    fastest = sorted(able, key=lambda device: -speed[device])
    ranks = {speed[device] for device in able}
    edges = {sum(speed[device] >= rank for device in able) for rank in ranks}
    for width, row in [(1, fastest), *_groups(loads)]:
        for count in _counts(len(row), edges if width == 1 else set()):
            part = row[:count]
            name = f"{count} x {width}" if width > 1 else f"{count}"
            yield Shape(name, tuple(part))
            mixed = len({loads.kind[site] for site in part}) > 1
            if mixed:
                yield Shape(f"{name} slow first", tuple(reversed(part)))
                yield Shape(f"{name} as listed", tuple(sorted(part)))


def _groups(loads: LayerLoads) -> Iterator[tuple[int, list[int]]]:
    """Yield the width, and disjoint process groups of that width that some option uses."""
    view = loads.view
    used = {site for sites in view.unit_sites for site in sites}
    for width in sorted({len(view.sites[site]) for site in used if len(view.sites[site]) > 1}):
        taken: set[int] = set()
        chosen = []
        for site in sorted(used):
            devices = view.sites[site]
            if len(devices) == width and taken.isdisjoint(devices):
                chosen.append(site)
                taken.update(devices)
        yield width, chosen


def _counts(most: int, edges: set[int]) -> list[int]:
    """Return how many sites to use, the most promising first."""
    parts = [most, most * 3 // 4, most // 2, *sorted(edges), most - 1, most // 4, 2, 3, 1]
    return [count for count in dict.fromkeys(parts) if 1 <= count <= most]


def folded(line: Shape) -> Iterator[Shape]:
    """Yield a line as it is, in two rounds, as a V, in four rounds."""
    yield line
    if len(line.sites) > 1:
        yield Shape(f"{line.name}, 2 rounds", line.sites * 2)
        yield Shape(f"{line.name}, V", line.sites + line.sites[::-1])
        yield Shape(f"{line.name}, 4 rounds", line.sites * 4)


def regions(loads: LayerLoads, sites: Sequence[int]) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield ways to part sites into regions of one size, each region for some layers.

    Neighbours together; sites of several classes also dealt out, so that each region has some of
    every class.
    """
    mixed = len({loads.kind[site] for site in sites}) > 1
    count = len(sites)
    for number in (size for size in range(1, count) if count % size == 0):
        width = count // number
        together = [list(sites[at * width : (at + 1) * width]) for at in range(number)]
        yield f"{number} regions", together
        dealt = [list(sites[at::number]) for at in range(number)]
        if mixed and number > 1 and dealt != together:
            yield f"{number} regions dealt", dealt
