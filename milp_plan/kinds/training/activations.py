"""What a block keeps of a micro-batch until its backward pass, on the device and on the host.

After Korthikanti et al. (arXiv:2205.05198), for fused kernels. With ``x`` the elements of the
residual stream of a micro-batch (tokens times hidden, over tensor ranks under sequence
parallelism), ``q``, ``k`` the elements of queries and of keys and values, and ``f`` those of the
inner activations, all of one tensor rank, a block keeps

==================== ============================================================
norms                ``2 x`` each: their inputs
attention            ``x`` (its input), ``q + k``, ``q`` (its result)
dense part           ``x`` (its input), ``2 f + f`` gated, ``f + f`` not
experts              as much for every token that visits one, and its input and result
dropout              a byte for each element of three masks, where there is dropout
unfused attention    ``5 a s s`` bytes a sample: scores, their softmax and mask
==================== ============================================================

elements of :attr:`~.architecture.Architecture.precision_bytes`. Light recomputation leaves out the
results of norms before experts and latent attention, one ``f`` of experts and what latent attention
projects up; full recomputation keeps ``x``. Offload moves all of it to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from .architecture import Architecture
from .blocks import Block, Mlp, Moe
from .configuration import Configuration, Recompute
from .efficiency import Software
from .profile import MeasuredBlock

A = ParamSpec("A")
T = TypeVar("T")

Known = dict[Any, dict[Any, Any]]
"""Width of a configuration -> what its blocks do, by their identity."""


def width_of(c: Configuration) -> tuple[Any, ...]:
    """Return what passes and activations of a block depend on."""
    degrees = (c.tensor, c.context, c.expert, c.expert_tensor, c.micro_batch)
    return (*degrees, c.recompute, c.sequence_parallel, c.precision, c.pipeline > 1)


def recall(
    known: dict[Any, Any], key: Any, make: Callable[A, T], *args: A.args, **more: A.kwargs
) -> T:
    """Return what is known under a key; make and store it where nothing is."""
    if key not in known:
        known[key] = make(*args, **more)
    return cast("T", known[key])


class Activations:
    """Measures the blocks of one configuration, in bytes of one micro-batch and device.

    Parameters
    ----------
    architecture, configuration, sequence, software
        As of :func:`.memory.device_memory`.
    known
        What is stored for the next configuration, as of :func:`.work.stage_works`.
    """

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
        self.architecture, self.configuration = architecture, configuration
        self.sequence, self.software = sequence, software
        self.size = architecture.precision_bytes

    def kept(self, block: Block) -> float:
        """Bytes on the device, looked up where they are known."""
        return recall(self.known, ("kept", id(block)), self._kept, block)

    def _kept(self, block: Block) -> float:
        recompute = self.configuration.recompute
        if recompute is Recompute.OFFLOAD or _passed_over(block):
            return 0.0
        if recompute is Recompute.FULL:
            if isinstance(block, MeasuredBlock):
                return block.input_bytes
            return self.size * self.stream(self.tokens(block) * block.hidden)
        return self.block(block, recompute)

    def copied(self, block: Block) -> float:
        """Bytes on the host: what goes there in the forward pass, and back in the backward one."""
        if self.configuration.recompute is not Recompute.OFFLOAD or _passed_over(block):
            return 0.0
        return self.block(block)

    def buffer(self, block: Block) -> float:
        """Bytes that exist while the block runs, beside what it keeps.

        What is computed again is there once. Two blocks' activations are on the device while they
        are copied, so that copies of one go on beside the passes of the other.
        """
        recompute = self.configuration.recompute
        if recompute is Recompute.FULL:
            return self.block(block)
        if recompute is Recompute.LIGHT:
            return self.block(block) - self.block(block, recompute)
        return 2 * self.copied(block)

    def stream(self, elements: float) -> float:
        """Elements of the residual stream on one tensor rank."""
        c = self.configuration
        return elements / c.tensor if c.sequence_parallel else elements

    def tokens(self, block: Block) -> float:
        """Tokens of a micro-batch in a block on one context rank."""
        c = self.configuration
        return c.micro_batch * block.length(self.sequence) / c.context

    def block(self, block: Block, recompute: Recompute = Recompute.NONE) -> float:
        """Bytes of a block's activations, without what is computed again."""
        if isinstance(block, MeasuredBlock):
            return block.activation_bytes
        c, a, software = self.configuration, block.attention, self.software
        light = recompute is Recompute.LIGHT
        tokens, t = self.tokens(block), c.tensor
        stream = self.stream(tokens * block.hidden)
        gathers = software.gathered_activations and c.pipeline == 1
        gathered = tokens * block.hidden if gathers else stream
        queries, results = a.heads * a.query_size / t, a.heads * a.output_size / t
        if a.latent:
            ranks = a.kv_rank + a.rope_size + a.query_rank
            whole = a.heads * (a.query_size + a.output_size) / t + queries
            products = ranks if light else ranks + a.query_rank + a.kv_rank + whole
        else:
            products = queries + 2 * max(a.kv_heads / t, 1) * a.head_size
        norms = 2 - light * (a.latent + isinstance(block.feed_forward, Moe))
        elements = 2 * stream + norms * gathered + tokens * (products + results)
        masks = 0.0
        if software.dropout and block.norm_bias:
            masks = 2 * stream
        scores = 4 * tokens * a.heads / t
        if not software.fused_attention:
            core = recompute is not Recompute.ATTENTION
            scores = 5 * tokens * block.length(self.sequence) * a.heads / t if core else 0.0
        feed = self.feed_forward(block, tokens, light)
        return software.activation_factor * self.size * (elements + feed) + masks + scores

    def feed_forward(self, block: Block, tokens: float, light: bool) -> float:
        """Elements that the feed-forward part keeps beside its input."""
        c, part = self.configuration, block.feed_forward
        if isinstance(part, Mlp):
            return tokens * _inner(part) / c.tensor
        visits = tokens / c.tensor * part.active * c.expert_tensor
        inner = _inner(part.expert) - (part.inner if light else 0)
        elements = visits * (inner / c.expert_tensor + 2 * block.hidden)
        elements += tokens / c.tensor * 2 * part.experts
        if part.shared:
            elements += tokens * _inner(part.shared) / c.tensor
        return elements


def _passed_over(block: Block) -> bool:
    """Whether no backward pass runs through a block."""
    return block.frozen and not block.needs_input_gradient


def _inner(part: Mlp) -> int:
    return (3 if part.gated else 2) * part.inner
