"""What a step computes, moves and sends, without any rate: operations, bytes, kernels, traffic.

Everything here follows from architecture, cluster and configuration alone. :mod:`.costs` turns it
into times. All quantities are of one device and one micro-batch unless they say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from .activations import Known, recall
from .architecture import Architecture
from .block_work import BlockCounter, Kinds
from .cluster import TrainingCluster
from .collectives import Traffic, point_to_point
from .configuration import Configuration, Offload
from .efficiency import Software
from .passes import Passes
from .profile import MeasuredBlock
from .ranks import Layout


@dataclass(frozen=True, slots=True)
class StageWork:
    """What one pipeline device does.

    Parameters
    ----------
    passes
        Of one micro-batch, over all its chunks.
    transfer
        Traffic of sending the boundary to the next device once; nothing without a pipeline.
    reduce
        Traffic of gradients, and of parameters that are gathered, once per step.
    gather
        Traffic once per micro-batch: of gradients where they are sharded, and of parameters where
        they are.
    optimizer_bytes
        Bytes that the optimizer reads and writes, in the memory of the device or of the host.
    copied_bytes
        Bytes that are copied to the host and back for the optimizer.
    parameters, sharded_parameters
        Trained parameters on this device, and those of which it has the optimizer's state.
    frozen_parameters
        Parameters on this device that are not trained; they are never sharded over data ranks.
    """

    passes: Passes
    transfer: Traffic
    reduce: Traffic
    gather: Traffic
    optimizer_bytes: float
    copied_bytes: float
    parameters: float
    sharded_parameters: float
    frozen_parameters: float = 0.0


def stage_works(
    architecture: Architecture,
    cluster: TrainingCluster,
    configuration: Configuration,
    sequence: int,
    software: Software,
    *,
    known: Known | None = None,
) -> tuple[StageWork, ...]:
    """Return what each pipeline device does; equal devices share one object.

    ``known`` keeps what blocks do for the next configuration of the same width.
    """
    node = min(group.node_devices for group in cluster.groups)
    layout = Layout(configuration, node)
    counter = Counter(architecture, layout, sequence, software, known=known)
    made: dict[tuple[object, ...], StageWork] = {}
    works = []
    for stage in range(configuration.pipeline):
        chunks = configuration.chunks_of(stage)
        kinds = architecture.kinds(configuration.spans(architecture, stage))
        first, last = 0 in chunks, configuration.chunks - 1 in chunks
        crosses = _crosses(configuration, stage, node)
        sent = _sent(architecture, configuration, stage)
        key = (id(kinds), first, last, crosses, sent)
        if key not in made:
            made[key] = counter.stage(kinds, first, last, crosses, sent)
        works.append(made[key])
    return tuple(works)


def _sent(architecture: Architecture, configuration: Configuration, stage: int) -> int:
    """Bytes that measured layers send after their chunks, the most of them; 0 for other blocks."""
    if not architecture.measured_batch or configuration.pipeline == 1:
        return 0
    ends = (start + count for start, count in configuration.spans(architecture, stage) if count)
    last = [architecture.blocks[end - 1] for end in ends if end < len(architecture.blocks)]
    return max((each.output_bytes for each in last if isinstance(each, MeasuredBlock)), default=0)


def _crosses(configuration: Configuration, stage: int, node: int) -> bool:
    """Whether the next pipeline device is in another node."""
    if configuration.pipeline == 1:
        return False
    size, after = configuration.stage_devices, (stage + 1) % configuration.pipeline
    return stage * size // node != after * size // node


class Counter(BlockCounter):
    """Counts the work of pipeline stages of one configuration."""

    def passes(self, kinds: Kinds, first: bool, last: bool) -> Passes:
        """Passes of some blocks, with what is before the first and after the last."""
        key = ("passes", id(kinds), first, last)
        return recall(self.known, key, self._passes, kinds, first, last)

    def _passes(self, kinds: Kinds, first: bool, last: bool) -> Passes:
        prediction = self.architecture.prediction
        passes = Passes()
        for block, count in kinds:
            passes = passes.plus(self.block(block).times(count))
        if first and self.architecture.embedding_parameters:
            passes = passes.plus(self.embedding())
        if last and self.architecture.head_outputs:
            passes = passes.plus(self.head().times(1 + (prediction.modules if prediction else 0)))
            if prediction:
                passes = passes.plus(self.block(prediction.block).times(prediction.modules))
        return passes

    def parameters(self, kinds: Kinds, first: bool, last: bool) -> tuple[float, float]:
        """Trained parameters on a device before any sharding: all but experts, and experts."""
        c, model = self.configuration, self.architecture
        dense = experts = 0.0
        for block, count in kinds:
            if not block.frozen:
                routed = block.expert_parameters
                dense += count * (block.parameters - routed) / c.tensor
                experts += count * routed / (c.expert * c.expert_tensor)
        if first:
            dense += model.embedding_parameters / c.tensor
        if last:
            shared = model.tied and not first
            dense += (model.head_parameters + shared * model.vocabulary * model.hidden) / c.tensor
            if model.prediction:
                modules = model.prediction
                routed = modules.modules * modules.block.expert_parameters
                dense += (modules.parameters - routed) / c.tensor
                experts += routed / (c.expert * c.expert_tensor)
        return dense, experts

    def frozen(self, kinds: Kinds) -> float:
        """Parameters on a device that are not trained."""
        return sum(count * self.local(block) for block, count in kinds if block.frozen)

    def stage(
        self, kinds: Kinds, first: bool, last: bool, crosses: bool, sent: int = 0
    ) -> StageWork:
        """Return what a pipeline device does, looked up where it is known."""
        c = self.configuration
        shape, node = (first, last, crosses, sent), self.layout.node_devices
        key = ("stage", id(kinds), *shape, c.zero, c.offload, c.data, node)
        return recall(self.known, key, self._stage, kinds, *shape)

    def _stage(self, kinds: Kinds, first: bool, last: bool, crosses: bool, sent: int) -> StageWork:
        c, model = self.configuration, self.architecture
        passes = self.passes(kinds, first, last)
        dense, experts = self.parameters(kinds, first, last)
        reduce, gather, sharded = self._data(dense, experts)
        transfer = Traffic()
        if c.pipeline > 1:
            tokens = c.micro_batch * self.sequence / c.context
            scattered = self.software.scattered_sends and not c.sequence_parallel
            own = tokens / c.tensor if c.sequence_parallel or scattered else tokens
            boundary = sent if model.measured_batch else self.size * own * model.hidden
            transfer = point_to_point(boundary, crosses)
            if scattered:
                whole = self.size * tokens * model.hidden
                transfer = transfer.plus(self.layout.tensor.all_gather(whole))
        moved = self.software.optimizer_moved
        copied = 0.0
        if c.offload is Offload.OPTIMIZER:
            copied = self.software.optimizer_copied * sharded
        parameters = (dense + experts, sharded, self.frozen(kinds))
        return StageWork(passes, transfer, reduce, gather, moved * sharded, copied, *parameters)

    def _data(self, dense: float, experts: float) -> tuple[Traffic, Traffic, float]:
        """Traffic of gradients per step and of parameters per micro-batch; sharded parameters."""
        c, layout = self.configuration, self.layout
        gradient = min(self.software.gradient_bytes, 4)
        step = gather = Traffic()
        sharded = 0.0
        for group, count in ((layout.data, dense), (layout.expert_data, experts)):
            if not count:
                continue
            if c.zero == 0:
                step = step.plus(group.all_reduce(gradient * count))
                sharded += count
                continue
            sharded += count / group.ranks
            if c.zero == 3:
                gather = gather.plus(group.all_gather(self.size * count).times(2))
                gather = gather.plus(group.reduce_scatter(gradient * count))
                continue
            scattered = group.reduce_scatter(gradient * count)
            step = step.plus(group.all_gather(self.size * count))
            if c.zero == 2:
                gather = gather.plus(scattered)
            else:
                step = step.plus(scattered)
        return step, gather, sharded
