"""ONNX files of odd forms: outputs, names, sizes, subgraphs, data beside the file, broken order."""

import numpy as np
import pytest

from milp_plan.capture.instance import instance
from milp_plan.capture.onnx import capture_onnx
from milp_plan.cli.exits import Exit
from milp_plan.core import FULL, InputError
from tests.cli.cases import call

from ..capture.test_instance import TWO

onnx = pytest.importorskip("onnx", reason="needs onnx: make test-torch")

FLOAT = onnx.TensorProto.FLOAT
h = onnx.helper


def node(operator, read, made, **more):
    return h.make_node(operator, read, made, **more)


def told(name, shape, kind=FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def saved(path, nodes, inputs, outputs, weights=(), more=(), **how):
    """Write a graph of nodes, of inputs and outputs as :func:`told`, of names with arrays."""
    made = [onnx.numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = h.make_graph(nodes, "g", inputs, outputs, made, value_info=more)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]), path, **how)
    return path


def values(path, sizes=None, **options):
    """Value -> bytes, readers and whether it is kept, of the problem of a file."""
    graph = instance(capture_onnx(path, sizes), TWO, **options).graph
    return {v.name: (v.bytes[FULL], len(v.consumers), v.is_kept) for v in graph.values}


EIGHT = [told("x", [8])]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "m.onnx"


# what stays --------------------------------------------------------------------------------------


def test_a_result_twice_and_a_view_of_it_are_one(file):
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Reshape", ["a", "s"], ["v"]),
        node("Transpose", ["v"], ["t"]),
    ]
    outputs = [told("v", [4, 2]), told("a", [8]), told("a", [8])]
    path = saved(file, nodes, [told("x", [8])], outputs, {"s": np.array([4, 2])})
    assert values(path, fuse=False) == {"x": (32, 1, False), "a": (32, 1, True)}


def test_inputs_and_weights_as_results_rest_as_ever(file):
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Transpose", ["w"], ["wt"])]
    outputs = [told("x", [4, 4]), told("a", [4, 2]), told("wt", [2, 4]), told("w", [4, 2])]
    path = saved(file, nodes, [told("x", [4, 4])], outputs, {"w": np.zeros((4, 2), np.float32)})
    expected = {"x": (64, 1, False), "w": (32, 1, False), "a": (32, 0, True)}
    assert values(path) == expected


@pytest.mark.parametrize("wanted", [False, True])
def test_a_mask_is_there_only_where_it_is_wanted(file, wanted):
    nodes = [
        node("MaxPool", ["x"], ["p", ""], kernel_shape=[2, 2]),
        node("Dropout", ["p"], ["d", "mask"]),
        node("Softmax", ["d"], ["o"]),
    ]
    outputs = [told("o", [1, 1, 7, 7])]
    if wanted:
        outputs.append(told("mask", [1, 1, 7, 7], onnx.TensorProto.BOOL))
    path = saved(file, nodes, [told("x", [1, 1, 8, 8])], outputs)
    expected = {"x": (256, 1, False), "p": (196, 1, False), "o": (196, 0, True)}
    assert values(path) == expected | ({"mask": (49, 0, True)} if wanted else {})


def test_what_nothing_reads_goes_when_its_maker_stops(file):
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2),
        node("BatchNormalization", ["a", *"cccc"], ["n"]),
        node("Relu", ["n"], ["lost"]),
        node("Softmax", ["n"], ["o"]),
    ]
    weights = {"c": np.ones(8, np.float32)}
    path = saved(file, nodes, [told("x", [8, 8])], [told("o", [4, 8])], weights)
    found = values(path, fuse=False)
    assert not found.keys() & {"b", "lost"}
    operators = instance(capture_onnx(path), TWO, fuse=False).graph.operators
    assert [op.options[0].workspace_bytes for op in operators] == [128, 0, 128, 0]


@pytest.mark.parametrize(
    ("nodes", "operators"),
    [
        ([("Relu", "x", "a"), ("Exp", "a", "b"), ("Tanh", "b", "o")], 1),  # a chain
        ([("Relu", "x", "a"), ("Exp", "a", "b"), ("Tanh", "a", "c"), ("Add", "b c", "o")], 4),
        ([("Relu", "x", "a"), ("Exp", "x", "b"), ("Add", "a b", "c"), ("Tanh", "c", "o")], 3),
    ],
)
def test_what_can_run_side_by_side_is_never_one_operator(file, nodes, operators):
    made = [node(operator, read.split(), [result]) for operator, read, result in nodes]
    path = saved(file, made, EIGHT, [told("o", [8])])
    assert len(instance(capture_onnx(path), TWO).graph.operators) == operators


# weights -----------------------------------------------------------------------------------------


