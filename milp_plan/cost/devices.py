"""Named devices, links and clusters with published figures.

Sources (peak rates are for dense matrices, without structured sparsity; bandwidths of links are
per direction, half of the bidirectional figure the data sheets quote):

* H100 SXM: NVIDIA H100 Tensor Core GPU data sheet: 989.4 Tflop/s bf16, 80 GB HBM3 at 3.35 TB/s,
  NVLink 4 at 900 GB/s.
* A100 SXM: NVIDIA A100 Tensor Core GPU data sheet: 312 Tflop/s bf16, 80 GB HBM2e at 2,039 GB/s or
  40 GB HBM2 at 1,555 GB/s, NVLink 3 at 600 GB/s.
* V100 SXM2: NVIDIA V100 Tensor Core GPU data sheet: 125 Tflop/s fp16, 32 GB HBM2 at 900 GB/s,
  NVLink 2 at 300 GB/s.
* PCI Express 4.0 x16: 32 GB/s per direction. InfiniBand NDR 400 Gb/s, HDR 200 Gb/s, EDR 100 Gb/s;
  one adapter per device, as in the DGX systems of each generation.

Efficiencies, launch overheads and latencies are no data-sheet figures. They are round numbers of
the size that kernel and collective benchmarks report; they set the scale of an instance, and no
result depends on their last digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    Device,
    DeviceClass,
    Finding,
    InputError,
)

NODE_DEVICES = 8
"""Devices of one node."""

MAX_DEVICES = 64
"""Largest cluster that :func:`cluster` builds; channels grow with the square."""


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A kind of link.

    Parameters
    ----------
    name
        For example ``"NVLink4"``.
    bandwidth_bytes_per_s
        Per direction, as published.
    latency_ns
        Until the first byte of a message arrives.
    efficiency_permille
        Share of the bandwidth that large messages reach.
    """

    name: str
    bandwidth_bytes_per_s: int
    latency_ns: int
    efficiency_permille: int

    @property
    def achieved_bytes_per_s(self) -> int:
        """Bandwidth that large messages reach, rounded down."""
        return self.bandwidth_bytes_per_s * self.efficiency_permille // 1000

    def channel(self, source: str, target: str) -> Channel:
        """Return a directed channel of this kind."""
        return Channel(source, target, self.latency_ns, self.achieved_bytes_per_s)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A kind of device.

    Parameters
    ----------
    name
        Name of the device class.
    peak_flops_per_s, memory_bytes_per_s, memory_bytes
        As published.
    compute_permille, memory_permille
        Share of the peak rate, and of the memory bandwidth, that large kernels reach.
    launch_ns
        Overhead of one operator.
    link, network
        Names of the link inside a node, and between nodes.
    """

    name: str
    peak_flops_per_s: int
    memory_bytes_per_s: int
    memory_bytes: int
    compute_permille: int
    memory_permille: int
    launch_ns: int
    link: str
    network: str


LINKS = {
    link.name: link
    for link in (
        LinkSpec("NVLink4", 450 * 10**9, 2_000, 800),
        LinkSpec("NVLink3", 300 * 10**9, 2_000, 800),
        LinkSpec("NVLink2", 150 * 10**9, 2_500, 800),
        LinkSpec("PCIe4", 32 * 10**9, 5_000, 800),
        LinkSpec("NDR", 50 * 10**9, 5_000, 850),
        LinkSpec("HDR", 25 * 10**9, 5_000, 850),
        LinkSpec("EDR", 12_500 * 10**6, 5_000, 850),
    )
}
"""Link name -> figures."""

_GB = 10**9
_H100 = DeviceSpec("H100", 989_400 * _GB, 3_350 * _GB, 80 * _GB, 600, 850, 5_000, "NVLink4", "NDR")
_A100 = DeviceSpec("A100", 312_000 * _GB, 2_039 * _GB, 80 * _GB, 700, 850, 5_000, "NVLink3", "HDR")
_A100_40 = DeviceSpec(
    "A100-40GB", 312_000 * _GB, 1_555 * _GB, 40 * _GB, 700, 850, 5_000, "NVLink3", "HDR"
)
_V100 = DeviceSpec("V100", 125_000 * _GB, 900 * _GB, 32 * _GB, 700, 850, 6_000, "NVLink2", "EDR")

DEVICES = {spec.name: spec for spec in (_H100, _A100, _A100_40, _V100)}
"""Device class name -> figures."""

_Spec = TypeVar("_Spec")
_TERM = re.compile(r"([1-9][0-9]*)x(\S+)")


def device_spec(name: str) -> DeviceSpec:
    """Return the figures of a device class.

    Raises
    ------
    InputError
        No class of that name; the finding lists those there are.
    """
    return _lookup(DEVICES, name, "device class")


def link_spec(name: str) -> LinkSpec:
    """Return the figures of a kind of link.

    Raises
    ------
    InputError
        No link of that name; the finding lists those there are.
    """
    return _lookup(LINKS, name, "link")


def _lookup(known: dict[str, _Spec], name: str, what: str) -> _Spec:
    if name not in known:
        finding = Finding(
            what, repr(name), f"one of {', '.join(sorted(known))}", "correct the name"
        )
        raise InputError([finding])
    return known[name]


def cluster(
    text: str,
    *,
    communication: CommunicationModel | str = CommunicationModel.CHANNEL,
    link: str | None = None,
    node_devices: int = NODE_DEVICES,
) -> Cluster:
    """Build a cluster from text such as ``"4xH100"`` or ``"2xH100+2xA100"``.

    Each term fills nodes of its own. Devices of a node are joined by the link of their class;
    devices of different nodes by the slower of the two networks. Process groups are the aligned
    pairs, quads and octets of each node.

    Parameters
    ----------
    text
        Terms ``<count>x<class>`` joined by ``+``.
    communication
        What transfers hold.
    link
        Name of a link to use inside nodes instead of the classes' own, for example ``"PCIe4"``.
    node_devices
        Devices of a node.

    Raises
    ------
    InputError
        Text that does not parse, an unknown class or link, a class twice, or more than
        :data:`MAX_DEVICES` devices.
    """
    terms = _parse(text)
    inside = None if link is None else link_spec(link)
    nodes: list[tuple[DeviceSpec, list[str]]] = []
    for count, spec in terms:
        names = [f"{spec.name}.{i}" for i in range(count)]
        for start in range(0, count, node_devices):
            nodes.append((spec, names[start : start + node_devices]))
    devices = tuple(
        Device(name, spec.name, spec.memory_bytes) for spec, names in nodes for name in names
    )
    channels = []
    for first, (spec, sources) in enumerate(nodes):
        for second, (other, targets) in enumerate(nodes):
            if first == second:
                kind = inside or LINKS[spec.link]
            else:
                kind = min(
                    (LINKS[spec.network], LINKS[other.network]),
                    key=lambda entry: entry.bandwidth_bytes_per_s,
                )
            channels += [kind.channel(a, b) for a in sources for b in targets if a != b]
    return Cluster(
        device_classes=tuple(DeviceClass(spec.name, spec.memory_bytes) for _, spec in terms),
        devices=devices,
        channels=tuple(channels),
        groups=tuple(group for _, names in nodes for group in _groups(names)),
        communication=CommunicationModel(communication),
    )


def _parse(text: str) -> list[tuple[int, DeviceSpec]]:
    terms = []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            remedy = "write for example 4xH100 or 2xH100+2xA100"
            raise InputError([Finding("cluster", repr(text), "<count>x<class>[+...]", remedy)])
        terms.append((int(match[1]), device_spec(match[2])))
    names = [spec.name for _, spec in terms]
    if len(set(names)) < len(names):
        remedy = "add up the counts of that class"
        raise InputError([Finding("cluster", repr(text), "each class once", remedy)])
    total = sum(count for count, _ in terms)
    if total > MAX_DEVICES:
        expected = f"at most {MAX_DEVICES} devices"
        raise InputError([Finding("cluster", f"{total} devices", expected, "ask for fewer")])
    return terms


def _groups(names: list[str]) -> list[tuple[str, ...]]:
    """Aligned pairs, quads and octets of one node."""
    return [
        tuple(names[start : start + size])
        for size in (2, 4, 8)
        for start in range(0, len(names) - size + 1, size)
    ]
