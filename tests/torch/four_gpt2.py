"""The GPT-2 of the examples with 4 small layers; ``build()`` returns a micro-batch."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "torch_capture"))
import gpt2


def build():
    model = gpt2.GPT2(layers=4, width=64, heads=4, vocabulary=128, length=32)
    return gpt2._with_batch(model, 2, 32)
