"""Layers of a model on the stages of a pipeline: how many on each, and what each keeps.

The degrees of a training step are given. What is left is how many layers of every run of equal
layers each chunk gets, and in which way each of them runs: it keeps all activations, recomputes
some or all of them, or moves them to the host. The law is in ``docs/laws.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from milp_plan.core.checked import CheckedProblem
from milp_plan.core.errors import Finding, below_findings, name_findings
from milp_plan.core.quantity import Units
from milp_plan.core.shown import ShownPlan

MOST = 2**60
"""Largest value, in ticks, and largest number of bytes of a device."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a layer, or what is beside the layers of a chunk, takes on a device.

    Parameters
    ----------
    forward, backward, weight
        Ticks of one micro-batch: forward pass, backward pass for inputs (with what is recomputed
        and, where the schedule does not split it, the products for weights), products for weights.
    kept
        Bytes of every micro-batch that waits for its backward pass.
    resident
        Bytes that are there all the time: weights, gradients, optimizer state.
    workspace
        Bytes that exist during one pass alone; those of the largest count once for a device.
    lane
        Ticks that the device's lane to its host is busy, per micro-batch.
    """

    forward: int = 0
    backward: int = 0
    weight: int = 0
    kept: int = 0
    resident: int = 0
    workspace: int = 0
    lane: int = 0

    @property
    def time(self) -> int:
        """Ticks of all passes of one micro-batch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive equal layers.

    Parameters
    ----------
    name
        Unique in its problem.
    count
        How many layers.
    ways
        Class of devices -> way -> what one layer takes if it runs in that way.
    """

    name: str
    count: int
    ways: tuple[tuple[Load, ...], ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the model that runs on one device.

    Parameters
    ----------
    device
        Where.
    beside
        What it takes beside its layers: embedding, loss, transfers to its neighbours.
    """

    device: int
    beside: Load = Load()


@dataclass(frozen=True, slots=True)
class Device:
    """The devices of one pipeline stage, which all do the same.

    Parameters
    ----------
    kind
        Their class.
    limit
        Bytes that may be used; ``None`` without a limit.
    waiting
        Sets of micro-batches that wait for their backward pass at one instant, as numbers for each
        chunk of the device in the order of the model.
    """

    kind: int
    limit: int | None
    waiting: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """What a device adds to the step while it is filled and drained, per micro-batch.

    The largest over its chunks of ``max(0, forward * F + backward * B + weight * W)`` with the
    chunk's passes F, B and W.
    """

    forward: int = 1
    backward: int = 1
    weight: int = 1

    def times(self, forward: Any, backward: Any, weight: Any) -> Any:
        """Return the sum before it is cut at 0."""
        return self.forward * forward + self.backward * backward + self.weight * weight


Ticks = tuple[int, int, int, int]
"""Forward, backward, weight and lane ticks of one micro-batch."""

Counts = tuple[tuple[tuple[int, ...], ...], ...]
"""Chunk -> run -> way -> number of layers."""


