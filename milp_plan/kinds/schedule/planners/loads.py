"""Busy time of every resource and static memory of every device, kept up to date under moves.

No clock: this is what counts for the objective ``bottleneck`` and the memory law ``static``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .indexed import Indexed, Leg, Spot


class Loads:
    """Placements of some units, and the load of every resource.

    Parameters
    ----------
    view
        The problem.
    limits
        Static bytes per device; ``None`` for no limit.
    """

    def __init__(self, view: Indexed, limits: Sequence[int | None]) -> None:
        self._view = view
        self._limits = limits
        self.spots: list[Spot | None] = [None] * view.num_operators
        self.busy = [0] * view.num_resources
        self._held = [0] * view.num_devices
        self._persistent: Counter[tuple[int, int, str]] = Counter()
        self._workspaces: list[Counter[int]] = [Counter() for _ in range(view.num_devices)]
        self.broken = 0
        """Reads that no transfer can serve."""

    @property
    def feasible(self) -> bool:
        """Whether every read is served and no device holds more than its limit."""
        return not self.broken and not self.overflow

    @property
    def overflow(self) -> int:
        """Bytes above the limits, summed over devices."""
        return sum(
            max(0, self._held[device] + max(self._workspaces[device], default=0) - limit)
            for device, limit in enumerate(self._limits)
            if limit is not None
        )

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Cost to minimise: broken reads, overflow, the largest load, the squares of the rest.

        The last part distinguishes placements with the same largest load.
        """
        squares = sum(ticks * ticks for ticks in self.busy)
        return (self.broken, self.overflow, max(self.busy), squares)

    def place(self, spots: Sequence[Spot]) -> None:
        """Put operators somewhere, or somewhere else."""
        touched = self._values(spots)
        for value in touched:
            self._charge(value, -1)
        for spot in spots:
            before = self.spots[spot.operator]
            if before is not None:
                self._run(before, -1)
            self._run(spot, 1)
            self.spots[spot.operator] = spot
        for value in touched:
            self._charge(value, 1)

    def remove(self, spots: Sequence[Spot]) -> None:
        """Take operators that were put there away again."""
        touched = self._values(spots)
        for value in touched:
            self._charge(value, -1)
        for spot in spots:
            self._run(spot, -1)
            self.spots[spot.operator] = None
        for value in touched:
            self._charge(value, 1)

    def _values(self, spots: Sequence[Spot]) -> list[int]:
        touched = dict.fromkeys(value for spot in spots for value, _ in spot.reads)
        touched.update(dict.fromkeys(value for spot in spots for value, _, _ in spot.writes))
        return list(touched)

    def _run(self, spot: Spot, sign: int) -> None:
        for device in spot.devices:
            self.busy[device] += sign * spot.duration
            self._held[device] += sign * sum(amount for _, _, amount in spot.writes)
            spaces = self._workspaces[device]
            spaces[spot.workspace] += sign
            if not spaces[spot.workspace]:
                del spaces[spot.workspace]
            for value, layout, amount in spot.persists:
                key = (device, value, layout)
                self._persistent[key] += sign
                if self._persistent[key] == (sign > 0):
                    self._held[device] += sign * amount

    def _charge(self, value: int, sign: int) -> None:
        for leg in self._legs(value):
            if leg is None:
                self.broken += sign
                continue
            for resource in leg.resources:
                self.busy[resource] += sign * leg.duration
            for device in leg.target:
                self._held[device] += sign * leg.bytes

    def _legs(self, value: int) -> Iterator[Leg | None]:
        """Transfers of a value between operators placed so far, ``None`` for an impossible one."""
        view = self._view
        producer = self.spots[view.producer[value]]
        if producer is None:
            return
        seen: set[int] = set()
        for reader in view.consumers[value]:
            spot = self.spots[reader]
            if spot is None:
                continue
            legs = view.legs_between(value, producer, spot)
            if legs is None:
                yield None
                continue
            for leg in legs:
                if leg.copy not in seen:
                    seen.add(leg.copy)
                    yield leg

    def transfers(self) -> Iterator[Leg]:
        """Every transfer between the operators placed so far."""
        for value, producer in enumerate(self._view.producer):
            if producer >= 0:
                yield from (leg for leg in self._legs(value) if leg is not None)
