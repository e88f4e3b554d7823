"""Problems of hybrid parallelism: layers with configurations, flows between them, limits.

Source: Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN
Parallelization", NeurIPS 2021. The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import lcm
from typing import Any

from milp_plan.core import Finding, Units
from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import below_findings, name_findings


@dataclass(frozen=True)
class Configuration:
    """One way to run a layer at a tensor degree; exact.

    Parameters
    ----------
    name
        Unique among the configurations of the layer at the degree.
    seconds
        Time per micro-batch, forward and backward.
    parameter_bytes
        Weights on one device, whose gradients replicas exchange.
    flight_bytes, fixed_bytes
        Memory for each micro-batch in flight, and memory in addition to it.
    recomputes
        Whether the backward pass recomputes activations.
    receive_bytes, send_bytes
        Neighbour -> bytes added to the flow from or to it when it is in another stage
        (gathering and scattering among the devices of the tensor degree); 0 where absent.
    """

    name: str
    seconds: Fraction
    parameter_bytes: Fraction
    flight_bytes: Fraction
    fixed_bytes: Fraction
    recomputes: bool = False
    receive_bytes: Mapping[str, Fraction] = field(default_factory=dict)
    send_bytes: Mapping[str, Fraction] = field(default_factory=dict)

    def amounts(self) -> Iterator[tuple[str, Fraction]]:
        """Yield every amount, with the name of its field."""
        for name in ("seconds", "parameter_bytes", "flight_bytes", "fixed_bytes"):
            yield name, getattr(self, name)
        for name in ("receive_bytes", "send_bytes"):
            for layer, amount in getattr(self, name).items():
                yield f"{name}[{layer!r}]", amount


@dataclass(frozen=True)
class Layer:
    """A layer: tensor degree -> its configurations there."""

    name: str
    configurations: Mapping[int, tuple[Configuration, ...]]

    def configuration(self, tensor: int, name: str) -> Configuration | None:
        """Return the configuration of that name at a degree, if there is one."""
        known = self.configurations.get(tensor, ())
        return next((entry for entry in known if entry.name == name), None)


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes that one layer sends to another in the forward pass of a micro-batch."""

    source: str
    target: str
    bytes: Fraction


MAX_COUNT = 10**9
"""Largest number of devices, and of micro-batches of a batch: loops count them in words."""


@dataclass(frozen=True)
class Limits:
    """Limits of plans.

    Parameters
    ----------
    devices
        Number of devices.
    memory_bytes
        Memory of each device.
    bandwidth_bytes_per_s
        Bandwidth between any two devices.
    micro_batches
        Number per batch: replicas share them evenly, and weights are exchanged once per batch.
    data, tensor, recomputation
        Whether stages may have a data degree or a tensor degree above 1, and configurations that
        recompute.
    """

    devices: int
    memory_bytes: Fraction
    bandwidth_bytes_per_s: Fraction
    micro_batches: int
    data: bool = True
    tensor: bool = True
    recomputation: bool = True

    def findings(self) -> Iterator[Finding]:
        """Yield impossible limits."""
        for name in ("devices", "micro_batches"):
            number = getattr(self, name)
            if not 1 <= number <= MAX_COUNT:
                yield Finding(name, str(number), f"1 to {MAX_COUNT}", "correct it")
        yield from below_findings("memory_bytes", self.memory_bytes, 0)
        if self.bandwidth_bytes_per_s <= 0:
            found = str(self.bandwidth_bytes_per_s)
            yield Finding("bandwidth_bytes_per_s", found, "a positive number", "correct it")