@dataclass(frozen=True)
class TrainingStagesProblem(CheckedProblem):
    """Distribute runs of layers over chunks, in order, so that a step is as short as can be.

    Parameters
    ----------
    name
        Name of the instance.
    ways
        Names of the ways in which a layer can run.
    runs
        Layers in the order of the model.
    devices
        Stages of the pipeline.
    chunks
        In the order of the model; every device has at least one.
    micro_batches
        Of one step.
    fill
        What the schedule's fill and drain take.

    Raises
    ------
    InputError
        With every finding at once.
    """

    name: str
    ways: tuple[str, ...]
    runs: tuple[Run, ...]
    devices: tuple[Device, ...]
    chunks: tuple[Chunk, ...]
    micro_batches: int
    fill: Fill = Fill()

    units = Units()

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(run.count for run in self.runs)

    @cached_property
    def chunks_of(self) -> tuple[tuple[int, ...], ...]:
        """Device -> its chunks in the order of the model."""
        found: list[list[int]] = [[] for _ in self.devices]
        for number, chunk in enumerate(self.chunks):
            found[chunk.device].append(number)
        return tuple(map(tuple, found))

    def load(self, chunk: int, run: int, way: int) -> Load:
        """Return what a layer of a run takes in a chunk, in one of the ways."""
        return self.runs[run].ways[self.devices[self.chunks[chunk].device].kind][way]

    def value_of(self, times: Sequence[Sequence[Ticks]]) -> int:
        """Return the ticks of a step.

        ``max over s of (m max(F + B + W, lane)[s] + sum of the fill of all devices but s)`` with m
        micro-batches.

        Parameters
        ----------
        times
            Device -> ticks of each of its chunks.
        """
        fills = [max(0, *(self.fill.times(*chunk[:3]) for chunk in row)) for row in times]
        busiest = (
            max(sum(sum(chunk[:3]) for chunk in row), sum(chunk[3] for chunk in row))
            for row in times
        )
        ends = (self.micro_batches * busy - own for busy, own in zip(busiest, fills, strict=True))
        total: int = max(ends) + sum(fills)
        return total

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield "micro-batches", self
        yield "fill", self.fill
        for run in self.runs:
            yield f"run {run.name!r}", run
            for row in run.ways:
                yield from ((f"run {run.name!r}, a way", load) for load in row)
        yield from ((f"device {n}", device) for n, device in enumerate(self.devices))
        yield from ((f"chunk {n}", chunk) for n, chunk in enumerate(self.chunks))
        yield from ((f"chunk {n}", chunk.beside) for n, chunk in enumerate(self.chunks))

    def _content(self) -> object:
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def _findings(self) -> Iterator[Finding]:
        for what, entries in (
            ("ways", self.ways),
            ("runs", self.runs),
            ("devices", self.devices),
            ("chunks", self.chunks),
        ):
            if not entries:
                yield Finding(what, "none", "at least one", f"give the {what}")
        yield from name_findings("way", list(self.ways))
        yield from name_findings("run", [run.name for run in self.runs])
        yield from below_findings("micro-batches", self.micro_batches, 1)
        for run in self.runs:
            yield from below_findings(f"run {run.name!r}, layers", run.count, 1)
        if len(self.chunks) > self.layers:
            expected = f"at most {self.layers}, the number of layers"
            yield Finding("chunks", str(len(self.chunks)), expected, "take fewer stages")
        yield from self._shape_findings()

    def _shape_findings(self) -> Iterator[Finding]:
        loads = [(f"chunk {n}", chunk.beside) for n, chunk in enumerate(self.chunks)]
        for run in self.runs:
            where = f"run {run.name!r}"
            loads += [(where, load) for row in run.ways for load in row]
            if any(len(row) != len(self.ways) for row in run.ways):
                expected = f"{len(self.ways)} for each class, as there are names"
                yield Finding(f"{where}, ways", "another number", expected, "give every way")
        for where, load in loads:
            for entry in fields(load):
                yield from below_findings(f"{where}, {entry.name}", getattr(load, entry.name), 0)
        classes = min((len(run.ways) for run in self.runs), default=0)
        counts = [0] * len(self.devices)
        for number, chunk in enumerate(self.chunks):
            if 0 <= chunk.device < len(counts):
                counts[chunk.device] += 1
            else:
                expected = f"0 to {len(counts) - 1}"
                yield Finding(f"chunk {number}, device", str(chunk.device), expected, "correct it")
        for number, (device, count) in enumerate(zip(self.devices, counts, strict=True)):
            where = f"device {number}"
            if not 0 <= device.kind < classes:
                yield Finding(
                    f"{where}, class", str(device.kind), f"0 to {classes - 1}", "correct it"
                )
            if not count:
                yield Finding(where, "no chunk", "at least one", "leave the device out")
            if not device.waiting or any(len(row) != count for row in device.waiting):
                expected = f"sets of {count} numbers, one for each of its chunks"
                yield Finding(f"{where}, waiting", str(device.waiting), expected, "correct it")
            for row in device.waiting:
                yield from below_findings(f"{where}, waiting", min(row, default=0), 0)


@dataclass(frozen=True)
class TrainingStagesPlan(ShownPlan):
    """Numbers of layers.

    Parameters
    ----------
    problem
        Name of the problem it answers.
    counts
        Chunk -> run -> way -> number of layers.
    fingerprint, value, planner
        What its maker says about it; the checker recomputes the value.
    """

    problem: str
    counts: Counts
    fingerprint: str | None = None
    value: int | None = None
    planner: str = ""

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of each chunk."""
        return tuple(sum(map(sum, chunk)) for chunk in self.counts)


Layers = list[tuple[int, Load]]
"""Numbers of layers, with what each of them takes."""


def loads_of(problem: TrainingStagesProblem, counts: Counts, chunk: int) -> Layers:
    """Return what a chunk takes: what is beside its layers, then its layers."""
    layers = [
        (count, problem.load(chunk, run, way))
        for run, row in enumerate(counts[chunk])
        for way, count in enumerate(row)
        if count
    ]
    return [(1, problem.chunks[chunk].beside), *layers]


def times_of(problem: TrainingStagesProblem, counts: Counts) -> list[list[Ticks]]:
    """Return the ticks of each chunk of each device."""
    return [
        [_ticks(loads_of(problem, counts, chunk)) for chunk in chunks]
        for chunks in problem.chunks_of
    ]


def _ticks(layers: Layers) -> Ticks:
    return (
        sum(n * load.forward for n, load in layers),
        sum(n * load.backward for n, load in layers),
        sum(n * load.weight for n, load in layers),
        sum(n * load.lane for n, load in layers),
    )


def step_of(problem: TrainingStagesProblem, counts: Counts) -> int:
    """Return the ticks of a step with these numbers of layers."""
    return problem.value_of(times_of(problem, counts))


def peaks_of(problem: TrainingStagesProblem, counts: Counts) -> list[int]:
    """Return the bytes of each device with these numbers of layers."""
    peaks = []
    for device, chunks in zip(problem.devices, problem.chunks_of, strict=True):
        loads = [loads_of(problem, counts, chunk) for chunk in chunks]
        kept = [sum(n * load.kept for n, load in own) for own in loads]
        waiting = (sum(n * k for n, k in zip(row, kept, strict=True)) for row in device.waiting)
        fixed = sum(n * load.resident for own in loads for n, load in own)
        workspace = max(load.workspace for own in loads for _, load in own)
        peaks.append(fixed + workspace + max(waiting))
    return peaks
