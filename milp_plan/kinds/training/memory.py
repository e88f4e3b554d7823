"""Peak memory of the devices of a pipeline: weights, gradients, optimizer, activations, buffers.

Activations are what backward passes need, after Korthikanti et al. (arXiv:2205.05198), for fused
kernels. With ``x`` the elements of the residual stream of a micro-batch (tokens times hidden, over
tensor ranks under sequence parallelism), ``q``, ``k`` the elements of queries and of keys and
values, and ``f`` those of the inner activations, all of one tensor rank, a block keeps

==================== ============================================================
norms                ``2 x`` each: their inputs
attention            ``x`` (its input), ``q + k``, ``q`` (its result)
dense part           ``x`` (its input), ``2 f + f`` gated, ``f + f`` not
dropout              a byte for each element of three masks, where there is dropout
unfused attention    ``5 a s s`` bytes a sample: scores, their softmax and mask
==================== ============================================================

elements of :attr:`~.architecture.Architecture.precision_bytes`. Full recomputation keeps ``x``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .architecture import Architecture
from .blocks import Block, Mlp
from .cluster import TrainingCluster
from .configuration import Configuration, Recompute, Schedule
from .efficiency import Software
from .profile import MeasuredBlock
from .work import Known, StageWork, stage_works, width_of

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
        Of the parameters that this device has.
    activations_bytes
        Of all micro-batches in flight.
    buffers_bytes
        What exists for one pass alone (logits, a block that is computed again), and what the
        framework takes.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    buffers_bytes: int

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
    *,
    known: Known | None = None,
) -> tuple[MemoryUse, ...]:
    """Return the peak memory of each pipeline device.

    Parameters
    ----------
    architecture, cluster, configuration, sequence
        What runs where, and how many tokens a sample has.
    software
        The framework: bytes of a parameter, fused kernels.
    known
        What is kept for the next configuration, as of :func:`.work.stage_works`.
    """
    works = stage_works(architecture, cluster, configuration, sequence, software, known=known)
    meter = Meter(architecture, configuration, sequence, software, known=known)
    return meter.stages(works)


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


class Meter:
    """Measures the devices of one configuration."""

    def __init__(
        self,
        architecture: Architecture,
        configuration: Configuration,
        sequence: int,
        software: Software,
        *,
        known: Known | None = None,
    ) -> None:
        self.known = {} if known is None else known.setdefault(width_of(configuration), {})
        self.architecture = architecture
        self.configuration = configuration
        self.sequence = sequence
        self.software = software
        self.size = architecture.precision_bytes

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
        if c.recompute == Recompute.FULL and kinds:
            buffers += max(self.block(block) for block, _ in kinds)
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
        sharded = work.sharded_parameters
        optimizer, gradient, weight = (
            sharded if c.zero >= level else work.parameters for level in (1, 2, 3)
        )
        if c.zero == 3 and kinds:
            buffers += 2 * self.size * max(block.parameters for block, _ in kinds) / c.tensor
        return MemoryUse(
            round(software.weight_bytes * weight),
            round(software.gradient_bytes * gradient),
            round(software.optimizer_bytes * optimizer),
            round(activations),
            round(buffers),
        )

    def stream(self, elements: float) -> float:
        """Elements of the residual stream on one tensor rank."""
        c = self.configuration
        return elements / c.tensor if c.sequence_parallel else elements

    def kept(self, block: Block) -> float:
        """Bytes that one block keeps of one micro-batch, looked up where they are known."""
        key = ("kept", id(block))
        if key not in self.known:
            self.known[key] = self._kept(block)
        found: float = self.known[key]
        return found

    def _kept(self, block: Block) -> float:
        recompute = self.configuration.recompute
        if isinstance(block, MeasuredBlock):
            full = recompute is Recompute.FULL
            return block.input_bytes if full else block.activation_bytes
        if block.frozen and not block.needs_input_gradient:
            return 0.0
        if recompute == Recompute.FULL:
            return self.size * self.stream(self.tokens(block) * block.hidden)
        return self.block(block, core=recompute == Recompute.NONE)

    def tokens(self, block: Block) -> float:
        """Tokens of a micro-batch in a block on one context rank."""
        c = self.configuration
        return c.micro_batch * block.length(self.sequence) / c.context

    def block(self, block: Block, core: bool = True) -> float:
        """Bytes of a block's activations; ``core`` with those of unfused attention's scores."""
        if isinstance(block, MeasuredBlock):
            return block.activation_bytes
        c, a, software = self.configuration, block.attention, self.software
        tokens, t = self.tokens(block), c.tensor
        stream = self.stream(tokens * block.hidden)
        gathers = software.gathered_activations and c.pipeline == 1
        gathered = tokens * block.hidden if gathers else stream
        queries, results = a.heads * a.query_size / t, a.heads * a.output_size / t
        if a.latent:
            keys = a.heads * (a.query_size + a.output_size) / t
            keys += a.kv_rank + a.rope_size + 2 * a.query_rank + a.kv_rank
        else:
            keys = 2 * max(a.kv_heads / t, 1) * a.head_size
        elements = 2 * stream + 2 * gathered + tokens * (queries + keys + results)
        masks = 0.0
        if software.dropout and block.norm_bias:
            masks = 2 * stream
        scores = 4 * tokens * a.heads / t
        if not software.fused_attention:
            length = block.length(self.sequence)
            scores = 5 * tokens * length * a.heads / t if core else 0.0
        feed = self.feed_forward(block, tokens)
        return software.activation_factor * self.size * (elements + feed) + masks + scores

    def feed_forward(self, block: Block, tokens: float) -> float:
        """Elements that the feed-forward part keeps beside its input."""
        c, part = self.configuration, block.feed_forward
        if isinstance(part, Mlp):
            return tokens * _inner(part) / c.tensor
        visits = tokens / c.tensor * part.active * c.expert_tensor
        elements = visits * (_inner(part.expert) / c.expert_tensor + 2 * block.hidden)
        elements += tokens / c.tensor * 2 * part.experts
        if part.shared:
            elements += tokens * _inner(part.shared) / c.tensor
        return elements


def _inner(part: Mlp) -> int:
    return (3 if part.gated else 2) * part.inner
