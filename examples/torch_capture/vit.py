"""ViT-B/16 (Dosovitskiy et al., 2020) in plain PyTorch: ``milp-plan capture vit.py:build``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Attention over all patches and a feed-forward network, each behind a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Features to features."""
        batch, patches, width = x.shape
        query, key, value = (
            part.view(batch, patches, self.heads, width // self.heads).transpose(1, 2)
            for part in self.mixed(self.ln_1(x)).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, patches, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x))))


class ViT(nn.Module):
    """Images and labels to the mean loss."""

    def __init__(self, layers: int, width: int, heads: int, image: int, patch: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy per image."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.ln(x)[:, 0]), labels)


def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """86.6 million parameters, 8 images of 224 pixels."""
    return ViT(12, 768, 12, 224, 16), (torch.zeros(8, 3, 224, 224), torch.zeros(8).long())
