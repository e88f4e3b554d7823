"""Time of a training step: work over rates, pipelines with fill and drain, traffic that hides.

A pass takes the time of its kernels and collectives, that of the host launching them, or that of
copying activations to the host or back, whichever is most. Kernels take
``flops / rate + bytes / bandwidth`` and a ramp: the other terms make small products slower than
large ones. With ``f``, ``b`` and ``w`` the times of a micro-batch on the slowest of ``p`` devices,
forward, backward for inputs and for weights, and ``v`` chunks on each, a step of ``m``
micro-batches takes ``m (f + b + w)`` and a bubble of

=========================== ======================================================
1F1B, GPipe                 ``(p - 1) (f + b + w)``, of the other devices
interleaved                 ``(p - 1) (f + b + w) / v``
ZB-H1                       ``(p - 1) (f + b - w)``
ZB-V, DualPipe-V            ``(p - 1) max(0, f + b - 2 w) / 2``
V-Half                      ``(p - 1) (f + b + w) / 2 + m |b - f| / 4``
V-Min                       ``(p - 1) (f + b + w) * 2 / 3 + m |f + b - 2 w| / 2``
=========================== ======================================================

DualPipe-V runs a forward pass beside a backward pass, so that the traffic of experts of one hides
under the computation of the other.

Sources: Narayanan et al., arXiv:2104.04473; Qi et al., arXiv:2401.10241 and arXiv:2405.15362;
DeepSeek-AI, arXiv:2412.19437, section 3.2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from milp_plan.cost.devices import DeviceSpec

from .cluster import DeviceGroup, TrainingCluster
from .collectives import Traffic
from .configuration import Configuration, Schedule
from .efficiency import Efficiency
from .passes import Pass, Passes
from .work import StageWork

NANO = 1_000_000_000

BLOCKING = (Schedule.GPIPE, Schedule.ONE_F_ONE_B)
"""Schedules whose passes wait until what they send has arrived."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Time of a step and what it is spent on, along the slowest pipeline device.

    Parameters
    ----------
    compute_ns
        Kernels that are no communication, and the host where it is slower than they are.
    tensor_ns, expert_ns, context_ns
        Traffic of tensor, expert and context parallelism that is waited for.
    bubble_ns
        Filling and draining the pipeline.
    transfer_ns
        Sending to the next pipeline device.
    data_parallel_ns
        Traffic of gradients and parameters that computation does not hide.
    optimizer_ns
        Optimizer, and what a step always takes.
    """

    compute_ns: int
    tensor_ns: int
    expert_ns: int
    context_ns: int
    bubble_ns: int
    transfer_ns: int
    data_parallel_ns: int
    optimizer_ns: int

    @property
    def total_ns(self) -> int:
        """The step."""
        parts = (self.compute_ns, self.tensor_ns, self.expert_ns, self.context_ns)
        rest = (self.bubble_ns, self.transfer_ns, self.data_parallel_ns, self.optimizer_ns)
        return sum(parts) + sum(rest)


def step_time(
    works: tuple[StageWork, ...],
    cluster: TrainingCluster,
    configuration: Configuration,
    efficiency: Efficiency,
) -> StepTime:
    """Return the time of a step of which the work is known."""
    parts = step_seconds(works, cluster, configuration, efficiency)
    return StepTime(*map(in_ns, parts[1:]))


def in_ns(seconds: float) -> int:
    """Return a time in whole nanoseconds."""
    return round(seconds * NANO)


class _Stage(NamedTuple):
    forward: float
    backward: float
    weight: float
    compute: float
    tensor: float
    expert: float
    context: float
    transfer: float
    data: float
    optimizer: float
    lag: float
    """Time until what a pass sends beside others has arrived."""

    @property
    def micro_batch(self) -> float:
        return self.forward + self.backward + self.weight + self.transfer


class StepSeconds(NamedTuple):
    """Parts of a step in seconds, not rounded; those of :class:`StepTime`."""

    stages: tuple[_Stage, ...]
    compute: float
    tensor: float
    expert: float
    context: float
    bubble: float
    transfer: float
    data: float
    optimizer: float

    @property
    def total(self) -> float:
        """The step."""
        return sum(self[1:])


class Clock:
    """Turns work into seconds on one device class under one framework."""

    def __init__(
        self, group: DeviceGroup, efficiency: Efficiency, configuration: Configuration
    ) -> None:
        spec: DeviceSpec = group.device
        rates, software = efficiency.rates(spec.name), efficiency.software
        self.software = software
        self.flop = 1 / (rates.matrix * spec.peak_flops_per_s)
        self.grouped = self.flop / rates.grouped
        self.operand = 1 / spec.memory_bytes_per_s
        self.attention = 1 / (rates.attention * spec.peak_flops_per_s)
        host = spec.host
        self.copied = 1 / host.achieved_bytes_per_s if host else math.inf
        self.on_host = 1 / host.memory_bytes_per_s if host else math.inf
        self.moved = 1 / (rates.memory * spec.memory_bytes_per_s)
        self.node = 1 / (rates.node * group.levels[0].link.bandwidth_bytes_per_s)
        self.network = 1 / (rates.network * group.levels[-1].link.bandwidth_bytes_per_s)
        self.round = rates.latency_ns / NANO
        self.kernel = rates.kernel_ns / NANO
        self.launch = software.launch_ns / NANO
        crosses = configuration.pipeline > 1 and group.nodes > 1
        self.crossing = crosses * (configuration.tensor - 1) * software.crossing_ns / NANO
        self.stall = software.stall_ns / NANO * (group.nodes / 64) ** 3

    def traffic(self, traffic: Traffic) -> float:
        """Seconds of traffic."""
        return (
            traffic.node_bytes * self.node
            + traffic.network_bytes * self.network
            + traffic.rounds * self.round
        )

    def compute(self, each: Pass) -> float:
        """Seconds of the kernels of a pass."""
        work = each.compute
        return (
            work.matrix_flops * self.flop
            + work.grouped_flops * self.grouped
            + work.matrix_bytes * self.operand
            + work.attention_flops * self.attention
            + work.moved_bytes * self.moved
            + work.kernels * self.kernel
            + work.measured_s
        )

    def waited(self, passes: Passes, schedule: Schedule) -> float:
        """Share of the traffic of experts that no pass of another micro-batch hides."""
        expert = sum(self.traffic(each.expert) for each in passes)
        if schedule != Schedule.DUALPIPE_V or not expert:
            return 1.0
        return max(0.0, 1 - sum(map(self.compute, passes)) / expert)

    def run(self, each: Pass, waited: float = 1.0) -> tuple[float, float, float, float, float]:
        """Seconds of a pass: all, and of that compute, tensor, expert, context."""
        compute = self.compute(each)
        tensor, expert = self.traffic(each.tensor), waited * self.traffic(each.expert)
        core = each.compute.attention_flops * self.attention
        context = max(0.0, self.traffic(each.context) - core)
        calls = each.tensor.calls + each.expert.calls + each.context.calls
        host = (each.compute.kernels + calls) * self.launch + each.tensor.calls * self.crossing
        total = max(compute + tensor + expert + context, host)
        if each.copied_bytes:
            total = max(total, each.copied_bytes * self.copied)
        return total, total - tensor - expert - context, tensor, expert, context


def step_seconds(
    works: tuple[StageWork, ...],
    cluster: TrainingCluster,
    configuration: Configuration,
    efficiency: Efficiency,
) -> StepSeconds:
    """Return the parts of a step in seconds, not rounded."""
    timed_stages: dict[tuple[int, int], _Stage] = {}
    stages = []
    clocks = [Clock(group, efficiency, configuration) for group in cluster.groups]
    for index, work in enumerate(works):
        group = cluster.group_of(index * configuration.stage_devices)
        key = id(work), group
        if key not in timed_stages:
            timed_stages[key] = _stage(work, clocks[group], configuration)
        stages.append(timed_stages[key])
    return _step(tuple(stages), configuration)


def _stage(work: StageWork, clock: Clock, configuration: Configuration) -> _Stage:
    waited = clock.waited(work.passes, configuration.schedule)
    runs = [clock.run(each, waited) for each in work.passes]
    forward, backward, weight = (run[0] for run in runs)
    compute, tensor, expert, context = (sum(run[i] for run in runs) for i in range(1, 5))
    transfer = lag = 0.0
    if configuration.pipeline > 1:
        chunks = configuration.virtual
        sent = clock.traffic(work.transfer)
        if clock.software.overlapped_sends and configuration.schedule not in BLOCKING:
            lag, sent = sent, max(0.0, sent - (forward + backward + weight) / (2 * chunks))
        transfer = 2 * chunks * (sent + 2 * clock.launch)
    transfer += clock.stall
    overlap = clock.software.overlap
    hidden = overlap * (backward + weight)
    if configuration.zero and not clock.software.sharded_overlap:
        hidden = 0.0
    once, each = clock.traffic(work.reduce), clock.traffic(work.gather)
    if configuration.zero == 2:  # gradients are scattered behind every backward pass
        before = (configuration.micro_batches - 1) * max(0.0, each - hidden)
        data = max(0.0, once + each - hidden) + before
    else:
        gather = max(0.0, each - overlap * (forward + backward + weight))
        data = max(0.0, once - hidden) + gather * configuration.micro_batches
    moved = clock.moved if not work.copied_bytes else clock.on_host
    optimizer = work.optimizer_bytes * moved + clock.software.step_ns / NANO
    if work.copied_bytes:
        optimizer += work.copied_bytes * clock.copied
    return _Stage(
        *(forward, backward, weight, compute, tensor, expert, context, transfer, data, optimizer),
        lag,
    )


def overlapped_seconds(
    works: tuple[StageWork, ...],
    cluster: TrainingCluster,
    configuration: Configuration,
    efficiency: Efficiency,
) -> dict[str, float]:
    """Return seconds of a step's traffic that computation hides, on the slowest pipeline device."""
    stages = step_seconds(works, cluster, configuration, efficiency).stages
    index = max(range(len(stages)), key=lambda i: stages[i].micro_batch)
    stage, work, m = stages[index], works[index], configuration.micro_batches
    group = cluster.groups[cluster.group_of(index * configuration.stage_devices)]
    clock = Clock(group, efficiency, configuration)
    sent = clock.traffic(work.reduce) + m * clock.traffic(work.gather)
    ring = sum(clock.traffic(each.context) for each in work.passes)
    expert = sum(clock.traffic(each.expert) for each in work.passes)
    return {
        "data parallel": sent - stage.data,
        "context": m * (ring - stage.context),
        "expert": m * (expert - stage.expert),
    }


