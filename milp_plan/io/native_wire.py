"""Wire types of the native instance format, field by field as in ``milp_plan.core``.

Class names and first lines go into the published schema
(``instances/formats/native.schema.json``); units stand in the field names and in
``instances/formats/native.md``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from milp_plan.core import CommunicationModel, Contiguity, MemoryLaw, Objective, Passes

from .wire import Count, Positive, Strict

MARKER = "milp-plan-instance"


class DeviceClass(Strict):
    """A kind of device; null memory means no limit; hosts run no operators and store copies."""

    name: str
    memory_bytes: Count | None
    host: bool = False


class Device(Strict):
    """One device; its memory is by default that of its class."""

    name: str
    device_class: str
    memory_bytes: Count | msgspec.UnsetType | None = msgspec.UNSET


class Channel(Strict):
    """A directed link between two devices."""

    source: str
    target: str
    latency_ticks: Count = msgspec.field(name="latency_ns")
    bandwidth_bytes_per_s: Positive


class Cluster(Strict):
    """Devices and channels."""

    device_classes: tuple[DeviceClass, ...]
    devices: tuple[Device, ...]
    channels: tuple[Channel, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    communication: CommunicationModel = CommunicationModel.CHANNEL


class Option(Strict):
    """One way to run an operator."""

    name: str
    duration_ticks: dict[str, Count] = msgspec.field(name="duration_ns")
    gang: Positive = 1
    workspace_bytes: Count = 0
    reads: dict[str, str] = msgspec.field(default_factory=dict)
    writes: dict[str, str] = msgspec.field(default_factory=dict)


class Operator(Strict):
    """A node of the graph."""

    name: str
    options: tuple[Option, ...]
    kind: str = "forward"
    group: str | None = None
    micro_batch: Count | None = None
    block: str | None = None
    recomputable: bool = False


class Reshard(Strict):
    """Ticks of the collective that changes one layout into another."""

    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")
    ns: Count


class Value(Strict):
    """A tensor; a plain number of bytes is for the layout full."""

    name: str
    producer: str | None
    consumers: tuple[str, ...]
    bytes: Count | dict[str, Count]
    transfer_bytes: Count | dict[str, Count] = msgspec.field(default_factory=dict)
    messages: Positive = 1
    reshard_ticks: tuple[Reshard, ...] = msgspec.field(name="reshard_ns", default=())
    kept: bool | None = None


class Units(Strict):
    """Units of the source, and their multiples in ticks and bytes."""

    time: str = "ns"
    size: str = "bytes"
    time_scale: Positive = 1
    size_scale: Positive = 1


class Serial(Strict):
    """Transfers are work of the devices of the paying classes."""

    payers: tuple[str, ...]
    contiguity: Contiguity = Contiguity.FREE
    passes: Passes = Passes.JOINT
    calls: Positive | None = None


class Instance(Strict):
    """A planning problem in the native format of milp_plan."""

    format: Literal["milp-plan-instance"]
    version: Literal[1]
    name: str
    cluster: Cluster
    operators: tuple[Operator, ...]
    values: tuple[Value, ...] = ()
    objective: Objective = Objective.MAKESPAN
    memory_law: MemoryLaw = MemoryLaw.INSTANT
    units: Units = msgspec.field(default_factory=Units)
    provenance: dict[str, str] = msgspec.field(default_factory=dict)
    serial: Serial | None = None
