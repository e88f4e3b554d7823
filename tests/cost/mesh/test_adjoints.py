"""Data movement on numpy arrays, one per device: adjoints, bytes and times of both ways.

Steps between layouts, and what is exchanged inside of operators.

After DistDL (arXiv 2006.03108): <F x, y> = <x, F* y> for each step F and the step that carries
gradients back, with inner products over all devices. Along an axis where a value is replicated, its
gradient is a pending sum, and the other way round.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from milp_plan.cost.devices import DEVICES, LinkSpec
from milp_plan.cost.mesh import (
    ADAM,
    Axis,
    Layout,
    Mesh,
    Setting,
    Tiling,
    convolution,
    norm,
    strategies,
)
from milp_plan.cost.mesh.operators import EXCHANGES

LINK = LinkSpec("link", 10**9, 1_000, 1000)
SIZES = [(2,), (4,), (2, 3)]
MESHES = [
    Mesh(DEVICES["A100"], tuple(Axis(*pair, LINK) for pair in zip("xy", sizes, strict=False)))
    for sizes in SIZES
]
SHAPE = (12, 24)


def devices(mesh):
    return list(product(*(range(axis.size) for axis in mesh.axes)))


def local_shape(tiling, layout):
    pairs = zip(tiling.extents, layout.dims, strict=True)
    return tuple(extent // tiling.mesh.parts(axes) for extent, axes in pairs)


def group(mesh, device, axis):
    """Devices that differ from one along an axis alone, in order."""
    at = [entry.name for entry in mesh.axes].index(axis)
    size = mesh.axes[at].size
    return at, [(*device[:at], place, *device[at + 1 :]) for place in range(size)]


def dim_of(layout, axis):
    return next((place for place, axes in enumerate(layout.dims) if axis in axes), None)


def part(array, place, at, count):
    return np.split(array, count, axis=place)[at]


def apply(mesh, before, step, held):
    """What each device holds after a step, and how many elements came from others."""
    after, got = {}, {}
    source, target = dim_of(before, step.axis), dim_of(step.layout, step.axis)
    for device in held:
        at, peers = group(mesh, device, step.axis)
        own, count = device[at], len(peers)
        rows = [held[peer] for peer in peers]
        if step.kind == "slice":
            after[device], got[device] = part(held[device], target, own, count), 0
        elif step.kind == "gather":
            after[device] = np.concatenate(rows, axis=source)
            got[device] = sum(row.size for row in rows) - held[device].size
        elif step.kind == "exchange":
            pieces = [part(row, target, own, count) for row in rows]
            after[device] = np.concatenate(pieces, axis=source)
            got[device] = sum(piece.size for piece in pieces) - pieces[own].size
        elif step.kind == "scatter":
            pieces = [part(row, target, own, count) for row in rows]
            after[device], got[device] = sum(pieces), sum(p.size for p in pieces[1:])
        else:
            assert step.kind == "reduce"
            whole = rows[0].size  # a ring scatters and gathers
            after[device] = sum(rows)
            got[device] = 2 * (count - 1) * whole // count
    return after, got


def embedded(mesh, layout, axis, held):
    """The adjoint of a slice: each device's part among zeros, a sum that is pending."""
    place, after = dim_of(layout, axis), {}
    for device, array in held.items():
        at, peers = group(mesh, device, axis)
        rows = [np.zeros_like(array) for _ in peers]
        rows[device[at]] = array
        after[device] = np.concatenate(rows, axis=place)
    return after


def dual(mesh, layout):
    """How the gradient of a value in this layout lies: replicated and pending change places."""
    free = tuple(axis.name for axis in mesh.axes if axis.name not in layout.axes)
    return Layout(layout.dims, free)


def inner(first, second):
    return sum(float(np.sum(first[device] * second[device])) for device in first)


def drawn(rng, tiling, layout):
    shape = local_shape(tiling, layout)
    return {device: rng.integers(-9, 10, shape).astype(float) for device in devices(tiling.mesh)}


def layouts(tiling):
    """Layouts that steps reach from a pending sum, and from what is replicated."""
    names = tuple(axis.name for axis in tiling.mesh.axes)
    fresh = [Layout(((), ())), Layout(((), ()), names)]
    found = set(fresh)
    while fresh:
        fresh = [step.layout for layout in fresh for step in tiling.steps(layout)]
        fresh = list(dict.fromkeys(layout for layout in fresh if layout not in found))
        found |= set(fresh)
    return sorted(found)


def back(tiling, before, step):
    """The step of the gradient: from the dual of the layout after to the dual of that before."""
    wanted = {"gather": "scatter", "scatter": "gather"}.get(step.kind, step.kind)
    start, goal = dual(tiling.mesh, step.layout), dual(tiling.mesh, before)
    (found,) = [
        entry
        for entry in tiling.steps(start)
        if (entry.kind, entry.axis, entry.layout) == (wanted, step.axis, goal)
    ]
    return start, found


@pytest.mark.parametrize("mesh", MESHES, ids=["2", "4", "2x3"])
def test_every_step_has_its_adjoint(mesh):
    """T1: with equal bytes at every device and equal times."""
    tiling, rng = Tiling(mesh, SHAPE, 4), np.random.default_rng(0)
    kinds = set()
    for layout in layouts(tiling):
        for step in tiling.steps(layout):
            kinds.add(step.kind)
            x, y = drawn(rng, tiling, layout), drawn(rng, tiling, step.layout)
            there, moved = apply(mesh, layout, step, x)
            if step.kind == "slice":
                assert inner(there, y) == inner(x, embedded(mesh, step.layout, step.axis, y))
                assert step.ticks == 0
                assert not any(moved.values())
                continue
            start, gradient = back(tiling, layout, step)
            home, returned = apply(mesh, start, gradient, y)
            assert inner(there, y) == inner(x, home)
            assert moved == returned
            assert step.ticks == gradient.ticks
    assert kinds == {"slice", "gather", "exchange", "scatter", "reduce"}


