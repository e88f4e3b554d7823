"""Future readers of copies: the last reader releases a copy, unless it stays.

Both classes answer the same two questions, after a transfer was entered and after an operator
was: which devices of the producer no longer need the native copy, and which transferred copies
nobody waits for. With every placement known the answers are exact; otherwise they err on the
side of keeping a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .indexed import Indexed, Leg, Spot

Devices = tuple[int, ...]
NOBODY: Devices = ()


class Readers(Protocol):
    """Interface: the future readers of copies while a timetable grows."""

    def decided(self, spot: Spot) -> list[int]:
        """Record an operator's site; return values whose native copies are no longer needed."""
        ...

    def sent(self, leg: Leg) -> Devices:
        """Record a transfer; return devices of its producer that no longer need the native copy."""
        ...

    def read(self, value: int, spot: Spot, legs: tuple[Leg, ...]) -> Devices:
        """Record that an operator read a value; return devices as for :meth:`sent`."""
        ...

    def awaited(self, leg: Leg) -> bool:
        """Return whether a later reader of the copy is known."""
        ...

    def last(
        self, value: int, spot: Spot, legs: tuple[Leg, ...]
    ) -> tuple[Devices, tuple[Leg, ...]]:
        """Devices whose native copy, and transfers whose copy, this reader is the last to use."""
        ...

    def unsent(self, value: int) -> tuple[Leg, ...]:
        """Transfers of a value that are known to be needed, those already made included."""
        ...


class KnownReaders:
    """Every operator's spot is known."""

    def __init__(self, view: Indexed, spots: Sequence[Spot]) -> None:
        self._view = view
        self._spots = spots
        self._of_copy: dict[int, int] = {}
        self._of_native: list[dict[int, int]] = [{} for _ in view.values]
        for spot in spots:
            for value, _, _ in spot.writes:
                if view.stays[value]:
                    self._of_native[value] = dict.fromkeys(spot.devices, 1)
        for spot in spots:
            for value, _ in spot.reads:
                self._count(value, spot)

    def _count(self, value: int, spot: Spot) -> None:
        view = self._view
        producer = self._spots[view.producer[value]]
        native = self._of_native[value]
        legs = view.legs_between(value, producer, spot)
        for leg in legs or ():
            readers = self._of_copy.get(leg.copy, 0)
            self._of_copy[leg.copy] = readers + 1
            if not readers:
                for device in leg.source:
                    native[device] = native.get(device, 0) + 1
        for device in _native_devices(producer, spot, legs or ()):
            native[device] = native.get(device, 0) + 1

    def decided(self, spot: Spot) -> list[int]:  # noqa: ARG002 (it was counted already)
        """Return nothing: all sites are known from the start."""
        return []

    def sent(self, leg: Leg) -> Devices:
        """Count one use less on every source device of the transfer."""
        return self._relieve(leg.value, leg.source)

    def read(self, value: int, spot: Spot, legs: tuple[Leg, ...]) -> Devices:
        """Count one reader less of each copy used, the native one included."""
        for leg in legs:
            self._of_copy[leg.copy] -= 1
        producer = self._spots[self._view.producer[value]]
        return self._relieve(value, _native_devices(producer, spot, legs))

    def awaited(self, leg: Leg) -> bool:
        """Return whether readers of the copy are left."""
        return self._of_copy[leg.copy] > 0

    def last(
        self, value: int, spot: Spot, legs: tuple[Leg, ...]
    ) -> tuple[Devices, tuple[Leg, ...]]:
        """Return the copies that this reader frees: those for which it is the last use."""
        producer = self._spots[self._view.producer[value]]
        native = self._of_native[value]
        devices = _native_devices(producer, spot, legs)
        copies = tuple(leg for leg in legs if self._of_copy[leg.copy] == 1)
        return tuple(device for device in devices if native[device] == 1), copies

    def unsent(self, value: int) -> tuple[Leg, ...]:
        """Return the transfers to every reader."""
        view = self._view
        producer = self._spots[view.producer[value]]
        readers = view.consumers[value] if any(self._of_native[value].values()) else ()
        result = (view.legs_between(value, producer, self._spots[op]) or () for op in readers)
        return tuple({leg.copy: leg for legs in result for leg in legs}.values())

    def _relieve(self, value: int, devices: Devices) -> Devices:
        native = self._of_native[value]
        for device in devices:
            native[device] -= 1
        return tuple(device for device in devices if not native[device])


