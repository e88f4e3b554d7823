"""A parallel configuration: degrees, micro-batches, schedule, what is recomputed and sharded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate

from milp_plan.core.exactness import spell_words

from .architecture import Architecture
from .blocks import Moe
from .cluster import TrainingCluster


class Schedule(StrEnum):
    """Order of forward and backward passes on a pipeline's devices."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZB_H1 = "zb-h1"
    ZB_V = "zb-v"
    V_HALF = "v-half"
    V_MIN = "v-min"
    DUALPIPE_V = "dualpipe-v"


V_SHAPED = frozenset({Schedule.ZB_V, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE_V})
"""Schedules with two chunks on a device: chunk ``k`` and chunk ``2p - 1 - k``."""

SPLIT_BACKWARD = V_SHAPED | {Schedule.ZB_H1}
"""Schedules that run the products for weights apart from those for inputs."""


class Recompute(StrEnum):
    """What the backward pass computes again in a block, instead of keeping it on the device."""

    NONE = "none"
    LIGHT = "light"
    """Norms before experts and latent attention, activation functions of experts, up-projections of
    latent attention: ``layernorm``, ``moe_act`` and ``mla_up_proj`` of Megatron-LM (DeepSeek-AI,
    arXiv:2412.19437, section 3.2.3).
    """
    ATTENTION = "attention"
    """Scores and their product with values alone (Korthikanti et al., arXiv:2205.05198)."""
    FULL = "full"
    """The whole block, from its input."""
    OFFLOAD = "offload"
    """Nothing: activations wait in the host's memory, copied there and back beside the passes."""


class Offload(StrEnum):
    """What is in the memory of the host for the whole run; the host updates parameters then."""

    NONE = "none"
    OPTIMIZER = "optimizer"


class Precision(StrEnum):
    """Element type of matrix products; master weights and optimizer are 32-bit floats."""

    BF16 = "bf16"
    FP8 = "fp8"


FASTER = {Precision.BF16: 1, Precision.FP8: 2}
"""Peak rate of products over that of 16 bits."""


WORDS: dict[str, type[StrEnum]] = {
    "schedule": Schedule,
    "recompute": Recompute,
    "offload": Offload,
    "precision": Precision,
}
"""Fields of a configuration that are words, with their values."""

