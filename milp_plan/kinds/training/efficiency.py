"""Rates that devices and frameworks reach, fitted to measured steps by ``milp-plan calibrate``.

A device class has eight figures, a framework three and what is known of how it works. The shipped
figures are in ``efficiency.json``, with the rows they were fitted on and the errors on rows that
were left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.files import read_document
from milp_plan.io.wire import Strict, decode, mirror

MARKER = "milp-plan-training-rates"
"""Of files with rates."""

MAIN_RATE = "matrix"
"""The rate without which measured steps decide nothing."""

MEASURED_UNDER = {"torchtitan": "fsdp", "fsdp2": "fsdp"}
"""Framework to plan for -> rates that were measured under it, where they are others than usual."""

_OF_EXPERTS = {"grouped": "products of experts"}
"""Rates that models with experts alone have, in words."""

SHIPPED = Path(__file__).with_name("efficiency.json")
"""The figures that are used where none are given."""


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Shares of published rates that kernels and collectives of a device class reach.

    Parameters
    ----------
    matrix
        Share of the peak rate in large matrix products.
    grouped
        Share of the rate of matrix products that the products of a mixture of experts reach.
    attention
        Share of the peak rate in scores of attention and their product with values.
    memory
        Share of the memory bandwidth of elementwise kernels, norms and the optimizer.
    node, network
        Share of the bandwidth of links in a node, and between nodes.
    latency_ns
        Of one round of a collective.
    kernel_ns
        Time of a kernel on the device that depends on nothing: ramp and tail.
    """

    matrix: float = 0.7
    grouped: float = 0.7
    attention: float = 0.4
    memory: float = 0.7
    node: float = 0.7
    network: float = 0.7
    latency_ns: float = 20_000.0
    kernel_ns: float = 5_000.0


