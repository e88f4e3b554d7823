"""Files of rates as JSON; described in ``instances/formats/measured-training.md``."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from milp_plan.io.wire import Count, Strict

Share = Annotated[float, msgspec.Meta(gt=0, le=10)]
"""Part of a published rate."""

Nanoseconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]

Factor = Annotated[float, msgspec.Meta(gt=0, le=100)]

Part = Annotated[float, msgspec.Meta(ge=0, le=1)]

Bytes = Annotated[int, msgspec.Meta(ge=0, le=1000)]
"""Of one parameter or result."""

Workspace = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class WireRates(Strict):
    """Shares of published rates and times of a device class."""

    matrix: Share = 0.7
    grouped: Share = 0.7
    attention: Share = 0.4
    memory: Share = 0.7
    node: Share = 0.7
    network: Share = 0.7
    latency_ns: Nanoseconds = 20_000.0
    kernel_ns: Nanoseconds = 5_000.0


class WireBand(Strict):
    """Quantiles of predicted over measured steps."""

    low: Factor = 0.8
    high: Factor = 1.25
    median_error: Annotated[float, msgspec.Meta(ge=0)] = 0.2
    rows: Count = 0


class WireSoftware(Strict):
    """A framework with the rates of device classes under it."""

    devices: dict[str, WireRates]
    launch_ns: Nanoseconds = 10_000.0
    step_ns: Nanoseconds = 5_000_000.0
    overlap: Part = 0.5
    sharded_overlap: bool = True
    crossing_ns: Nanoseconds = 0.0
    stall_ns: Nanoseconds = 0.0
    scattered_sends: bool = False
    fused_attention: bool = True
    dropout: bool = False
    weight_bytes: Bytes = 2
    gradient_bytes: Bytes = 4
    optimizer_bytes: Bytes = 12
    logit_bytes: Bytes = 6
    activation_factor: Factor = 1.0
    workspace_bytes: Workspace = 0
    gathered_activations: bool = False
    band: WireBand = msgspec.field(default_factory=WireBand)
    fitted_on: str = ""
    fitted: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class WireEfficiency(Strict):
    """Rates of frameworks."""

    format: Literal["milp-plan-training-rates"]
    version: Literal[1]
    software: Annotated[dict[str, WireSoftware], msgspec.Meta(min_length=1)]