class GuessedReaders:
    """Sites become known while the schedule grows.

    A native copy is kept while a reader is left that may need it. A transferred copy is kept
    while a reader is left whose site is known to be where the copy is; a later one can still
    have it kept for longer, if there is room. ``native`` lists, per value, the devices with
    its native copy.
    """

    def __init__(self, view: Indexed, native: Sequence[Mapping[int, int]]) -> None:
        self._view = view
        self._native = native
        self._needing = [
            len(readers) + stays for readers, stays in zip(view.consumers, view.stays, strict=True)
        ]
        self._waiting: dict[tuple[int, int], int] = {}
        self._sent: set[tuple[int, int]] = set()

    def decided(self, spot: Spot) -> list[int]:
        """Register an operator whose site is now known as a reader of its inputs there."""
        unneeded = []
        for value, _ in spot.reads:
            for place in self._places(spot):
                key = (value, place)
                self._waiting[key] = self._waiting.get(key, 0) + 1
            served = self._view.simple[value] and (value, spot.site) in self._sent
            if served and self._need(value, 1):
                unneeded.append(value)
        return unneeded

    def sent(self, leg: Leg) -> Devices:
        """Count a transfer; its copy serves all readers there instead of the native one."""
        self._sent.add((leg.value, leg.target_site))
        fewer = 0
        if self._view.simple[leg.value]:
            fewer = self._waiting.get((leg.value, leg.target_site), 0)
        return tuple(self._native[leg.value]) if self._need(leg.value, fewer) else NOBODY

    def read(self, value: int, spot: Spot, legs: tuple[Leg, ...]) -> Devices:
        """Count one reader less; of a simple value, one that no transfer served before."""
        for place in self._places(spot):
            self._waiting[value, place] -= 1
        if legs and self._view.simple[value]:
            return NOBODY
        return tuple(self._native[value]) if self._need(value, 1) else NOBODY

    def awaited(self, leg: Leg) -> bool:
        """Return whether an operator whose site is known to be there is still to come."""
        return self._waiting.get((leg.value, leg.target_site), 0) > 0

    def last(
        self, value: int, spot: Spot, legs: tuple[Leg, ...]
    ) -> tuple[Devices, tuple[Leg, ...]]:
        """Return native copies only; a copy made just for this reader is not predicted."""
        if legs or self._needing[value] > 1:
            return NOBODY, ()
        return tuple(d for d in self._native[value] if d in spot.devices), ()

    def unsent(self, value: int) -> tuple[Leg, ...]:  # noqa: ARG002 (nothing is known)
        """Return nothing, as nothing is certain."""
        return ()

    def _need(self, value: int, fewer: int) -> bool:
        """Remove readers of the native copy; return whether the last one was removed."""
        self._needing[value] -= fewer
        return fewer > 0 and not self._needing[value]

    def _places(self, spot: Spot) -> Devices:
        """Return the numbers of the sites at which copies may wait for a reader with this spot."""
        return spot.devices if len(spot.devices) == 1 else (spot.site, *spot.devices)


def _native_devices(producer: Spot, reader: Spot, legs: tuple[Leg, ...]) -> Devices:
    """Return the devices on which a reader uses the native copy."""
    if legs and legs[0].target == reader.devices:
        return NOBODY
    if producer.site == reader.site:
        return reader.devices
    return tuple(device for device in reader.devices if device in producer.devices)
