"""What a step computes, moves and sends, without any rate: operations, bytes, kernels, traffic.

Everything here follows from architecture, cluster and configuration alone. :mod:`.costs` turns it
into times. All quantities are of one device and one micro-batch unless they say otherwise.

Elementwise kernels are counted by the elements they read and write; numbers of kernels are those of
PyTorch's operators in Megatron's and nanotron's layers, rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .activations import Activations
from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe
from .cluster import TrainingCluster
from .collectives import Traffic, point_to_point
from .configuration import FASTER, Configuration, Offload, Recompute
from .efficiency import Software
from .passes import Compute, Pass, Passes
from .profile import MeasuredBlock
from .ranks import Layout

ATTENTION_KERNELS = 12
MLP_KERNELS = 8
MOE_KERNELS = 40
SCORE_PASSES = 5
"""How often an unfused forward attention reads or writes its scores: product, scale and mask,
softmax, dropout, product with values."""


ALIGNED, UNALIGNED = 16, 1.3
"""Elements of which the sides of a product should be multiples, and its time where they are not
(14400 / 8 = 1800 columns in the runs before BLOOM)."""

ALIGNED_HEAD, UNALIGNED_HEAD = 8, 16.0
"""The same for heads of unfused attention: products of other sizes run without tensor cores."""

SCORE_BATCH = 4
"""Megatron's fused softmax needs heads x samples in multiples of this."""


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


Kinds = tuple[tuple[Block, int], ...]
"""Different blocks, and how many there are of each."""

Known = dict[Any, dict[Any, Any]]
"""Width of a configuration -> what its blocks do, by their identity."""


def width_of(c: Configuration) -> tuple[Any, ...]:
    """Return what passes and activations of a block depend on."""
    degrees = (c.tensor, c.context, c.expert, c.expert_tensor, c.micro_batch)
    return (*degrees, c.recompute, c.sequence_parallel, c.precision, c.pipeline > 1)


