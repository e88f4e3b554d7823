"""Plans that the solver chose for captured models, run on several processes."""

from pathlib import Path

import pytest

from milp_plan.capture.placements import read_placements
from milp_plan.cli.exits import Exit
from tests.cli.cases import call

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = Path(__file__).parents[2] / "examples" / "torch_capture"

HERE = Path(__file__).parent

CASES = {
    "gpt2 on 2": (HERE / "split_gpt2.py:four", "2", "2xA100", "1232/80000000"),
    "llama on 4": (MODELS / "llama.py:tiny", "4", "4xA100", "668/80000000"),
    "resnet on 2": (MODELS / "resnet50.py:tiny", "2", "2xA100", "892/80000000"),
    "resnet on 2x2": (MODELS / "resnet50.py:tiny", "2x2", "4xA100", "892/80000000"),
    "gpt2 on 2x2": (HERE / "split_gpt2.py:four", "2x2", "4xA100", "1232/80000000"),
}
"""Model, mesh, cluster, and a limit of 60 % of what one device needs."""


@pytest.mark.parametrize("name", CASES)
def test_a_plan_of_the_solver_runs_with_its_collectives(name, tmp_path):
    model, shape, cluster, scale = CASES[name]
    instance, plan, file = (tmp_path / part for part in ("i.json", "p.json", "t.json"))
    asked = ("--sharding", shape, "--dtype", "float64", "--memory-scale", scale)
    made = call("capture", model, cluster, *asked, "-o", instance)
    assert made.exit_code == Exit.DONE, made.output
    found = call("solve", instance, "--time-limit", "60", "--gap", "0.01", "--plan-output", plan)
    assert found.exit_code == Exit.DONE, found.output
    written = call("export", instance, "--plan", plan, "--format", "torch-placements", "-o", file)
    assert written.exit_code == Exit.DONE, written.output
    chosen = read_placements(file)
    assert sum(chosen.collectives.values()) > 0
    assert {"S" in placement for placement in chosen.inputs.values()} == {True, False}
    result = call("run", instance, plan, model, "--dtype", "float64")
    assert result.exit_code == Exit.DONE, result.output
    assert "as planned                          yes" in result.stdout
