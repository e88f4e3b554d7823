"""ONNX files as problems: peak, addresses and optimum by hand, and by trying all orders.

None of the graphs says which modules its nodes come from. Results are several; weights are tied
through transposes; sizes are open.
"""

import csv
import random

import numpy as np
import pytest

from milp_plan import run
from milp_plan.capture.instance import instance
from milp_plan.capture.onnx import capture_onnx
from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.cost.clusters import cluster
from milp_plan.io.plan_file import write_plan
from milp_plan.kinds.schedule.formats import write
from milp_plan.run import Settings
from tests.cli.cases import call
from tests.support.brute import brute_force
from tests.support.seeds import few

onnx = pytest.importorskip("onnx", reason="needs onnx: make test-torch")

MIB = 2**20
ONE, TWO = cluster("1xA100"), cluster("2xA100")
DEVICE = "A100.0"


def ticks(moved: int, flops: int = 0) -> int:
    """An A100 moves 85 % of 2,039 GB/s, computes 70 % of 312 TFLOP/s, and starts in 5 us."""
    memory = -(-moved * 10**12 // (2039 * 10**9 * 850))
    compute = -(-flops * 10**12 // (312 * 10**12 * 700))
    return max(memory, compute) + 5000


def model(path, nodes, inputs, outputs, weights=(), kinds=None):
    """Write a graph; inputs and outputs are names with shapes, weights names with arrays."""
    h, kinds = onnx.helper, kinds or {}

    def told(name, shape):
        return h.make_tensor_value_info(name, kinds.get(name, onnx.TensorProto.FLOAT), shape)

    graph = h.make_graph(
        [h.make_node(operator, *ends, **more) for operator, ends, more in nodes],
        "g",
        [told(*entry) for entry in inputs.items()],
        [told(*entry) for entry in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]), path)
    return path


def node(operator, read, made, **more):
    return operator, (read.split(), [name.strip("-") for name in made.split()]), more


SQUARE = [1024, 1024]
EMBEDDING = np.zeros((1000, 64), np.float32)
LOOKUP = [node("Gather", "E ids", "h"), node("Transpose", "E", "Et", perm=[1, 0])]
TOKENS = {"ids": onnx.TensorProto.INT64}
IDS, LOGITS, HIDDEN = 2 * 3 * 8, 2 * 3 * 1000 * 4, 2 * 3 * 64 * 4

FILES = {
    # x beside both results
    "two results": (
        [node("Relu", "x", "a"), node("Sigmoid", "x", "b")],
        {"x": SQUARE},
        {"a": SQUARE, "b": SQUARE},
        {},
        {},
        12 * MIB,
        [ticks(8 * MIB)] * 2,
    ),
    # x, the first result, what leads from it to the second, the second
    "a result that is read": (
        [node("Relu", "x", "a"), node("Exp", "a", "t"), node("Sigmoid", "t", "b")],
        {"x": ["rows", 1024]},
        {"a": ["rows", 1024], "b": ["rows", 1024]},
        {},
        {"rows": 1024},
        16 * MIB,
        [ticks(8 * MIB)] * 3,
    ),
    # one embedding, read in rows and turned
    "tied through a transpose": (
        [*LOOKUP, node("MatMul", "h Et", "logits")],
        {"ids": [2, 3]},
        {"logits": [2, 3, 1000]},
        {"E": EMBEDDING},
        {},
        EMBEDDING.nbytes + IDS + HIDDEN + LOGITS,
        [
            ticks(IDS + 2 * HIDDEN),
            ticks(EMBEDDING.nbytes + HIDDEN + LOGITS, 2 * 6 * 64 * 1000),
        ],
    ),
    # hidden states stay while the logits come and go
    "tied, two results, two open sizes": (
        [*LOOKUP, node("MatMul", "h Et", "logits"), node("Softmax", "logits", "p")],
        {"ids": ["batch", "length"]},
        {"h": ["batch", "length", 64], "p": ["batch", "length", 1000]},
        {"E": EMBEDDING},
        {"batch": 2, "length": 3},
        EMBEDDING.nbytes + IDS + HIDDEN + 2 * LOGITS,
        [
            ticks(IDS + 2 * HIDDEN),
            ticks(EMBEDDING.nbytes + HIDDEN + LOGITS, 2 * 6 * 64 * 1000),
            ticks(2 * LOGITS),
        ],
    ),
    # a view of what is read is a result, and so is the input itself
    "views and inputs as results": (
        [
            node("Relu", "x", "a"),
            node("Flatten", "a", "v", axis=0),
            node("Transpose", "a", "c", perm=[1, 0]),
        ],
        {"x": [1024, "width"]},
        {"x": [1024, "width"], "v": [1, MIB], "c": ["width", 1024]},
        {},
        {"width": 1024},
        12 * MIB,
        [ticks(8 * MIB)] * 2,
    ),
    # three quarters of what the first node makes go at once, and there is no mask
    "dead and missing outputs": (
        [
            node("Split", "x sizes", "p q", axis=0),
            node("Dropout", "p", "d -"),
            node("Concat", "d d d d", "y", axis=0),
        ],
        {"x": [2048, 1024]},
        {"y": [2048, 1024]},
        {"sizes": np.array([512, 1536])},
        {},
        18 * MIB + 16,
        [ticks(10 * MIB + 16), ticks(10 * MIB)],
    ),
}


def problem_of(tmp_path, case, machines, objective=Objective.MAKESPAN):
    nodes, inputs, outputs, weights, sizes, *_ = FILES[case]
    kinds = TOKENS if "ids" in inputs else {}
    path = model(tmp_path / "m.onnx", nodes, inputs, outputs, weights, kinds)
    graph = capture_onnx(path, sizes)
    return instance(graph, machines, objective=objective, fuse=False)


def solved(problem):
    outcome = run.solve(problem, Settings(time_limit_s=20))
    assert outcome.proved
    assert verify(problem, outcome.plan).ok
    return outcome


@pytest.mark.parametrize("case", FILES)
def test_peak_time_and_addresses_are_those_by_hand(tmp_path, case):
    *_, peak, times = FILES[case]
    problem = problem_of(tmp_path, case, ONE)
    assert sorted(
        next(iter(op.options)).duration_ticks["A100"] for op in problem.graph.operators
    ) == (sorted(times))
    assert solved(problem).value == sum(times)
    narrow = problem_of(tmp_path, case, ONE, Objective.PEAK_MEMORY)
    outcome = solved(narrow)
    assert outcome.value == peak
    files = [tmp_path / name for name in ("i.json", "p.json", "a.csv")]
    write(narrow, files[0])
    write_plan(outcome.plan, files[1])
    assert call("pack", files[0], files[1], "-o", files[2]).exit_code == 0
    lie = list(csv.DictReader(files[2].read_text("utf-8").splitlines()))
    assert max(int(one["offset"]) + int(one["size"]) for one in lie) == peak
    assert_apart(lie)
    results = {one["name"] for one in lie if int(one["upper"]) == sum(times)}
    made = {name for name in FILES[case][2] if name != "v"} | (
        {"a"} if "v" in FILES[case][2] else set()
    )
    assert results >= made
    assert "q" not in results


def assert_apart(lie):
    """Nothing lies where something else lies at the same time."""
    for place, one in enumerate(lie):
        for other in lie[:place]:
            first, second = sorted((one, other), key=lambda entry: int(entry["offset"]))
            below = int(first["offset"]) + int(first["size"]) <= int(second["offset"])
            early = min(int(one["upper"]), int(other["upper"]))
            assert below or early <= max(int(one["lower"]), int(other["lower"])), (one, other)


@pytest.mark.parametrize("case", FILES)
def test_the_optimum_on_two_devices_is_that_of_enumeration(tmp_path, case):
    problem = problem_of(tmp_path, case, TWO)
    best, _ = brute_force(problem)
    assert solved(problem).value == best
    if case == "two results":
        assert best == ticks(8 * MIB)


# any graph: all orders ---------------------------------------------------------------------------


class Drawn:
    """A random graph of matrices, and the least peak of its kernels, counted from its nodes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rows = rng.choice([1, 3, 64, 1000])
        self.nodes, self.weights = [], {}
        self.width = {"x": rng.choice([8, 24, 4096])}
        self.base = {"x": "x"}  # tensor -> what it is a view of
        self.runs = []  # kernels: tensors read, tensors made
        for _ in range(rng.randint(3, 6)):
            self.add()
        while not self.runs:
            self.add()
        more = rng.sample(list(self.base), rng.randint(0, len(self.base)))
        self.outputs = list(dict.fromkeys([self.runs[-1][1][0], *more]))

    def add(self) -> None:
        rng, number = self.rng, len(self.nodes)
        source = rng.choice(list(self.base))
        wide, made = self.width[source], f"t{number}"
        kind = rng.choice(["Relu", "Softmax", "Add", "Split", "MatMul", "tied", "Concat", "view"])
        if kind == "view":
            self.nodes.append(node(rng.choice(["Identity", "Dropout"]), source, made))
            self.width[made], self.base[made] = wide, self.base[source]
            return
        read, makes = [source], {made: wide}
        if kind == "Add":
            read.append(
                rng.choice(
                    [n for n in self.width if self.width[n] == wide and n not in self.weights]
                )
            )
            self.nodes.append(node("Add", " ".join(read), made))
        elif kind == "Concat":
            makes = {made: 2 * wide}
            self.nodes.append(node("Concat", f"{source} {source}", made, axis=1))
        elif kind == "Split":
            makes = {made: wide // 2, f"{made}b": wide - wide // 2}
            self.nodes.append(node("Split", source, " ".join(makes), axis=1, num_outputs=2))
        elif kind in ("MatMul", "tied"):
            fits = [n for n, array in self.weights.items() if wide in array.shape]
            if kind == "MatMul" or not fits:
                fits = [f"w{number}"]
                self.weights[fits[0]] = np.zeros((wide, rng.choice([8, 24])), np.float32)
            weight = rng.choice(fits)
            rows, columns = self.weights[weight].shape
            factor = weight
            if rows != wide or (rows == columns and rng.random() < 0.5):
                factor, columns = f"{weight}t{number}", rows
                self.nodes.append(node("Transpose", weight, factor, perm=[1, 0]))
            makes = {made: columns}
            read.append(weight)
            self.nodes.append(node("MatMul", f"{source} {factor}", made))
        else:
            self.nodes.append(node(kind, source, made))
        self.width |= makes
        self.base |= {name: name for name in makes}
        self.runs.append(({self.base.get(name, name) for name in read}, list(makes)))

    def size(self, name: str) -> int:
        if name in self.weights:
            return self.weights[name].nbytes
        return 4 * self.rows * self.width[name]

    def least_peak(self) -> int:
        """Least peak over all orders of the kernels, one after the other."""
        read = set().union(*(read for read, _ in self.runs))
        rest = sum(self.size(name) for name in read & {"x", *self.weights})
        kept = {self.base[name] for name in self.outputs}
        readers = {
            name: {n for n, (r, _) in enumerate(self.runs) if name in r} for name in self.width
        }
        made_by = {name: n for n, (_, made) in enumerate(self.runs) for name in made}
        needs = [{made_by[name] for name in read if name in made_by} for read, _ in self.runs]

        def after(done: frozenset[int]) -> int:
            return sum(
                self.size(name)
                for name, maker in made_by.items()
                if maker in done and (name in kept or not readers[name] <= done)
            )

        best = {frozenset(): 0}
        for _ in self.runs:
            grown = {}
            for done, peak in best.items():
                for number, (_, made) in enumerate(self.runs):
                    if number not in done and needs[number] <= done:
                        now = after(done) + sum(self.size(name) for name in made)
                        key = done | {number}
                        grown[key] = min(grown.get(key, 2**63), max(peak, now))
            best = grown
        return rest + best[frozenset(range(len(self.runs)))]

    def write(self, path):
        shape = {name: ["batch", wide] for name, wide in self.width.items()}
        outputs = {name: shape[name] for name in self.outputs}
        return model(path, self.nodes, {"x": shape["x"]}, outputs, self.weights)


@pytest.mark.parametrize("seed", few(range(100), 8))
def test_the_least_peak_of_any_graph_is_that_over_all_orders(tmp_path, seed):
    drawn = Drawn(random.Random(seed))
    graph = capture_onnx(drawn.write(tmp_path / "m.onnx"), {"batch": drawn.rows})
    problem = instance(graph, ONE, objective=Objective.PEAK_MEMORY, fuse=False)
    assert len(problem.graph.operators) == len(drawn.runs)
    assert solved(problem).value == drawn.least_peak()
