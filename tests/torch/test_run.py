"""Plans that PyTorch runs: numbers equal, memory as planned."""

from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from tests.cli.cases import call

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = Path(__file__).parents[2] / "examples" / "torch_capture" / "gpt2.py"


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    instance, plan = folder / "i.json", folder / "p.json"
    made = call(
        *("capture", f"{MODEL}:narrow", "1xA100", "--recompute", "full,attention", "--barrier"),
        *("--eager", "--memory-scale", "9/3125", "-o", instance),
    )
    assert made.exit_code == Exit.DONE, made.output
    found = call("solve", instance, "--time-limit", "60", "--plan-output", plan)
    assert found.exit_code == Exit.DONE, found.output
    return instance, plan


def test_a_plan_that_computes_again_runs_within_its_memory(planned):
    instance, plan = planned
    result = call("run", instance, plan, f"{MODEL}:narrow")
    assert result.exit_code == Exit.DONE, result.output
    assert "0.0e+00" in result.stdout
    assert "full" in result.stdout


def test_an_instance_of_another_model_is_refused(planned):
    instance, plan = planned
    result = call("run", instance, plan, f"{MODEL}:tiny")
    assert result.exit_code == Exit.BAD_INPUT
    assert "capture it again" in result.stderr


def test_the_choice_is_exported(planned, tmp_path):
    instance, plan = planned
    out = tmp_path / "c.json"
    result = call("export", instance, "--plan", plan, "--format", "torch-checkpoint", "-o", out)
    assert result.exit_code == Exit.DONE
    assert '"h.0"' in out.read_text()