COUNTS = (
    *("tensor", "context", "expert", "expert_tensor", "pipeline", "data"),
    *("micro_batch", "micro_batches", "virtual"),
)
"""Fields of a configuration that are at least 1."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a training step is divided over the devices of a cluster.

    Devices are numbered with tensor parallelism innermost, then context, data, and pipeline
    outermost. Every expert parallel group lies in the ``tensor * context * data`` devices of one
    pipeline stage: ``expert * expert_tensor`` consecutive ones, so experts are replicated
    ``tensor * context * data / (expert * expert_tensor)`` times.

    Parameters
    ----------
    tensor, context, pipeline, data
        Degrees; their product is the number of devices.
    expert
        Devices over which the experts of a layer are distributed; 1 for none.
    expert_tensor
        Devices over which each expert's matrices are split.
    micro_batch
        Samples of one micro-batch on one data-parallel rank.
    micro_batches
        Micro-batches of one rank per step.
    virtual
        Chunks of consecutive blocks on each pipeline device.
    schedule
        Order of passes; means nothing with one pipeline stage.
    sequence_parallel
        Whether norms and residuals are split over tensor ranks along the sequence.
    recompute
        What backward passes compute again, or whether activations wait on the host.
    recomputed
        Blocks of each chunk of which this holds, the first ones; 0 for all.
    recomputed_by_chunk
        The same with a number for each chunk, of which some may be 0; empty for equal numbers.
    zero
        0: every data rank has all optimizer state; 1: it is sharded over data (and context) ranks;
        2: gradients as well; 3: parameters as well (fully sharded data parallelism).
    offload
        Whether the optimizer's state is on the host, which updates parameters.
    precision
        Of matrix products.
    layers
        Number of blocks of each chunk, in the order of the model, ``pipeline * virtual`` numbers;
        empty for the even split of :func:`even_layers`. The embedding is with the first chunk, the
        head and multi-token prediction with the last.

    Raises
    ------
    InputError
        A word that names no schedule, recomputation, offload or precision.
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    pipeline: int = 1
    data: int = 1
    micro_batch: int = 1
    micro_batches: int = 1
    virtual: int = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    sequence_parallel: bool = True
    recompute: Recompute = Recompute.NONE
    recomputed: int = 0
    recomputed_by_chunk: tuple[int, ...] = ()
    zero: int = 1
    offload: Offload = Offload.NONE
    precision: Precision = Precision.BF16
    layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        spell_words(self, WORDS)

    @property
    def stage_devices(self) -> int:
        """Devices of one pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def devices(self) -> int:
        """Devices of all stages."""
        return self.stage_devices * self.pipeline

    @property
    def global_batch(self) -> int:
        """Samples of one step."""
        return self.micro_batch * self.micro_batches * self.data

    @property
    def expert_data(self) -> int:
        """Copies of each expert."""
        return self.stage_devices // (self.expert * self.expert_tensor)

    @property
    def chunks(self) -> int:
        """Chunks of the model: pipeline stages times virtual stages."""
        return self.pipeline * self.virtual

    def chunk_layers(self, architecture: Architecture) -> tuple[int, ...]:
        """Blocks of each chunk in the order of the model."""
        return self.layers or even_layers(len(architecture.blocks), self.chunks)

    def device_of(self, chunk: int) -> int:
        """Pipeline device of a chunk: round robin, or out and back for V-shaped schedules."""
        if self.schedule in V_SHAPED and self.virtual == 2 and chunk >= self.pipeline:
            return 2 * self.pipeline - 1 - chunk
        return chunk % self.pipeline

    def chunks_of(self, device: int) -> tuple[int, ...]:
        """Chunks of a pipeline device, in the order of the model."""
        if self.schedule in V_SHAPED and self.virtual == 2:
            return (device, 2 * self.pipeline - 1 - device)
        return tuple(range(device, self.chunks, self.pipeline))

    def spans(self, architecture: Architecture, device: int) -> tuple[tuple[int, int], ...]:
        """First block and number of blocks of each chunk of a pipeline device."""
        counts = self.chunk_layers(architecture)
        starts = starts_of(counts)
        return tuple((starts[chunk], counts[chunk]) for chunk in self.chunks_of(device))

    def reasons(
        self, architecture: Architecture, cluster: TrainingCluster, global_batch: int
    ) -> Iterator[str]:
        """List every reason why this cannot run, memory apart, one sentence each."""
        below = [name for name in COUNTS if getattr(self, name) < 1]
        if below:
            yield from (f"{name} is {getattr(self, name)}, below 1" for name in below)
            return
        if architecture.measured_batch and cluster.mixed:
            yield "layers were measured on one class of devices"
        if self.devices != cluster.devices:
            yield (
                f"tensor {self.tensor} x context {self.context} x pipeline {self.pipeline} x data "
                f"{self.data} take {self.devices} devices, the cluster has {cluster.devices}"
            )
        elif cluster.mixed:
            yield from self._group_reasons(cluster)
        if self.global_batch != global_batch:
            yield (
                f"{self.data} ranks x {self.micro_batches} micro-batches of {self.micro_batch} "
                f"are {self.global_batch} samples, the batch has {global_batch}"
            )
        if self.recomputed < 0 or (self.recomputed and self.recompute is Recompute.NONE):
            yield f"{self.recomputed} blocks of a chunk with recomputation {self.recompute}"
        yield from self._recompute_reasons(architecture)
        if self.zero not in (0, 1, 2, 3):
            yield f"optimizer sharding is {self.zero}, expected 0 to 3"
        if self.offload is not Offload.NONE or self.recompute is Recompute.OFFLOAD:
            names = {group.device.name for group in cluster.groups if group.device.host is None}
            yield from (f"nothing is known of the hosts of {name}" for name in sorted(names))
        if self.precision is Precision.FP8:
            names = {group.device.name for group in cluster.groups if not group.device.fp8}
            yield from (f"{name} has no 8-bit floats" for name in sorted(names))
        if architecture.measured_batch:
            yield from self._measured_reasons(architecture)
            yield from self._pipeline_reasons(architecture)
            return
        yield from self.width_reasons(architecture)
        yield from self._expert_reasons(architecture)
        yield from self._pipeline_reasons(architecture)

    def _recompute_reasons(self, architecture: Architecture) -> Iterator[str]:
        numbers, layers = self.recomputed_by_chunk, self.chunk_layers(architecture)
        if self.recomputed > max(layers, default=0):
            yield f"{self.recomputed} blocks of a chunk recomputed, a chunk has {max(layers)}"
        if not numbers:
            return
        if self.recompute is Recompute.NONE:
            yield f"blocks by chunk {numbers} go with a recomputation other than none"
        if self.recomputed:
            yield "blocks computed again are given for all chunks and by chunk; give one of the two"
        if len(numbers) != len(layers) or any(
            not 0 <= count <= most for count, most in zip(numbers, layers, strict=False)
        ):
            yield f"blocks computed again by chunk {numbers}, expected at most {layers}"

    def _group_reasons(self, cluster: TrainingCluster) -> Iterator[str]:
        if any(group.devices % self.stage_devices for group in cluster.groups):
            yield (
                f"a pipeline stage of {self.stage_devices} devices would lie on devices of "
                "several classes"
            )
        if self.virtual > 1:
            yield "virtual stages are not offered on a cluster of several classes"

    def _measured_reasons(self, architecture: Architecture) -> Iterator[str]:
        """List what layers measured on one device cannot price."""
        for name in ("tensor", "context", "expert", "expert_tensor"):
            if getattr(self, name) > 1:
                yield f"{name} {getattr(self, name)}: layers were measured on one device"
        if self.micro_batch != architecture.measured_batch:
            yield (
                f"micro-batch {self.micro_batch}: layers were measured with "
                f"{architecture.measured_batch} samples"
            )
        if self.precision is not Precision.BF16:
            yield f"precision {self.precision}: layers were measured as they are"
        if self.recompute in (Recompute.LIGHT, Recompute.ATTENTION):
            yield f"recompute {self.recompute}: measured layers have no parts of their own"
        if self.recompute is Recompute.FULL and not architecture.recomputable:
            yield "recompute full: the measured layers do not say what they send (output_bytes)"

    def width_reasons(self, architecture: Architecture) -> Iterator[str]:
        """List what the tensor and context degrees do not divide."""
        for block, _ in architecture.runs:
            attention = block.attention
            if attention.heads % self.tensor:
                yield f"tensor {self.tensor} does not divide the {attention.heads} heads"
                return
            groups = attention.kv_heads
            if not attention.latent and groups % self.tensor and self.tensor % groups:
                yield (
                    f"tensor {self.tensor} neither divides the {groups} key-value heads nor is "
                    "a multiple of them"
                )
                return
        if self.context > 1 and any(block.tokens is not None for block in architecture.blocks):
            yield "context parallelism does not reach blocks with a length of their own"

    def _expert_reasons(self, architecture: Architecture) -> Iterator[str]:
        degree = self.expert * self.expert_tensor
        if degree == 1:
            return
        parts = [b.feed_forward for b, _ in architecture.runs if isinstance(b.feed_forward, Moe)]
        if not parts:
            yield f"expert {degree} for a model without experts"
        elif any(part.experts % self.expert for part in parts):
            counts = sorted({part.experts for part in parts})
            yield f"expert {self.expert} does not divide the {counts[0]} experts of a layer"
        if self.stage_devices % degree:
            yield (
                f"expert {self.expert} x expert tensor {self.expert_tensor} does not divide the "
                f"{self.stage_devices} devices of a pipeline stage"
            )
        if self.expert_tensor not in (1, self.tensor):
            yield f"expert tensor {self.expert_tensor} is neither 1 nor tensor {self.tensor}"

    def _pipeline_reasons(self, architecture: Architecture) -> Iterator[str]:
        blocks = len(architecture.blocks)
        if self.chunks > blocks:
            yield f"{self.chunks} chunks for {blocks} blocks"
        if self.pipeline == 1 and self.virtual > 1:
            yield f"{self.virtual} virtual stages without a pipeline"
        yield from self._schedule_reasons()
        if self.zero == 3 and self.pipeline > 1:
            yield "sharded parameters (stage 3) are not offered with a pipeline"
        if self.layers and (len(self.layers) != self.chunks or sum(self.layers) != blocks):
            yield (
                f"layers {self.layers} are {len(self.layers)} chunks with {sum(self.layers)} "
                f"blocks, expected {self.chunks} chunks with {blocks}"
            )
        elif min(self.layers, default=0) < 0:
            yield f"layers {self.layers} has a negative number"

    def _schedule_reasons(self) -> Iterator[str]:
        """List virtual stages and micro-batches that the schedule is not defined for."""
        if self.schedule in V_SHAPED:
            if self.virtual != 2:
                yield f"schedule {self.schedule} has 2 virtual stages, not {self.virtual}"
        elif self.schedule is Schedule.INTERLEAVED:
            if self.virtual < 2 <= self.pipeline:
                yield "an interleaved schedule needs at least 2 virtual stages"
            if self.micro_batches % self.pipeline:
                yield (
                    f"an interleaved schedule needs micro-batches in multiples of {self.pipeline}"
                    f" stages, not {self.micro_batches}"
                )
        elif self.virtual > 1:
            yield f"schedule {self.schedule} has 1 virtual stage, not {self.virtual}"


def without_recomputation(c: Configuration) -> Configuration:
    """Return the same with all activations kept on the devices."""
    return replace(c, recompute=Recompute.NONE, recomputed=0, recomputed_by_chunk=())


@lru_cache(maxsize=256)
def starts_of(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first block of each chunk."""
    return tuple(accumulate(counts, initial=0))[:-1]


@lru_cache(maxsize=256)
def even_layers(blocks: int, chunks: int) -> tuple[int, ...]:
    """Blocks of each chunk, as even as they go; the later chunks but the last get one more.

    The last chunk has the head, so that it is the last to get one more.
    """
    least, more = divmod(blocks, chunks)
    extra = [0] * chunks
    for i in range(more):
        extra[(chunks - 2 - i) % chunks] = 1
    return tuple(least + extra[i] for i in range(chunks))
