"""Clusters: device classes, devices, directed channels and process groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from .quantity import TICKS_PER_SECOND, ceil_div


class CommunicationModel(StrEnum):
    """The resources that a transfer occupies while it runs (law 3)."""

    CHANNEL = "channel"
    """Every directed channel that it uses."""
    ENDPOINT = "endpoint"
    """The send ports of its source devices and the receive ports of its targets."""
    DELAY = "delay"
    """None: a transfer takes time, but never waits for another one."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A kind of device; durations of options are given per class.

    Parameters
    ----------
    name
        Name of the class, for example ``"H100"``.
    memory_bytes
        Memory of each device of the class; ``None`` for no limit.
    host
        Whether its devices run no operators and only store copies.
    """

    name: str
    memory_bytes: int | None
    host: bool = field(default=False, metadata={"added": True})


@dataclass(frozen=True, slots=True)
class Device:
    """One device. ``memory_bytes`` is already resolved from its class."""

    name: str
    device_class: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Channel:
    """A directed link between two devices.

    Parameters
    ----------
    source, target
        Device names.
    latency_ticks
        Time before the first byte of each message arrives.
    bandwidth_bytes_per_s
        Bytes per 10^9 ticks.
    """

    source: str
    target: str
    latency_ticks: int
    bandwidth_bytes_per_s: int

    def transfer_ticks(self, num_bytes: int, messages: int = 1) -> int:
        """Return the ticks to send bytes in a number of messages (alpha-beta model, rounded up).

        Each message of a bundle takes the latency, and at most one tick of rounding, so sending
        the parts one after the other always fits into the time of the bundle.
        """
        wire = ceil_div(num_bytes * TICKS_PER_SECOND, self.bandwidth_bytes_per_s)
        return messages * self.latency_ticks + wire + messages - 1


@dataclass(frozen=True)
class Cluster:
    """Devices and channels.

    Parameters
    ----------
    device_classes, devices, channels
        Members in file order, which is the order of all tables and arrays.
    groups
        Process groups: the device sets on which options with a gang larger than one may run.
    communication
        The resources that transfers occupy.
    """

    device_classes: tuple[DeviceClass, ...]
    devices: tuple[Device, ...]
    channels: tuple[Channel, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    communication: CommunicationModel = CommunicationModel.CHANNEL

    @cached_property
    def device_names(self) -> tuple[str, ...]:
        """Names of the devices, in order."""
        return tuple(device.name for device in self.devices)

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Names of devices that run no operators and only store copies."""
        classes = {entry.name for entry in self.device_classes if entry.host}
        return frozenset(d.name for d in self.devices if d.device_class in classes)

    @cached_property
    def _device_by_name(self) -> dict[str, Device]:
        return {device.name: device for device in self.devices}

    @cached_property
    def _channel_by_ends(self) -> dict[tuple[str, str], Channel]:
        return {(channel.source, channel.target): channel for channel in self.channels}

    def device(self, name: str) -> Device:
        """Return the device of that name; ``KeyError`` if there is none."""
        return self._device_by_name[name]

    def channel(self, source: str, target: str) -> Channel | None:
        """Return the channel from ``source`` to ``target``; ``None`` if there is none."""
        return self._channel_by_ends.get((source, target))

    def sites(self, gang: int) -> tuple[tuple[str, ...], ...]:
        """Return the device sets on which an option with this gang may run."""
        if gang == 1:
            return tuple((name,) for name in self.device_names)
        return tuple(group for group in self.groups if len(group) == gang)

    @cached_property
    def _sites_of(self) -> dict[tuple[int, frozenset[str]], tuple[tuple[str, ...], ...]]:
        return {}

    def sites_of(self, gang: int, classes: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Return the sites for this gang whose devices all belong to the classes."""
        key = gang, frozenset(classes)
        if key not in self._sites_of:
            self._sites_of[key] = tuple(
                site
                for site in self.sites(gang)
                if all(self.device(name).device_class in key[1] for name in site)
            )
        return self._sites_of[key]

    def kinds_of_sites(self, gang: int, classes: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Return the first of these sites for each set of device classes and smallest memory."""
        first: dict[tuple[frozenset[str], int | None], tuple[str, ...]] = {}
        for site in self.sites_of(gang, classes):
            devices = [self.device(name) for name in site]
            limits = [d.memory_bytes for d in devices if d.memory_bytes is not None]
            kinds = frozenset(device.device_class for device in devices)
            first.setdefault((kinds, min(limits, default=None)), site)
        return tuple(first.values())

    def with_memory(self, memory_bytes: dict[str, int | None]) -> Cluster:
        """Return a copy whose named devices have another memory limit."""
        devices = tuple(
            replace(device, memory_bytes=memory_bytes.get(device.name, device.memory_bytes))
            for device in self.devices
        )
        return replace(self, devices=devices)