@dataclass(frozen=True)
class HybridProblem(CheckedProblem):
    """Split layers into stages with degrees, so that the slowest stage is as fast as possible.

    Raises
    ------
    InputError
        The problem has defects; the error lists all of them.
    """

    name: str
    layers: tuple[Layer, ...]
    flows: tuple[Flow, ...]
    limits: Limits
    provenance: Mapping[str, str] = field(default_factory=dict)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "limits", self.limits
        yield from ((f"flow {flow.source!r} -> {flow.target!r}", flow) for flow in self.flows)
        for layer in self.layers:
            for degree, known in layer.configurations.items():
                where = f"layer {layer.name!r}, degree {degree}, configuration"
                yield from ((f"{where} {entry.name!r}", entry) for entry in known)

    def _findings(self) -> Iterator[Finding]:
        yield from self.limits.findings()
        yield from self._layer_findings()
        yield from self._flow_findings()

    def with_limits(self, limits: Limits) -> HybridProblem:
        """Return the problem under other limits."""
        return replace(self, limits=limits)

    @cached_property
    def by_name(self) -> Mapping[str, Layer]:
        """Name -> layer."""
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Tensor degrees of any layer, ascending."""
        return tuple(sorted({degree for layer in self.layers for degree in layer.configurations}))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the layers, in topological order."""
        return _order(self.layers, self.flows)

    def _content(self) -> object:
        limits = [str(getattr(self.limits, entry.name)) for entry in fields(Limits)]
        content = [
            [
                [degree, entry.name, entry.recomputes, *(f"{k} {v}" for k, v in entry.amounts())]
                for degree, known in sorted(layer.configurations.items())
                for entry in known
            ]
            for layer in self.layers
        ]
        names = [layer.name for layer in self.layers]
        flows = [(flow.source, flow.target, str(flow.bytes)) for flow in self.flows]
        return limits, names, content, flows

    @cached_property
    def units(self) -> Units:
        """Seconds, in ticks that make the time of every stage of every plan an integer.

        A data degree d divides the number N of micro-batches, so N times the denominators of the
        terms that d (or d N) divides is enough.
        """
        rate, batch = self.limits.bandwidth_bytes_per_s, self.limits.micro_batches
        denominators = {(2 * flow.bytes / rate).denominator for flow in self.flows}
        for layer in self.layers:
            for known in layer.configurations.values():
                for entry in known:
                    denominators.add(entry.seconds.denominator)
                    denominators.add((4 * entry.parameter_bytes / (rate * batch)).denominator)
                    extra = (*entry.receive_bytes.values(), *entry.send_bytes.values())
                    denominators |= {(2 * amount / rate).denominator for amount in extra}
        return Units("s", "bytes", batch * lcm(*denominators))

    def _layer_findings(self) -> Iterator[Finding]:
        if not self.layers:
            yield Finding("layers", "none", "at least one", "add the layers")
        names = [layer.name for layer in self.layers]
        yield from name_findings("layer", names)
        sources: dict[str, set[str]] = {name: set() for name in names}
        targets: dict[str, set[str]] = {name: set() for name in names}
        for flow in self.flows:
            sources.setdefault(flow.target, set()).add(flow.source)
            targets.setdefault(flow.source, set()).add(flow.target)
        for layer in self.layers:
            yield from _of_layer(layer, sources[layer.name], targets[layer.name])

    def _flow_findings(self) -> Iterator[Finding]:
        known = {layer.name for layer in self.layers}
        seen: set[tuple[str, str]] = set()
        for flow in self.flows:
            where = f"flow {flow.source!r} -> {flow.target!r}"
            for end in (flow.source, flow.target):
                if end not in known:
                    yield Finding(where, f"unknown layer {end!r}", "a layer", "correct the name")
            if flow.bytes < 0:
                yield Finding(where, f"{flow.bytes} bytes", "at least 0", "correct it")
            if (flow.source, flow.target) in seen:
                yield Finding(where, "a second flow", "one for each pair", "add their bytes")
            seen.add((flow.source, flow.target))
        try:
            _order(self.layers, self.flows)
        except CycleError as error:
            circle = " -> ".join(repr(name) for name in error.args[1])
            yield Finding("flows", f"a circle {circle}", "none", "remove one of its flows")


def _of_layer(layer: Layer, sources: set[str], targets: set[str]) -> Iterator[Finding]:
    where = f"layer {layer.name!r}"
    if not any(layer.configurations.values()):
        yield Finding(where, "no configuration", "at least one", "add one")
    for degree, known in layer.configurations.items():
        if degree < 1:
            yield Finding(where, f"tensor degree {degree}", "at least 1", "correct it")
        names = Counter(entry.name for entry in known)
        for name, count in names.items():
            if count > 1:
                found = f"{count} configurations {name!r} at degree {degree}"
                yield Finding(where, found, "unique names", "rename them")
        for entry in known:
            at = f"{where}, degree {degree}, configuration {entry.name!r}"
            for name, amount in entry.amounts():
                yield from below_findings(f"{at}, {name}", amount, 0)
            for label, given, expected in (
                ("receive_bytes", entry.receive_bytes, sources),
                ("send_bytes", entry.send_bytes, targets),
            ):
                for other in given:
                    if other not in expected:
                        found = f"{other!r}, to which there is no flow"
                        yield Finding(f"{at}, {label}", found, "a neighbour", "correct it")


def _order(layers: tuple[Layer, ...], flows: tuple[Flow, ...]) -> tuple[str, ...]:
    sorter: TopologicalSorter[str] = TopologicalSorter({layer.name: () for layer in layers})
    for flow in flows:
        sorter.add(flow.target, flow.source)
    return tuple(sorter.static_order())
