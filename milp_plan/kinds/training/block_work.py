"""What blocks, embedding and head compute, move and send, without any rate.

All quantities are of one device and one micro-batch. Elementwise kernels are counted by the
elements they read and write; numbers of kernels are those of PyTorch's operators in Megatron's and
nanotron's layers, rounded.
"""

from __future__ import annotations

from .activations import Activations, Known, recall, width_of
from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe
from .collectives import Traffic
from .configuration import FASTER, Configuration, Recompute
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

Kinds = tuple[tuple[Block, int], ...]
"""Different blocks, and how many there are of each."""


def parameters_of(block: Block, c: Configuration) -> tuple[float, float]:
    """Return parameters of a block on a device, unsharded: all but experts, and experts."""
    experts = block.expert_parameters
    return (block.parameters - experts) / c.tensor, experts / (c.expert * c.expert_tensor)


class BlockCounter:
    """Counts the work of blocks, embedding and head of one configuration."""

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
        return recall(self.known, ("block", id(block)), self._block, block)

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
        return sum(parameters_of(block, self.configuration))

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
