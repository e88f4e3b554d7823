"""The command for an accelerator, where there is none; with PyTorch: ``tests/torch``."""

import sys

from milp_plan.cli.exits import Exit


def test_without_pytorch_it_says_what_to_install(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    out = tmp_path / "page.md"
    assert script("torch_device").main(["--output", str(out)]) == Exit.SOLVER_FAILURE
    assert "pip install 'milp_plan[torch]'" in capsys.readouterr().err
    assert not out.exists()


def test_the_order_of_steps_and_peaks_above_the_plan_are_reported(script):
    device = script("torch_device")
    mib = device.MIB

    def told(*rows):
        found = [device.Repeated(name, *numbers) for name, *numbers in rows]
        return "\n".join(device.recomputation(found))

    keep = ("keep", 100, 1.0, 9 * mib, 9 * mib)
    good = told(keep, ("full", 120, 1.3, 4 * mib, 3 * mib))
    assert "| full | 1.200 | 1.300 | 4.000 | 3.000 |" in good
    assert "is as planned; peaks are all within the plan" in good
    bad = told(keep, ("full", 120, 0.9, 4 * mib, 5 * mib))
    assert "is not as planned; peaks are not all within the plan" in bad
