"""What a captured model returns stays; kernels without a module are merged with none."""

import random
from itertools import pairwise

import msgspec
import pytest

from milp_plan.capture.chain import stage_problem
from milp_plan.capture.fuse import fused
from milp_plan.capture.instance import instance
from milp_plan.capture.merge import GRANULARITIES
from milp_plan.capture.meshed import meshed
from milp_plan.capture.passes import sources, without_module
from milp_plan.capture.record import made_by, read_by
from milp_plan.cli.exits import Exit
from milp_plan.core import UPDATE_KIND, InputError
from milp_plan.cost.clusters import cluster
from milp_plan.io.capture_wire import Capture, Kernel, Result, Storage, Tensor
from tests.cli.cases import call

from .graphs import NAMES, random_capture, shipped
from .test_instance import TWO, work


def outputs_of(capture):
    return {result.storage for result in capture.results if result.kind != "gradient"}


def with_outputs(capture, rng):
    """The graph with any storages handed out, as inputs, as views, and as what kernels read."""
    chosen = rng.sample(range(len(capture.storages)), min(6, len(capture.storages)))
    more = [Result(place, rng.choice(["output", "loss", "mutation"])) for place in chosen]
    return msgspec.structs.replace(capture, results=(*capture.results, *more))


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_what_a_model_returns_is_kept_and_nothing_else(granularity):
    for seed in range(30):
        rng = random.Random(seed)
        capture = with_outputs(random_capture(rng, rng.randint(2, 30)), rng)
        problem = instance(capture, TWO, granularity=granularity, fuse=rng.random() < 0.5)
        made = made_by(capture)
        wanted = {capture.storages[place].name for place in outputs_of(capture) & made.keys()}
        assert {value.name for value in problem.graph.values if value.is_kept} == wanted


@pytest.mark.parametrize("name", NAMES)
def test_shipped_captures_keep_what_they_return(name):
    capture = shipped(name)
    made = made_by(capture)
    wanted = {capture.storages[place].name for place in outputs_of(capture) & made.keys()}
    for granularity in GRANULARITIES:
        values = instance(capture, TWO, granularity=granularity).graph.values
        assert {value.name for value in values if value.is_kept} == wanted


def test_a_mesh_keeps_what_is_returned_and_frees_what_nothing_reads():
    whole = shipped("resnet50-tiny")
    left = tuple(result for result in whole.results if result.kind != "mutation")
    for capture in (whole, msgspec.structs.replace(whole, results=left)):
        values = meshed(capture, TWO, ["2"]).graph.values
        made, readers = made_by(capture), read_by(capture)
        kept = {capture.storages[place].name for place in outputs_of(capture) & made.keys()}
        assert {value.name for value in values if value.is_kept} == kept
        results = {result.storage for result in capture.results}
        unread = {place for place in made if not readers[place]} - results
        assert bool(unread) == (capture is not whole)
        freed = {value.name for value in values if value.kept is False}
        assert freed == {capture.storages[place].name for place in unread}


# without modules ---------------------------------------------------------------------------------


def stripped(capture, module=None, keep=()):
    """The graph with one path, or none, for all kernels but some."""
    kernels = [
        kernel if place in keep else msgspec.structs.replace(kernel, module=module)
        for place, kernel in enumerate(capture.kernels)
    ]
    names = {s.name: f"p{n}" for n, s in enumerate(capture.storages) if s.kind == "parameter"}
    storages = [
        msgspec.structs.replace(s, name=names.get(s.name, s.name)) for s in capture.storages
    ]
    return msgspec.structs.replace(capture, kernels=tuple(kernels), storages=tuple(storages))


@pytest.mark.parametrize("module", [None, "", "main_graph"])
@pytest.mark.parametrize("name", ["llama-inference", "gpt2-tiny"])
def test_without_modules_operators_are_kernels_at_every_granularity(name, module):
    capture = stripped(shipped(name), module)
    problems = [instance(capture, TWO, granularity=entry) for entry in GRANULARITIES]
    assert {len(p.graph.operators) for p in problems} == {len(problems[0].graph.operators)}
    assert len(problems[0].graph.operators) > 50
    assert len({tuple(sorted(work(problem).items())) for problem in problems}) == 1
    assert {problem.provenance["granularity"] for problem in problems} == {"kernel"}


