"""Operations of ONNX's operators, against sums over every element that is multiplied."""

import pytest

from milp_plan.capture.onnx_operators import FORMULAS, POINTWISE, VIEWS
from milp_plan.capture.operators import LISTED
from milp_plan.capture.work import FORMULAS as ALL
from milp_plan.capture.work import flops_of, operator_of
from milp_plan.cli.exits import Exit
from tests.capture.graphs import kernel
from tests.cli.cases import call


@pytest.mark.parametrize(
    ("made", "flops"),
    [
        (kernel("onnx.MatMul", (7, 5, 3), (3, 2), result=(7, 5, 2)), 2 * 7 * 5 * 3 * 2),
        (kernel("onnx.Gemm", (5, 3), (5, 2), result=(3, 2), keywords={"transA": 1}), 2 * 3 * 5 * 2),
        (kernel("onnx.Gemm", (3, 5), (5, 2), result=(3, 2)), 2 * 3 * 5 * 2),
        # every output element: channels of its group x window
        (kernel("onnx.Conv", (1, 4, 8, 8), (6, 2, 3, 3), result=(1, 6, 8, 8)), 2 * 384 * 18),
        (kernel("onnx.ConvTranspose", (1, 4, 8, 8), (4, 6, 2, 2), result=(1, 6, 16, 16)), 256 * 48),
        # steps x sequences x directions x 4 gates x hidden x (input + hidden)
        (
            kernel("onnx.LSTM", (9, 2, 10), (1, 20, 10), (1, 20, 5), result=(9, 1, 2, 5)),
            2 * 9 * 2 * 20 * 15,
        ),
        (
            kernel("onnx.Attention", (1, 2, 6, 4), (1, 2, 7, 4), (1, 2, 7, 3), result=(1, 2, 6, 3)),
            2 * 2 * 6 * 7 * (4 + 3),
        ),
        # two heads that share one key and value
        (
            kernel(
                "onnx.Attention",
                (1, 6, 8),
                (1, 7, 4),
                (1, 7, 3),
                result=(1, 6, 6),
                keywords={"q_num_heads": 2, "kv_num_heads": 1},
            ),
            2 * 2 * 6 * 7 * (4 + 3),
        ),
        (
            kernel(
                "onnx.Einsum",
                (3, 5, 7),
                (3, 7, 2),
                result=(3, 5, 2),
                keywords={"equation": "bij, bjk -> bik"},
            ),
            2 * 3 * 5 * 7 * 2,
        ),
        (
            kernel(
                "onnx.Einsum",
                (3, 4, 5, 7),
                (7, 2),
                result=(3, 4, 5, 2),
                keywords={"equation": "...ij,jk->...ik"},
            ),
            2 * 3 * 4 * 5 * 7 * 2,
        ),
        (kernel("onnx.Relu", (3, 5), result=(3, 5), pointwise=True), 0),
        (kernel("onnx.Softmax", (3, 5), result=(3, 5)), 0),
        (kernel("microsoft.FusedMatMul", (3, 5), (5, 2), result=(3, 2)), None),
    ],
)
def test_operations(made, flops):
    assert flops_of(made) == flops


def test_an_operator_has_one_class():
    assert not FORMULAS.keys() & (LISTED | POINTWISE | VIEWS)
    assert not LISTED & (POINTWISE | VIEWS)
    assert ALL.keys() >= FORMULAS.keys()
    assert operator_of(kernel("onnx.MatMul", (1, 1), (1, 1))) == "onnx.MatMul"


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    answer = call("capture", tmp_path / "m.onnx", "2xA100")
    assert answer.exit_code == Exit.SOLVER_FAILURE
    assert "pip install 'milp_plan[onnx]'" in answer.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["m.onnx", "2xA100", "--mode", "training"], "--mode training needs a PyTorch model"),
        (["m.bin", "2xA100", "--onnx", "--profile"], "--profile needs a model to build"),
        (["m.onnx", "2xA100", "--dtype", "bfloat16"], "--dtype needs a model to build"),
        (["m.json", "2xA100", "--dimension", "batch=4"], "--dimension goes with an ONNX file"),
        (["m.onnx", "2xA100", "--dimension", "batch"], "write NAME=N"),
    ],
)
def test_options_that_do_not_go_together(options, said):
    answer = call("capture", *options)
    assert answer.exit_code == Exit.USAGE
    assert said in answer.stderr
