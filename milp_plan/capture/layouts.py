"""Layouts on a mesh in PyTorch's words, and the collectives of a change from one to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from milp_plan.cost.mesh import Layout, Mesh
from milp_plan.io.placement_wire import Collective

from .placements import entries


def placement_of(layout: Layout, mesh: Mesh) -> str:
    """Text of a layout, one entry per axis: ``"S(0)R"``."""
    found = []
    for axis in mesh.axes:
        cut = next((place for place, axes in enumerate(layout.dims) if axis.name in axes), None)
        pending = axis.name in layout.partial
        found.append("P" if pending else "R" if cut is None else f"S({cut})")
    return "".join(found)


def in_order(layout: Layout, mesh: Mesh) -> bool:
    """Whether dimensions that several axes cut are cut by the first axis first, as PyTorch does."""
    place = {axis.name: number for number, axis in enumerate(mesh.axes)}
    return all(list(axes) == sorted(axes, key=place.__getitem__) for axes in layout.dims)


def whole(rank: int) -> Layout:
    """Everything everywhere."""
    return Layout(((),) * rank)


def resting(extents: tuple[int, ...], mesh: Mesh) -> Iterator[Layout]:
    """Layouts in which a tensor can lie before a step: whole or cut; whole comes first."""
    for cuts in product((None, *range(len(extents))), repeat=len(mesh.axes)):
        pairs = list(zip(mesh.axes, cuts, strict=True))
        dims = tuple(
            tuple(axis.name for axis, cut in pairs if cut == place) for place in range(len(extents))
        )
        layout = Layout(dims)
        if layout.fits(mesh, extents):
            yield layout


def collectives(before: str, after: str) -> Counter[Collective]:
    """Collectives by which PyTorch 2.13 changes a placement on gloo, by kind.

    gloo gathers where others exchange; what is whole is cut or masked by each process alone.
    """
    found = Counter[Collective]()
    for have, want in _changes(entries(before), entries(after)):
        if have == "P":
            found["all_reduce" if want == "R" else "reduce_scatter"] += 1
        elif have != "R":
            found["all_gather"] += 1
    return found


def _changes(here: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """(entry, entry) of every change along one axis.

    The last axis first, as far as parts inside of parts allow: what is to be cut along a dimension
    that axes before it cut otherwise than in the end is put together meanwhile. Then, the first
    axis first, what is left.
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