class Counter:
    """Counts the work of one configuration."""

    def __init__(
        self,
        architecture: Architecture,
        layout: Layout,
        sequence: int,
        software: Software,
        *,
        known: Known | None = None,
    ) -> None:
        self.known = {} if known is None else known.setdefault(width_of(layout.configuration), {})
        self.architecture = architecture
        self.layout = layout
        self.configuration = layout.configuration
        self.sequence = sequence
        self.software = software
        self.size = architecture.precision_bytes
        self.activations = Activations(architecture, self.configuration, sequence, software)
        self.flop_share = 1 / FASTER[self.configuration.precision]

    # -- pieces ------------------------------------------------------------------------------

    def product(self, rows: float, inner: float, columns: float, weights: float = 1) -> Compute:
        """One matrix product of ``rows`` tokens, with ``weights`` matrices of that shape."""
        moved = rows * (inner + columns) + weights * inner * columns
        flops = 2 * rows * inner * columns * self.flop_share
        if inner % ALIGNED or columns % ALIGNED:
            flops *= UNALIGNED
        return Compute(matrix_flops=flops, matrix_bytes=self.size * moved, kernels=1)

    def moved(self, elements: float, kernels: float = 0.0) -> Compute:
        """Elements that a kernel reads and writes."""
        return Compute(moved_bytes=self.size * elements, kernels=kernels)

    def attention(self, block: Block, tokens: float) -> tuple[Compute, Compute]:
        """Projections, and the core that selective recomputation runs again."""
        a, t, h = block.attention, self.configuration.tensor, block.hidden
        queries, results = a.heads * a.query_size / t, a.heads * a.output_size / t
        if a.latent:
            rank = a.query_rank
            products = self.product(tokens, h, a.kv_rank + a.rope_size + rank)
            up = a.heads * (a.head_size + a.value_size) / t
            products = products.plus(self.product(tokens, a.kv_rank, up))
            if rank:
                products = products.plus(self.product(tokens, rank, queries))
            else:
                products = products.plus(self.product(tokens, h, queries))
            keys = up + a.heads * a.rope_size / t
        else:
            keys = 2 * max(a.kv_heads / t, 1) * a.head_size
            products = self.product(tokens, h, queries + keys)
        products = products.plus(self.product(tokens, results, h))
        rope = self.moved(2 * tokens * (queries + keys / 2), ATTENTION_KERNELS)
        return products.plus(rope), self.core(a, block, tokens, queries + keys + results)

    def core(self, a: Attention, block: Block, tokens: float, width: float) -> Compute:
        """Scores of attention and their product with values."""
        c = self.configuration
        length = block.length(self.sequence)
        samples = c.micro_batch / c.context
        if self.software.fused_attention:
            flops = a.core_flops(length) * samples / c.tensor
            return Compute(attention_flops=flops, moved_bytes=self.size * tokens * width, kernels=1)
        square = length * length * samples * a.heads / c.tensor
        flops = 2 * square * (a.query_size + a.output_size)
        if a.query_size % ALIGNED_HEAD:
            flops *= UNALIGNED_HEAD
        whole = (samples * a.heads / c.tensor) % SCORE_BATCH == 0
        passes, kernels = (SCORE_PASSES, 6) if whole else (2 * SCORE_PASSES, 16)
        moved = self.size * square * passes
        return Compute(attention_flops=flops, moved_bytes=moved, kernels=kernels)

    def mlp(self, part: Mlp, hidden: int, tokens: float, tensor: int) -> Compute:
        """A dense part: its projections, and what lies between them."""
        width = part.inner / tensor
        up = self.product(tokens, hidden, (2 if part.gated else 1) * width)
        down = self.product(tokens, width, hidden)
        passes = 3 if part.gated else 2
        return up.plus(down).plus(self.moved(passes * tokens * width, MLP_KERNELS))

    def moe(self, part: Moe, hidden: int, tokens: float) -> tuple[Compute, float]:
        """Router, experts and permutations; and the elements that a device dispatches."""
        c = self.configuration
        own = self.own(tokens)
        visits = own * part.active * c.expert_tensor
        matrices = self.experts_read(part, own)
        width = part.inner / c.expert_tensor
        columns = (2 if part.gated else 1) * width
        work = self.product(own, hidden, part.experts)
        experts = self.product(visits, hidden, columns, matrices)
        experts = experts.plus(self.product(visits, width, hidden, matrices))
        flops = experts.matrix_flops
        work = work.plus(experts._replace(matrix_flops=0.0, grouped_flops=flops))
        work = work.plus(self.moved(3 * visits * width + 6 * visits * hidden, MOE_KERNELS))
        if part.shared:
            work = work.plus(self.mlp(part.shared, hidden, tokens, c.tensor))
        return work, own * part.active * hidden

    def own(self, tokens: float) -> float:
        """Tokens of a device that it sends to experts, of those of all its tensor ranks."""
        return tokens / self.configuration.tensor

    def experts_read(self, part: Moe, _tokens: float) -> float:
        """Experts of a device whose matrices are read: all, as tokens are many in training."""
        return part.experts / self.configuration.expert

    # -- blocks ------------------------------------------------------------------------------

    def block(self, block: Block) -> Passes:
        """Passes of a block, looked up where they are known."""
        key = ("block", id(block))
        if key not in self.known:
            self.known[key] = self._block(block)
        found: Passes = self.known[key]
        return found

    def _measured(self, block: MeasuredBlock) -> Passes:
        again = block.forward_s if self.configuration.recompute is Recompute.FULL else 0.0
        seconds = (block.forward_s, block.backward_s + again, block.weight_s)
        passes = Passes(*(Pass(Compute(measured_s=each)) for each in seconds))
        return self._copied(block, passes)

    def _copied(self, block: Block, passes: Passes) -> Passes:
        """Return passes with the copies of activations to the host and back."""
        copy = Pass(copied_bytes=self.activations.copied(block))
        return Passes(passes.forward.plus(copy), passes.backward.plus(copy), passes.weight)

    def _block(self, block: Block) -> Passes:
        if isinstance(block, MeasuredBlock):
            return self._measured(block)
        c, h = self.configuration, block.hidden
        tokens = c.micro_batch * block.length(self.sequence) / c.context
        own = tokens / c.tensor if c.sequence_parallel else tokens
        products, core = self.attention(block, tokens)
        norms = self.moved(10 * own * h, 4)
        if isinstance(block.feed_forward, Moe):
            feed, dispatched = self.moe(block.feed_forward, h, tokens)
        else:
            feed, dispatched = self.mlp(block.feed_forward, h, tokens, c.tensor), 0.0
        dense = products.plus(feed).plus(norms)
        tensor = self.layout.tensor.all_reduce(self.size * tokens * h).times(2)
        if dispatched and c.tensor > 1:
            tensor = tensor.times(0.5)
        expert = self._dispatch(self.size * dispatched, block.feed_forward)
        context = self._context(block, tokens)
        forward = Pass(dense.plus(core), tensor, expert, context)
        passes = self._backward(block, forward, dense, core)
        return self._copied(block, passes) if c.recompute is Recompute.OFFLOAD else passes

    def _light(self, block: Block) -> Compute:
        """Return what light recomputation computes again."""
        c, a, part, h = self.configuration, block.attention, block.feed_forward, block.hidden
        tokens = self.activations.tokens(block)
        norms = a.latent + isinstance(part, Moe)
        work = self.moved(2 * norms * self.activations.stream(tokens * h), norms)
        if a.latent:
            up = a.heads * (a.head_size + a.value_size) / c.tensor
            queries = a.heads * a.query_size / c.tensor
            work = work.plus(self.product(tokens, a.kv_rank, up))
            work = work.plus(self.product(tokens, a.query_rank or h, queries))
            work = work.plus(self.moved(2 * tokens * (queries + up), 2))
        if isinstance(part, Moe):
            visits = tokens / c.tensor * part.active * c.expert_tensor
            work = work.plus(self.moved(3 * visits * part.inner / c.expert_tensor, 1))
        return work

    def _dispatch(self, sent: float, part: Mlp | Moe) -> Traffic:
        """Tokens to experts and back, of which a device sends ``sent`` bytes.

        Where experts are split, their ranks gather what each of them got, and scatter the sums.
        """
        once = None
        if isinstance(part, Moe) and part.nodes:
            once = sent * min(1.0, part.nodes / part.active)
        ranks = self.configuration.expert_tensor
        split, whole = self.layout.expert_split, sent * ranks
        gathered = split.all_gather(whole).plus(split.reduce_scatter(whole))
        return self.layout.expert.all_to_all(sent, once).times(2).plus(gathered)

    def _context(self, block: Block, tokens: float) -> Traffic:
        a, c = block.attention, self.configuration
        keys = (
            a.kv_rank + a.rope_size if a.latent else 2 * max(a.kv_heads / c.tensor, 1) * a.head_size
        )
        return self.layout.context.ring_pass(self.size * tokens * keys)

    def _backward(self, block: Block, forward: Pass, dense: Compute, core: Compute) -> Passes:
        if block.frozen and not block.needs_input_gradient:
            return Passes(forward)
        inputs = Compute(
            dense.matrix_flops,
            dense.grouped_flops,
            dense.matrix_bytes,
            2 * core.attention_flops,
            1.5 * dense.moved_bytes + 2 * core.moved_bytes,
            dense.kernels + 2 * core.kernels,
        )
        weights = dense._replace(moved_bytes=0.0, kernels=dense.kernels / 2)
        backward = Pass(inputs, forward.tensor, forward.expert, forward.context.times(2))
        recompute = self.configuration.recompute
        if recompute is Recompute.FULL:
            backward = backward.plus(forward)
        elif recompute is Recompute.ATTENTION:
            backward = backward.plus(Pass(core))
        elif recompute is Recompute.LIGHT:
            backward = backward.plus(Pass(self._light(block)))
        if not block.frozen:
            added = 2 * self.software.gradient_bytes * self.local(block)
            weights = weights.plus(Compute(moved_bytes=added))
        return Passes(forward, backward, Pass() if block.frozen else Pass(weights))

    def local(self, block: Block) -> float:
        """Parameters of a block on one device, before any sharding over data ranks."""
        c = self.configuration
        experts = block.expert_parameters
        return (block.parameters - experts) / c.tensor + experts / (c.expert * c.expert_tensor)

    def head(self) -> Passes:
        """Last norm, head and loss, once."""
        c, model = self.configuration, self.architecture
        tokens = c.micro_batch * self.sequence / c.context
        rows = c.micro_batch if model.output_classes else tokens
        width = model.head_outputs / c.tensor
        product = self.product(rows, model.hidden, width)
        loss = Compute(moved_bytes=4.0 * self.software.logit_bytes * rows * width, kernels=20)
        tensor = self.layout.tensor.all_reduce(4 * 3 * rows)
        back = Pass(
            product.plus(loss.times(0.5)),
            self.layout.tensor.all_reduce(self.size * rows * model.hidden),
        )
        return Passes(Pass(product.plus(loss), tensor), back, Pass(product))

    def embedding(self) -> Passes:
        """What is before the first block."""
        c, model = self.configuration, self.architecture
        tokens = c.micro_batch * self.sequence / c.context
        moved = self.moved(3 * tokens * model.hidden, 6)
        tensor = self.layout.tensor.all_reduce(self.size * tokens * model.hidden)
        return Passes(Pass(moved, tensor), Pass(), Pass(moved))

    # -- stages ------------------------------------------------------------------------------

    def passes(self, kinds: Kinds, first: bool, last: bool) -> Passes:
        """Passes of some blocks, with what is before the first and after the last."""
        key = ("passes", id(kinds), first, last)
        if key not in self.known:
            self.known[key] = self._passes(kinds, first, last)
        found: Passes = self.known[key]
        return found

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
        key = (
            "stage",
            id(kinds),
            first,
            last,
            crosses,
            sent,
            c.zero,
            c.offload,
            c.data,
            self.layout.node_devices,
        )
        if key not in self.known:
            self.known[key] = self._stage(kinds, first, last, crosses, sent)
        found: StageWork = self.known[key]
        return found

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
