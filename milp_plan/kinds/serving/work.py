"""What passes of inference compute, read and send, block by block.

A prefill pass computes prompts; a decode pass computes one token of every sequence, reads all
weights once and the cache of keys and values of every sequence. Of experts only those are read
that some token visits: of ``e`` experts of which a token visits ``a`` at random, ``n`` tokens visit
``e (1 - (1 - a/e)^n)`` in expectation.
"""

from __future__ import annotations

import math
from dataclasses import replace

from milp_plan.kinds.training.architecture import Architecture
from milp_plan.kinds.training.block_work import BlockCounter
from milp_plan.kinds.training.blocks import Attention, Block, Moe
from milp_plan.kinds.training.collectives import Traffic
from milp_plan.kinds.training.efficiency import Software
from milp_plan.kinds.training.passes import Compute
from milp_plan.kinds.training.ranks import Layout

from .problem import element_bytes

BLOCK_KERNELS, MOE_KERNELS = 10, 8
"""Kernels of a block with fused norms, and what a mixture of experts adds."""

PAGE = 16
"""Tokens of a page of the cache, as in vLLM (Kwon et al., arXiv:2309.06180)."""


def cache_elements(attention: Attention, tensor: int) -> float:
    """Elements that one token of one block keeps on a device; latent ones are on every rank."""
    if attention.latent:
        return attention.kv_rank + attention.rope_size
    return 2 * max(attention.kv_heads / tensor, 1) * attention.head_size


def seen_tokens(block: Block, context: int) -> int:
    """Tokens that a new token attends to; none in a block of its own length, such as a tower's."""
    if block.tokens is not None:
        return 0
    window = block.attention.window
    return context if window is None else min(window, context)


class PassCounter(BlockCounter):
    """Counts the work of passes of inference.

    Parameters
    ----------
    architecture
        The model, without multi-token prediction.
    layout
        Degrees and nodes; its configuration has the sequences of one pass.
    software
        The framework of the costs; attention is fused.
    sequence
        Tokens of each sequence that a pass computes: a prompt, or 1.
    context
        Tokens that a new token of a decode pass attends to; 0 for a prefill pass.
    cache_bytes
        Bytes of an element of keys and values.
    whole_tokens
        Whether tokens are whole; a bound divides them in fractions.
    """

    def __init__(
        self,
        architecture: Architecture,
        layout: Layout,
        software: Software,
        *,
        sequence: int,
        context: int,
        cache_bytes: int,
        whole_tokens: bool = True,
    ) -> None:
        super().__init__(architecture, layout, sequence, replace(software, fused_attention=True))
        self.context, self.cache_bytes = context, cache_bytes
        self.whole_tokens = whole_tokens
        self.weight_bytes = element_bytes(layout.configuration.precision)

    def product(self, rows: float, inner: float, columns: float, weights: float = 1) -> Compute:
        """One matrix product; weights have bytes of their own."""
        made = super().product(rows, inner, columns, weights)
        less = (self.size - self.weight_bytes) * weights * inner * columns
        return made._replace(matrix_bytes=made.matrix_bytes - less)

    def core(self, a: Attention, block: Block, tokens: float, width: float) -> Compute:
        """Scores and values; of a decode pass they read the cache."""
        if not self.context:
            return super().core(a, block, tokens, width)
        seen, t = seen_tokens(block, self.context), self.configuration.tensor
        sizes = (a.kv_rank + a.rope_size + a.kv_rank) if a.latent else a.query_size + a.output_size
        flops = 2 * tokens * seen * a.heads * sizes / t
        read = self.cache_bytes * tokens * seen * cache_elements(a, t)
        return Compute(attention_flops=flops, moved_bytes=read)

    def own(self, tokens: float) -> float:
        """Tokens of a device that it sends to experts; those of the fullest group of experts.

        Where tensor ranks have several copies of the experts, a token goes to one of them, and the
        others have none while it is computed.
        """
        c = self.configuration
        group = c.expert * c.expert_tensor
        if not self.whole_tokens or group >= c.tensor:
            return super().own(tokens)
        return math.ceil(tokens * group / c.tensor) / group

    def experts_read(self, part: Moe, tokens: float) -> float:
        """Experts of a device that some token of its group visits, in expectation."""
        c = self.configuration
        together = tokens * c.expert * c.expert_tensor
        visited: float = 1 - (1 - part.active / part.experts) ** together
        return visited * part.experts / c.expert

    def pieces(self, block: Block) -> tuple[list[Compute], Traffic, Traffic]:
        """Projections, attention and feed-forward part of a block; tensor and expert traffic."""
        c, h = self.configuration, block.hidden
        tokens = c.micro_batch * block.length(self.sequence)
        if self.context and block.tokens is not None:
            return [], Traffic(), Traffic()
        products, core = self.attention(block, tokens)
        once = self.layout.tensor.all_reduce(self.size * tokens * h)
        kernels, expert = BLOCK_KERNELS, Traffic()
        if isinstance(block.feed_forward, Moe):
            feed, dispatched = self.moe(block.feed_forward, h, tokens)
            kernels += MOE_KERNELS
            expert = self.layout.expert.all_to_all(self.size * dispatched).times(2)
            split = c.expert_tensor > 1 or block.feed_forward.shared is not None
            tensor = once.times(2 if split else 1)
        else:
            feed, tensor = self.mlp(block.feed_forward, h, tokens, c.tensor), once.times(2)
        norms = self.moved(4 * tokens * h)
        work = [products.plus(norms), core, feed]
        return [part._replace(kernels=kernels / 3) for part in work], tensor, expert

    def last(self) -> tuple[Compute, Traffic]:
        """Head of the last token of every sequence, and what samples the next one."""
        c, model = self.configuration, self.architecture
        width = model.head_outputs / c.tensor
        head = self.product(c.micro_batch, model.hidden, width)
        logits = Compute(moved_bytes=4.0 * 2 * c.micro_batch * width, kernels=5)
        return head.plus(logits), self.layout.tensor.all_gather(4 * c.micro_batch * 2 * c.tensor)

    def first(self) -> tuple[Compute, Traffic]:
        """Rows of the embedding of every token."""
        elements = self.configuration.micro_batch * self.sequence * self.architecture.hidden
        traffic = self.layout.tensor.all_reduce(self.size * elements)
        return self.moved(2 * elements, 2), traffic
