"""Layouts of tensors on a mesh, and the cheapest path from one layout to another.

Elementary steps, with ``b`` the bytes of one device before a step, or after it for a gather:

============ ============================================ ==========================
step         what happens along one axis                  time
============ ============================================ ==========================
slice        replicated -> innermost split of a dimension 0
gather       innermost split of a dimension -> replicated all-gather of ``b``
exchange     innermost split moves to another dimension   all-to-all of ``b``
reduce       partial sums -> replicated                   all-reduce of ``b``
scatter      partial sums -> innermost split              reduce-scatter of ``b``
============ ============================================ ==========================

A dimension may be split along several axes, the outermost first; only the innermost one can be
gathered or moved, since the others' parts would not be contiguous. The cost of a pair of layouts is
that of the cheapest path of steps, so it is at most that of a single step, zero from a layout to
itself, and no detour is cheaper.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from milp_plan.core import FULL

from ..collectives import all_gather_ns, all_reduce_ns, all_to_all_ns, reduce_scatter_ns
from .axes import Mesh


@dataclass(frozen=True, order=True)
class Layout:
    """Split axes of each dimension, and axes along which sums are pending.

    Parameters
    ----------
    dims
        For each dimension the axes that split it, outermost first.
    partial
        Axes along which the devices have terms of a sum, in the order of the mesh.
    """

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Readable name: ``"0:x 2:y sum:z"``; ``"full"`` where everything is replicated."""
        words = [f"{place}:{''.join(axes)}" for place, axes in enumerate(self.dims) if axes]
        if self.partial:
            words.append(f"sum:{''.join(self.partial)}")
        return " ".join(words) or FULL

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes that split a dimension or have sums pending."""
        return (*(axis for axes in self.dims for axis in axes), *self.partial)

    @property
    def summed(self) -> Layout:
        """The same splits with no sum pending; replicated along its axes."""
        return Layout(self.dims)

    def parts(self, mesh: Mesh) -> int:
        """Return the number of parts into which the mesh splits the tensor."""
        return prod(mesh.parts(axes) for axes in self.dims)

    def fits(self, mesh: Mesh, extents: tuple[int, ...]) -> bool:
        """Return whether every split divides its dimension."""
        pairs = zip(extents, self.dims, strict=True)
        return all(extent % mesh.parts(axes) == 0 for extent, axes in pairs)


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """One elementary step: ``kind`` along ``axis``, with the resulting ``layout``."""

    kind: str
    axis: str
    layout: Layout
    ticks: int


Paths = tuple[dict[Layout, int], dict[Layout, tuple[Layout, LayoutStep]]]
"""Ticks to each layout, and the layout before it with the step to it."""


@dataclass(frozen=True)
class Tiling:
    """A tensor on a mesh.

    Parameters
    ----------
    mesh
        The mesh.
    extents
        Elements of each dimension.
    element_bytes
        Bytes of an element.
    """

    mesh: Mesh
    extents: tuple[int, ...]
    element_bytes: int

    def local_bytes(self, layout: Layout) -> int:
        """Return the bytes on each device."""
        return prod(self.extents) * self.element_bytes // layout.parts(self.mesh)

    def steps(self, layout: Layout) -> Iterator[LayoutStep]:
        """Yield every elementary step from a layout."""
        num_bytes = self.local_bytes(layout)
        used = set(layout.axes)
        for axis in self.mesh.axes:
            name, size, link = axis.name, axis.size, axis.link
            if name in layout.partial:
                rest = tuple(other for other in layout.partial if other != name)
                summed = replace(layout, partial=rest)
                yield LayoutStep("reduce", name, summed, all_reduce_ns(link, size, num_bytes))
                ticks = reduce_scatter_ns(link, size, num_bytes)
                for split in self._split(summed, name):
                    yield LayoutStep("scatter", name, split, ticks)
            elif name not in used:
                for split in self._split(layout, name):
                    yield LayoutStep("slice", name, split, 0)
            else:
                yield from self._unsplit(layout, name, num_bytes)

    def _unsplit(self, layout: Layout, name: str, size: int) -> Iterator[LayoutStep]:
        place = next(place for place, axes in enumerate(layout.dims) if name in axes)
        if layout.dims[place][-1] != name:
            return
        axis = self.mesh.by_name[name]
        joined = _with(layout, place, layout.dims[place][:-1])
        gathered = all_gather_ns(axis.link, axis.size, size * axis.size)
        yield LayoutStep("gather", name, joined, gathered)
        ticks = all_to_all_ns(axis.link, axis.size, size)
        for split in self._split(joined, name):
            if split != layout:
                yield LayoutStep("exchange", name, split, ticks)

    def _split(self, layout: Layout, name: str) -> Iterator[Layout]:
        for place, axes in enumerate(layout.dims):
            if self.extents[place] % self.mesh.parts((*axes, name)) == 0:
                yield _with(layout, place, (*axes, name))

    def path(self, before: Layout, after: Layout) -> tuple[LayoutStep, ...] | None:
        """Return the cheapest steps from one layout to another; ``None`` if there are none."""
        _, steps = self._paths(before)
        if before != after and after not in steps:
            return None
        path: list[LayoutStep] = []
        here = after
        while here != before:
            source, step = steps[here]
            path.append(step)
            here = source
        return tuple(reversed(path))

    def change_ns(self, before: Layout, after: Layout) -> int | None:
        """Return the ticks of the cheapest path; ``None`` if there is none."""
        return self._paths(before)[0].get(after)

    @cached_property
    def _known(self) -> dict[Layout, Paths]:
        return {}

    def _paths(self, start: Layout) -> Paths:
        if start not in self._known:
            self._known[start] = _cheapest(self, start)
        return self._known[start]


def _with(layout: Layout, place: int, axes: tuple[str, ...]) -> Layout:
    return replace(layout, dims=(*layout.dims[:place], axes, *layout.dims[place + 1 :]))


def _cheapest(tiling: Tiling, start: Layout) -> Paths:
    """Run Dijkstra's algorithm: return ticks to every layout, and the last step to it."""
    ticks, last = {start: 0}, dict[Layout, tuple[Layout, LayoutStep]]()
    queue = [(0, 0, start)]
    count, done = 0, set[Layout]()
    while queue:
        spent, _, layout = heapq.heappop(queue)
        if layout in done:
            continue
        done.add(layout)
        for step in tiling.steps(layout):
            total = spent + step.ticks
            if total < ticks.get(step.layout, total + 1):
                ticks[step.layout] = total
                last[step.layout] = (layout, step)
                count += 1
                heapq.heappush(queue, (total, count, step.layout))
    return ticks, last