def test_a_weight_in_every_form_is_one(file):
    nodes = [
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("Reshape", ["t", "s"], ["r"]),
        node("Squeeze", ["r"], ["q"]),
        node("Unsqueeze", ["q", "axis"], ["u"]),
        node("Identity", ["u"], ["same"]),
        node("Flatten", ["same"], ["f"], axis=2),
        node("Cast", ["w"], ["half"], to=onnx.TensorProto.FLOAT16),
        node("MatMul", ["x", "w"], ["m"]),
        node("MatMul", ["m", "same"], ["m2"]),
        node("MatMul", ["m", "f"], ["m3"]),
        node("Cast", ["half"], ["back"], to=FLOAT),
        node("Add", ["m", "row"], ["m4"]),
        node("Transpose", ["bias"], ["row"]),
    ]
    nodes = [*nodes[:-2], nodes[-1], nodes[-2]]
    weights = {
        "w": np.zeros((6, 5), np.float32),
        "s": np.array([1, 5, 6]),
        "axis": np.array([0]),
        "bias": np.zeros((5, 1), np.float32),
    }
    outputs = [told("m2", [1, 4, 6]), told("m3", [4, 6]), told("m4", [4, 5])]
    path = saved(file, nodes, [told("x", [4, 6])], outputs, weights)
    found = values(path)
    rest = {name: size for name, (size, _, _) in found.items() if name in {"x", "w", "bias"}}
    assert rest == {"x": 96, "w": 120, "bias": 20}
    assert found["w"][1] == 3
    assert found.keys() == {"x", "w", "bias", "m", "m2", "m3", "m4"}
    kinds = {storage.name: storage.kind for storage in capture_onnx(path).storages}
    assert kinds["w"] == kinds["bias"] == "parameter"


def test_a_weight_in_another_type_is_another_one(file):
    nodes = [
        node("Cast", ["w"], ["half"], to=onnx.TensorProto.FLOAT16),
        node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT16),
        node("MatMul", ["y", "half"], ["m"]),
        node("MatMul", ["x", "w"], ["n"]),
    ]
    outputs = [told("m", [4, 5], onnx.TensorProto.FLOAT16), told("n", [4, 5])]
    path = saved(file, nodes, [told("x", [4, 6])], outputs, {"w": np.zeros((6, 5), np.float32)})
    found = values(path)
    assert (found["half"][0], found["w"][0]) == (60, 120)


def test_an_optional_input_left_out_makes_nothing_live(file):
    nodes = [
        node("Split", ["x"], ["a", ""], axis=0, num_outputs=2),
        node("Clip", ["k", "", "top"], ["kk"]),
        node("Add", ["a", "kk"], ["o"]),
    ]
    weights = {"k": np.zeros(4, np.float32), "top": np.float32(1).reshape(())}
    path = saved(file, nodes, [told("x", [8])], [told("o", [4])], weights)
    assert [kernel.operator for kernel in capture_onnx(path).kernels] == ["onnx.Split", "onnx.Add"]


# sizes -------------------------------------------------------------------------------------------


def dynamic(file):
    nodes = [
        node("MatMul", ["x", "w"], ["y"]),
        node("Reshape", ["y", "s"], ["z"]),
        node("Add", ["z", "z"], ["o"]),
        node("Relu", ["other"], ["p"]),
    ]
    inputs = [told("x", ["batch", "seq", 8]), told("other", [None, "batch"])]
    outputs = [told("o", ["batch", "seq*4"]), told("p", [None, "batch"])]
    more = [told("y", ["batch", "seq", 4]), told("z", ["batch", "unk__7"])]
    weights = {"w": np.zeros((8, 4), np.float32), "s": np.array([0, -1])}
    return saved(file, nodes, inputs, outputs, weights, more)


def test_every_open_size_is_named_once_with_its_remedy(file):
    with pytest.raises(InputError) as error:
        capture_onnx(dynamic(file), {"seq": 3, "sek": 4})
    assert [(f.where, f.remedy) for f in error.value.findings] == [
        ("input 'x', dimension 0", "give it: --dimension batch=N"),
        ("input 'other', dimension 0", "give it: --dimension other.0=N"),
        ("--dimension", "correct the name"),
    ]
    assert "also input 'other', dimension 1" in error.value.findings[0].found


@pytest.mark.parametrize(("batch", "seq", "other"), [(2, 3, 5), (1, 1, 1), (64, 512, 7)])
def test_sizes_stand_wherever_they_are_named(file, batch, seq, other):
    found = values(dynamic(file), {"batch": batch, "seq": seq, "other.0": other})
    sizes = {name: size for name, (size, _, _) in found.items()}
    assert sizes == {
        "x": 32 * batch * seq,
        "w": 128,
        "y": 16 * batch * seq,
        "o": 16 * batch * seq,
        "other": 4 * other * batch,
        "p": 4 * other * batch,
    }


def test_a_size_below_zero_is_open_and_a_size_of_zero_is_none(file):
    nodes = [node("Relu", ["x"], ["a"]), node("Concat", ["a", "y"], ["o"], axis=0)]
    inputs = [told("x", [-1, 8]), told("y", [4, 8])]
    path = saved(file, nodes, inputs, [told("o", [-1, 8])])
    with pytest.raises(InputError, match=r"--dimension x\.0=N"):
        capture_onnx(path)
    found = values(path, {"x.0": 0}, fuse=False)
    assert found["x"][0] == found["a"][0] == 0
    assert found["o"] == (128, 0, True)


