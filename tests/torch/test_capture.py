"""Capture with PyTorch: the recorded graphs again, and models that cannot be captured."""

from collections import Counter
from pathlib import Path

import pytest

from milp_plan.capture.instance import instance
from milp_plan.capture.model_file import load_builder
from milp_plan.capture.record import fingerprint, made_by, read_capture
from milp_plan.capture.trace import capture_model
from milp_plan.capture.work import coverage, require_known
from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.cost.clusters import cluster
from tests.capture.graphs import shipped
from tests.cli.cases import call

MODELS = Path(__file__).parents[2] / "examples" / "torch_capture"

pytestmark = pytest.mark.filterwarnings("ignore")


def captured(model: str, mode: str = "training", **options):
    return capture_model(load_builder(str(MODELS / model)), mode=mode, **options)


@pytest.mark.parametrize(
    ("model", "recorded"),
    [
        ("gpt2.py:tiny", "gpt2-tiny"),
        ("gpt2.py:small", "gpt2-small"),
        ("resnet50.py", "resnet50"),
        ("vit.py", "vit"),
        ("llama.py", "llama"),
    ],
)
def test_models_are_captured_as_they_were_recorded(model, recorded):
    graph = captured(model)
    assert fingerprint(graph) == fingerprint(shipped(recorded))
    assert graph.nodes == shipped(recorded).nodes


def test_a_forward_pass():
    graph = captured("llama.py", "inference")
    assert fingerprint(graph) == fingerprint(shipped("llama-inference"))
    assert {kernel.phase for kernel in graph.kernels} == {"forward"}
    assert not any(storage.trained for storage in graph.storages)


def test_a_model_of_short_numbers():
    graph = captured("gpt2.py:tiny", dtype="bfloat16")
    kinds = {s.dtype for s in graph.storages if s.kind == "parameter"}
    assert kinds == {"bfloat16"}
    wide = shipped("gpt2-tiny")
    assert coverage(graph).flops == coverage(wide).flops


def test_every_trained_parameter_has_its_gradient():
    graph = captured("gpt2.py:tiny")
    trained = {place for place, storage in enumerate(graph.storages) if storage.trained}
    assert {r.of for r in graph.results if r.kind == "gradient"} == trained
    assert len(trained) == sum(s.kind == "parameter" for s in graph.storages)
    (tied,) = [s for s in graph.storages if s.aliases]
    assert (tied.name, tied.aliases) == ("wte.weight", ("head.weight",))
    assert {r.storage for r in graph.results} <= made_by(graph).keys()


