"""Capture the models of this folder again: ``python examples/torch_capture/record.py``.

Writes ``instances/captures``, which tests and instances read without PyTorch.
"""

from __future__ import annotations

from pathlib import Path

from milp_plan.capture.model_file import load_builder
from milp_plan.capture.record import write_capture
from milp_plan.capture.trace import capture_model

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "instances" / "captures"

MODELS = (
    ("gpt2.py:small", "training"),
    ("gpt2.py:four", "training"),
    ("gpt2.py:narrow", "training"),
    ("gpt2.py:tiny", "training"),
    ("resnet50.py:build", "training"),
    ("resnet50.py:tiny", "training"),
    ("vit.py:build", "training"),
    ("llama.py:build", "training"),
    ("llama.py:tiny", "training"),
    ("llama.py:build", "inference"),
)
"""Functions and modes."""


def main() -> None:
    """Write all graphs."""
    for model, mode in MODELS:
        builder = load_builder(str(HERE / model))
        name = builder.stem if mode == "training" else f"{builder.stem}-{mode}"
        capture = capture_model(builder, mode=mode, name=name)
        write_capture(capture, FOLDER / f"{name}.capture.json.gz")
        print(f"{name}: {len(capture.kernels)} kernels")


if __name__ == "__main__":
    main()
