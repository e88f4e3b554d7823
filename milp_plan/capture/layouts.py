"""Layouts on a mesh as PyTorch's placements, and the collectives of changes between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from milp_plan.cost.mesh import Layout, Mesh
from milp_plan.io.placement_wire import Collective

from .placements import entries


def placement_of(layout: Layout, mesh: Mesh) -> str:
    """Return the text of a layout, one entry per axis: ``"S(0)R"``."""
    entries = []
    for axis in mesh.axes:
        cut = next((place for place, axes in enumerate(layout.dims) if axis.name in axes), None)
        pending = axis.name in layout.partial
        entries.append("P" if pending else "R" if cut is None else f"S({cut})")
    return "".join(entries)


def in_order(layout: Layout, mesh: Mesh) -> bool:
    """Return whether dimensions split by several axes are split by the first axis first."""
    place = {axis.name: number for number, axis in enumerate(mesh.axes)}
    return all(list(axes) == sorted(axes, key=place.__getitem__) for axes in layout.dims)


def whole(rank: int) -> Layout:
    """Return the replicated layout."""
    return Layout(((),) * rank)


def resting(extents: tuple[int, ...], mesh: Mesh) -> Iterator[Layout]:
    """Yield layouts of a tensor before a step: replicated first, then split."""
    for cuts in product((None, *range(len(extents))), repeat=len(mesh.axes)):
        pairs = list(zip(mesh.axes, cuts, strict=True))
        dims = tuple(
            tuple(axis.name for axis, cut in pairs if cut == place) for place in range(len(extents))
        )
        layout = Layout(dims)
        if layout.fits(mesh, extents):
            yield layout


def collectives(before: str, after: str) -> Counter[Collective]:
    """Return the collectives by which PyTorch 2.13 changes a placement on gloo, by kind.

    gloo gathers where others exchange; each process splits or masks replicated tensors by itself.
    """
    counts = Counter[Collective]()
    for have, want in _changes(entries(before), entries(after)):
        if have == "P":
            counts["all_reduce" if want == "R" else "reduce_scatter"] += 1
        elif have != "R":
            counts["all_gather"] += 1
    return counts


def _changes(here: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (entry, entry) of every change along one axis.

    The last axis comes first, as far as nested parts allow: a dimension to be split that earlier
    axes split differently in the end is gathered first. Then the other changes, the
    first axis first.
    """
    if any(entry.startswith("S") for entry in here):
        for axis in reversed(range(len(here))):
            want = after[axis]
            outer = range(axis) if want.startswith("S") else ()
            if any((here[other] == want) != (after[other] == want) for other in outer):
                want = "R"
            if here[axis] != want:
                yield here[axis], want
                here[axis] = want
    for have, want in zip(here, after, strict=True):
        if have != want:
            yield have, want
