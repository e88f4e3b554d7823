"""ONNX files: a graph by hand, and what PyTorch exports of models that are captured as well."""

import logging
import random
from pathlib import Path

import numpy as np
import pytest

from milp_plan.capture.instance import instance
from milp_plan.capture.merge import GRANULARITIES
from milp_plan.capture.model_file import load_builder
from milp_plan.capture.onnx import CONTROL, capture_onnx
from milp_plan.capture.onnx_operators import FORMULAS, POINTWISE, VIEWS
from milp_plan.capture.operators import LISTED
from milp_plan.capture.record import read_capture
from milp_plan.capture.work import coverage
from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from tests.capture.graphs import shipped
from tests.capture.test_instance import TWO, work
from tests.cli.cases import call

onnx = pytest.importorskip("onnx", reason="needs onnx: make test-torch")
MODELS = Path(__file__).parents[2] / "examples" / "torch_capture"

pytestmark = pytest.mark.filterwarnings("ignore")


def by_hand(path, *extra, batch="batch", outputs=("z", "f")):
    """A convolution whose shape is computed by nodes, and a linear layer."""
    h, kind = onnx.helper, onnx.TensorProto.FLOAT

    def weight(name, *shape):
        return onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name)

    nodes = [
        h.make_node("Conv", ["img", "conv.weight"], ["c"], "/conv/Conv", pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"], "/relu/Relu"),
        h.make_node("Shape", ["r"], ["s"], "/Shape", start=0, end=1),
        h.make_node("Concat", ["s", "rest"], ["t"], "/Concat", axis=0),
        h.make_node("Reshape", ["r", "t"], ["f"], "/Reshape"),
        h.make_node("Transpose", ["h.0.weight"], ["w"], "/h.0/Transpose", perm=[1, 0]),
        h.make_node("MatMul", ["x", "w"], ["y"], "/h.0/MatMul"),
        h.make_node("Add", ["y", "h.0.bias"], ["z"], "/h.0/h.0.sum/Add"),
        *extra,
    ]
    sizes = onnx.numpy_helper.from_array(np.array([-1], np.int64), "rest")
    graph = h.make_graph(
        nodes,
        "g",
        [
            h.make_tensor_value_info("x", kind, [batch, 64]),
            h.make_tensor_value_info("img", kind, [batch, 3, 8, 8]),
        ],
        [h.make_tensor_value_info(name, kind, None) for name in outputs],
        [
            weight("conv.weight", 8, 3, 3, 3),
            weight("h.0.weight", 32, 64),
            weight("h.0.bias", 32),
            sizes,
        ],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18), h.make_opsetid("mine", 1)])
    onnx.save(model, path)
    return path


def test_a_graph_by_hand(tmp_path):
    graph = capture_onnx(by_hand(tmp_path / "m.onnx"), {"batch": 4})
    assert [(k.name, k.operator, k.module) for k in graph.kernels] == [
        ("/conv/Conv", "onnx.Conv", "conv"),
        ("/relu/Relu", "onnx.Relu", "relu"),
        ("/h.0/MatMul", "onnx.MatMul", "h.0"),
        ("/h.0/h.0.sum/Add", "onnx.Add", "h.0.sum"),
    ]
    kinds = {storage.name: (storage.kind, storage.bytes) for storage in graph.storages}
    assert kinds["conv.weight"] == ("parameter", 8 * 27 * 4)
    assert kinds["h.0.weight"] == ("parameter", 64 * 32 * 4)  # however it is turned
    assert "w" not in kinds
    assert kinds["r"] == ("result", 4 * 8 * 64 * 4)
    outputs = {(graph.storages[r.storage].name, r.view) for r in graph.results}
    assert outputs == {("z", None), ("r", 0)}
    expected = 2 * 4 * 8 * 64 * 27 + 2 * 4 * 64 * 32
    assert coverage(graph).flops == {"forward": expected, "backward": 0}


@pytest.mark.parametrize(
    ("given", "where", "said"),
    [
        ({}, "input 'x', dimension 0", "--dimension batch=N"),
        ({"batch": 4, "bath": 4}, "--dimension", "correct the name"),
    ],
)
def test_open_sizes(tmp_path, given, where, said):
    with pytest.raises(InputError) as error:
        capture_onnx(by_hand(tmp_path / "m.onnx"), given)
    finding = next(f for f in error.value.findings if f.where == where)
    assert said in finding.remedy


def test_sizes_that_data_decide(tmp_path):
    node = onnx.helper.make_node("NonZero", ["z"], ["n"], "/h.1/NonZero")
    with pytest.raises(InputError) as error:
        capture_onnx(by_hand(tmp_path / "m.onnx", node, outputs=("n",)), {"batch": 4})
    assert "module 'h.1'" in str(error.value)
    assert "unknown shape" in str(error.value)