def test_sizes_next_to_the_file_are_read_as_far_as_they_are_there(file):
    nodes = [node("Reshape", ["x", "s"], ["y"]), node("MatMul", ["y", "w"], ["o"])]
    weights = {"s": np.array([8, 8]), "w": np.zeros((8, 2), np.float32)}
    how = {"save_as_external_data": True, "size_threshold": 0, "location": "data"}
    path = saved(file, nodes, [told("x", [64])], [told("o", [8, 2])], weights, **how)
    assert values(path)["w"] == (64, 1, False)
    (file.parent / "data").unlink()
    with pytest.raises(InputError, match="the integers 's' lie in a file beside it"):
        capture_onnx(path)


# what is refused, by name ------------------------------------------------------------------------


def branching():
    body = h.make_graph([node("Identity", ["c"], ["q"])], "b", [], [told("q", None)])
    nodes = [
        node("Cast", ["x"], ["c"], to=onnx.TensorProto.BOOL),
        node("If", ["c"], ["o"], name="choose", then_branch=body, else_branch=body),
    ]
    return nodes, [told("x", [])], [told("o", [], onnx.TensorProto.BOOL)]


REFUSED = {
    "a branch": (*branching(), "'choose': found If branches or repeats"),
    "no shape": (
        [node("Relu", ["x"], ["a"])],
        [told("x", None)],
        [told("a", None)],
        "input 'x': found a tensor without a shape",
    ),
    "a sequence": (
        [node("SequenceAt", ["x", "i"], ["a"])],
        [h.make_tensor_sequence_value_info("x", FLOAT, [2])],
        [told("a", [2])],
        "input 'x': found a sequence",
    ),
    "nodes out of order": (
        [node("Relu", ["b"], ["a"]), node("Relu", ["x"], ["b"])],
        EIGHT,
        [told("a", [8])],
        "Relu reads 'b', which comes later",
    ),
    "a tensor that nothing makes": (
        [node("Add", ["x", "q"], ["a"], name="sum")],
        EIGHT,
        [told("a", [8])],
        "node 'sum': found no tensor 'q'",
    ),
    "an output that nothing makes": (
        [node("Relu", ["x"], ["a"])],
        EIGHT,
        [told("a", [8]), told("b", [8])],
        "output 'b': found no tensor 'b'",
    ),
    "a name twice": (
        [node("Relu", ["x"], ["a"]), node("Sigmoid", ["x"], ["a"])],
        EIGHT,
        [told("a", [8])],
        "Sigmoid makes 'a', which is made twice",
    ),
    "sizes that do not fit": (
        [node("MatMul", ["x", "x"], ["a"])],
        [told("x", [4, 6])],
        [told("a", None)],
        "Incompatible dimensions",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(file, case):
    *graph, stated = REFUSED[case]
    answer = call("capture", saved(file, *graph), "1xA100", "-o", file.parent / "i.json")
    assert answer.exit_code == Exit.BAD_INPUT
    assert stated in answer.stderr
    assert not (file.parent / "i.json").exists()


def test_sparse_weights_are_refused(file):
    path = saved(file, [node("Add", ["x", "w"], ["a"])], EIGHT, [told("a", [8])])
    model = onnx.load(path)
    entry = h.make_tensor("w", FLOAT, [1], [1.0])
    place = h.make_tensor("", onnx.TensorProto.INT64, [1], [3])
    model.graph.sparse_initializer.append(h.make_sparse_tensor(entry, place, [8]))
    onnx.save(model, path)
    with pytest.raises(InputError, match="weights 'w': found sparse"):
        capture_onnx(path)


def test_names_may_be_anything(file):
    nodes = [
        node("Relu", ["x y\n\"'"], ["é/ü"], name='a b/"c"\n'),
        node("Softmax", ["é/ü"], ["model.F"], name="model/x"),
        node("Softmax", ["model.F"], ["o.2"], name="/"),
        node("Softmax", ["o.2"], ["model.F.2"], name="model/x"),
    ]
    path = saved(file, nodes, [told("x y\n\"'", [8])], [told("model.F.2", [8])])
    target = file.parent / "i.json"
    for granularity in ("kernel", "module", "block"):
        command = ("capture", path, "2xA100", "--granularity", granularity, "-o", target)
        assert call(*command).exit_code == Exit.DONE
        solved = call("solve", target, "--time-limit", "10")
        assert solved.exit_code == Exit.DONE
        assert "proved optimal" in solved.stdout


def test_solve_says_how_an_onnx_file_becomes_an_instance(file):
    path = saved(file, [node("Relu", ["x"], ["a"])], EIGHT, [told("a", [8])])
    answer = call("solve", path)
    assert answer.exit_code == Exit.BAD_INPUT
    assert f"milp-plan capture {path} CLUSTER" in answer.stderr
