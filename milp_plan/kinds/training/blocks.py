"""The parts of a transformer: attention, feed-forward parts, blocks, multi-token prediction.

Counts of parameters and floating-point operations are exact integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from milp_plan.core import Finding
from milp_plan.core.errors import below_findings


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention, grouped-query attention or multi-head latent attention.

    Parameters
    ----------
    heads, kv_heads
        Heads of queries, and of keys and values.
    head_size
        Elements of a query and key head; with latent attention, those without position (``nope``).
    causal
        Whether a token attends to earlier tokens alone.
    window
        Tokens of a sliding window; ``None`` for all.
    query_rank, kv_rank, rope_size, value_size
        Latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of the compressed queries (0 for
        uncompressed) and of keys and values, elements of a head with rotary position, elements of
        a value head. ``kv_rank`` 0 means ordinary attention, and the others are not used.
    bias, output_bias
        Whether the projections to queries, keys and values, and that of the output, have a bias.
    query_key_norm
        Whether queries and keys pass an RMS norm of one head's size each (Qwen 3).
    sinks
        Whether each head has a learned sink (GPT-OSS).
    """

    heads: int
    kv_heads: int
    head_size: int
    causal: bool = True
    window: int | None = None
    query_rank: int = 0
    kv_rank: int = 0
    rope_size: int = 0
    value_size: int = 0
    bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    sinks: bool = False

    @property
    def latent(self) -> bool:
        """Whether keys and values are compressed."""
        return self.kv_rank > 0

    @property
    def query_size(self) -> int:
        """Elements of a head of queries and keys."""
        return self.head_size + (self.rope_size if self.latent else 0)

    @property
    def output_size(self) -> int:
        """Elements of a head of values, and of the attention's result."""
        return self.value_size if self.latent else self.head_size

    def matrix_parameters(self, hidden: int) -> int:
        """Parameters of the projections; a token multiplies with each of them once."""
        output = self.heads * self.output_size * hidden
        if not self.latent:
            return hidden * self.head_size * (self.heads + 2 * self.kv_heads) + output
        queries = self.heads * self.query_size
        rank = self.query_rank
        query = hidden * rank + rank * queries if rank else hidden * queries
        keys = hidden * (self.kv_rank + self.rope_size)
        keys += self.kv_rank * self.heads * (self.head_size + self.value_size)
        return query + keys + output

    def vector_parameters(self, hidden: int) -> int:
        """Parameters of biases, norms and sinks."""
        count = self.query_rank + self.kv_rank if self.latent else 0
        if self.bias:
            count += self.head_size * (self.heads + 2 * self.kv_heads)
        count += hidden * self.output_bias + self.heads * self.sinks
        return count + 2 * self.head_size * self.query_key_norm

    def pairs(self, sequence: int) -> int:
        """Twice the number of pairs (token, token it attends to) of one sequence.

        A causal kernel computes half of the square, as measured runs count it: ``sequence**2`` is
        twice that half. A window bounds the tokens that one token attends to.
        """
        if self.window is not None and self.window < sequence:
            if self.causal:
                return self.window * (2 * sequence - self.window)
            return 2 * sequence * self.window
        return sequence * sequence if self.causal else 2 * sequence * sequence

    def core_flops(self, sequence: int) -> int:
        """Forward operations of scores and their product with values, for one sequence."""
        return self.pairs(sequence) * self.heads * (self.query_size + self.output_size)


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense feed-forward part.

    Parameters
    ----------
    inner
        Width between its two projections.
    gated
        Whether a third projection gates the inner activations (SwiGLU).
    bias
        Whether projections have biases.
    """

    inner: int
    gated: bool = True
    bias: bool = False

    def matrix_parameters(self, hidden: int) -> int:
        """Parameters of the projections."""
        return (3 if self.gated else 2) * hidden * self.inner

    def vector_parameters(self, hidden: int) -> int:
        """Parameters of biases."""
        return ((2 if self.gated else 1) * self.inner + hidden) * self.bias

    def active_matrix_parameters(self, hidden: int) -> int:
        """Parameters that one token multiplies with."""
        return self.matrix_parameters(hidden)


@dataclass(frozen=True, slots=True)
class Moe:
    """A mixture of experts.

    Parameters
    ----------
    experts, active
        Routed experts, and how many of them one token visits.
    inner
        Inner width of one routed expert.
    shared_inner
        Inner width of what every token visits, over all shared experts; 0 for none.
    gated, bias
        As of :class:`Mlp`, of every expert.
    router_bias
        Whether the router has one bias per expert.
    nodes
        Nodes on which the experts of a token lie at most, each of which gets the token once and
        spreads it; 0 if the router knows no such limit, and every expert is sent a copy.
    """

    experts: int
    active: int
    inner: int
    shared_inner: int = 0
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    nodes: int = 0

    @property
    def expert(self) -> Mlp:
        """One routed expert."""
        return Mlp(self.inner, self.gated, self.bias)

    @property
    def shared(self) -> Mlp | None:
        """What every token visits."""
        return Mlp(self.shared_inner, self.gated, self.bias) if self.shared_inner else None

    def expert_parameters(self, hidden: int) -> int:
        """Parameters of all routed experts, which expert parallelism divides."""
        return self.experts * (
            self.expert.matrix_parameters(hidden) + self.expert.vector_parameters(hidden)
        )

    def matrix_parameters(self, hidden: int) -> int:
        """Parameters of the projections of every expert, and of the router."""
        shared = self.shared.matrix_parameters(hidden) if self.shared else 0
        routed = self.experts * self.expert.matrix_parameters(hidden)
        return routed + shared + hidden * self.experts

    def vector_parameters(self, hidden: int) -> int:
        """Parameters of biases."""
        shared = self.shared.vector_parameters(hidden) if self.shared else 0
        routed = self.experts * self.expert.vector_parameters(hidden)
        return routed + shared + self.experts * self.router_bias

    def active_matrix_parameters(self, hidden: int) -> int:
        """Parameters that one token multiplies with: its experts, shared ones and the router."""
        shared = self.shared.matrix_parameters(hidden) if self.shared else 0
        routed = self.active * self.expert.matrix_parameters(hidden)
        return routed + shared + hidden * self.experts


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of a transformer: attention, feed-forward part and two norms.

    Parameters
    ----------
    hidden
        Width of the residual stream.
    attention
        The attention.
    feed_forward
        A dense part or a mixture of experts.
    norm_bias
        Whether its norms are layer norms with a bias; RMS norms have a scale alone.
    tokens
        Tokens of a sample that it sees; ``None`` for the sequence of the run.
    frozen
        Whether its parameters are not trained.
    needs_input_gradient
        Whether something before it is trained, so that gradients must pass through it.
    """

    hidden: int
    attention: Attention
    feed_forward: Mlp | Moe
    norm_bias: bool = False
    tokens: int | None = None
    frozen: bool = False
    needs_input_gradient: bool = True

    def length(self, sequence: int) -> int:
        """Tokens of one sample in this block, for a run with that sequence."""
        return sequence if self.tokens is None else self.tokens

    @property
    def norm_parameters(self) -> int:
        """Parameters of its two norms."""
        return 2 * self.hidden * (2 if self.norm_bias else 1)

    @property
    def attention_parameters(self) -> int:
        """Parameters of the attention, without norms of the block."""
        attention = self.attention
        return attention.matrix_parameters(self.hidden) + attention.vector_parameters(self.hidden)

    @property
    def feed_forward_parameters(self) -> int:
        """Parameters of the feed-forward part, every expert included."""
        part = self.feed_forward
        return part.matrix_parameters(self.hidden) + part.vector_parameters(self.hidden)

    @property
    def expert_parameters(self) -> int:
        """Parameters of routed experts, which expert parallelism divides; 0 of a dense block."""
        part = self.feed_forward
        return part.expert_parameters(self.hidden) if isinstance(part, Moe) else 0

    @property
    def parameters(self) -> int:
        """All its parameters."""
        return self.attention_parameters + self.feed_forward_parameters + self.norm_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token visits."""
        part = self.feed_forward
        idle = 0
        if isinstance(part, Moe):
            idle = part.expert_parameters(self.hidden) // part.experts
            idle *= part.experts - part.active
        return self.parameters - idle

    @property
    def token_matrix_parameters(self) -> int:
        """Matrix parameters that one token multiplies with; each costs 2 operations forward."""
        attention = self.attention.matrix_parameters(self.hidden)
        return attention + self.feed_forward.active_matrix_parameters(self.hidden)

    def flops(self, sequence: int) -> int:
        """Forward operations of one sample; a multiply-add counts as two, causal halves count."""
        length = self.length(sequence)
        return 2 * length * self.token_matrix_parameters + self.attention.core_flops(length)

    def backward_flops(self, sequence: int) -> int:
        """Backward operations of one sample, without recomputation.

        Twice the forward ones; frozen blocks have no products for their weights, and none at all
        where nothing before them is trained.
        """
        if self.frozen and not self.needs_input_gradient:
            return 0
        if self.frozen:
            core = self.attention.core_flops(self.length(sequence))
            return self.flops(sequence) + core
        return 2 * self.flops(sequence)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Multi-token prediction: modules after the last block that predict further tokens.

    Each has two norms, a projection of twice the hidden size, a block and a norm before the head;
    embedding and head are those of the model (DeepSeek-V3, arXiv:2412.19437, section 2.2).

    Parameters
    ----------
    modules
        How many.
    block
        The block of each.
    """

    modules: int
    block: Block

    @property
    def parameters(self) -> int:
        """Parameters of all modules, without the shared embedding and head."""
        hidden = self.block.hidden
        return self.modules * (2 * hidden * hidden + 3 * hidden + self.block.parameters)

    def flops(self, sequence: int) -> int:
        """Forward operations of all modules for one sample, without their use of the head."""
        hidden = self.block.hidden
        projection = 2 * sequence * 2 * hidden * hidden
        return self.modules * (projection + self.block.flops(sequence))


def block_findings(block: Block) -> Iterator[Finding]:
    """List what is wrong with a block."""
    attention, part = block.attention, block.feed_forward
    yield from below_findings("hidden", block.hidden, 1)
    for name in ("heads", "kv_heads", "head_size"):
        yield from below_findings(name, getattr(attention, name), 1)
    if attention.kv_heads > 0 and attention.heads % attention.kv_heads:
        found = f"{attention.heads} heads for {attention.kv_heads} heads of keys and values"
        yield Finding("kv_heads", found, "a divisor of the heads", "correct the number")
    yield from below_findings("inner", part.inner, 1)
    if isinstance(part, Moe):
        yield from below_findings("experts", part.experts, 1)
        if not 1 <= part.active <= part.experts:
            expected = f"from 1 to {part.experts}"
            yield Finding("active", str(part.active), expected, "correct the number")
