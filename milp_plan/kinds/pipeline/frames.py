"""Clocks of a shop, for bounds on the makespan and on the span of one device; its symmetries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .shop import Shop


@dataclass(frozen=True, slots=True)
class Frame:
    """A clock: which tasks must lie between 0 and the horizon.

    Parameters
    ----------
    heads
        Kind -> earliest start; ``None`` where it may have run before 0.
    tails
        Kind -> least time from its stop to the horizon; ``None`` where it may run after it.
    anchor
        The device whose tasks alone must lie within the horizon; ``None`` when all tasks must.
    """

    heads: tuple[int | None, ...]
    tails: tuple[int | None, ...]
    anchor: int | None = None


def whole(shop: Shop) -> Frame:
    """Return the clock of the makespan: everything runs between 0 and the horizon."""
    return Frame(shop.heads, shop.tails)


def anchored(shop: Shop, device: int) -> Frame:
    """Return the clock of one device: 0 is its first start, the horizon its last stop.

    Other machines may work before 0 and after the horizon; a task that needs one of the device
    has a head, a task that one of the device needs has a tail. So a horizon within which no plan
    fits is below the span of this device in every plan.
    """
    kinds = shop.kinds
    heads: list[int | None] = [0 if kind.machine == device else None for kind in kinds]
    tails = list(heads)
    for k in range(len(kinds)):
        for a, lag in shop.before[k]:
            head = heads[a]
            if head is not None:
                heads[k] = max(heads[k] or 0, head + kinds[a].duration + lag)
    for k in reversed(range(len(kinds))):
        for b, lag in shop.after[k]:
            tail = tails[b]
            if tail is not None:
                tails[k] = max(tails[k] or 0, lag + kinds[b].duration + tail)
    return Frame(tuple(heads), tuple(tails), device)


def colours(shop: Shop, anchor: int | None = None) -> tuple[list[int], list[int]]:
    """Return numbered classes of kinds and of machines by colour refinement.

    Any two kinds of a class have equal times, bytes and counts, run on machines of one class, and
    have equally many predecessors (successors) of each class at each lag; any two machines of a
    class have equal limits and equally many kinds of each class. The anchor has its own class.
    """
    kinds, machines = shop.kinds, range(len(shop.machines))
    kind_of: list[Any] = [(k.duration, k.alloc, k.free, k.count) for k in kinds]
    machine_of: list[Any] = [(str(shop.limits[m]), m == anchor) for m in machines]
    known = 0
    while True:
        kind_of, machine_of = _numbered(kind_of), _numbered(machine_of)
        classes = len(set(kind_of)) + len(set(machine_of))
        if classes == known:
            return kind_of, machine_of
        known = classes
        finer = [
            (
                kind_of[k],
                machine_of[kind.machine],
                tuple(sorted((kind_of[a], lag) for a, lag in shop.before[k])),
                tuple(sorted((kind_of[b], lag) for b, lag in shop.after[k])),
            )
            for k, kind in enumerate(kinds)
        ]
        machine_of = [
            (machine_of[m], tuple(sorted(kind_of[k] for k in shop.on_machine[m]))) for m in machines
        ]
        kind_of = finer


def frames(shop: Shop, span: bool) -> list[Frame]:
    """Return clocks whose horizons bound the objective: for the span one per class of devices."""
    if not span:
        return [whole(shop)]
    _, machine_of = colours(shop)
    devices = [
        d
        for d in range(shop.num_devices)
        if shop.on_machine[d] and machine_of.index(machine_of[d]) == d
    ]
    return [anchored(shop, device) for device in devices]


def _numbered(labels: Sequence[Any]) -> list[Any]:
    number = {label: index for index, label in enumerate(sorted(set(labels)))}
    return [number[label] for label in labels]
