"""Kinds of devices and links with published figures and their sources.

Peak rates are for dense bf16 matrices (fp16 on V100, which has no bf16), without structured
sparsity: where a document gives the figure with sparsity, it is halved and the source says so.
Bandwidths of links are per direction, half of the bidirectional figure that data sheets quote.

Efficiencies, launch overheads and latencies are not in data sheets. They are round numbers of
the size that kernel and collective benchmarks report; they set the scale of an instance, and no
result depends on their last digit. ``milp-plan cluster calibrate`` replaces those of links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from milp_plan.core import Channel, Finding, InputError


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
        Time until the first byte of a message arrives.
    efficiency_permille
        Share of the bandwidth that large messages reach.
    source
        Source of the figures.
    """

    name: str
    bandwidth_bytes_per_s: int
    latency_ns: int
    efficiency_permille: int
    source: str = ""

    @property
    def achieved_bytes_per_s(self) -> int:
        """Bandwidth that large messages reach, rounded down."""
        return self.bandwidth_bytes_per_s * self.efficiency_permille // 1000

    @property
    def summary(self) -> str:
        """Its figures and their sources."""
        rate = f"{self.bandwidth_bytes_per_s} byte/s x {self.efficiency_permille}/1000"
        return _sourced(f"{rate}, {self.latency_ns} ns", self.source)

    def channel(self, source: str, target: str) -> Channel:
        """Return a directed channel of this kind."""
        return Channel(source, target, self.latency_ns, self.achieved_bytes_per_s)


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The share of a device in the computer that it is attached to.

    Parameters
    ----------
    bandwidth_bytes_per_s
        Of the link between host and device, per direction, as published.
    memory_bytes, memory_bytes_per_s
        Memory of the host for each device, and its bandwidth.
    source
        Source of the figures.
    """

    bandwidth_bytes_per_s: int
    memory_bytes: int
    memory_bytes_per_s: int
    source: str = ""

    @property
    def achieved_bytes_per_s(self) -> int:
        """Bandwidth that large copies reach, rounded down."""
        return self.bandwidth_bytes_per_s * 8 // 10


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A kind of device.

    Parameters
    ----------
    name
        Name of the device class.
    peak_flops_per_s, memory_bytes_per_s, memory_bytes
        Published figures.
    compute_permille, memory_permille
        Share of the peak rate, and of the memory bandwidth, that large kernels reach.
    launch_ns
        Overhead of one operator.
    link, network
        Names of the link inside a node, and between nodes.
    source
        Source of the figures.
    fp8
        Whether it multiplies 8-bit floats.
    host
        The computer that it is attached to; ``None`` where nothing is known of it.
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
    source: str = ""
    # fingerprints are made of what is written
    fp8: bool = field(default=True, repr=False)
    host: HostSpec | None = field(default=None, repr=False)

    @property
    def summary(self) -> str:
        """Its figures and their sources."""
        rates = (
            f"{self.peak_flops_per_s} flop/s x {self.compute_permille}/1000, "
            f"{self.memory_bytes_per_s} byte/s x {self.memory_permille}/1000, "
            f"{self.launch_ns} ns per operator"
        )
        return _sourced(rates, self.source)


def _sourced(figures: str, source: str) -> str:
    return f"{figures}; {source}" if source else figures


_GB = 10**9
_ASSUMED = "latency and efficiency assumed"
_RATES = "efficiencies and launch overhead assumed"


def _link(name: str, bandwidth: int, latency: int, efficiency: int, source: str) -> LinkSpec:
    return LinkSpec(name, bandwidth, latency, efficiency, f"{source}; {_ASSUMED}")


def _infiniband(name: str, gbit_per_s: int) -> LinkSpec:
    source = f"InfiniBand {name} or Ethernet, {gbit_per_s} Gbit/s, one adapter per device"
    return _link(name, gbit_per_s * _GB // 8, 5_000, 850, source)


LINKS = {
    link.name: link
    for link in (
        _link("NVLink5", 900 * _GB, 2_000, 800, "NVIDIA DGX B200 data sheet, half of 1.8 TB/s"),
        _link("NVLink4", 450 * _GB, 2_000, 800, "NVIDIA H100 data sheet, half of 900 GB/s"),
        _link("NVLink4-H800", 200 * _GB, 2_000, 800, "NVIDIA H800, half of 400 GB/s"),
        _link("NVLink3", 300 * _GB, 2_000, 800, "NVIDIA A100 data sheet, half of 600 GB/s"),
        _link("NVLink2", 150 * _GB, 2_500, 800, "NVIDIA V100 data sheet, half of 300 GB/s"),
        _link(
            *("xGMI", 64 * _GB, 3_000, 800),
            "AMD Instinct MI300X platform data sheet, half of 128 GB/s between each two of 8",
        ),
        _link(
            *("ICI-v5e", 50 * _GB, 1_000, 800),
            "Google Cloud, TPU v5e: half of 400 GB/s per chip over the 4 links of a 2D torus; chips"
            " that are no neighbours are joined as if they were",
        ),
        _link("PCIe4", 32 * _GB, 5_000, 800, "PCI Express 4.0 x16"),
        _infiniband("NDR", 400),
        _infiniband("HDR", 200),
        _infiniband("EDR", 100),
        _link(
            *("DCN-v5e", 3_125 * 10**6, 10_000, 850),
            "Google Cloud, TPU v5e: 6.4 Tbit/s per pod of 256 chips",
        ),
    )
}
"""Link name -> figures."""


def _host(rates: tuple[int, int, int], source: str) -> HostSpec:
    """``rates``: link in GB/s, memory of a device's share in GB and GB/s."""
    link, memory, moved = (rate * _GB for rate in rates)
    return HostSpec(link, memory, moved, source)