def test_an_operator_that_nobody_knows(tmp_path):
    node = onnx.helper.make_node("Mix", ["z"], ["n"], "/h.1/Mix", domain="mine")
    path = by_hand(tmp_path / "m.onnx", node, batch=4, outputs=("z",))
    model = onnx.load(path)
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("n", onnx.TensorProto.FLOAT, [4, 32])
    )
    onnx.save(model, path)
    answer = call("capture", path, "2xA100", "-o", tmp_path / "i.json")
    assert answer.exit_code == Exit.BAD_INPUT
    assert "operator mine.Mix, of which no formula is known" in answer.stderr
    given = ["--flops", "mine.Mix=3", "-o", tmp_path / "i.json"]
    assert call("capture", path, "2xA100", *given).exit_code == 0


UNKNOWN = {
    "CausalConvWithState",
    "DFT",
    "DeformConv",
    "Det",
    "ImageDecoder",
    "LinearAttention",
    "RegexFullMatch",
    "STFT",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
}
"""Operators that compute what nobody counts here, and those of texts and lists of tensors."""

AHEAD = {"Constant", "Shape", "Size", "BlackmanWindow", "HammingWindow", "HannWindow"} | {
    "MelWeightMatrix"
}
"""Operators whose results depend on no numbers of an input."""


def test_every_operator_of_onnx_is_reported():
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    known = {name.removeprefix("onnx.") for name in {*FORMULAS, *POINTWISE, *VIEWS, *LISTED}}
    assert names - known <= UNKNOWN | AHEAD | set(CONTROL)
    assert not known & UNKNOWN


def test_branches(tmp_path):
    h = onnx.helper
    one = h.make_graph(
        [h.make_node("Identity", ["z"], ["b"])],
        "b",
        [],
        [h.make_tensor_value_info("b", onnx.TensorProto.FLOAT, None)],
    )
    node = h.make_node("If", ["q"], ["o"], "/If", then_branch=one, else_branch=one)
    ask = h.make_node("Cast", ["z"], ["q"], to=onnx.TensorProto.BOOL)
    path = by_hand(tmp_path / "m.onnx", ask, node, batch=4, outputs=("o",))
    with pytest.raises(InputError, match="If branches or repeats"):
        capture_onnx(path)


def test_damaged_files_are_findings(tmp_path):
    whole = by_hand(tmp_path / "m.onnx").read_bytes()
    rng = random.Random(0)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "d.onnx").write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        command = ("capture", tmp_path / "d.onnx", "2xA100", "--dimension", "batch=4")
        answer = call(*command, "-o", tmp_path / "i.json")
        assert answer.exit_code in (0, Exit.BAD_INPUT), answer.output


@pytest.mark.parametrize(
    ("model", "recorded"), [("gpt2.py:four", "gpt2-four"), ("resnet50.py", "resnet50")]
)
def test_pytorch_exports_the_operations_it_is_captured_with(tmp_path, model, recorded):
    torch = pytest.importorskip("torch", reason="needs torch: make test-torch")
    pytest.importorskip("onnxscript", reason="needs onnxscript: make test-torch")
    logging.getLogger("torch").setLevel(logging.ERROR)
    module, args = load_builder(str(MODELS / model)).build()
    path = tmp_path / "m.onnx"
    torch.onnx.export(module.eval(), args, path, dynamo=True, verbose=False)
    graph = capture_onnx(path)
    assert coverage(graph).flops["forward"] == coverage(shipped(recorded)).flops["forward"]
    problems = [instance(graph, TWO, granularity=entry) for entry in GRANULARITIES]
    assert len({tuple(sorted(work(problem).items())) for problem in problems}) == 1
    sizes = [len(problem.graph.operators) for problem in problems]
    assert sizes[-1] < sizes[0] <= len(graph.kernels)


def test_a_captured_graph_of_it_is_read_again(tmp_path):
    path = by_hand(tmp_path / "m.onnx")
    files = [str(tmp_path / name) for name in ("a.json", "g.json", "b.json")]
    size = ["--dimension", "batch=4"]
    first = ["capture", path, "2xA100", *size, "-o", files[0], "--graph", files[1]]
    assert call(*first).exit_code == 0
    assert read_capture(files[1]) == capture_onnx(path, {"batch": 4})
    assert call("capture", files[1], "2xA100", "-o", files[2]).exit_code == 0
    assert Path(files[0]).read_bytes() == Path(files[2]).read_bytes()
    assert "ONNX, operator set 18" in Path(files[0]).read_text("utf-8")