def test_parameters_without_a_module_are_updated_apart():
    problem = instance(stripped(shipped("gpt2-tiny")), TWO)
    updates = [op for op in problem.graph.operators if op.kind == UPDATE_KIND]
    assert len({op.group for op in updates}) > 1  # else all of the step is on one device
    assert len(updates) == sum(storage.trained for storage in shipped("gpt2-tiny").storages)


def test_a_product_without_a_module_stays_next_to_modules_that_are_known():
    def tensor(place):
        return Tensor(place, (8, 8), "float32")

    def kernel(name, module, read, made):
        operator = "onnx.MatMul" if len(read) > 1 else "onnx.Relu"
        arguments = tuple(map(tensor, read))
        return Kernel(
            name, operator, "forward", module, arguments, results=(tensor(made),), pointwise=True
        )

    chain = [("a", "h.0", True), ("b", "h.0", False), ("c", None, True), ("d", None, False)]
    chain += [("e", "h.1", True), ("f", None, False)]
    storages = [Storage("x", 256, "input", "float32"), Storage("w", 256, "parameter", "float32")]
    kernels = []
    for place, (name, module, product) in enumerate(chain):
        source = 0 if place == 0 else place + 1
        kernels.append(kernel(name, module, (source, 1) if product else (source,), place + 2))
        storages.append(Storage(f"r{place}", 256, "result", "float32"))
    capture = Capture(
        *("milp-plan-capture", 1, "m", "inference", "", 6),
        tuple(storages),
        tuple(kernels),
        (Result(7, "output"),),
        onnx="18",
    )
    assert without_module(capture) == {2, 3}
    problem = instance(capture, TWO, fuse=False)
    names = [operator.name for operator in problem.graph.operators]
    assert names == ["h.0.F", "model/c", "model/d", "h.1.F"]
    assert problem.provenance["granularity"] == "block (kernel where no module is known)"
    assert problem.provenance["fixed"] == "6 kernels run as 4 operators"


@pytest.mark.parametrize("name", NAMES)
def test_modules_of_pytorch_are_known(name):
    assert not without_module(shipped(name))


def test_names_stay_apart_whatever_kernels_are_called():
    capture = stripped(shipped("gpt2-tiny"))
    kernels = [
        msgspec.structs.replace(kernel, name=f"k{'.2' * (place % 3)}{place // 3 * '/'}")
        for place, kernel in enumerate(capture.kernels)
    ]
    problem = instance(msgspec.structs.replace(capture, kernels=tuple(kernels)), TWO)
    names = [operator.name for operator in problem.graph.operators]
    assert len(set(names)) == len(names)


def test_options_that_need_modules_are_refused_without(tmp_path):
    capture = stripped(shipped("gpt2-tiny"))
    with pytest.raises(InputError, match="modules to cut between"):
        stage_problem(capture, cluster("2xA100"))
    with pytest.raises(InputError, match="no block with values to forget"):
        instance(capture, TWO, recompute=["full"])


def test_the_command_says_that_operators_are_kernels(tmp_path):
    from milp_plan.capture.record import write_capture

    write_capture(stripped(shipped("llama-inference")), tmp_path / "g.json")
    answer = call("capture", tmp_path / "g.json", "2xA100", "-o", tmp_path / "i.json")
    assert answer.exit_code == Exit.DONE
    assert "154 kernels without a module: each is an operator" in answer.stderr
    assert "placed with a neighbour" not in answer.stderr
    assert "operators of granularity kernel" in call("info", tmp_path / "i.json").stdout


def test_without_modules_only_chains_are_fused():
    """A fused kernel reads from the one before it alone, and is all that reads from it."""
    seen = 0
    for seed in range(200):
        rng = random.Random(seed)
        capture = stripped(with_outputs(random_capture(rng, rng.randint(2, 30)), rng))
        handed, made, readers = outputs_of(capture), made_by(capture), read_by(capture)
        before = sources(capture)
        for unit in fused(capture):
            for first, second in pairwise(unit):
                seen += 1
                results = {storage for storage, place in made.items() if place == first}
                assert not results & handed
                assert {reader for storage in results for reader in readers[storage]} == {second}
                assert before[second] == (first,)
    assert seen > 5
