"""GPT-2 (Radford et al., 2019) in plain PyTorch: ``milp-plan capture gpt2.py:small``.

Dropout is 0: planned are the kernels of a step, and the masks of dropout would only be noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal self-attention with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.mixed(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        x = x + self.attn(self.ln_1(x))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tokens and their successors to the mean loss; the head shares the embedding's weights."""

    def __init__(
        self,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        vocabulary: int = 50257,
        length: int = 1024,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy per token."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def _with_batch(model: GPT2, batch: int, length: int) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    tokens = torch.randint(model.wte.num_embeddings, (batch, length + 1))
    return model, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def small() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """124 million parameters, 12 layers, a batch of 8 sequences of 1,024 tokens."""
    return _with_batch(GPT2(), 8, 1024)


def four() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """As :func:`small` with 4 layers."""
    return _with_batch(GPT2(layers=4), 8, 1024)


def narrow() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Four layers of 256 features, 8 sequences of 256 tokens: a step of a second on a laptop."""
    model = GPT2(layers=4, width=256, heads=8, vocabulary=4096, length=256)
    return _with_batch(model, 8, 256)


def tiny() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Two layers of 32 features: small enough to run anywhere, in several processes."""
    return _with_batch(GPT2(layers=2, width=32, heads=4, vocabulary=64, length=16), 4, 16)


build = four
