"""The devices and channels of a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from milp_plan.core import Channel, Cluster, CommunicationModel, Device, DeviceClass, Units
from milp_plan.core.quantity import NANOSECONDS
from milp_plan.io.defects import nearest

from .quantities import amount, count, flag, quoted, refuse, text, ticks

Time = Any
"""A number in the model's unit of time, or a text such as ``"3.5ms"``."""

Size = Any
"""A whole number of bytes, or a text such as ``"2GiB"``."""

_INHERITED: Any = object()


@dataclass(frozen=True)
class Handle:
    """A handle, which ``add_...`` of a :class:`milp_plan.Model` returns; names work as well.

    Parameters
    ----------
    what
        ``"device class"``, ``"device"``, ``"operator"`` or ``"value"``.
    name
        Unique among those of the model; also ``str(handle)``.
    """

    what: str
    name: str
    model: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


class Machines:
    """The part of a :class:`milp_plan.Model` with devices, names and units.

    Parameters
    ----------
    time_unit, ticks_per_unit
        Units of time of the model.
    """

    def __init__(self, time_unit: str, ticks_per_unit: int) -> None:
        self.time_unit, self.units, self._per_unit = _units(time_unit, ticks_per_unit)
        self.communication = CommunicationModel.CHANNEL
        self._classes: dict[str, DeviceClass] = {}
        self._devices: dict[str, Device] = {}
        self._channels: dict[tuple[str, str], Channel] = {}
        self._groups: list[tuple[str, ...]] = []
        self._numbers: dict[str, int] = {}
        self._tables: dict[str, Mapping[str, Any]] = {
            "device class": self._classes,
            "device": self._devices,
        }
        self._built: Any = None

    @property
    def cluster(self) -> Cluster:
        """The devices and channels so far."""
        return Cluster(
            tuple(self._classes.values()),
            tuple(self._devices.values()),
            tuple(self._channels.values()),
            tuple(self._groups),
            self.communication,
        )

    @property
    def devices(self) -> tuple[Handle, ...]:
        """Handles of all devices, including those of the initial cluster."""
        return tuple(Handle("device", name, self) for name in self._devices)

    def add_device_class(
        self, name: str | None = None, memory: Size | None = None, *, host: bool = False
    ) -> Handle:
        """Add a kind of device.

        Parameters
        ----------
        name
            Name, such as ``"H100"``.
        memory
            Bytes of each of its devices; ``None`` without a limit.
        host
            Whether its devices run nothing and hold values for others.
        """
        call = "add_device_class"
        name = self._new_name(name, "class", self._classes, call)
        limit = None if memory is None else amount(memory, f"{call} {name!r}, memory")
        self._classes[name] = DeviceClass(name, limit, flag(host, f"{call} {name!r}, host"))
        return self._changed("device class", name)

    def add_device(
        self,
        name: str | None = None,
        device_class: Handle | str | None = None,
        *,
        memory: Size | None = _INHERITED,
    ) -> Handle:
        """Add a device.

        Parameters
        ----------
        device_class
            Its class; by default the only one. A model without classes gets one without a limit.
        memory
            Bytes, if not those of its class; ``None`` without a limit.
        """
        call = "add_device"
        kind = self._class_for(device_class, call)
        name = self._new_name(name, f"{kind}.", self._devices, call)
        limit = self._classes[kind].memory_bytes
        if memory is not _INHERITED:
            limit = None if memory is None else amount(memory, f"{call} {name!r}, memory")
        self._devices[name] = Device(name, kind, limit)
        return self._changed("device", name)

    def add_devices(
        self,
        number: int,
        device_class: Handle | str | None = None,
        *,
        memory: Size | None = _INHERITED,
    ) -> tuple[Handle, ...]:
        """Add equal devices; see :meth:`add_device`."""
        number = count(number, "add_devices, number")
        return tuple(self.add_device(None, device_class, memory=memory) for _ in range(number))

    def connect(
        self,
        source: Handle | str,
        target: Handle | str,
        bandwidth: Size,
        latency: Time = 0,
        *,
        both: bool = True,
    ) -> None:
        """Connect two devices.

        Parameters
        ----------
        bandwidth
            Bytes per second, such as ``"25GB/s"``; bytes per unit of time where the model's unit
            is unspecified.
        latency
            Time before the first byte of each message arrives.
        both
            Whether there are channels in both directions, each with the whole bandwidth.
        """
        call = "connect"
        one, other = self._name(source, "device", call), self._name(target, "device", call)
        where = f"{call} {one!r} to {other!r}"
        if one == other:
            refuse(where, "one device twice", "two devices", "leave it out")
        pairs = ((one, other), (other, one)) if flag(both, f"{where}, both") else ((one, other),)
        rate = self._rate(bandwidth, f"{where}, bandwidth")
        delay = self._ticks(latency, f"{where}, latency")
        for pair in pairs:
            if pair in self._channels:
                found = f"{pair[0]!r} to {pair[1]!r} a second time"
                refuse(call, found, "each direction once", "leave it out, or set both=False")
        for pair in pairs:
            self._channels[pair] = Channel(*pair, delay, rate)
        self._built = None

    def connect_all(
        self,
        bandwidth: Size,
        latency: Time = 0,
        devices: Iterable[Handle | str] | None = None,
    ) -> None:
        """Connect all devices, or some, each with each; see :meth:`connect`."""
        given = self._devices if devices is None else devices
        names = [self._name(entry, "device", "connect_all") for entry in given]
        for place, name in enumerate(names):
            for other in names[place + 1 :]:
                self.connect(name, other, bandwidth, latency)

    def add_group(self, *devices: Handle | str) -> None:
        """Add a process group: devices on which options with a gang of that size may run."""
        call = "add_group"
        names = tuple(self._name(entry, "device", call) for entry in devices)
        if len(names) < 2 or len(set(names)) < len(names):
            refuse(call, str(list(names)), "two or more different devices")
        for name in names:
            if self._classes[self._devices[name].device_class].host:
                refuse(call, f"host {name!r}", "devices that run operators", "leave it out")
        self._groups.append(names)
        self._built = None

    def _begin_with(self, cluster: Cluster) -> None:
        self._classes |= {entry.name: entry for entry in cluster.device_classes}
        self._devices |= {entry.name: entry for entry in cluster.devices}
        self._channels |= {(entry.source, entry.target): entry for entry in cluster.channels}
        self._groups += cluster.groups
        self.communication = cluster.communication

    def _changed(self, what: str, name: str) -> Handle:
        self._built = None
        return Handle(what, name, self)

    def _new_name(self, name: str | None, stem: str, known: Mapping[str, Any], call: str) -> str:
        if name is None:
            numbers = itertools.count(self._numbers.get(stem, 0))
            number = next(i for i in numbers if f"{stem}{i}" not in known)
            self._numbers[stem] = number + 1
            return f"{stem}{number}"
        where = f"{call}, name"
        if text(name, where) in known:
            refuse(where, f"{name!r} a second time", "unique names", "choose another name")
        return str(name)

    def _name(self, given: Handle | str, what: str, call: str) -> str:
        """Return the name of an object that exists."""
        thing = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
        if isinstance(given, Handle) and given.model is not self:
            found = f"{given.what} {given.name!r} of another model"
            refuse(call, found, f"{thing} of this model", "add it to this model")
        if isinstance(given, Handle) and given.what != what:
            found = f"the {given.what} {given.name!r}"
            refuse(call, found, thing, f"name {thing}")
        if not isinstance(given, Handle | str):
            refuse(call, quoted(given), f"{thing}, or the name of one")
        name, known = str(given), self._tables[what]
        if name not in known:
            remedy = nearest(name, known, f"add the {what} first")
            refuse(call, f"unknown {what} {name!r}", f"{thing} that was added", remedy)
        return name

    def _class_for(self, given: Handle | str | None, call: str) -> str:
        if given is not None:
            return self._name(given, "device class", call)
        if not self._classes:
            return self.add_device_class("device").name
        if len(self._classes) > 1:
            known = ", ".join(self._classes)
            refuse(f"{call}, device_class", "none", f"one of {known}", "name the class")
        return next(iter(self._classes))

    def _ticks(self, given: Time, where: str) -> int:
        return ticks(given, self._per_unit, self.time_unit, where)

    def _rate(self, given: Size, where: str) -> int:
        """Return bytes per 10^9 ticks."""
        rate = amount(given, where, least=1, per_second=True)
        if self.time_unit != "unspecified":
            return rate
        exact = rate * Fraction(10**9) / self._per_unit
        if exact.denominator != 1:
            expected = "a whole number of bytes per 10^9 ticks"
            refuse(where, f"{quoted(given)}, which is {exact}", expected, "change ticks_per_unit")
        return int(exact)


def _units(unit: str, per_unit: int) -> tuple[str, Units, Fraction]:
    """Return the unit of plain numbers, the units of the problem, and ticks per unit."""
    if unit == "unspecified":
        scale = count(per_unit, "Model, ticks_per_unit")
        return unit, Units("unspecified", "bytes", scale), Fraction(scale)
    if unit not in NANOSECONDS:
        known = "one of s, ms, us, ns, unspecified"
        refuse("Model, time_unit", quoted(unit), known, "choose one of these")
    if per_unit != 1:
        found, expected = quoted(per_unit), "nothing, as a tick is a nanosecond"
        refuse("Model, ticks_per_unit", found, expected, 'leave it out, or say "unspecified"')
    return unit, Units(), Fraction(NANOSECONDS[unit])


def handles(given: Any, where: str) -> list[Any]:
    """Return a list of handles or names; a single one becomes a list.

    Raises
    ------
    InputError
        It is neither.
    """
    if isinstance(given, Handle | str):
        return [given]
    if not isinstance(given, Iterable):
        refuse(where, quoted(given), "handles or names", "give a list")
    return list(given)