@dataclass(frozen=True, slots=True)
class Software:
    """A training framework, as far as times and memory depend on it.

    Parameters
    ----------
    name
        For example ``"megatron-core"``.
    launch_ns
        Time of the host for one kernel or collective. A pass takes at least this for each.
    step_ns
        Time of a step that depends on nothing.
    overlap
        Share of the compute time under which data-parallel traffic hides.
    sharded_overlap
        Whether that is so with a sharded optimizer as well.
    crossing_ns
        What a tensor-parallel collective waits for each further rank, where pipeline devices lie
        in different nodes.
    stall_ns
        What a micro-batch waits on 64 nodes; it grows with the third power of their number.
    scattered_sends
        Whether without sequence parallelism each tensor-parallel rank sends a part of what goes to
        the next pipeline device, and the ranks there gather it (Narayanan et al., section 4.1).
    overlapped_sends
        Whether interleaved and zero-bubble schedules send to the next pipeline device beside
        passes, as Megatron-LM does (``--no-overlap-p2p-communication`` turns it off).
    fused_attention
        Whether attention never writes its scores to memory (FlashAttention). Without it the whole
        square is computed, causal or not.
    dropout
        Whether blocks of layer norms keep masks of dropout.
    weight_bytes, gradient_bytes, optimizer_bytes
        Bytes of a parameter: its copy for products, its gradient, master copy and moments.
    logit_bytes
        Bytes of an element of the output head's result during the loss.
    activation_factor
        Activations that are kept, relative to those of fused kernels.
    workspace_bytes
        Memory of the framework and its libraries that is part of the figures it reports.
    gathered_activations
        Whether sequence parallelism without a pipeline keeps the gathered inputs of products.
    """

    name: str = "megatron-core"
    launch_ns: float = 10_000.0
    step_ns: float = 5_000_000.0
    overlap: float = 0.5
    sharded_overlap: bool = True
    crossing_ns: float = 0.0
    stall_ns: float = 0.0
    scattered_sends: bool = False
    overlapped_sends: bool = False
    fused_attention: bool = True
    dropout: bool = False
    weight_bytes: int = 2
    gradient_bytes: int = 4
    optimizer_bytes: int = 12
    logit_bytes: int = 6
    activation_factor: float = 1.0
    workspace_bytes: int = 0
    gathered_activations: bool = False

    @property
    def optimizer_moved(self) -> int:
        """Bytes that the optimizer reads and writes for a parameter."""
        return 2 * self.optimizer_bytes + self.optimizer_copied

    @property
    def optimizer_copied(self) -> int:
        """Bytes of a parameter that go to the host and back where the optimizer is there."""
        return self.gradient_bytes + self.weight_bytes


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Quantiles of predicted over measured step time on rows that were not fitted.

    Parameters
    ----------
    low, high
        A tenth of the rows lies below ``low``, a tenth above ``high``.
    median_error
        Median of the absolute relative error.
    rows
        Number of rows; 0 if there are none, and then the band is an assumption.
    """

    low: float = 0.8
    high: float = 1.25
    median_error: float = 0.2
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Rates of device classes under one framework.

    Parameters
    ----------
    devices
        Rates of each device class by name.
    software
        The framework.
    band
        Errors on rows that were left out.
    fitted_on
        What the figures were fitted on, in words.
    fitted
        Device class -> fields of its rates that were fitted; the others are assumed.
    as_under
        Device class -> the framework whose rates it has here, and what those were fitted to.
    """

    devices: Mapping[str, DeviceRates] = field(default_factory=dict)
    software: Software = field(default_factory=Software)
    band: ErrorBand = field(default_factory=ErrorBand)
    fitted_on: str = "assumed, not fitted"
    fitted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    as_under: Mapping[str, str] = field(default_factory=dict)

    def measured(self, devices: Iterable[str]) -> bool:
        """Whether measured steps on every one of these classes decided their rates."""
        return all(MAIN_RATE in self.fitted.get(device, ()) for device in devices)

    def origin(self, devices: Iterable[str], experts: bool) -> str:
        """Say for each device class what its rates come from; ``experts``: the model has some."""
        return "; ".join(self._origin(device, experts) for device in devices)

    def _origin(self, device: str, experts: bool) -> str:
        names = [n for n in self.fitted.get(device, ()) if experts or n not in _OF_EXPERTS]
        if MAIN_RATE in names:
            return f"of {device} fitted to {self.fitted_on}"
        if names:
            some = ", ".join(_OF_EXPERTS.get(name, name) for name in names)
            return f"of {device} assumed (only {some} fitted, to {self.fitted_on})"
        if device in self.as_under:
            return f"of {device} as under {self.as_under[device]}"
        if device in self.devices or not self.devices:
            return f"of {device} assumed, not fitted"
        return f"of {device} assumed, the mean of {', '.join(self._own())}"

    def _own(self) -> dict[str, DeviceRates]:
        """Rates that are not those of another framework."""
        return {name: rates for name, rates in self.devices.items() if name not in self.as_under}

    def rates(self, device: str) -> DeviceRates:
        """Return the rates of a device class; the mean of this framework's for an unknown one."""
        if device in self.devices:
            return self.devices[device]
        known = list(self._own().values())
        if not known:
            return DeviceRates()
        means = {
            each.name: sum(getattr(rates, each.name) for rates in known) / len(known)
            for each in fields(DeviceRates)
        }
        return DeviceRates(**means)

    def with_rates(self, device: str, rates: DeviceRates) -> Efficiency:
        """Return the same with other rates of one device class."""
        as_under = {name: text for name, text in self.as_under.items() if name != device}
        return replace(self, devices={**self.devices, device: rates}, as_under=as_under)


Share = Annotated[float, msgspec.Meta(gt=0, le=10)]
Nanoseconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Factor = Annotated[float, msgspec.Meta(gt=0, le=100)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1000)]
Workspace = Annotated[int, msgspec.Meta(ge=0, le=10**15)]

WireRates = mirror(
    DeviceRates,
    **dict.fromkeys(("matrix", "grouped", "attention", "memory", "node", "network"), Share),
    **dict.fromkeys(("latency_ns", "kernel_ns"), Nanoseconds),
)
WireBand = mirror(
    ErrorBand, low=Factor, high=Factor, median_error=Annotated[float, msgspec.Meta(ge=0)]
)
_SOFTWARE = mirror(
    Software,
    **dict.fromkeys(("launch_ns", "step_ns", "crossing_ns", "stall_ns"), Nanoseconds),
    **dict.fromkeys(("weight_bytes", "gradient_bytes", "optimizer_bytes", "logit_bytes"), Bytes),
    overlap=Part,
    activation_factor=Factor,
    workspace_bytes=Workspace,
    name=None,
)


