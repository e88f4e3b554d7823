"""Operators on parts, put together again, against the operator on all of it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from milp_plan.capture.nests import nested
from milp_plan.cost.devices import device_spec
from milp_plan.cost.mesh import Layout, mappings, mesh

pytestmark = pytest.mark.filterwarnings("ignore")

GRID = mesh("2x2", device_spec("A100"))
PROCESSES = 4


def tensor(torch, *shape):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator) + 0.25


def cases(torch):
    """Operator, its arguments: of each kind that runs on parts."""
    aten = torch.ops.aten

    def t(*shape):
        return tensor(torch, *shape)

    images = t(4, 8, 6, 6)
    convolutions = {
        "bias": (t(12, 8, 3, 3), t(12), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        "stride": (t(12, 8, 3, 3), None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
        "groups": (t(16, 2, 3, 3), t(16), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
        "depthwise": (t(8, 1, 3, 3), t(8), [1, 1], [1, 1], [1, 1], False, [0, 0], 8),
        "transposed": (t(8, 12, 2, 2), t(12), [2, 2], [0, 0], [1, 1], True, [0, 0], 1),
        "transposed groups": (t(8, 6, 2, 2), None, [2, 2], [0, 0], [1, 1], True, [0, 0], 2),
    }
    for name, (weight, bias, *rest) in convolutions.items():
        forward = (images, weight, bias, *rest)
        yield f"convolution, {name}", aten.convolution.default, forward
        made = t(*aten.convolution.default(*forward).shape)
        sizes = None if bias is None else list(bias.shape)
        mask = [True, True, bias is not None]
        backward = (made, images, weight, sizes, *rest, mask)
        yield f"its backward pass, {name}", aten.convolution_backward.default, backward
    line = (t(4, 8, 9), t(6, 8, 3), None, [1], [0], [1], False, [0], 1)
    yield "convolution of a line", aten.convolution.default, line
    for values in (images, t(8, 4)):
        yield from normalisations(torch, values)
    sizes = (4, 8, 36, 4)
    plain = (images, t(8), t(8) + 1, *sizes, 1e-5)
    yield "group norm", aten.native_group_norm.default, plain
    _, mean, scale = aten.native_group_norm.default(*plain)
    rest = (t(4, 8, 6, 6) * 2, images, mean, scale, t(8), *sizes, [True, True, True])
    yield "its own backward pass", aten.native_group_norm_backward.default, rest
    yield "max pool", aten.max_pool2d_with_indices.default, (images, [3, 3], [2, 2], [1, 1])
    made, places = aten.max_pool2d_with_indices.default(images, [3, 3], [2, 2], [1, 1])
    yield (
        "its backward pass",
        aten.max_pool2d_with_indices_backward.default,
        (t(*made.shape), images, [3, 3], [2, 2], [1, 1], [1, 1], False, places),
    )
    yield "pool of one image", aten.max_pool2d_with_indices.default, (t(8, 6, 6), [2, 2])
    yield from experts(torch)
    yield from attentions(torch)
    yield "hard swish", aten.hardswish.default, (images,)
    yield (
        "its backward pass, of each element",
        aten.hardswish_backward.default,
        (images * 2, images),
    )
    yield "hard sigmoid, backward", aten.hardsigmoid_backward.default, (images * 2, images)
    yield "leaky, backward", aten.leaky_relu_backward.default, (images * 2, images, 0.1, False)
    yield "mean pool", aten.avg_pool2d.default, (images, [2, 2], [2, 2])
    yield "pool to a size", aten._adaptive_avg_pool2d.default, (images, [3, 3])
    yield (
        "its backward pass as well",
        aten._adaptive_avg_pool2d_backward.default,
        (t(4, 8, 3, 3), images),
    )


def normalisations(torch, values):
    aten = torch.ops.aten
    channels = values.shape[1]
    weight, bias, mean = (tensor(torch, channels) + place for place in range(3))
    spread = tensor(torch, channels).abs() + 0.5
    of = f"{values.ndim} dimensions"
    known = (values, weight, bias, mean, spread)
    functional = aten._native_batch_norm_legit_functional.default
    yield f"batch norm of {of}", functional, (*known, True, 0.1, 1e-5)
    yield f"known norm of {of}", functional, (*known, False, 0.1, 1e-5)
    yield (
        f"frozen norm of {of}",
        aten._native_batch_norm_legit_no_training.default,
        (*known, 0.1, 1e-5),
    )
    _, center, scale, *_ = functional(*known, True, 0.1, 1e-5)
    gradient = tensor(torch, *values.shape) * 2
    backward = aten.native_batch_norm_backward.default
    for training in (True, False):
        saved = (center, scale) if training else (mean, spread)
        rest = (gradient, values, weight, mean, spread, *saved, training, 1e-5)
        yield f"backward norm of {of}, {training}", backward, (*rest, [True, True, True])
    rest = (gradient, values, weight, mean, spread, center, scale, True, 1e-5)
    yield f"backward norm of {of}, parameters", backward, (*rest, [False, True, True])


def attentions(torch):
    """Without a mask, and with masks of all samples and heads, of some, and of none."""
    aten = torch.ops.aten
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    read = [tensor(torch, 4, 8, 6, 5) + place for place in range(3)]
    shapes = {"none": None, "of all": (4, 8, 6, 6), "of samples": (4, 1, 6, 6)}
    shapes |= {"of heads": (1, 8, 6, 6), "one": (1, 1, 6, 6), "of pairs": (6, 6)}
    for name, shape in shapes.items():
        more = {"scale": 0.5} | ({} if shape is None else {"attn_mask": tensor(torch, *shape)})
        yield f"attention, mask {name}", forward, (*read, 0.0, shape is None), more
        made, sums = forward(*read, 0.0, shape is None, **more)
        rest = (made * 2, *read, made, sums, 0.0, shape is None)
        yield f"its backward pass, mask {name}", backward, rest, more


def experts(torch):
    """Rows of four experts, one of which has none."""
    register_experts(torch)
    ends = torch.tensor([3, 3, 10, 12], dtype=torch.int32)
    rows, matrices = tensor(torch, 12, 16), tensor(torch, 4, 16, 16)
    known = torch.ops.transformers
    yield "experts", known.grouped_mm_fallback.default, (rows, matrices, ends)
    gradient = tensor(torch, 12, 16) - 1
    backward = known.grouped_mm_fallback_backward.default
    yield "experts, backward", backward, (rows, matrices, ends, gradient)
    single = (rows.float(), matrices.float(), ends)
    yield "experts of PyTorch", torch.ops.aten._grouped_mm.default, single


def register_experts(torch):
    """Operators of ``transformers``, which tests do without."""
    make = torch.library.custom_op

    def groups(ends):
        bounds = [0, *ends.tolist()]
        return [slice(*pair) for pair in pairwise(bounds)]

    def forward(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.cat(
            [input[rows] @ one for rows, one in zip(groups(offs), weight, strict=True)]
        )

    def backward(
        input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor, grad_output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [(input[rows], grad_output[rows]) for rows in groups(offs)]
        back = torch.cat([grad @ one.T for (_, grad), one in zip(parts, weight, strict=True)])
        return back, torch.stack([read.T @ grad for read, grad in parts])

    for name, function in (("", forward), ("_backward", backward)):
        tensors = ", ".join(f"Tensor {one}" for one in inspect.signature(function).parameters)
        made = "(Tensor, Tensor)" if name else "Tensor"
        text = f"transformers::grouped_mm_fallback{name}"
        make(text, function, mutates_args=(), schema=f"({tensors}) -> {made}")


def node_of(torch, target, args, kwargs):
    """A node of a graph whose inputs are the tensors among the arguments."""
    graph = torch.fx.Graph()

    def given(place, item):
        if not isinstance(item, torch.Tensor):
            return item
        found = graph.placeholder(f"x{place}")
        found.meta["val"] = item
        return found

    places = tuple(given(place, item) for place, item in enumerate(args))
    names = {name: given(name, item) for name, item in kwargs.items()}
    node = graph.call_function(target, places, names)
    node.meta["val"] = target(*args, **kwargs)
    return node


def distributed(value, dims, cuts, grid):
    """A tensor of which each process has the part that some cuts of loops give it."""
    from torch.distributed.tensor import distribute_tensor

    from milp_plan.execute.shares import _axes, _placements

    layout = Layout(tuple(_axes(dim.loops, cuts) for dim in dims))
    return distribute_tensor(value, grid, _placements(layout, 2), src_data_rank=None)


def tried(torch, grid, target, args, kwargs=None):
    """Try every strategy of an operator; how many there are."""
    from torch.distributed.tensor._utils import ExplicitRedistributionContext
    from torch.distributed.tensor.debug import CommDebugMode

    from milp_plan.execute.shares import _call, _layouts, _placements, run_shares

    kwargs = kwargs or {}
    node = node_of(torch, target, args, kwargs)
    call = _call(node)
    nest = nested(call)
    whole = listed(torch, node.meta["val"])
    every = list(mappings(nest.operator, GRID))
    for mapping in every:
        cuts = tuple((str("xy".index(axis)), loop) for axis, loop in mapping)
        read = iter(nest.operator.inputs)

        def part(item, cuts=cuts, read=read):
            tensors = isinstance(item, torch.Tensor)
            return distributed(item, next(read).dims, cuts, grid) if tensors else item

        parts = [part(item) for item in args]
        named = {name: part(item) for name, item in kwargs.items()}
        with CommDebugMode() as counter, ExplicitRedistributionContext():
            made = listed(torch, run_shares(node, parts, named, grid))
        stated = f"{target} {mapping}"
        assert counter.get_total_counts() == len(nest.inside(mapping)), stated
        for one, want, layout in zip(made, whole, _layouts(call, nest, cuts), strict=True):
            assert (one is None) == (want is None) == (layout is None), stated
            if one is not None:
                assert list(one.placements) == _placements(layout, 2), stated
                torch.testing.assert_close(one.full_tensor(), want, msg=stated)
    return len(every)


def listed(torch, found):
    return [found] if isinstance(found, torch.Tensor) else list(found)


def check(folder: Path, place: int) -> None:
    """Every strategy of every case, as one of four processes."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=place, world_size=PROCESSES)
    grid = dist.init_device_mesh("cpu", (2, 2))
    counts = {name: tried(torch, grid, *call) for name, *call in cases(torch)}
    if place == 0:
        (folder / "tried").write_text(json.dumps(counts))
    dist.destroy_process_group()


def test_every_part_gives_what_the_whole_does(tmp_path):
    pytest.importorskip("torch", reason="needs torch: make test-torch")
    command = [sys.executable, "-m", "tests.torch.test_shares", str(tmp_path)]
    runs = [
        subprocess.Popen([*command, str(place)], stderr=subprocess.PIPE, text=True)
        for place in range(PROCESSES)
    ]
    stated = [run.communicate(timeout=300)[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * PROCESSES, stated[0][-3000:]
    counts = json.loads((tmp_path / "tried").read_text())
    assert sum(counts.values()) > 150
    assert min(counts.values()) > 1, counts


if __name__ == "__main__":
    check(Path(sys.argv[1]), int(sys.argv[2]))
