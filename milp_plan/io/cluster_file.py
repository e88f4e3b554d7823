"""Clusters as TOML: devices, nodes, links, groups. See ``instances/formats/cluster.md``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import CommunicationModel, Device, DeviceClass, Finding, InputError
from milp_plan.cost.clusters import MAX_DEVICES, ModelledCluster, aligned, terms_of
from milp_plan.cost.devices import LINKS, DeviceSpec, LinkSpec

from .defects import nearest
from .files import Document, read_document
from .pipeline_file import Amount, decode_toml, exact
from .toml_text import assignments
from .wire import Positive, Strict

TITLE = "a cluster: devices, nodes, links, groups (TOML)"
SUFFIX = ".toml"
MARKER = "milp-plan-cluster"

LEAST, MOST = Fraction(1, 1000), 10**6
"""Minimum and maximum of figures in GB/s, Tflop/s and GB; microseconds may be 0."""

_NAME = re.compile(r"[\w.-]+")

Text = Annotated[str, msgspec.Meta(min_length=1)]


class WireDevice(Strict):
    """A device class that the file defines."""

    name: Text
    memory_gb: Amount
    tflops: Amount
    gb_per_s: Amount
    source: Text
    compute_efficiency: Amount = 1
    memory_efficiency: Amount = 1
    launch_us: Amount = 0
    link: str = ""


class WireLink(Strict):
    """A kind of link; ``shared_by`` devices send through one adapter."""

    name: Text
    gb_per_s: Amount
    us: Amount
    source: Text
    efficiency: Amount = 1
    shared_by: Positive = 1


class WireNode(Strict):
    """A node, or several equal nodes."""

    name: Text
    devices: str
    count: Positive = 1
    link: str = ""


class WireGroup(Strict):
    """Nodes, or groups listed before, that a link connects."""

    name: Text
    members: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    link: str


class WireCluster(Strict):
    """A cluster."""

    format: Literal["milp-plan-cluster"]
    version: Literal[1]
    name: Text
    nodes: Annotated[tuple[WireNode, ...], msgspec.Meta(min_length=1)]
    devices: tuple[WireDevice, ...] = ()
    links: tuple[WireLink, ...] = ()
    groups: tuple[WireGroup, ...] = ()
    link: str = ""
    communication: Literal["channel", "endpoint", "delay"] = "channel"


def cluster_of(cluster: str | Path | ModelledCluster) -> str | ModelledCluster:
    """Read a cluster that is named by its file (``.toml``); return other names unchanged.

    Raises
    ------
    InputError
        As of :func:`read_cluster`.
    """
    if isinstance(cluster, Path) or (isinstance(cluster, str) and cluster.endswith(SUFFIX)):
        return read_cluster(cluster)
    return cluster


def read_cluster(path: str | Path) -> ModelledCluster:
    """Read a cluster and the figures of its devices and links.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    document = read_document(path, "a cluster (TOML)")
    wire = read_wire(document)
    return _Builder(wire).cluster()