class WireSoftware(_SOFTWARE, kw_only=True):  # type: ignore[misc,valid-type,call-arg]
    """A framework with the rates of device classes under it."""

    devices: dict[str, WireRates]  # type: ignore[valid-type]
    band: WireBand = msgspec.field(default_factory=WireBand)  # type: ignore[valid-type]
    fitted_on: str = ""
    fitted: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    as_under: dict[str, str] = msgspec.field(default_factory=dict)


class WireEfficiency(Strict):
    """A file with rates; described in ``instances/formats/measured-training.md``."""

    format: Literal["milp-plan-training-rates"]
    version: Literal[1]
    software: Annotated[dict[str, WireSoftware], msgspec.Meta(min_length=1)]


def efficiency_from(document: Mapping[str, Any], software: str) -> Efficiency:
    """Return the rates of one framework from the content of an efficiency file."""
    known = document["software"]
    if software not in known:
        names = ", ".join(sorted(known))
        raise InputError(
            [Finding("software", repr(software), f"one of {names}", "correct the name")]
        )
    entry = dict(known[software])
    band = ErrorBand(**entry.pop("band", {}))
    fitted_on = entry.pop("fitted_on", Efficiency().fitted_on)
    devices = {name: DeviceRates(**rates) for name, rates in entry.pop("devices").items()}
    fitted = {name: tuple(names) for name, names in entry.pop("fitted", {}).items()}
    as_under = entry.pop("as_under", {})
    return Efficiency(devices, Software(name=software, **entry), band, fitted_on, fitted, as_under)


@cache
def shipped(software: str = "megatron-core") -> Efficiency:
    """Return the shipped rates of one framework."""
    return efficiency_from(json.loads(SHIPPED.read_text()), software)


def shipped_for(framework: str, devices: Iterable[str], experts: bool) -> Efficiency:
    """Return the shipped rates of a framework, empty for any, on some device classes.

    They are the usual ones where no run on one of these devices was measured under the framework,
    or none of a model with ``experts`` if it has some.
    """
    usual = shipped()
    own = shipped(MEASURED_UNDER.get(framework, usual.software.name))
    return own if own.measured(devices) and not experts else usual


def read_efficiency(path: Path, software: str) -> Efficiency:
    """Return the rates of one framework from a file that ``milp-plan calibrate --fit`` wrote.

    Raises
    ------
    InputError
        No JSON, no such framework, or members that are wrong, each named.
    """
    try:
        return efficiency_from(_rates_document(path), software)
    except InputError as error:
        raise error.in_file(str(path)) from None


def _rates_document(path: Path) -> dict[str, Any]:
    """Return the content of a file of rates, every member checked."""
    document = read_document(path, "rates of training steps")
    decode(document.data, WireEfficiency, document.file, MARKER)
    content: dict[str, Any] = json.loads(document.data)
    return content


def rates_of(path: Path | None) -> Efficiency | None:
    """Return the rates of a file, whatever framework they are of; ``None`` without a file."""
    if path is None:
        return None
    names = list(_rates_document(path)["software"])
    return read_efficiency(path, names[0] if len(names) == 1 else shipped().software.name)


def as_document(efficiency: Efficiency) -> dict[str, Any]:
    """Return the content of an efficiency file for one framework."""
    entry = asdict(efficiency.software)
    name = entry.pop("name")
    entry["band"] = asdict(efficiency.band)
    entry["fitted_on"] = efficiency.fitted_on
    entry["fitted"] = {device: list(names) for device, names in efficiency.fitted.items()}
    entry["as_under"] = dict(efficiency.as_under)
    entry["devices"] = {device: asdict(rates) for device, rates in efficiency.devices.items()}
    return {"format": MARKER, "version": 1, "software": {name: entry}}
