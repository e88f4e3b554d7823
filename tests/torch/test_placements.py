"""Placements by hand, run on several processes: numbers equal, collectives as counted by hand."""

import math
import re
from pathlib import Path

import pytest

from milp_plan.capture.model_file import load_builder
from milp_plan.capture.placements import read_placements, whole_placements, write_placements
from milp_plan.capture.record import fingerprint
from milp_plan.capture.trace import capture_model
from milp_plan.cli.exits import Exit
from milp_plan.core import InputError, UnsupportedProblemError
from tests.cli.cases import call

from .plans import COLLECTIVES, FORWARD_SUMS, PLANS, placements

pytestmark = pytest.mark.filterwarnings("ignore")

RESNET = Path(__file__).parents[2] / "examples" / "torch_capture" / "resnet50.py"
MODEL = f"{Path(__file__).parent / 'split_gpt2.py'}"


@pytest.fixture(scope="module")
def captured():
    pytest.importorskip("torch", reason="needs torch: make test-torch")
    return capture_model(load_builder(MODEL), dtype="float64")


def plan_of(captured, name):
    trained = [storage.name for storage in captured.storages if storage.trained]
    return placements(name, trained, fingerprint(captured), captured.torch)


@pytest.mark.parametrize("count", [2, 4])
def test_every_plan_computes_what_one_process_does_with_its_collectives(captured, count):
    from milp_plan.execute import compare_sharded

    names = [name for name, (sizes, _) in PLANS.items() if math.prod(sizes) == count]
    found = compare_sharded(
        load_builder(MODEL), [plan_of(captured, name) for name in names], dtype="float64"
    )
    for name, comparison in zip(names, found, strict=True):
        assert comparison.tensors == 36
        assert comparison.largest_gradient > 0.01
        assert comparison.gradient_error < 1e-14, name
        assert comparison.loss_error < 1e-14, name
        assert dict(comparison.ran) == COLLECTIVES.get(name, {}), name
        assert comparison.ok


def test_normalisations_of_cut_samples_have_the_statistics_of_all():
    from milp_plan.execute import compare_sharded

    builder = load_builder(f"{RESNET}:tiny")
    captured = capture_model(builder, dtype="float64")
    second = [view for view in captured.views if view.arguments[1:] == (1,)]
    (counted,) = (view for view in second if view.results[0].shape == ())
    plan = whole_placements(captured, 2)
    plan.inputs |= {name: "S(0)" for name in plan.inputs if name.startswith("args")}
    plan.pins[counted.name] = "R"  # samples that the loss counts
    # a normalisation exchanges once in each pass, after which two gradients are known everywhere
    exchanges = sum("batch_norm" in kernel.operator for kernel in captured.kernels)
    gradients = sum(storage.trained for storage in captured.storages) - exchanges
    plan.collectives = {"all_reduce": gradients + exchanges + 1}
    (found,) = compare_sharded(builder, [plan], dtype="float64")
    assert (gradients, exchanges) == (11, 18)
    assert found.largest_gradient > 0.01
    assert found.gradient_error < 1e-14
    assert found.ok


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    path = tmp_path_factory.mktemp("sharded") / "i.json"
    made = call("capture", MODEL, "2xA100", "--dtype", "float64", "-o", path)
    assert made.exit_code == Exit.DONE, made.output
    return path


def test_the_command_compares_and_tells_where_collectives_differ(captured, instance, tmp_path):
    file = tmp_path / "p.json"
    plan = plan_of(captured, "tensor")
    plan.collectives = {"all_reduce": 7}
    write_placements(plan, file)
    result = call("run", instance, file, MODEL, "--dtype", "float64", "--processes", "2")
    assert result.exit_code == Exit.DIFFERS, result.output
    assert "7 all_reduce" in result.stdout
    assert "8 all_reduce" in result.stdout


def test_processes_of_a_plan_without_placements_are_refused(instance):
    result = call("run", instance, instance, MODEL, "--processes", "2")
    assert result.exit_code == Exit.BAD_INPUT
    assert "torch-placements" in result.stderr


def test_differences_are_seen():
    import torch

    from milp_plan.execute import ShardedComparison, ShardedStep, StepResult
    from milp_plan.execute.compare import differences

    plain = StepResult(1.0, {"a": torch.zeros(3).double(), "b": torch.ones(2).double()}, 0)
    moved = {"a": torch.tensor([0, 0, 1e-13]).double(), "b": torch.ones(2).double()}
    assert differences(plain, ShardedStep(1.5, moved, {})) == (0.5, pytest.approx(1e-13), 1.0)
    assert differences(plain, ShardedStep(1.0, {"a": moved["a"]}, {}))[1] == math.inf

    def ok(loss, gradient, ran):
        planned = {"all_reduce": 2, "all_gather": 0}
        return ShardedComparison(2, loss, gradient, 1.0, 2, 1e-14, planned, ran).ok

    assert ok(0.0, 1e-15, {"all_reduce": 2})
    assert not ok(0.0, 1e-13, {"all_reduce": 2})
    assert not ok(1e-13, 0.0, {"all_reduce": 2})
    assert not ok(0.0, 0.0, {"all_reduce": 1})
    assert not ok(0.0, 0.0, {"all_reduce": 2, "all_gather": 1})