_DGX_1 = _host((16, 64, 17), "NVIDIA DGX-1: PCIe 3.0, 512 GB, 8 channels of DDR4-2133")
_DGX_A100 = _host((32, 256, 51), "NVIDIA DGX A100: PCIe 4.0, 2 TB, 16 channels of DDR4-3200")
_DGX_A100_40 = _host((32, 128, 51), "NVIDIA DGX A100: PCIe 4.0, 1 TB, 16 channels of DDR4-3200")
_DGX_H100 = _host((64, 256, 76), "NVIDIA DGX H100: PCIe 5.0, 2 TB, 16 channels of DDR5-4800")
_DGX_B200 = _host((64, 256, 89), "NVIDIA DGX B200: PCIe 5.0, 2 TB, 16 channels of DDR5-5600")
_GRACE = _host((225, 240, 256), "NVIDIA GB200 superchip, half of NVLink-C2C and of a Grace CPU")
_PCIE_5 = _host((64, 256, 115), "PCIe 5.0; 2 TB and 24 channels of DDR5-4800 for 8 devices assumed")
_PCIE_4 = _host((32, 64, 40), "PCIe 4.0; 64 GB and 40 GB/s for each device assumed")


def _device(
    name: str,
    rates: tuple[int, int, int],
    reached: tuple[int, int, int],
    links: tuple[str, str],
    source: str,
    *,
    host: HostSpec | None = None,
    fp8: bool = True,
) -> DeviceSpec:
    """``rates``: Gflop/s, memory in GB/s and GB; ``reached``: permille of both rates, launch."""
    peak, moved, memory = (rate * _GB for rate in rates)
    source = f"{source}; {_RATES}"
    return DeviceSpec(name, peak, moved, memory, *reached, *links, source, fp8, host)


