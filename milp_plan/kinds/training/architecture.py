"""What a transformer is made of, as far as a parallel configuration depends on it.

An :class:`Architecture` is a row of blocks between an embedding and an output head. A block is one
attention and one feed-forward part with their norms; it is the smallest piece that a pipeline stage
can have. Counts of parameters and floating-point operations are exact integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from milp_plan.core import Finding, InputError
from milp_plan.core.errors import below_findings
from milp_plan.core.exactness import exactness_findings

from .blocks import Block, Moe, Prediction, block_findings


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
        Tokens of a sample by default.
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
    notes
        What was assumed, or not read, when it was read from a file; changes no plan.

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
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        inexact = [
            found for where, part in _parts(self) for found in exactness_findings(where, part)
        ]
        findings = inexact or list(_findings(self))
        if findings:
            raise InputError(findings).in_file(f"model {self.name}")

    @property
    def hidden(self) -> int:
        """Width of the last block, and of embedding and head."""
        return self.blocks[-1].hidden

    @property
    def measured_batch(self) -> int:
        """Samples of the micro-batch of measured layers; 0 where blocks have dimensions."""
        return 0

    @property
    def recomputable(self) -> bool:
        """Whether it is known what a block needs to be computed again: its input."""
        return True

    @property
    def has_experts(self) -> bool:
        """Whether some block has a mixture of experts."""
        return any(isinstance(block.feed_forward, Moe) for block, _ in self.runs)

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
        """Return how many of each different block are among the first n blocks, for every n."""
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

    def head_flops(self, sequence: int) -> int:
        """Forward operations of the output head for one sample, once."""
        tokens = 1 if self.output_classes else sequence
        return 2 * tokens * self.hidden * self.head_outputs

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


def _parts(model: Architecture) -> Iterator[tuple[str, object]]:
    """List the dataclasses whose numbers must be exact; equal blocks may be of unequal types."""
    yield "model", model
    for block in {id(block): block for block in model.blocks}.values():
        yield from (("block", block), ("attention", block.attention))
        yield "feed-forward part", block.feed_forward
    if model.prediction:
        yield "prediction", model.prediction


def _findings(model: Architecture) -> Iterator[Finding]:
    if not model.blocks:
        yield Finding("blocks", "none", "at least one block", "add a block")
    for name in ("vocabulary", "positions", "input_parameters", "output_classes"):
        yield from below_findings(name, getattr(model, name), 0)
    for name in ("sequence", "precision_bytes"):
        yield from below_findings(name, getattr(model, name), 1)
    for block in dict.fromkeys(model.blocks):
        yield from block_findings(block)
