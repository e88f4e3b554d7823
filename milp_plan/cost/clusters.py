"""Clusters of kinds of devices and links: built from text, with the figures of their models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from milp_plan.core import Cluster, CommunicationModel, Device, DeviceClass, Finding, InputError

from .devices import LINKS, DeviceSpec, LinkSpec, device_spec, link_spec

NODE_DEVICES = 8
"""Number of devices of one node."""

MAX_DEVICES = 64
"""Largest cluster that is built; channels grow with the square."""

_TERM = re.compile(r"([1-9][0-9]{0,8})x(\S+)")


@dataclass(frozen=True, eq=False)
class ModelledCluster(Cluster):
    """A cluster, and the figures from which durations and transfers on it are computed.

    Generated problems have the :attr:`plain` cluster, since durations and channels are computed.
    Figures count neither for equality nor for fingerprints.

    Parameters
    ----------
    name
        Its name in names of problems.
    specs
        Device class -> figures.
    links
        Kinds of its channels, and the devices that each joins.
    """

    name: str = field(default="", compare=False)
    specs: Mapping[str, DeviceSpec] = field(default_factory=dict, compare=False)
    links: tuple[LinkSpec, ...] = field(default=(), compare=False)

    def __eq__(self, other: object) -> bool:
        """Compare devices and channels, also with a cluster without figures."""
        return isinstance(other, Cluster) and _content(self) == _content(other)

    __hash__ = Cluster.__hash__

    @property
    def plain(self) -> Cluster:
        """The cluster alone."""
        return Cluster(**_content(self))


def _content(cluster: Cluster) -> dict[str, Any]:
    """Return field -> content of a cluster without figures."""
    return {entry.name: getattr(cluster, entry.name) for entry in fields(Cluster)}


def plain(cluster: Cluster) -> Cluster:
    """Return the cluster without figures."""
    return cluster.plain if isinstance(cluster, ModelledCluster) else cluster


def spec_of(cluster: Cluster, name: str) -> DeviceSpec:
    """Return the figures of a device class of a cluster; of named classes where it has none.

    Raises
    ------
    InputError
        There is no class of that name.
    """
    own = cluster.specs if isinstance(cluster, ModelledCluster) else {}
    return own[name] if name in own else device_spec(name)


def link_of(cluster: Cluster, spec: DeviceSpec) -> LinkSpec:
    """Return the link of a device class inside nodes; without one, the slowest of the cluster."""
    own = cluster.links if isinstance(cluster, ModelledCluster) else ()
    known = LINKS | {link.name: link for link in own}
    if spec.link in known:
        return known[spec.link]
    return min(own, key=lambda link: link.achieved_bytes_per_s)


def arranged(
    cluster: str | ModelledCluster, communication: str | None = None, link: str | None = None
) -> ModelledCluster:
    """Return a cluster by name, or one that was read, with another communication model.

    Raises
    ------
    InputError
        See :func:`cluster`; another link for a cluster whose file defines its links.
    """
    if isinstance(cluster, str):
        return _named(cluster, communication=communication or "channel", link=link)
    if link is not None:
        expected = "no other link: the file of the cluster says them"
        raise InputError([Finding("link", repr(link), expected, "change the file")])
    if communication is None:
        return cluster
    return replace(cluster, communication=CommunicationModel(communication))


def sources(cluster: Cluster) -> dict[str, str]:
    """Return the figures of devices and links and their sources, as provenance."""
    details = {}
    for entry in cluster.device_classes:
        count = sum(device.device_class == entry.name for device in cluster.devices)
        details[f"device {entry.name}"] = f"{count} devices; {spec_of(cluster, entry.name).summary}"
    if isinstance(cluster, ModelledCluster):
        details |= {f"link {link.name}": link.summary for link in cluster.links}
    return details


def cluster(
    text: str,
    *,
    communication: CommunicationModel | str = CommunicationModel.CHANNEL,
    link: str | None = None,
    node_devices: int = NODE_DEVICES,
) -> ModelledCluster:
    """Build a cluster from text such as ``"4xH100"`` or ``"2xH100+2xA100"``.

    Each term fills nodes of its own. Devices of a node are joined by the link of their class;
    devices of different nodes by the slower of the two networks. Process groups are the aligned
    pairs, quads and octets of each node.

    Parameters
    ----------
    text
        Terms ``<count>x<class>`` joined by ``+``.
    communication
        Resources that transfers occupy.
    link
        Name of a link inside nodes instead of the classes' own, for example ``"PCIe4"``.
    node_devices
        Devices of a node.

    Raises
    ------
    InputError
        Text that does not parse, an unknown class or link, a class twice, or more than
        :data:`MAX_DEVICES` devices.
    """
    terms = terms_of(text)
    inside = None if link is None else link_spec(link)
    nodes: list[tuple[DeviceSpec, list[str]]] = []
    for count, spec in terms:
        names = [f"{spec.name}.{i}" for i in range(count)]
        for start in range(0, count, node_devices):
            nodes.append((spec, names[start : start + node_devices]))
    devices = tuple(
        Device(name, spec.name, spec.memory_bytes) for spec, names in nodes for name in names
    )
    channels, used = [], dict[str, LinkSpec]()
    for first, (spec, ends) in enumerate(nodes):
        for second, (other, targets) in enumerate(nodes):
            if first == second:
                kind = inside or LINKS[spec.link]
            else:
                kind = min(
                    (LINKS[spec.network], LINKS[other.network]),
                    key=lambda entry: entry.bandwidth_bytes_per_s,
                )
            pairs = [(a, b) for a in ends for b in targets if a != b]
            if pairs:
                used[kind.name] = kind
            channels += [kind.channel(a, b) for a, b in pairs]
    return ModelledCluster(
        device_classes=tuple(DeviceClass(spec.name, spec.memory_bytes) for _, spec in terms),
        devices=devices,
        channels=tuple(channels),
        groups=tuple(group for _, names in nodes for group in aligned(names)),
        communication=CommunicationModel(communication),
        name=text,
        specs={spec.name: spec for _, spec in terms},
        links=tuple(used.values()),
    )


def terms_of(
    text: str, own: Mapping[str, DeviceSpec] | None = None
) -> list[tuple[int, DeviceSpec]]:
    """Read ``"2xH100+2xA100"``; the cluster's own classes come before named ones.

    Raises
    ------
    InputError
        See :func:`cluster`.
    """
    terms = []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            remedy = "write for example 4xH100 or 2xH100+2xA100"
            raise InputError([Finding("cluster", repr(text), "<count>x<class>[+...]", remedy)])
        name = match[2]
        terms.append((int(match[1]), (own or {}).get(name) or device_spec(name)))
    names = [spec.name for _, spec in terms]
    if len(set(names)) < len(names):
        remedy = "add up the counts of that class"
        raise InputError([Finding("cluster", repr(text), "each class once", remedy)])
    total = sum(count for count, _ in terms)
    if total > MAX_DEVICES:
        expected = f"at most {MAX_DEVICES} devices"
        raise InputError([Finding("cluster", f"{total} devices", expected, "ask for fewer")])
    return terms


def aligned(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return process groups of one node: aligned pairs, quads and octets."""
    return [
        tuple(names[start : start + size])
        for size in (2, 4, 8)
        for start in range(0, len(names) - size + 1, size)
    ]


_named = cluster  # for a function whose argument has this name
