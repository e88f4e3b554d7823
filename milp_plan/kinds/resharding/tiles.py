"""Tiles of tensors on hosts, and the slices between two tilings.

A layout describes a tensor on a mesh of ``hosts x devices``, one word per axis of the tensor:
``R`` (whole), ``S0`` (split over hosts), ``S1`` (split over the devices of a host), ``S01`` (split
over both, hosts first). Mesh axes that no word names hold copies. These are the words of Alpa
(Zheng et al., OSDI 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from milp_plan.core.errors import Finding, InputError

from .problem import Slice

Box = tuple[tuple[int, int], ...]
"""Half-open range of indices along each axis of a tensor."""

MAX_DEVICES = 100_000
"""Largest number of devices of a mesh, and of a cluster over which tensors are split."""

WORDS = {"R": (), "S0": (0,), "S1": (1,), "S01": (0, 1)}
"""Words of layouts -> mesh axes."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a tensor on a host."""

    host: str
    box: Box


@dataclass(frozen=True)
class Mesh:
    """Hosts with as many devices each.

    Parameters
    ----------
    hosts
        Names of hosts, in order.
    devices
        Number of devices of each.
    """

    hosts: tuple[str, ...]
    devices: int


def tiles(shape: Sequence[int], mesh: Mesh, layout: Sequence[str], where: str) -> list[Tile]:
    """Return the tiles of the devices of a mesh.

    Parts of an axis are as equal as possible, larger ones first.

    Parameters
    ----------
    shape
        Extents of the tensor.
    layout
        A word per axis.
    where
        Name in findings.

    Raises
    ------
    InputError
        The layout has defects; the error lists all of them.
    """
    findings = list(_findings(shape, mesh, layout, where))
    if findings:
        raise InputError(findings)
    sizes = (len(mesh.hosts), mesh.devices)
    parts = []
    for place in product(*map(range, sizes)):
        box = []
        for extent, word in zip(shape, layout, strict=True):
            part = count = 0
            for axis in WORDS[word]:
                part, count = part * sizes[axis] + place[axis], (count or 1) * sizes[axis]
            box.append(part_of(extent, part, count or 1))
        parts.append(Tile(mesh.hosts[place[0]], tuple(box)))
    return parts


def slices_between(
    source: Sequence[Tile], target: Sequence[Tile], item_bytes: int, name: str = ""
) -> Iterator[Slice]:
    """Yield the transfers over the network: intersections of tiles, with senders and receivers.

    A host that has a slice needs no delivery of it, and devices of one host share it.
    So the bytes of slices, once for each receiver, are those that are missing where needed.

    Parameters
    ----------
    source, target
        Tiles before and after. Different boxes of one side have no index in common.
    item_bytes
        Bytes of one element.
    name
        Prefix of the names of slices.

    Raises
    ------
    InputError
        Two boxes of one side overlap.
    """
    before, after = _hosts(source, "source"), _hosts(target, "target")
    for (a, senders), (b, receivers) in product(before.items(), after.items()):
        common = intersection(a, b)
        missing = tuple(host for host in receivers if host not in senders)
        if common is not None and missing:
            label = ",".join(f"{low}:{high}" for low, high in common)
            yield Slice(f"{name}[{label}]", item_bytes * volume(common), tuple(senders), missing)


def intersection(a: Box, b: Box) -> Box | None:
    """Return the intersection of two boxes; ``None`` for none."""
    pairs = zip(a, b, strict=True)
    box = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in pairs)
    return box if all(low < high for low, high in box) else None


def volume(box: Box) -> int:
    """Return the number of elements of a box."""
    number = 1
    for low, high in box:
        number *= high - low
    return number


def part_of(extent: int, part: int, count: int) -> tuple[int, int]:
    """Return the range of one of several parts, as equal as possible, larger ones first."""
    size, larger = divmod(extent, count)
    start = part * size + min(part, larger)
    return start, start + size + (part < larger)


def _hosts(tiling: Sequence[Tile], side: str) -> dict[Box, list[str]]:
    """Return the hosts of each box, in order, each once."""
    hosts: dict[Box, list[str]] = {}
    for tile in tiling:
        if volume(tile.box) and tile.host not in hosts.setdefault(tile.box, []):
            hosts[tile.box].append(tile.host)
    boxes = list(hosts)
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            if intersection(box, other) is not None:
                text, expected = f"{other} and {box} overlap", "equal or disjoint boxes"
                raise InputError([Finding(f"{side} tiles", text, expected, "cut them further")])
    return hosts


def _findings(
    shape: Sequence[int], mesh: Mesh, layout: Sequence[str], where: str
) -> Iterator[Finding]:
    if not mesh.hosts or mesh.devices < 1:
        found = f"{len(mesh.hosts)} hosts with {mesh.devices} devices"
        yield Finding(f"{where}, mesh", found, "at least one of each", "correct it")
    if len(mesh.hosts) * mesh.devices > MAX_DEVICES:
        found = f"{len(mesh.hosts)} hosts with {mesh.devices} devices"
        yield Finding(f"{where}, mesh", found, f"at most {MAX_DEVICES} in all", "correct it")
    if len(layout) != len(shape):
        found, expected = f"{len(layout)} words", f"{len(shape)}, one per axis"
        yield Finding(f"{where}, layout", found, expected, "correct it")
    used: list[int] = []
    for word in layout:
        if word not in WORDS:
            expected = f"one of {', '.join(WORDS)}"
            yield Finding(f"{where}, layout", repr(word), expected, "correct it")
        used += WORDS.get(word, ())
    for axis in (0, 1):
        if used.count(axis) > 1:
            found = f"mesh axis {axis} {used.count(axis)} times"
            yield Finding(f"{where}, layout", found, "each mesh axis at most once", "correct it")
    for extent in shape:
        if extent < 1:
            yield Finding("tensor", str(extent), "extents of at least 1", "correct it")