def written(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text("import torch\nfrom torch import nn\n\n" + text)
    return f"{folder / 'mine.py'}:build"


LINEAR = """
class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleDict({"first": First()})
    def forward(self, x):
        return self.inner["first"](x).mean()

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        FORWARD

def build():
    return Mine(), (torch.zeros(4, 8),)
"""


def refused(folder: Path, text: str, **options) -> str:
    with pytest.raises(InputError) as error:
        capture_model(load_builder(written(folder, text)), **options)
    (finding,) = error.value.findings
    return str(finding)


def test_a_model_that_reads_values_is_refused_by_module_and_line(tmp_path):
    body = "y = self.layer(x)\n        return y if y.sum().item() > 0 else -y"
    stated = refused(tmp_path, LINEAR.replace("FORWARD", body))
    assert "module 'inner.first'" in stated
    assert "line 18" in stated
    assert ".item()" in stated


def test_a_model_that_is_wrong_says_where(tmp_path):
    stated = refused(tmp_path, LINEAR.replace("FORWARD", "return self.layer(x[:, :3])"))
    assert "module 'inner.first.layer'" in stated
    assert "linear" in stated


def test_a_loss_must_be_one_number_and_depend_on_parameters(tmp_path):
    plain = LINEAR.replace("FORWARD", "return self.layer(x)")
    stated = refused(tmp_path, plain.replace(".mean()", ""))
    assert "the scalar loss" in stated
    frozen = plain.replace("return Mine()", "return Mine().requires_grad_(False)")
    assert "a loss that depends on parameters" in refused(tmp_path, frozen)


def test_what_build_returns_is_checked(tmp_path):
    assert "(module, args)" in refused(tmp_path, "def build():\n    return 3\n")
    assert "ZeroDivisionError" in refused(tmp_path, "def build():\n    return 1 / 0\n")
    module = "def build():\n    return nn.Linear(2, 2), torch.zeros(2)\n"
    assert "(x,)" in refused(tmp_path, module)
    fine = "def build():\n    return nn.Linear(2, 2), (torch.zeros(2),)\n"
    assert "--dtype" in refused(tmp_path, fine, dtype="float12")


def test_operators_of_the_user_need_a_formula(tmp_path):
    own = """
@torch.library.custom_op("mylib::mix", mutates_args=())
def mix(x: torch.Tensor) -> torch.Tensor:
    return x @ x

@mix.register_fake
def _(x):
    return torch.empty_like(x)

class Mine(nn.Module):
    def forward(self, x):
        return torch.ops.mylib.mix(x)

def build():
    return Mine(), (torch.zeros(8, 8),)
"""
    graph = capture_model(load_builder(written(tmp_path, own)), mode="inference")
    with pytest.raises(InputError, match="of which no formula is known"):
        require_known(graph)
    given = own + '\nFLOPS = {"mylib::mix": lambda x, out: 2 * x.numel() * out.shape[1]}\n'
    given = given.replace("mylib::", "yourlib::").replace("mylib.", "yourlib.")
    graph = capture_model(load_builder(written(tmp_path, given)), mode="inference")
    assert coverage(graph).flops["forward"] == 2 * 8 * 8 * 8


def test_weights_read_while_building_are_built(tmp_path):
    text = """
class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(int(torch.ones(8).sum()), 8)
        self.plain = torch.ones(8)
    def forward(self, x):
        return (self.layer(x) * self.plain).mean()

def build():
    return Mine(), {"x": torch.zeros(4, 8)}
"""
    stated: list[str] = []
    graph = capture_model(load_builder(written(tmp_path, text)), report=stated.append)
    assert any("with weights" in line for line in stated)
    assert coverage(graph).flops == {"forward": 2 * 4 * 8 * 8, "backward": 2 * 4 * 8 * 8}


def test_the_command_captures_and_writes_both_files(tmp_path):
    instance, graph = tmp_path / "i.json", tmp_path / "g.json.gz"
    arguments = ("2xA100", "-o", instance, "--graph", graph)
    result = call("capture", MODELS / "gpt2.py:tiny", *arguments)
    assert result.exit_code == Exit.DONE
    assert "gpt2-tiny: tracing forward and backward pass" in result.stderr
    again = tmp_path / "again.json"
    assert call("capture", graph, "2xA100", "-o", again).exit_code == Exit.DONE
    assert again.read_bytes() == instance.read_bytes()


def test_kernels_are_timed_and_held_against_the_roofline(tmp_path):
    instance, graph = tmp_path / "i.json", tmp_path / "g.json"
    model = MODELS / "gpt2.py:tiny"
    result = call("capture", model, "1xA100", "--profile", "-o", instance, "--graph", graph)
    assert result.exit_code == Exit.DONE, result.output
    found = read_capture(graph)
    assert found.profile is not None
    assert found.profile.kernels.keys() == {kernel.name for kernel in found.kernels}
    assert min(found.profile.kernels.values()) > 0
    assert "matrix product: 27 kernels" in result.stderr
    assert fingerprint(found) == fingerprint(shipped("gpt2-tiny"))
    refused = call("capture", graph, "1xA100", "--profile", "-o", instance)
    assert refused.exit_code == Exit.USAGE
    absent = call("capture", model, "1xA100", "--device", "cuda", "-o", instance)
    assert "no device 'cuda'" in absent.stderr


RETURNING = """
import torch
from torch import nn


class Returning(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.head = nn.Linear(16, 100)

    def forward(self, x, target):
        states = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            states.append(x)
        logits = self.head(x)
        loss = nn.functional.cross_entropy(logits, target)
        returned = {"states": states, "some": logits[:, :10], "x": target, "more": logits.exp()}
        return loss, logits, returned


def build():
    return Returning(), (torch.randn(8, 16), torch.zeros(8, dtype=torch.long))


def alone():
    class Alone(Returning):
        def forward(self, x, target):
            return super().forward(x, target)[0]

    return Alone(), build()[1]
"""


def test_what_a_step_returns_in_addition_to_its_loss_is_kept(tmp_path):
    (tmp_path / "m.py").write_text(RETURNING)
    both = [capture_model(load_builder(f"{tmp_path}/m.py:{name}")) for name in ("build", "alone")]
    returned, alone = both
    kinds = Counter(result.kind for result in returned.results)
    assert (kinds["loss"], kinds["gradient"], kinds["output"]) == (1, 8, 7)
    assert Counter(result.kind for result in alone.results) == {"loss": 1, "gradient": 8}
    backward = [[k.operator for k in one.kernels if k.phase == "backward"] for one in both]
    assert backward[0] == backward[1]  # nothing but the loss has a gradient
    kept = {v.name: v for v in instance(returned, cluster("1xA100")).graph.values if v.is_kept}
    sizes = sorted(value.bytes["full"] for value in kept.values())
    assert sizes == [4, 512, 512, 512, 3200, 3200]  # loss, states, logits, more
    assert any(value.consumers for value in kept.values())
    plain = instance(alone, cluster("1xA100")).graph.values
    assert [value.bytes["full"] for value in plain if value.is_kept] == [4]