def test_another_number_of_processes_is_refused(captured, instance, tmp_path):
    file = tmp_path / "p.json"
    write_placements(plan_of(captured, "data"), file)
    result = call("run", instance, file, MODEL, "--dtype", "float64", "--processes", "3")
    assert result.exit_code == Exit.BAD_INPUT
    assert "--processes 2" in result.stderr


def test_a_change_that_the_plan_does_not_contain_is_an_error_with_its_node(captured):
    from milp_plan.execute import run_placements

    plan = plan_of(captured, "tensor")
    del plan.pins[FORWARD_SUMS[0]]
    with pytest.raises(UnsupportedProblemError, match=r"node 'native_layer_norm_1' of module"):
        run_placements(load_builder(MODEL), [plan], {"head.weight": "wte.weight"}, dtype="float64")


def test_a_model_with_buffers_runs_from_an_edited_file(tmp_path):
    instance, file = tmp_path / "i.json", tmp_path / "p.json"
    model = f"{Path(__file__).parents[2] / 'examples' / 'torch_capture' / 'llama.py'}:tiny"
    made = call(
        *("capture", model, "2xA100", "--dtype", "float64", "-o", instance, "--placements", file)
    )
    assert made.exit_code == Exit.DONE, made.output
    plan = read_placements(file)
    plan.inputs |= {"args[0]": "S(0)", "args[1]": "S(0)"}
    plan.pins = {"getitem_13": "R"}  # the number of tokens
    plan.collectives = {"all_reduce": len(plan.gradients) + 1}
    write_placements(plan, file)
    result = call("run", instance, file, model, "--dtype", "float64")
    assert result.exit_code == Exit.DONE, result.output
    assert "22 all_reduce" in result.stdout


@pytest.fixture(scope="module")
def graph():
    pytest.importorskip("torch", reason="needs torch: make test-torch")
    from milp_plan.capture.trace import build, trace

    builder = load_builder(MODEL)
    built = build(builder, "float64", lambda _text: None)
    with trace(builder.text, built, "training", lambda _text: None) as joint:
        return joint.graph


@pytest.fixture
def mesh():
    """Two processes of which this one is the first and nothing is sent."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield torch.distributed.init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ({"nowhere": "R"}, r"node 'nowhere': found no such node"),
        ({"native_layer_norm": "R"}, r"pins\['native_layer_norm'\].*getitem"),
        ({"view_1": "S(3)"}, r"pins\['view_1'\].*shape \(4, 16, 32\).*2 processes divide"),
        ({"embedding_dense_backward_1": "S(0)", "add_13": "P"}, r"found S\(0\) to become P"),
        ({"view_33": "S(1)"}, r"node '_log_softmax' of module.*view_33 S\(1\)"),
    ],
)
def test_what_cannot_be_placed_is_reported_with_its_node(captured, graph, mesh, pin, said):
    from milp_plan.execute.dtensors import Distributed

    plan = plan_of(captured, "vocabulary")
    plan.pins |= pin
    runner = Distributed(plan, mesh, {"head.weight": "wte.weight"})
    inputs = zeros(runner, plan, graph)
    with pytest.raises(InputError) as caught:
        runner.step(graph, inputs)
    assert re.search(said, str(caught.value))


def test_cuts_that_do_not_divide_are_refused(captured, graph, mesh):
    import torch

    from milp_plan.execute.dtensors import Distributed

    runner = Distributed(plan_of(captured, "data"), mesh, {})
    assert runner.shared(torch.zeros(4, 3), "S(0)", "x").to_local().shape == (2, 3)
    for shape in ((3, 4), (), (1,)):
        with pytest.raises(InputError, match=r"x: found S\(0\) of a tensor of shape"):
            runner.shared(torch.zeros(shape), "S(0)", "x")


def zeros(runner, plan, graph):
    import torch

    from milp_plan.execute.dtensors import path_of

    inputs = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            said, value = node.meta["desc"], node.meta["val"]
            name = path_of(said.target) if hasattr(said, "target") else said.expr()
            placement = plan.inputs.get({"head.weight": "wte.weight"}.get(name, name), "R")
            tensor = torch.zeros(value.shape, dtype=value.dtype)
            inputs[node.name] = runner.shared(tensor, placement, name)
    return inputs
