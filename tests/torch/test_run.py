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


WRONG = """
import torch
from torch import nn
from torch.nn import functional

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(8, 4)
    def forward(self, x):
        return self.rows(x)

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table()
        self.late = nn.Linear(4, 4)
    def forward(self, x):
        y = self.late(self.table(x))
        AFTER
        return y.mean()

def build():
    return Mine(), (torch.full((4,), TOKEN),)
"""


BAD = """
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2
    @staticmethod
    def backward(context, gradient):
        if type(gradient) is torch.Tensor:
            raise RuntimeError("only on paper")
        return gradient * 2
"""


def wrong(folder, token, after="pass"):
    """A model that can be captured, whatever numbers it reads, and cannot be run."""
    path = folder / "wrong.py"
    path.write_text(WRONG.replace("TOKEN", str(token)).replace("AFTER", after))
    return path


def refused(*asked):
    """What a command says that ends after bad input, in one finding and without a traceback."""
    result = call(*asked)
    assert result.exit_code == Exit.BAD_INPUT, (result.output, result.exception)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("kind", ["placements", "stages"])
def test_a_model_that_pytorch_does_not_run_says_where(tmp_path, kind):
    model = wrong(tmp_path, 9)
    instance, plan = tmp_path / "i.json", tmp_path / "p.json"
    more = {
        "placements": ("--placements", plan),
        "stages": ("--stages", "--granularity", "module"),
    }[kind]
    made = call("capture", model, "2xA100", *more, "-o", instance)
    assert made.exit_code == Exit.DONE, made.output
    asked = ["run", instance, plan, model]
    if kind == "stages":
        assert call("solve", instance, "--plan-output", plan).exit_code == Exit.DONE
        stages, schedule = tmp_path / "s.json", tmp_path / "s.csv"
        reported = ("export", instance, "--plan", plan, "--format", "torch-stages", "-o", stages)
        assert call(*reported).exit_code == Exit.DONE
        schedule.write_text("0F0,0B0\n1F0,1B0\n")
        asked = ["run", instance, stages, model, "--schedule", schedule]
    stated = refused(*asked)
    assert "module 'table.rows'" in stated
    assert "IndexError: index out of range" in stated
    assert "(line 11), in embedding" in stated
    assert "correct model or inputs" in stated


def test_a_backward_pass_that_fails_says_so(tmp_path):
    model = wrong(tmp_path, 1, "y = Bad.apply(y)")
    model.write_text(model.read_text() + BAD)
    instance, plan = tmp_path / "i.json", tmp_path / "p.json"
    asked = ("--dtype", "float64", "--placements", plan, "-o", instance)
    assert call("capture", model, "2xA100", *asked).exit_code == Exit.DONE
    stated = refused("run", instance, plan, model, "--dtype", "float64")
    assert "the backward pass" in stated
    assert "RuntimeError: only on paper (line" in stated
    assert "leave --dtype float64 out" in stated


def test_kernels_that_a_device_does_not_run_say_which(tmp_path):
    out, graph = tmp_path / "i.json", tmp_path / "g.json"
    stated = refused(
        *("capture", wrong(tmp_path, 9), "1xA100", "--profile", "--graph", graph, "-o", out)
    )
    assert "module 'table.rows'" in stated
    assert "IndexError: index out of range" in stated
    assert "aten.embedding.default (embedding)" in stated
    assert not graph.exists()
    assert not out.exists()