def read_wire(document: Document) -> WireCluster:
    """Read and check the content of a file.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    try:
        wire = decode_toml(document, WireCluster)
        findings = [*_figures(wire), *_shared(wire), *_names(wire)]
        if not findings:
            findings = list(_Builder(wire).findings())
        if findings:
            raise InputError(findings)
        return wire
    except InputError as error:
        raise error.in_file(document.file) from None


def to_toml(wire: WireCluster) -> bytes:
    """Return a cluster as TOML; equal clusters give equal bytes."""
    content: dict[str, Any] = msgspec.to_builtins(wire)
    tables = {
        key: content.pop(key) for key in list(content) if isinstance(content[key], tuple | list)
    }
    lines = list(assignments(content))
    for name in ("devices", "links", "nodes", "groups"):
        for entry in tables.get(name, ()):
            lines += ["", f"[[{name}]]", *assignments(entry)]
    return ("\n".join(lines) + "\n").encode()


# -- findings --------------------------------------------------------------------------------------


def _figures(wire: WireCluster) -> Iterator[Finding]:
    """Report rates, sizes, times and shares that are out of range."""
    rates = {"devices": ("memory_gb", "tflops", "gb_per_s"), "links": ("gb_per_s",)}
    times = {"devices": ("launch_us",), "links": ("us",)}
    shares = {"devices": ("compute_efficiency", "memory_efficiency"), "links": ("efficiency",)}
    for table in ("devices", "links"):
        for place, entry in enumerate(getattr(wire, table)):
            for name in (*rates[table], *times[table], *shares[table]):
                amount = exact(getattr(entry, name))
                least, most = (Fraction(0) if name in times[table] else LEAST), MOST
                if name in shares[table]:
                    most = 1
                if not least <= amount <= most:
                    where, found = f"{table}[{place}].{name}", str(getattr(entry, name))
                    expected = f"{float(least):g} to {most:,}"
                    yield Finding(where, found, expected, "correct it, or its unit")


def _shared(wire: WireCluster) -> Iterator[Finding]:
    """Report adapters that too many devices share."""
    for place, link in enumerate(wire.links):
        if link.shared_by > MAX_DEVICES:
            expected = f"at most {MAX_DEVICES}"
            where = f"links[{place}].shared_by"
            yield Finding(where, str(link.shared_by), expected, "count the devices of one adapter")


def _names(wire: WireCluster) -> Iterator[Finding]:
    """Report names that occur twice, or that file names and texts like 2xH100 cannot contain."""
    numbered = [name for node in wire.nodes if node.count > 1 for name in _numbered(node)]
    spaces = (
        ("cluster", "name", [wire.name]),
        ("device class", "devices", [entry.name for entry in wire.devices]),
        ("link", "links", [entry.name for entry in wire.links]),
        (
            *("node or group", "nodes and groups"),
            [*(n.name for n in wire.nodes), *(g.name for g in wire.groups), *numbered],
        ),
    )
    for what, where, names in spaces:
        for name in dict.fromkeys(names):
            if not _NAME.fullmatch(name):
                expected = f"letters, digits and . _ - in the name of a {what}"
                yield Finding(where, repr(name), expected, "rename it")
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Finding(where, f"{what} {name!r} twice", "each name once", "rename one of them")


# -- built -----------------------------------------------------------------------------------------


class _Node:
    """A node: its devices and their links."""

    def __init__(self, name: str, classes: list[str], link: str) -> None:
        self.devices = [f"{name}.{place}" for place in range(len(classes))]
        self.classes = classes
        self.link = link


class _Builder:
    """Objects by their names in a file."""

    def __init__(self, wire: WireCluster) -> None:
        self.wire = wire
        self.specs = {entry.name: _spec(entry) for entry in wire.devices}
        self.links: dict[str, LinkSpec] = {**LINKS, **{e.name: _link(e) for e in wire.links}}

    def findings(self) -> Iterator[Finding]:
        """Report unknown references, members that are connected twice, and too many devices."""
        total = 0
        for place, node in enumerate(self.wire.nodes):
            where = f"nodes[{place}]"
            try:
                terms = terms_of(node.devices, self.specs)
            except InputError as error:
                for finding in error.findings:
                    yield replace(finding, where=f"{where}.devices")
                continue
            count = sum(number for number, _ in terms)
            total += count * node.count
            yield from self._unknown(f"{where}.link", node.link)
            if count > 1 and not self._inside(node, [spec for _, spec in terms]):
                remedy = 'say what joins its devices, such as link = "PCIe4"'
                yield Finding(f"{where}.link", "none", "a link inside the node", remedy)
        for place, device in enumerate(self.wire.devices):
            yield from self._unknown(f"devices[{place}].link", device.link)
        if total > MAX_DEVICES:
            expected = f"at most {MAX_DEVICES} in all"
            yield Finding("nodes", f"{total} devices", expected, "describe a part of the cluster")
            return
        yield from self._unknown("link", self.wire.link)
        yield from self._of_groups()

    def _of_groups(self) -> Iterator[Finding]:
        known, taken = {node.name for node in self.wire.nodes}, dict[str, str]()
        known |= {name for node in self.wire.nodes for name in _numbered(node)}
        for place, group in enumerate(self.wire.groups):
            where = f"groups[{place}]"
            yield from self._unknown(f"{where}.link", group.link, needed=True)
            for member in group.members:
                if member not in known:
                    expected = "a node, or a group listed before"
                    remedy = nearest(member, known, "correct the name, or the order")
                    yield Finding(f"{where}.members", repr(member), expected, remedy)
            for leaf in self._leaves(group.members):
                if leaf in taken:
                    found = f"{leaf!r}, which is in {taken[leaf]!r} as well"
                    yield Finding(f"{where}.members", found, "each once", "name it once")
                taken[leaf] = group.name
            known.add(group.name)

    def _leaves(self, members: tuple[str, ...]) -> list[str]:
        """Return the members, with equal nodes one by one."""
        several = {n.name: _numbered(n) for n in self.wire.nodes}
        return [leaf for member in members for leaf in several.get(member, [member])]

    def _unknown(self, where: str, link: str, *, needed: bool = False) -> Iterator[Finding]:
        if (link or needed) and link not in self.links:
            remedy = nearest(link, self.links, "describe it in [[links]]")
            yield Finding(where, repr(link), f"one of {', '.join(sorted(self.links))}", remedy)

    @staticmethod
    def _inside(node: WireNode, specs: list[DeviceSpec]) -> str:
        own = {spec.link for spec in specs}
        return node.link or (own.pop() if len(own) == 1 else "")

    def cluster(self) -> ModelledCluster:
        """Return the cluster of a file without findings."""
        used: dict[str, DeviceSpec] = {}
        nodes: dict[str, _Node] = {}
        for entry in self.wire.nodes:
            terms = terms_of(entry.devices, self.specs)
            used |= {spec.name: spec for _, spec in terms}
            classes = [spec.name for number, spec in terms for _ in range(number)]
            link = self._inside(entry, [spec for _, spec in terms])
            nodes |= {name: _Node(name, classes, link) for name in _numbered(entry)}
        joined = self._joined(nodes)
        order = [device for node in nodes.values() for device in node.devices]
        kinds = {pair: self.links[link] for pair, link in joined.items() if link}
        pairs = [(a, b) for a in order for b in order if (a, b) in kinds]
        return ModelledCluster(
            device_classes=tuple(DeviceClass(s.name, s.memory_bytes) for s in used.values()),
            devices=tuple(
                Device(device, kind, used[kind].memory_bytes)
                for node in nodes.values()
                for device, kind in zip(node.devices, node.classes, strict=True)
            ),
            channels=tuple(kinds[pair].channel(*pair) for pair in pairs),
            groups=tuple(
                group
                for node in nodes.values()
                for group in aligned(node.devices)
                if len({node.classes[node.devices.index(device)] for device in group}) == 1
            ),
            communication=CommunicationModel(self.wire.communication),
            name=self.wire.name,
            specs=used,
            links=tuple({kinds[pair].name: kinds[pair] for pair in pairs}.values()),
        )

    def _joined(self, nodes: Mapping[str, _Node]) -> dict[tuple[str, str], str]:
        """Return pair of devices -> link of the innermost node or group that contains both."""
        link_of: dict[tuple[str, str], str] = {}
        inside: dict[str, list[str]] = {}
        for name, node in nodes.items():
            link_of |= {(a, b): node.link for a in node.devices for b in node.devices if a != b}
            inside[name] = node.devices
        tops = (*self.wire.groups, WireGroup(self.wire.name, tuple(inside), self.wire.link))
        for place, group in enumerate(tops):
            last = place == len(tops) - 1
            leaves = list(nodes) if last else self._leaves(group.members)
            devices = [device for leaf in leaves for device in inside[leaf]]
            for a in devices:
                for b in devices:
                    if a != b:
                        link_of.setdefault((a, b), group.link)
            inside[group.name] = devices
        return link_of


def _numbered(node: WireNode) -> list[str]:
    """Return the names of equal nodes: with numbers if there are several."""
    if node.count == 1:
        return [node.name]
    return [f"{node.name}{place}" for place in range(min(node.count, MAX_DEVICES))]


def _spec(entry: WireDevice) -> DeviceSpec:
    return DeviceSpec(
        entry.name,
        round(exact(entry.tflops) * 10**12),
        round(exact(entry.gb_per_s) * 10**9),
        round(exact(entry.memory_gb) * 10**9),
        round(exact(entry.compute_efficiency) * 1000),
        round(exact(entry.memory_efficiency) * 1000),
        round(exact(entry.launch_us) * 1000),
        entry.link,
        "",
        entry.source,
    )


def _link(entry: WireLink) -> LinkSpec:
    rate = exact(entry.gb_per_s) * 10**9 / entry.shared_by
    shared = f"; an adapter shared by {entry.shared_by}" if entry.shared_by > 1 else ""
    return LinkSpec(
        entry.name,
        max(round(rate), 1),
        round(exact(entry.us) * 1000),
        round(exact(entry.efficiency) * 1000),
        entry.source + shared,
    )
