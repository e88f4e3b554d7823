"""Device meshes: equal devices along one or two axes, and collectives along several axes.

Source of the nested collectives: the ring and pairwise algorithms of :mod:`..collectives`, the
faster axis inside the slower one: ``AR = RS_1(b) + AR_2(b / n_1) + AG_1(b)``, all-gather and
reduce-scatter alike. Which axis is inside is chosen, the cheaper order counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import prod

from milp_plan.core import Finding, InputError, ceil_div

from ..collectives import all_gather_ns, all_reduce_ns, reduce_scatter_ns
from ..devices import LINKS, DeviceSpec, LinkSpec

AXIS_NAMES = ("x", "y", "z")
"""Names of the axes, outermost first."""

_SHAPE = re.compile(r"[1-9][0-9]*(x[1-9][0-9]*)*")


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a mesh: ``size`` devices on equal links."""

    name: str
    size: int
    link: LinkSpec


@dataclass(frozen=True)
class Mesh:
    """Equal devices on a grid; without axes, one device.

    Parameters
    ----------
    device
        Class of the devices.
    axes
        Axes, outermost first: neighbours in device order differ along the last one.
    """

    device: DeviceSpec
    axes: tuple[Axis, ...] = ()

    @cached_property
    def text(self) -> str:
        """Sizes, such as ``"2x4"``; ``"1"`` for one device."""
        return "x".join(str(axis.size) for axis in self.axes) or "1"

    @property
    def devices(self) -> int:
        """Number of devices."""
        return prod(axis.size for axis in self.axes)

    @cached_property
    def by_name(self) -> dict[str, Axis]:
        """Name -> axis."""
        return {axis.name: axis for axis in self.axes}

    def parts(self, names: Iterable[str]) -> int:
        """Return the number of parts into which these axes split a tensor."""
        return prod(self.by_name[name].size for name in names)

    def all_reduce_ns(self, names: Iterable[str], num_bytes: int) -> int:
        """Return the time until all devices along these axes hold the sum of ``num_bytes``."""
        return min(self._reduce(order, num_bytes) for order in permutations(names))

    def all_gather_ns(self, names: Iterable[str], num_bytes: int) -> int:
        """Return the time until all devices along these axes hold all ``num_bytes``."""
        return min(self._gather(order, num_bytes, False) for order in permutations(names))

    def reduce_scatter_ns(self, names: Iterable[str], num_bytes: int) -> int:
        """Return the time until devices along these axes hold parts of a sum of ``num_bytes``."""
        return min(self._gather(order, num_bytes, True) for order in permutations(names))

    def _reduce(self, order: tuple[str, ...], num_bytes: int) -> int:
        if not order:
            return 0
        axis = self.by_name[order[0]]
        if len(order) == 1:
            return all_reduce_ns(axis.link, axis.size, num_bytes)
        around = reduce_scatter_ns(axis.link, axis.size, num_bytes)
        around += all_gather_ns(axis.link, axis.size, num_bytes)
        return around + self._reduce(order[1:], ceil_div(num_bytes, axis.size))

    def _gather(self, order: tuple[str, ...], num_bytes: int, reduces: bool) -> int:
        total = 0
        for name in order:
            axis = self.by_name[name]
            step = reduce_scatter_ns if reduces else all_gather_ns
            total += step(axis.link, axis.size, num_bytes)
            num_bytes = ceil_div(num_bytes, axis.size)
        return total


def mesh(text: str, device: DeviceSpec, links: Iterable[LinkSpec] = ()) -> Mesh:
    """Return a mesh from text such as ``"4"`` or ``"2x4"``.

    Parameters
    ----------
    text
        Devices along each axis, outermost first; at most two axes. ``"1"`` is one device.
    device
        Class of the devices.
    links
        One per axis; by default the device's own link inside a node.

    Raises
    ------
    InputError
        Text that does not parse, more than two axes, or not one link per axis.
    """
    sizes, joined_links = extents(text), tuple(links)
    if not sizes and not joined_links:
        return Mesh(device)
    joined = joined_links or (LINKS[device.link],) * len(sizes)
    if len(joined) != len(sizes):
        expected = f"{len(sizes)} for mesh {text}"
        raise InputError([Finding("links", str(len(joined)), expected, "give one per axis")])
    axes = zip(AXIS_NAMES, sizes, joined, strict=False)
    return Mesh(device, tuple(Axis(*axis) for axis in axes))


def extents(text: str) -> tuple[int, ...]:
    """Return the sizes of a mesh; none for ``"1"``.

    Raises
    ------
    InputError
        Text that does not parse, or more than two axes.
    """
    if text == "1":
        return ()
    sizes = [int(part) for part in text.split("x")] if _SHAPE.fullmatch(text) else []
    if not 1 <= len(sizes) <= 2 or min(sizes) < 2:
        expected = "one or two sizes of at least 2, such as 4 or 2x4"
        raise InputError([Finding("mesh", repr(text), expected, "correct the text")])
    return tuple(sizes)
