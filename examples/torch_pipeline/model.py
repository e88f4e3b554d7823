"""A small transformer cut into stages, and stages that take a given time."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LENGTH = 61, 32, 4, 16
"""Sizes: tokens that exist, features, attention heads, tokens per sequence."""


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.mixed = nn.Linear(WIDTH, 3 * WIDTH)
        self.attended = nn.Linear(WIDTH, WIDTH)
        self.before_network = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        batch, length, _ = x.shape
        parts = self.mixed(self.before_attention(x)).chunk(3, dim=-1)
        query, key, value = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.before_network(x))))


class Stage(nn.Module):
    """One block, with the embedding in front on the first stage and the head behind on the last.

    ``pauses`` are seconds that forward pass, input gradient and weight gradient take on top.
    """

    def __init__(self, index: int, count: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH) if index == 0 else None
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(WIDTH))
        self.block = Block()
        last = index == count - 1
        self.head = (
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)) if last else None
        )
        self.pauses = (0.0, 0.0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens or features to features, or to logits."""
        gain = self.gain
        if self.embedding is not None:
            x = self.embedding(x)
        if any(self.pauses):
            x = Pause.apply(x, self.pauses[0], self.pauses[1])
            gain = Pause.apply(gain, 0.0, self.pauses[2])
        x = self.block(x * gain)
        return x if self.head is None else self.head(x)


class Pause(torch.autograd.Function):
    """Nothing, which takes time forward and backward.

    It has one input, so that torch can split the backward pass around it: on the path of the
    activations it makes the input gradient longer, on the path of a weight the weight gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward_s: float, backward_s: float) -> Tensor:
        """Wait, and hand ``x`` on."""
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        """Wait, and hand the gradient on."""
        time.sleep(ctx.backward_s)
        return gradient, None, None


def make_stages(count: int, dtype: torch.dtype) -> list[Stage]:
    """Make all stages; the same in every process."""
    torch.manual_seed(20240)
    return [Stage(index, count).to(dtype) for index in range(count)]


def make_batch(micro_batches: int, rows: int = 2) -> tuple[Tensor, Tensor]:
    """Make tokens and the tokens that follow them; the same in every process."""
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(VOCABULARY, (micro_batches * rows, LENGTH + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy per token."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())
