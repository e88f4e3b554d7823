"""The GPT-2 of the examples with a matrix each for queries, keys and values.

One packed matrix cannot be cut by heads: its columns are all queries first, then all keys.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "torch_capture"))
import gpt2


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (
            part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def build(layers=2):
    model = gpt2.GPT2(layers=layers, width=32, heads=4, vocabulary=64, length=16)
    for block in model.h:
        block.attn = Attention(32, 4)
    tokens = torch.randint(64, (4, 17))
    return model, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def four():
    return build(4)
