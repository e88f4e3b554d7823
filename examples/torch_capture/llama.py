"""A Llama-like model (Touvron et al., 2023) in plain PyTorch: ``milp-plan capture llama.py:build``.

Root mean squares instead of means and variances, rotated queries and keys, fewer keys and values
than queries, gated feed-forward networks, a head of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal self-attention; several heads share keys and values."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.q = nn.Linear(width, heads * self.size, bias=False)
        self.k = nn.Linear(width, shared * self.size, bias=False)
        self.v = nn.Linear(width, shared * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Features to features; ``turn`` are cosines and sines by place."""
        batch, length, width = x.shape
        query = rotated(self.q(x).view(batch, length, self.heads, self.size), turn)
        key = rotated(self.k(x).view(batch, length, self.shared, self.size), turn)
        value = self.v(x).view(batch, length, self.shared, self.size)
        times = self.heads // self.shared
        key, value = key.repeat_interleave(times, 2), value.repeat_interleave(times, 2)
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True
        )
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn pairs of features by an angle that grows with the place (Su et al., 2021)."""
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Network(nn.Module):
    """A gated feed-forward network."""

    def __init__(self, width: int, middle: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, middle, bias=False)
        self.up = nn.Linear(width, middle, bias=False)
        self.down = nn.Linear(middle, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a normalisation."""

    def __init__(self, width: int, heads: int, shared: int, middle: int) -> None:
        super().__init__()
        self.before_attention = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, shared)
        self.before_network = nn.RMSNorm(width, eps=1e-5)
        self.network = Network(width, middle)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Features to features."""
        x = x + self.attention(self.before_attention(x), turn)
        return x + self.network(self.before_network(x))


class Llama(nn.Module):
    """Tokens and their successors to the mean loss."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        shared: int,
        middle: int,
        *,
        vocabulary: int,
        length: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, shared, middle) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        slowness = 10_000.0 ** (torch.arange(0, size, 2) / size)
        angles = (torch.arange(length)[:, None] / slowness).repeat(1, 2)[:, None]
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy per token."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, (self.cosine, self.sine))
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Four layers of 1,024 features, a batch of 4 sequences of 1,024 tokens."""
    model = Llama(4, 1024, 16, 8, 2816, vocabulary=32000, length=1024)
    return model, (torch.zeros(4, 1024, dtype=torch.long), torch.zeros(4, 1024, dtype=torch.long))


def tiny() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Two layers of 32 features."""
    model = Llama(2, 32, 4, 2, 64, vocabulary=64, length=16)
    return model, (torch.zeros(4, 16, dtype=torch.long), torch.zeros(4, 16, dtype=torch.long))
