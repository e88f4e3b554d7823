"""Placements by hand, run on several processes: numbers equal, collectives as counted by hand."""

import math
from pathlib import Path

import pytest

from milp_plan.capture import capture_model, fingerprint, load_builder
from milp_plan.capture.placements import write_placements
from milp_plan.cli.exits import Exit
from milp_plan.core import UnsupportedProblemError
from tests.cli.cases import call

from .plans import COLLECTIVES, FORWARD_SUMS, PLANS, placements

pytestmark = pytest.mark.filterwarnings("ignore")

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


def test_a_pin_of_no_node_is_an_error(captured):
    from milp_plan.execute import run_placements

    plan = plan_of(captured, "replicated")
    plan.pins["nowhere"] = "R"
    with pytest.raises(UnsupportedProblemError, match=r"node 'nowhere'.*no such node"):
        run_placements(load_builder(MODEL), [plan], {}, dtype="float64")
