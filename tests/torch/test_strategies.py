"""Every strategy that is offered for an operator, tried on it: PyTorch takes it as it is."""

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from milp_plan.capture.chosen import PlacementChoice
from milp_plan.capture.layouts import collectives
from milp_plan.capture.model_file import INNER, load_builder
from milp_plan.capture.nodes import Recorder
from milp_plan.capture.placements import entries
from milp_plan.capture.sharding import sharding
from milp_plan.capture.trace import build, trace
from milp_plan.cost.devices import device_spec
from milp_plan.cost.mesh import mesh

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = Path(__file__).parents[2] / "examples" / "torch_capture"
SHAPES = ("2", "2x2")


@pytest.fixture
def shape(request):
    """A mesh of which this process is the first; nothing is sent."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    sizes = tuple(map(int, request.param.split("x")))
    world = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
    torch.distributed.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    yield request.param, torch.distributed.init_device_mesh("cpu", sizes)
    torch.distributed.destroy_process_group()


def distributed(value, placement, grid):
    """A tensor of zeros at a placement."""
    import torch
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    local, found = list(value.shape), []
    for axis, entry in enumerate(entries(placement)):
        if entry.startswith("S"):
            local[int(entry[2:-1])] //= grid.size(axis)
            found.append(Shard(int(entry[2:-1])))
        else:
            found.append(Replicate() if entry == "R" else Partial())
    zeros = torch.zeros(local, dtype=value.dtype)
    stride = torch.empty(tuple(value.shape), device="meta").stride()
    shape = torch.Size(value.shape)
    return DTensor.from_local(zeros, grid, found, run_check=False, shape=shape, stride=stride)


def tried(node, choice, grid):
    """What PyTorch makes of a strategy: placements of its results, or what it says."""
    import torch
    from torch.distributed.tensor._utils import ExplicitRedistributionContext
    from torch.distributed.tensor.debug import CommDebugMode

    from milp_plan.execute.dtensors import text_of
    from milp_plan.execute.shares import run_shares, runs_here

    left = list(choice.reads)

    def tensor(read):
        value = read.meta["val"]
        value = value[0] if isinstance(value, list | tuple) else value
        return distributed(value, left.pop(0), grid)

    args = torch.fx.map_arg(node.args, tensor)
    kwargs = torch.fx.map_arg(node.kwargs, tensor)
    counter = CommDebugMode()
    try:
        with torch.no_grad(), counter, ExplicitRedistributionContext():
            here = runs_here(node)
            made = run_shares(node, args, kwargs, grid) if here else node.target(*args, **kwargs)
    except (RuntimeError, NotImplementedError, ValueError, AssertionError, IndexError) as error:
        return str(error).strip().splitlines()[0][:200]
    if counter.get_total_counts() != len(choice.inside):
        return f"communicates {dict(counter.get_comm_counts())}"
    made = list(made) if isinstance(made, list | tuple) else [made]
    while made[0] is None:  # labels begin with the first result that is made
        made.pop(0)
    return tuple("-" if one is None else text_of(one) for one in made)


def shapes(node):
    """What makes two calls of an operator alike: shapes of tensors, and all other arguments."""
    import torch

    read = torch.fx.map_arg(node.args, lambda read: "tensor")
    return str(read), str(
        [getattr(one.meta["val"], "shape", "several") for one in node.all_input_nodes]
    )


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("gpt2.py:tiny", "2"),
        ("llama.py:tiny", "2"),
        ("resnet50.py:tiny", "2"),
        ("resnet50.py:tiny", "2x2"),
        ("gpt2.py:tiny", "2x2"),
        pytest.param("llama.py:tiny", "2x2", marks=pytest.mark.slow),
    ],
    indirect=["shape"],
)
def test_pytorch_takes_every_strategy_as_it_is(model, shape):
    import torch

    builder = load_builder(str(MODELS / model))
    built = build(builder, "float64", lambda _text: None)
    with trace(builder.text, built, "training", lambda _text: None) as joint:
        capture = Recorder(builder.text, {}, prefix=INNER).capture(
            joint.graph, "m", "training", torch.__version__
        )
        nodes = {node.name: node for node in joint.graph.nodes if node.op == "call_function"}
    problem = sharding(capture, mesh(shape[0], device_spec("A100")))
    offsets = problem.strategies.offsets.tolist()
    wrong, seen = [], set()
    for place, name in enumerate(problem.operators):
        node = nodes.get(name)
        if node is None or name.startswith("getitem"):
            continue
        for label in problem.labels[offsets[place] : offsets[place + 1]]:
            choice = PlacementChoice.of(label)
            key = (str(node.target), shapes(node), choice)
            if choice.reads and key not in seen:
                seen.add(key)
                found = tried(node, choice, shape[1])
                # of several views of one tensor the label says the first
                if found != choice.raw and found != choice.raw * len(found):
                    wrong.append(f"{name} {node.target} {label}: {found}")
    assert len(seen) > 100
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("shape", SHAPES, indirect=True)
def test_changes_of_placement_communicate_as_we_count(shape):
    import torch
    from torch.distributed.tensor.debug import CommDebugMode

    from milp_plan.execute.dtensors import COLLECTIVES

    text, grid = shape
    every = ["".join(one) for one in product(("R", "P", "S(0)", "S(1)"), repeat=grid.ndim)]
    value = torch.zeros(8, 8)
    compared = 0
    for before, after in product(every, repeat=2):
        pairs = zip(entries(before), entries(after), strict=True)
        if any(want == "P" != have for have, want in pairs):
            continue
        tensor, wanted = (distributed(value, one, grid) for one in (before, after))
        with CommDebugMode() as counter:
            tensor.redistribute(grid, wanted.placements)
        found = Counter()
        for collective, count in counter.get_comm_counts().items():
            found[COLLECTIVES[str(collective).rpartition(".")[2]]] += count
        assert found == collectives(before, after), (before, after)
        compared += 1
    assert compared == {"2": 13, "2x2": 169}[text]