DEVICES = {
    spec.name: spec
    for spec in (
        _device(
            *("H100", (989_400, 3_350, 80), (600, 850, 5_000), ("NVLink4", "NDR")),
            "NVIDIA H100 Tensor Core GPU data sheet, SXM",
            host=_DGX_H100,
        ),
        _device(
            *("H800", (989_400, 3_350, 80), (600, 850, 5_000), ("NVLink4-H800", "NDR")),
            "as NVIDIA H100 SXM, with NVLink of 400 GB/s (arXiv:2412.19437, section 3.1)",
            host=_DGX_H100,
        ),
        _device(
            *("A100", (312_000, 2_039, 80), (700, 850, 5_000), ("NVLink3", "HDR")),
            "NVIDIA A100 Tensor Core GPU data sheet, SXM 80 GB",
            fp8=False,
            host=_DGX_A100,
        ),
        _device(
            *("A100-40GB", (312_000, 1_555, 40), (700, 850, 5_000), ("NVLink3", "HDR")),
            "NVIDIA A100 Tensor Core GPU data sheet, SXM 40 GB",
            fp8=False,
            host=_DGX_A100_40,
        ),
        _device(
            *("V100", (125_000, 900, 32), (700, 850, 6_000), ("NVLink2", "EDR")),
            "NVIDIA V100 Tensor Core GPU data sheet, SXM2",
            fp8=False,
            host=_DGX_1,
        ),
        _device(
            *("H200", (989_500, 4_800, 141), (600, 850, 5_000), ("NVLink4", "NDR")),
            "NVIDIA H200 Tensor Core GPU data sheet, SXM: half of 1,979 Tflop/s with sparsity",
            host=_DGX_H100,
        ),
        _device(
            *("B200", (2_250_000, 8_000, 180), (600, 850, 5_000), ("NVLink5", "NDR")),
            "NVIDIA HGX B200 and DGX B200 data sheets, an eighth of the system: half of 4.5 Pflop/s"
            " with sparsity, 1,440 GB, 64 TB/s",
            host=_DGX_B200,
        ),
        _device(
            *("B300", (2_250_000, 8_000, 288), (600, 850, 5_000), ("NVLink5", "NDR")),
            "NVIDIA HGX B300 data sheet, an eighth of the system: half of 36 Pflop/s with sparsity,"
            " 2.3 TB, 64 TB/s",
            host=_DGX_B200,
        ),
        _device(
            *("GB200", (2_500_000, 8_000, 186), (600, 850, 5_000), ("NVLink5", "NDR")),
            "NVIDIA GB200 NVL72 data sheet, one of two devices: half of 10 Pflop/s with sparsity",
            host=_GRACE,
        ),
        _device(
            *("GB300", (2_500_000, 8_000, 279), (600, 850, 5_000), ("NVLink5", "NDR")),
            "NVIDIA GB300 NVL72 data sheet, one of 72 devices: half of 360 Pflop/s with sparsity",
            host=_GRACE,
        ),
        _device(
            *("MI300X", (1_307_400, 5_300, 192), (500, 800, 6_000), ("xGMI", "NDR")),
            "AMD Instinct MI300X data sheet; its rate (bf16 without sparsity) is derived: 304 units"
            " of 2,048 flop at 2,100 MHz",
            host=_PCIE_5,
        ),
        _device(
            *("TPU-v5e", (197_000, 819, 16), (700, 850, 5_000), ("ICI-v5e", "DCN-v5e")),
            "Google Cloud, TPU v5e, system architecture",
            fp8=False,
        ),
        _device(
            *("L40S", (362_050, 864, 48), (600, 850, 5_000), ("PCIe4", "HDR")),
            "NVIDIA L40S data sheet (bf16 without sparsity); network assumed",
            host=_PCIE_4,
        ),
        _device(
            *("RTX-4090", (165_200, 1_008, 24), (700, 850, 5_000), ("PCIe4", "EDR")),
            "NVIDIA Ada GPU architecture whitepaper (bf16, fp32 sums, without sparsity); network"
            " assumed",
            host=_PCIE_4,
        ),
    )
}
"""Device class name -> figures."""

_Spec = TypeVar("_Spec")


def device_spec(name: str) -> DeviceSpec:
    """Return the figures of a device class.

    Raises
    ------
    InputError
        There is no class of that name; the finding lists the known ones.
    """
    return _lookup(DEVICES, name, "device class")


def link_spec(name: str) -> LinkSpec:
    """Return the figures of a kind of link.

    Raises
    ------
    InputError
        There is no link of that name; the finding lists the known ones.
    """
    return _lookup(LINKS, name, "link")


def _lookup(known: dict[str, _Spec], name: str, kind: str) -> _Spec:
    if name not in known:
        finding = Finding(
            kind, repr(name), f"one of {', '.join(sorted(known))}", "correct the name"
        )
        raise InputError([finding])
    return known[name]
