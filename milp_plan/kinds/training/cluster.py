"""Clusters as classes: groups of equal nodes and levels of links, never pairs of devices.

Nothing here grows with the number of devices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from milp_plan.core import Finding, InputError
from milp_plan.cost.devices import DEVICES, LINKS, DeviceSpec, LinkSpec, device_spec

NODE_DEVICES = 8
"""Devices of a node where the text does not say."""

ALIASES = {
    "A100-80GB": "A100",
    "A100-80": "A100",
    "A100-40": "A100-40GB",
    "H100-80GB": "H100",
    "V100-32GB": "V100",
}
"""Other names of device classes."""

_TERM = re.compile(r"(?:([1-9][0-9]{0,8})x)?([1-9][0-9]{0,8})x(\S+)")


@dataclass(frozen=True, slots=True)
class Level:
    """Links that join consecutive devices.

    Parameters
    ----------
    name
        ``"node"``, ``"network"``, ``"rack"``.
    devices
        Consecutive devices that it joins.
    link
        The link of one device at this level: bandwidth per direction, latency, efficiency.
    """

    name: str
    devices: int
    link: LinkSpec


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Equal nodes of equal devices.

    Parameters
    ----------
    device
        Figures of the device class.
    nodes, node_devices
        Number of nodes, and of devices in each.
    levels
        Links from the inside out; each joins a multiple of the devices of the one before, the last
        one all.
    """

    device: DeviceSpec
    nodes: int
    node_devices: int
    levels: tuple[Level, ...]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.nodes * self.node_devices


@dataclass(frozen=True, slots=True)
class TrainingCluster:
    """Groups of equal nodes.

    Parameters
    ----------
    name
        As it was written.
    groups
        Groups in the order of their devices.
    between
        The link of one device to a device of another group.
    """

    name: str
    groups: tuple[DeviceGroup, ...]
    between: LinkSpec

    @property
    def devices(self) -> int:
        """Number of devices."""
        return sum(group.devices for group in self.groups)

    @property
    def mixed(self) -> bool:
        """Whether it has several groups."""
        return len(self.groups) > 1

    @property
    def memory_bytes(self) -> int:
        """Memory of the device with the least."""
        return min(group.device.memory_bytes for group in self.groups)

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the device classes, each once."""
        return tuple(dict.fromkeys(group.device.name for group in self.groups))

    @property
    def memories(self) -> tuple[int, ...]:
        """Memory of a device of each group."""
        return tuple(group.device.memory_bytes for group in self.groups)

    @property
    def peak_flops_per_s(self) -> int:
        """Peak rate of all devices together."""
        return sum(group.device.peak_flops_per_s * group.devices for group in self.groups)

    def group_of(self, device: int) -> int:
        """Return the number of a device's group; devices are numbered over all groups."""
        for number, group in enumerate(self.groups):
            if device < group.devices:
                return number
            device -= group.devices
        return len(self.groups) - 1

    def with_memory(self, *num_bytes: int) -> TrainingCluster:
        """Return the cluster with another memory of every device, or of those of each group."""
        amounts = num_bytes * len(self.groups) if len(num_bytes) == 1 else num_bytes
        groups = tuple(
            replace(group, device=replace(group.device, memory_bytes=amount))
            for group, amount in zip(self.groups, amounts, strict=True)
        )
        return replace(self, groups=groups)


def training_cluster(text: str) -> TrainingCluster:
    """Read ``"2048x8xH100"`` (nodes, devices of a node), ``"64xA100"``, or several with ``+``.

    A number alone counts devices, in nodes of :data:`NODE_DEVICES`, or one node if they are fewer.

    Raises
    ------
    InputError
        Text that does not parse, an unknown class, or devices that fill no whole nodes.
    """
    groups, names = [], []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            expected = "<nodes>x<devices>x<class> or <devices>x<class>, joined by +"
            remedy = "write for example 8x8xH100 or 64xA100"
            if term.strip().endswith(".toml"):
                remedy += "; cluster files are for graphs, not for train and serve"
            raise InputError([Finding("cluster", repr(text), expected, remedy)])
        spec = device_spec(_class_name(match[3]))
        nodes, size = (int(match[1]), int(match[2])) if match[1] else _nodes(int(match[2]), text)
        groups.append(device_group(spec, nodes, size))
        names.append(f"{term.strip()[: match.start(3)]}{_spelled(match[3])}")
    return TrainingCluster("+".join(names), tuple(groups), _slowest(groups))


def _spelled(name: str) -> str:
    """Return a name of a device class with capitals as they are known."""
    known = {each.lower(): each for each in (*DEVICES, *ALIASES)}
    return known.get(name.lower(), name)


def _class_name(name: str) -> str:
    """Return the device class that a name, in capitals or not, means."""
    name = _spelled(name)
    near = get_close_matches(name.upper(), DEVICES, 1, 0.6)
    if name not in DEVICES and name not in ALIASES:
        expected = f"one of {', '.join(sorted(DEVICES))}"
        remedy = f"did you mean {near[0]}?" if near else "correct the name"
        raise InputError([Finding("cluster", f"device class {name!r}", expected, remedy)])
    return ALIASES.get(name, name)


def device_group(spec: DeviceSpec, nodes: int, node_devices: int) -> DeviceGroup:
    """Return equal nodes, joined by the network of their class."""
    levels = [Level("node", node_devices, LINKS[spec.link])]
    if nodes > 1:
        levels.append(Level("network", nodes * node_devices, LINKS[spec.network]))
    return DeviceGroup(spec, nodes, node_devices, tuple(levels))


def _nodes(devices: int, text: str) -> tuple[int, int]:
    if devices <= NODE_DEVICES:
        return 1, devices
    if devices % NODE_DEVICES:
        found = f"{devices} devices in {text!r}"
        remedy = "write <nodes>x<devices of a node>x<class>"
        raise InputError([Finding("cluster", found, f"whole nodes of {NODE_DEVICES}", remedy)])
    return devices // NODE_DEVICES, NODE_DEVICES


def _slowest(groups: list[DeviceGroup]) -> LinkSpec:
    links = [LINKS[group.device.network] for group in groups]
    return min(links, key=lambda link: link.achieved_bytes_per_s)
