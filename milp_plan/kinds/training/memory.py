"""Peak memory of the devices of a pipeline: weights, gradients, optimizer, activations, buffers.

Activations are those of :mod:`.activations`, of all micro-batches in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

from .activations import Activations
from .architecture import Architecture
from .cluster import TrainingCluster
from .configuration import Configuration, Offload, Schedule
from .efficiency import Software
from .work import StageWork, stage_works

MARGIN = 0.14
"""Share of a device's memory that a run should leave free. Of the runs of the Ultra-Scale Playbook
97 % do by our count; some that leave less run many times slower, as their allocator starves."""


def default_reserve(cluster: TrainingCluster) -> int:
    """Return the bytes of every device that are left free by default."""
    return round(MARGIN * cluster.memory_bytes)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Peak memory of one pipeline device, in bytes.

    Parameters
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes
        Of the parameters that this device has; frozen ones have weights alone.
    activations_bytes
        Of all micro-batches in flight.
    buffers_bytes
        What exists for one pass alone (logits, a block that is computed again), and what the
        framework takes.
    host_bytes
        On the host for this device: the optimizer's state and a copy of gradients.
    host_activations_bytes
        On the host for this device: activations of all micro-batches in flight.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    buffers_bytes: int
    host_bytes: int = 0
    host_activations_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """The peak."""
        parameters = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return parameters + self.activations_bytes + self.buffers_bytes


def device_memory(
    architecture: Architecture,
    cluster: TrainingCluster,
    configuration: Configuration,
    sequence: int,
    software: Software,
) -> tuple[MemoryUse, ...]:
    """Return the peak memory of each pipeline device.

    Parameters
    ----------
    architecture, cluster, configuration, sequence
        What runs where, and how many tokens a sample has.
    software
        The framework: bytes of a parameter, fused kernels.
    """
    works = stage_works(architecture, cluster, configuration, sequence, software)
    return Meter(architecture, configuration, sequence, software).stages(works)


def in_flight(configuration: Configuration, stage: int) -> float:
    """Return how many micro-batches of its whole layers a device keeps at its peak.

    1F1B keeps ``p - stage``; interleaved ones count chunks (Narayanan et al., arXiv:2104.04473);
    schedules in V shape keep the same on every device (Qi et al., arXiv:2405.15362).
    """
    p, m, v = configuration.pipeline, configuration.micro_batches, configuration.virtual
    schedule = configuration.schedule
    if p == 1:
        return 1.0
    if schedule == Schedule.GPIPE:
        most: float = m
    elif schedule == Schedule.INTERLEAVED:
        most = (2 * (p - stage - 1) + 1 + (v - 1) * p) / v
    elif schedule in (Schedule.ZB_V, Schedule.DUALPIPE_V):
        most = p
    elif schedule == Schedule.V_HALF:
        most = p / 2 + 1
    elif schedule == Schedule.V_MIN:
        most = p / 3 + 1
    else:
        most = p - stage
    return min(most, m)


def sharded_parameters(c: Configuration, dense: float, experts: float) -> float:
    """Return parameters of which one device has the optimizer's state."""
    if not c.zero:
        return dense + experts
    return dense / (c.context * c.data) + experts / c.expert_data


class Meter(Activations):
    """Measures the devices of one configuration."""

    def stages(self, works: tuple[StageWork, ...]) -> tuple[MemoryUse, ...]:
        """Peak memory of each pipeline device, of which the work is known."""
        made: dict[tuple[object, ...], MemoryUse] = {}
        uses = []
        for stage, work in enumerate(works):
            key = (id(work), in_flight(self.configuration, stage))
            if key not in made:
                made[key] = self.stage(stage, work)
            uses.append(made[key])
        return tuple(uses)

    def stage(self, stage: int, work: StageWork) -> MemoryUse:
        """Peak memory of one pipeline device."""
        c, model, software = self.configuration, self.architecture, self.software
        chunks = c.chunks_of(stage)
        kinds = model.kinds(c.spans(model, stage))
        kept = sum(count * self.kept(block) for block, count in kinds)
        flight = in_flight(c, stage)
        tokens = c.micro_batch * self.sequence / c.context
        activations = flight * kept
        buffers = float(software.workspace_bytes)
        buffers += max((self.buffer(block) for block, _ in kinds), default=0.0)
        if c.chunks - 1 in chunks and model.head_outputs:
            rows = c.micro_batch if model.output_classes else tokens
            heads = 1 + (model.prediction.modules if model.prediction else 0)
            activations += heads * 2 * self.size * self.stream(tokens * model.hidden)
            buffers += heads * software.logit_bytes * rows * model.head_outputs / c.tensor
            if model.prediction:
                activations += model.prediction.modules * self.block(model.prediction.block)
        if 0 in chunks or c.chunks - 1 in chunks:
            # the gradient of embedding or head, before it is added to the sum of micro-batches
            buffers += self.size * model.vocabulary * model.hidden / c.tensor
        if c.zero == 3 and kinds:
            buffers += 2 * self.size * max(block.parameters for block, _ in kinds) / c.tensor
        sharded = work.sharded_parameters
        weights, gradients, state, host = map(round, self.resident(work.parameters, sharded))
        return MemoryUse(
            weights + round(software.weight_bytes * work.frozen_parameters),
            gradients,
            state,
            round(activations),
            round(buffers),
            host,
            round(flight * sum(n * self.copied(block) for block, n in kinds)),
        )

    def resident(self, parameters: float, sharded: float) -> tuple[float, float, float, float]:
        """Bytes of weights, gradients and optimizer on a device, and of the last on the host.

        Parameters
        ----------
        parameters, sharded
            Parameters of the device, and those of which it has the optimizer's state.
        """
        c, software = self.configuration, self.software
        optimizer, gradient, weight = (
            sharded if c.zero >= level else parameters for level in (1, 2, 3)
        )
        state, host = software.optimizer_bytes * optimizer, 0.0
        if c.offload is Offload.OPTIMIZER:
            state, host = 0.0, (software.optimizer_bytes + software.gradient_bytes) * sharded
        return software.weight_bytes * weight, software.gradient_bytes * gradient, state, host