def _step(stages: tuple[_Stage, ...], configuration: Configuration) -> StepSeconds:
    slowest = max(stages, key=lambda each: each.micro_batch)
    m = configuration.micro_batches
    return StepSeconds(
        stages,
        m * slowest.compute,
        m * slowest.tensor,
        m * slowest.expert,
        m * slowest.context,
        _bubble(stages, slowest, configuration),
        m * slowest.transfer,
        max(each.data for each in stages),
        max(each.optimizer for each in stages),
    )


def _bubble(stages: tuple[_Stage, ...], slowest: _Stage, configuration: Configuration) -> float:
    p, m = configuration.pipeline, configuration.micro_batches
    if p == 1:
        return 0.0
    others = sum(each.micro_batch for each in stages) - slowest.micro_batch
    forward, backward, weight = slowest.forward, slowest.backward, slowest.weight
    schedule = configuration.schedule
    if schedule == Schedule.INTERLEAVED:
        return others / configuration.virtual
    if schedule == Schedule.ZB_H1:
        return max(0.0, others - (p - 1) * 2 * weight)
    if schedule in (Schedule.ZB_V, Schedule.DUALPIPE_V):
        return (p - 1) * max(0.0, forward + backward - 2 * weight) / 2
    if schedule == Schedule.V_HALF:
        return others / 2 + m * abs(backward - forward) / 4
    if schedule == Schedule.V_MIN:
        return others * 2 / 3 + m * abs(forward + backward - 2 * weight) / 2
    return others
