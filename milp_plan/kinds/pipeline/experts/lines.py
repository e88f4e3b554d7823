"""A shop as schedules see it: stages in order, on devices in order.

Published schedules are written for stages 0, 1, ... on devices 0, 1, ...; a :class:`Layout` gives
a shop these names, so that a schedule is a few loops over :class:`Cell` s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from milp_plan.core.view import view

from ..placement import place
from ..shop import TRANSFER, Shop
from ..template import BACKWARD, FORWARD, JOINT, WEIGHT
from ..timing import Words
from .channels import with_channels

Expert = Callable[[Shop], Words | None]
"""Words of a schedule, or ``None`` where it is not defined for the shop. Memory limits are
ignored unless the schedule itself depends on them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One stage of one route: its kinds, as indices into ``shop.kinds``.

    Parameters
    ----------
    route, stage
        Index of its route and of the stage; stages count in the order of the forward pass.
    device
        Position of its device in :attr:`Layout.machines`.
    forward, backward
        Kinds of F and of B (the joint backward where the gradients are not split).
    weight
        Kind of W; ``None`` where the backward is joint.
    """

    route: int
    stage: int
    device: int
    forward: int
    backward: int
    weight: int | None

    @property
    def both(self) -> tuple[int, ...]:
        """The whole backward: B and W at once, or the joint one."""
        return (self.backward,) if self.weight is None else (self.backward, self.weight)


@dataclass(frozen=True)
class Layout:
    """A shop whose routes are lines of stages.

    Parameters
    ----------
    shop
        The shop that was read.
    machines
        Machine of each device, in the order in which route 0 first visits them.
    cells
        Route -> its stages, in order.
    counts
        Micro-batches of each route.
    """

    shop: Shop
    machines: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    counts: tuple[int, ...]

    @property
    def devices(self) -> int:
        """Number of devices that the routes visit."""
        return len(self.machines)

    @cached_property
    def routes(self) -> tuple[tuple[int, ...], ...]:
        """Route -> device position of each stage, as placement families give them."""
        return tuple(tuple(cell.device for cell in row) for row in self.cells)

    @cached_property
    def joint(self) -> bool:
        """Whether no stage splits its backward."""
        return all(cell.weight is None for row in self.cells for cell in row)

    @cached_property
    def split(self) -> bool:
        """Whether every stage splits its backward."""
        return all(cell.weight is not None for row in self.cells for cell in row)

    @property
    def chunks(self) -> int:
        """Stages of route 0 per device, if that is whole; at least 1."""
        return max(1, len(self.cells[0]) // self.devices)

    @cached_property
    def on_device(self) -> tuple[tuple[Cell, ...], ...]:
        """Device position -> its cells, route after route."""
        cells = [cell for row in self.cells for cell in row]
        return tuple(
            tuple(cell for cell in cells if cell.device == device) for device in range(self.devices)
        )

    def placed(self, family: str) -> bool:
        """Return whether the placement is of that family (see :data:`.FAMILIES`)."""
        sizes = {"interleaved": self.chunks, "wave": self.chunks}
        return self.routes == place(family, self.devices, sizes.get(family))

    @cached_property
    def lags(self) -> dict[tuple[int, int], int]:
        """(kind, kind) -> least ticks from the stop of one to the start of the other.

        For kinds joined by an arc or by one transfer that holds a channel.
        """
        shop = self.shop
        lags = {(a, b): lag for a, b, lag in shop.arcs}
        for a, way, lag in shop.arcs:
            if shop.kinds[way].role == TRANSFER:
                for b, rest in shop.after[way]:
                    lags[a, b] = lag + shop.kinds[way].duration + rest
        return lags

    def words(self, rows: Iterable[Iterable[int]]) -> Words:
        """Return the words of the shop from one row of kinds per device position.

        Channels transfer first come, first served (:func:`.channels.with_channels`).
        """
        words: list[list[int]] = [[] for _ in self.shop.machines]
        for machine, row in zip(self.machines, rows, strict=True):
            words[machine] = list(row)
        return with_channels(self.shop, words)


@view
def layout_of(shop: Shop) -> Layout | None:
    """Return the layout of a shop; ``None`` where its routes are no lines of stages."""
    roles = {FORWARD, BACKWARD, WEIGHT, JOINT, TRANSFER}
    if not shop.kinds or any(kind.role not in roles for kind in shop.kinds):
        return None
    number = 1 + max(kind.route for kind in shop.kinds)
    rows = [_stages(shop, route) for route in range(number)]
    machines: list[int] = []
    cells: list[tuple[Cell, ...]] = []
    for route, row in enumerate(rows):
        if row is None:
            return None
        for stage in row:
            machine = shop.kinds[stage[0]].machine
            if machine not in machines:
                machines.append(machine)
        cells.append(
            tuple(
                Cell(route, index, machines.index(shop.kinds[f].machine), f, b, w)
                for index, (f, b, w) in enumerate(row)
            )
        )
    counts = tuple(shop.kinds[row[0].forward].count for row in cells)
    return Layout(shop, tuple(machines), tuple(cells), counts)


def placed_layout(shop: Shop, family: str, *, split: bool = False) -> Layout | None:
    """Return the layout of a shop with a placement of that family, or ``None``.

    With ``split`` every stage must split its gradients.
    """
    layout = layout_of(shop)
    if layout is None or not layout.placed(family) or (split and not layout.split):
        return None
    return layout


def _stages(shop: Shop, route: int) -> list[tuple[int, int, int | None]] | None:
    """Return (F, B, W) of each stage of a route in the order of the forward pass."""
    stages: dict[str, dict[str, int]] = {}
    for k, kind in enumerate(shop.kinds):
        if kind.route != route or kind.role == TRANSFER:
            continue
        role = BACKWARD if kind.role == JOINT else kind.role
        if kind.role == JOINT:
            stages.setdefault(kind.block, {})[JOINT] = k
        if stages.setdefault(kind.block, {}).setdefault(role, k) != k:
            return None
    # kinds are topologically sorted, so the forwards of a line come in order
    ordered = sorted(stages.values(), key=lambda stage: stage.get(FORWARD, -1))
    triples: list[tuple[int, int, int | None]] = []
    for stage in ordered:
        if FORWARD not in stage or BACKWARD not in stage or (JOINT in stage) == (WEIGHT in stage):
            return None
        triples.append((stage[FORWARD], stage[BACKWARD], stage.get(WEIGHT)))
        if len({shop.kinds[k].machine for k in stage.values()}) > 1:
            return None
    return triples if _is_line(shop, triples) else None


def _is_line(shop: Shop, stages: list[tuple[int, int, int | None]]) -> bool:
    """Whether each F waits for the F before, each B for the B after and its own F, W for B."""
    before: dict[int, set[int]] = {}
    for kinds in stages:
        for k in kinds:
            if k is not None:
                before[k] = set()
                for a, _ in shop.before[k]:
                    ways = shop.before[a] if shop.kinds[a].role == TRANSFER else ((a, 0),)
                    before[k] |= {maker for maker, _ in ways}
    for index, (f, b, w) in enumerate(stages):
        if before[f] != ({stages[index - 1][0]} if index else set()):
            return False
        last = index == len(stages) - 1
        if before[b] - {f} != (set() if last else {stages[index + 1][1]}) or f not in before[b]:
            return False
        if w is not None and (before[w] - {f} != {b}):
            return False
    return True
