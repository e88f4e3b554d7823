"""What is measured on a device of PyTorch, here on the processor."""

from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from tests.benchmarks.conftest import script  # noqa: F401  (a fixture)

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = Path(__file__).parents[2] / "examples" / "torch_capture"


def test_an_accelerator_that_is_not_there_is_one_line(script, tmp_path, capsys):  # noqa: F811
    out = tmp_path / "page.md"
    asked = ["--device", "xpu", "--output", str(out)]
    assert script("torch_device").main(asked) == Exit.SOLVER_FAILURE
    assert "finds no device 'xpu'" in capsys.readouterr().err
    assert not out.exists()


def test_kernels_steps_and_peaks_of_policies(script, tmp_path):  # noqa: F811
    out = tmp_path / "page.md"
    asked = ["--device", "cpu", "--rounds", "1", "--output", str(out)]
    models = ["--models", f"{MODELS / 'gpt2.py'}:tiny", "--blocks", f"{MODELS / 'gpt2.py'}:narrow"]
    assert script("torch_device").main([*asked, *models]) == Exit.DONE
    text = out.read_text()
    assert "| matrix product | 27 |" in text
    rows = [line.split("|") for line in text.splitlines() if line.startswith(("| keep", "| full"))]
    peaks = [(float(row[4]), float(row[5])) for row in rows]
    assert all(measured <= planned <= 1.07 * measured for planned, measured in peaks)
    assert peaks[1][0] < 0.6 * peaks[0][0]
    assert "all within the plan" in text
