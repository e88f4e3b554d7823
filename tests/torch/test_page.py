"""The commands of the page about PyTorch, run with PyTorch as the page shows them."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import pytest

from milp_plan.capture.model_file import load_builder
from milp_plan.capture.placements import read_placements, write_placements
from tests.support.transcripts import ROOT, Command, run_page

from .plans import placements

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = ROOT / "examples" / "torch_capture"


def export(torch, path: Path) -> None:
    """What the page's ONNX file is: GPT-2 with four layers, exported by PyTorch."""
    logging.getLogger("torch").setLevel(logging.ERROR)
    module, args = load_builder(f"{MODELS / 'gpt2.py'}:four").build()
    torch.onnx.export(module.eval(), args, path, dynamo=True, verbose=False)


def edit(path: Path) -> None:
    """What a reader does in the editor: the second matrix of each pair is cut as Megatron does."""
    found = read_placements(path)
    trained = [name for name in found.inputs if not name.startswith("args")]
    write_placements(placements("tensor", trained, found.graph, found.torch), path)


def as_here(command: Command) -> Command | None:
    """Edit where the page does; neither rounding nor which of equal plans it is are held."""
    if command.text.startswith("$EDITOR "):
        edit(Path(command.text.split()[1]))
        return None
    free = r"\d\.\de[-+]\d+|(?<=^ blocks ).*|\d+(\.\d+)?(?= MiB)"
    shown = tuple(re.sub(free, "...", line) for line in command.shown)
    return Command(command.text, shown, command.code)


def test_the_page_shows_what_happens(tmp_path):
    torch = pytest.importorskip("torch", reason="needs torch: make test-torch")
    pytest.importorskip("onnxscript", reason="needs onnxscript: make test-torch")
    export(torch, tmp_path / "gpt2-four.onnx")
    shutil.copy(MODELS / "gpt2.py", tmp_path)
    model = (ROOT / "tests" / "torch" / "split_gpt2.py").read_text()
    home = "Path(__file__).parents[2]"
    assert home in model
    (tmp_path / "model.py").write_text(model.replace(home, f"Path({str(ROOT)!r})"))
    run_page(ROOT / "docs" / "torch.md", tmp_path, as_here)
