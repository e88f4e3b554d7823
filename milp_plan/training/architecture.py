"""What a transformer is made of, as far as a parallel configuration depends on it.

An :class:`Architecture` is a row of blocks between an embedding and an output head. A block is one
attention and one feed-forward part with their norms; it is the smallest piece that a pipeline stage
can have. Counts of parameters and floating-point operations are exact integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from milp_plan.core import Finding, InputError
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
    """

    experts: int
    active: int
    inner: int
    shared_inner: int = 0
    gated: bool = True
    bias: bool = False
    router_bias: bool = False

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


@dataclass(frozen=True)
class Architecture:
    """A transformer with what parallel configurations depend on.

    Parameters
    ----------
    name
        For example ``"llama3-70b"``.
    blocks
        Its blocks in the order of the forward pass; those of an encoder come first.
    vocabulary
        Rows of the embedding; 0 where samples are no tokens.
    sequence
        Tokens of a sample where nobody says another number.
    tied
        Whether head and embedding share their parameters.
    positions
        Rows of a learned table of positions.
    input_parameters
        Parameters before the first block beside tables: patches, class tokens, projectors.
    output_classes
        Outputs of a classifier that takes the place of a head over the vocabulary; 0 for none.
    prediction
        Multi-token prediction; ``None`` for none.
    precision_bytes
        Bytes of an element of activations and of weights in forward passes.
    source
        Paper or model card that the figures come from.

    Raises
    ------
    InputError
        No block, a negative figure, heads that do not fit.
    """

    name: str
    blocks: tuple[Block, ...]
    vocabulary: int
    sequence: int
    tied: bool = False
    positions: int = 0
    input_parameters: int = 0
    output_classes: int = 0
    prediction: Prediction | None = None
    precision_bytes: int = 2
    source: str = ""

    def __post_init__(self) -> None:
        findings = list(_findings(self))
        if findings:
            raise InputError(findings).in_file(f"model {self.name}")

    @property
    def hidden(self) -> int:
        """Width of the last block, and of embedding and head."""
        return self.blocks[-1].hidden

    @cached_property
    def runs(self) -> tuple[tuple[Block, int], ...]:
        """Equal consecutive blocks and how many they are."""
        runs: list[tuple[Block, int]] = []
        for block in self.blocks:
            if runs and runs[-1][0] == block:
                runs[-1] = (block, runs[-1][1] + 1)
            else:
                runs.append((block, 1))
        return tuple(runs)

    def kinds(self, spans: tuple[tuple[int, int], ...]) -> tuple[tuple[Block, int], ...]:
        """Count the different blocks of some spans (first block, number of blocks).

        The same counts are the same object, so that it can be looked up by identity.
        """
        if spans not in self._by_spans:
            counts = [0] * len(self._distinct)
            for start, count in spans:
                before, after = self._before[start], self._before[start + count]
                counts = [n + b - a for n, a, b in zip(counts, before, after, strict=True)]
            made = tuple((b, n) for b, n in zip(self._distinct, counts, strict=True) if n)
            self._by_spans[spans] = self._by_counts.setdefault(tuple(counts), made)
        return self._by_spans[spans]

    @cached_property
    def _distinct(self) -> tuple[Block, ...]:
        return tuple(dict.fromkeys(self.blocks))

    @cached_property
    def _before(self) -> tuple[tuple[int, ...], ...]:
        """Different blocks among the first so many."""
        rows = [[0] * len(self._distinct)]
        for block, count in self.runs:
            at = self._distinct.index(block)
            for _ in range(count):
                rows.append(list(rows[-1]))
                rows[-1][at] += 1
        return tuple(map(tuple, rows))

    @cached_property
    def _by_spans(self) -> dict[tuple[tuple[int, int], ...], tuple[tuple[Block, int], ...]]:
        return {}

    @cached_property
    def _by_counts(self) -> dict[tuple[int, ...], tuple[tuple[Block, int], ...]]:
        return {}

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the first block."""
        tables = (self.vocabulary + self.positions) * self.hidden
        return tables + self.input_parameters

    @property
    def head_parameters(self) -> int:
        """Parameters after the last block that are not shared: last norm, head or classifier."""
        norm = self.hidden * (2 if self.blocks[-1].norm_bias else 1)
        if self.output_classes:
            return norm + (self.hidden + 1) * self.output_classes
        return norm + (0 if self.tied else self.vocabulary * self.hidden)

    @property
    def head_outputs(self) -> int:
        """Width of the output head."""
        return self.output_classes or self.vocabulary

    @cached_property
    def parameters(self) -> int:
        """All parameters, without those of multi-token prediction."""
        blocks = sum(block.parameters * count for block, count in self.runs)
        return self.embedding_parameters + blocks + self.head_parameters

    @cached_property
    def all_parameters(self) -> int:
        """All parameters, with those of multi-token prediction."""
        return self.parameters + (self.prediction.parameters if self.prediction else 0)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token visits, without multi-token prediction."""
        blocks = sum(block.active_parameters * count for block, count in self.runs)
        return self.embedding_parameters + blocks + self.head_parameters

    @cached_property
    def trained_parameters(self) -> int:
        """Parameters that are trained, with those of multi-token prediction."""
        return self.all_parameters - sum(
            block.parameters * count for block, count in self.runs if block.frozen
        )

    def head_flops(self, sequence: int) -> int:
        """Forward operations of the output head for one sample, once."""
        tokens = 1 if self.output_classes else sequence
        return 2 * tokens * self.hidden * self.head_outputs

    def forward_flops(self, sequence: int) -> int:
        """Forward operations of one sample, with multi-token prediction."""
        total = sum(block.flops(sequence) * count for block, count in self.runs)
        total += self.head_flops(sequence)
        if self.prediction:
            total += self.prediction.flops(sequence)
            total += self.prediction.modules * self.head_flops(sequence)
        return total

    def model_flops(self, sequence: int) -> int:
        """Operations of one sample forward and backward, without recomputation: those of MFU."""
        total = sum(
            (block.flops(sequence) + block.backward_flops(sequence)) * count
            for block, count in self.runs
        )
        after = self.head_flops(sequence)
        if self.prediction:
            after += self.prediction.flops(sequence)
            after += self.prediction.modules * self.head_flops(sequence)
        return total + 3 * after


def _findings(model: Architecture) -> Iterator[Finding]:
    if not model.blocks:
        yield Finding("blocks", "none", "at least one block", "add a block")
    for name in ("vocabulary", "positions", "input_parameters", "output_classes"):
        yield from below_findings(name, getattr(model, name), 0)
    for name in ("sequence", "precision_bytes"):
        yield from below_findings(name, getattr(model, name), 1)
    for block in dict.fromkeys(model.blocks):
        yield from _block_findings(block)


def _block_findings(block: Block) -> Iterator[Finding]:
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