@pytest.mark.parametrize("mesh", MESHES, ids=["2", "4", "2x3"])
def test_times_count_the_bytes_that_move(mesh):
    tiling, rng = Tiling(mesh, SHAPE, 4), np.random.default_rng(1)
    for layout in layouts(tiling):
        for step in tiling.steps(layout):
            _, moved = apply(mesh, layout, step, drawn(rng, tiling, layout))
            (number,) = set(moved.values())
            size = mesh.by_name[step.axis].size
            rounds = {"slice": 0, "reduce": 2}.get(step.kind, 1) * (size - 1)
            assert step.ticks == rounds * LINK.latency_ns + 4 * number


@pytest.mark.parametrize("seed", range(20))
def test_paths_carry_the_tensor(seed):
    """What arrives is the tensor: steps of a path change the layout and nothing else."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    mesh = rng.choice(MESHES)
    tiling = Tiling(mesh, SHAPE, 4)
    before, after = rng.choice(layouts(tiling)), rng.choice(layouts(tiling))
    path = tiling.path(before, after)
    if path is None:
        assert set(after.partial) - set(before.partial)
        return
    held = drawn(numbers, tiling, before)
    shared = [axis.name for axis in mesh.axes if axis.name not in before.axes]
    for device in held:  # what is replicated is equal everywhere
        first = tuple(0 if a.name in shared else d for a, d in zip(mesh.axes, device, strict=True))
        held[device] = held[first]
    whole, here = assembled(tiling, before, held), before
    for step in path:
        held, _ = apply(mesh, here, step, held)
        here = step.layout
    assert here == after
    assert np.array_equal(assembled(tiling, after, held), whole)


def assembled(tiling, layout, held):
    """The tensor: splits joined, pending sums added."""
    here = layout
    for axis in layout.partial:
        rest = tuple(other for other in here.partial if other != axis)
        (step,) = [s for s in tiling.steps(here) if s.kind == "reduce" and s.axis == axis]
        held, _ = apply(tiling.mesh, here, step, held)
        here = replace(here, partial=rest)
    while here.axes:
        step = next(s for s in tiling.steps(here) if s.kind == "gather")
        held, _ = apply(tiling.mesh, here, step, held)
        here = step.layout
    return held[devices(tiling.mesh)[0]]


def halo(rows, reach):
    """Rows of a map on neighbours: each gets those next to its own, the outermost get zeros."""
    nothing = np.zeros_like(rows[0][:, :reach])
    above = [nothing, *(row[:, -reach:] for row in rows[:-1])]
    below = [*(row[:, :reach] for row in rows[1:]), nothing]
    wide = [np.concatenate(parts, axis=1) for parts in zip(above, rows, below, strict=True)]
    return wide, above[1].size


def halo_added(wide, reach):
    """Its adjoint: what neighbours hold of a device's rows comes home and is added."""
    rows = [array[:, reach:-reach].copy() for array in wide]
    for one, other in pairwise(range(len(rows))):
        rows[other][:, :reach] += wide[one][:, -reach:]
        rows[one][:, -reach:] += wide[other][:, :reach]
    return rows, wide[0][:, -reach:].size


def all_reduce(rows, _):
    """Everybody gets the sum; so does its gradient."""
    return [sum(rows)] * len(rows), rows[0].size


REACH = 2
EXCHANGED = {
    "halo": ("y", convolution(2, (3, 4), (16, 8), (16, 8), kernel=(5, 3)), halo, halo_added),
    "all_reduce": ("e", norm(2, 6, 8), all_reduce, all_reduce),
}
HELD = {"halo": (6, 4, 8), "all_reduce": (24,)}
"""Shape of what one of four devices has: samples by channels, rows and columns; words."""


def test_every_kind_of_exchange_is_there():
    assert set(EXCHANGED) == set(EXCHANGES)


@pytest.mark.parametrize("kind", EXCHANGED)
def test_every_exchange_has_its_adjoint(kind):
    """T1: in both passes as often, with the bytes that arrays have, in equal times."""
    loop, operator, there, back = EXCHANGED[kind]
    rng, mesh = np.random.default_rng(2), MESHES[1]
    x = [rng.integers(-9, 10, HELD[kind]) for _ in range(4)]
    moved, elements = there(x, REACH)
    y = [rng.integers(-9, 10, array.shape) for array in moved]
    home, returned = back(y, REACH)
    first = sum(int(np.sum(a * b)) for a, b in zip(moved, y, strict=True))
    assert first == sum(int(np.sum(a * b)) for a, b in zip(x, home, strict=True))
    assert elements == returned
    (one,) = [one for one in operator.exchanges if (one.kind, one.loop) == (kind, loop)]
    assert one.forward == one.backward
    (row,) = [
        row for row in strategies(operator, Setting(mesh, ADAM)) if row.mapping == (("x", loop),)
    ]
    forward, backward = [entry for entry in row.collectives if entry.kind == kind]
    assert (forward.backward, backward.backward) == (False, True)
    assert forward.num_bytes == backward.num_bytes == elements * one.element_bytes
    assert forward.ticks == backward.ticks > 0
