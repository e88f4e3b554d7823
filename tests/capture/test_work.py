"""Operations and bytes: published counts to the last digit, formulas against loops."""

from math import prod

import pytest

from milp_plan.capture.nests import nested
from milp_plan.capture.work import bytes_read, coverage, flops_of, require_known, with_formulas
from milp_plan.core import InputError
from milp_plan.io.capture_wire import Tensor

from .graphs import NAMES, kernel, shipped


def forward(name: str) -> int:
    return coverage(shipped(name)).flops["forward"]


def test_forward_passes_have_the_published_operations():
    assert round(forward("gpt2-four") / 8e6) == 149_914
    assert round(forward("gpt2-small") / 1e6) == 2_333_186
    assert round(forward("resnet50") / 32e6) == 8_178
    assert round(forward("vit") / 8e6) == 35_128


def test_a_step_is_the_formula_of_megatron_and_what_attention_computes_again():
    flops = coverage(shipped("gpt2-four")).flops
    batch, length, width, layers, vocabulary = 8, 1024, 768, 4, 50257
    share = 1 + length / (6 * width) + vocabulary / (12 * width * layers)
    step = 72 * batch * length * layers * width**2 * share
    again = 2 * layers * batch * length**2 * width
    assert sum(flops.values()) == step + again


def test_inference_is_the_forward_pass_of_training():
    assert forward("llama-inference") == forward("llama")


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_of_our_models_is_known(name):
    require_known(shipped(name))
    assert not [k for k in shipped(name).kernels if flops_of(k) is None]


def test_matrix_products():
    assert flops_of(kernel("aten.mm.default", (3, 5), (5, 7))) == 2 * 3 * 5 * 7
    assert flops_of(kernel("aten.addmm.default", (7,), (3, 5), (5, 7))) == 2 * 3 * 5 * 7
    assert flops_of(kernel("aten.bmm.default", (2, 3, 5), (2, 5, 7))) == 2 * 2 * 3 * 5 * 7
    assert flops_of(kernel("aten.baddbmm.default", (1,), (2, 3, 5), (2, 5, 7))) == 420
    assert flops_of(kernel("aten.mv.default", (3, 5), (5,))) == 2 * 3 * 5
    assert flops_of(kernel("aten.dot.default", (5,), (5,))) == 10
    assert flops_of(kernel("aten.linear.default", (2, 3, 5), (7, 5), None)) == 2 * 6 * 5 * 7


def test_experts_multiply_all_rows_once():
    rows, inner, outer, experts = 30, 5, 7, 4
    wanted = 2 * rows * inner * outer
    name = "aten._grouped_mm.default"
    assert flops_of(kernel(name, (rows, inner), (experts, inner, outer))) == wanted
    assert flops_of(kernel(name, (inner, rows), (rows, outer))) == wanted
    assert flops_of(kernel(name, (experts, outer, inner), (inner, rows))) == wanted
    name = "transformers.grouped_mm_fallback"
    read = ((rows, inner), (experts, inner, outer), (experts,))
    assert flops_of(kernel(f"{name}.default", *read)) == wanted
    assert flops_of(kernel(f"{name}_backward.default", *read, (rows, outer))) == 2 * wanted
    name = "aten._grouped_mm.default"
    both = kernel(name, (experts, 3, inner), (experts, inner, outer))
    assert flops_of(both) == 2 * experts * 3 * inner * outer


def convolved(x, weight, stride, padding, groups) -> tuple[int, tuple[int, ...]]:
    """Products and sums of a convolution without borders, counted window by window."""
    size = tuple(
        (n + 2 * padding - k) // stride + 1 for n, k in zip(x[2:], weight[2:], strict=True)
    )
    count = 0
    for _ in range(x[0]):
        for _channel in range(weight[0]):
            for _place in range(prod(size)):
                count += 2 * weight[1] * prod(weight[2:])
    assert weight[1] * groups == x[1]
    return count, (x[0], weight[0], *size)


@pytest.mark.parametrize(
    ("x", "weight", "stride", "padding", "groups"),
    [
        ((2, 3, 8, 8), (4, 3, 3, 3), 1, 1, 1),
        ((1, 4, 9, 7), (6, 2, 3, 2), 2, 0, 2),
        ((2, 4, 5), (4, 1, 5), 1, 2, 4),
    ],
)
def test_convolutions_forward_and_backward(x, weight, stride, padding, groups):
    wanted, out = convolved(x, weight, stride, padding, groups)
    rest = ([stride], [padding], [1])
    rest = tuple(tuple(entry) for entry in rest)
    one = kernel("aten.convolution.default", x, weight, None, result=out)
    plain = (*one.arguments, *rest, False, (0,), groups)
    assert flops_of(type(one)("k", one.operator, "forward", "", plain, results=one.results)) == (
        wanted
    )
    # the same pair of sizes the other way round: a transposed convolution
    turned = kernel("aten.convolution.default", out, weight, None, result=x)
    plain = (*turned.arguments, *rest, True, (0,), groups)
    assert flops_of(type(one)("k", one.operator, "forward", "", plain, results=turned.results)) == (
        wanted
    )
    back = kernel("aten.convolution_backward.default", out, x, weight)
    for mask in ((True, True, False), (True, False, False), (False, True, True)):
        plain = (*back.arguments, None, *rest, False, (0,), groups, mask)
        made = type(one)("k", back.operator, "backward", "", plain, results=back.results)
        assert flops_of(made) == wanted * (mask[0] + mask[1])


def test_attention_counts_queries_against_keys_and_values():
    query, key, value = (2, 8, 10, 4), (2, 2, 12, 4), (2, 2, 12, 6)
    name = "aten._scaled_dot_product_flash_attention_for_cpu"
    scores = 2 * 8 * 10 * 12
    assert flops_of(kernel(f"{name}.default", query, key, value)) == 2 * scores * (4 + 6)
    back = kernel(f"{name}_backward.default", (2, 8, 10, 6), query, key, value)
    assert flops_of(back) == 2 * scores * (3 * 4 + 2 * 6)


def test_views_count_once_and_at_most_their_storage():
    sizes = [400, 1000]
    reads = [Tensor(0, (50,), "float32"), Tensor(0, (25,), "float32"), Tensor(0, (50,), "float32")]
    one = kernel("aten.add.Tensor")
    made = type(one)("k", one.operator, "forward", "", tuple(reads), results=one.results)
    assert bytes_read([made], sizes) == {0: 300}
    wide = Tensor(0, (10**6,), "float32")
    made = type(one)("k", one.operator, "forward", "", (*reads, wide), results=one.results)
    assert bytes_read([made], sizes) == {0: 400}


def test_rows_that_are_picked_are_what_is_read():
    sizes = [4 * 50_000 * 64, 8 * 100]
    table, rows = Tensor(0, (50_000, 64), "float32"), Tensor(1, (100,), "int64")
    one = kernel("aten.embedding.default", result=(100, 64))
    made = type(one)("k", one.operator, "forward", "", (table, rows), results=one.results)
    assert bytes_read([made], sizes) == {0: 4 * 100 * 64, 1: 800}


def test_an_unknown_operator_is_an_error_until_its_work_is_given():
    import msgspec

    capture = shipped("gpt2-tiny")
    first, *rest = capture.kernels
    strange = msgspec.structs.replace(first, operator="mylib.mix.default", module="h.0.mix")
    capture = msgspec.structs.replace(capture, kernels=(strange, *rest))
    with pytest.raises(InputError) as error:
        require_known(capture)
    stated = str(error.value)
    assert "mylib.mix" in stated
    assert "'h.0.mix'" in stated
    assert "--flops mylib.mix=NUMBER" in stated
    known = with_formulas(capture, {"mylib.mix": 3})
    require_known(known)
    elements = prod(strange.results[0].shape)
    assert flops_of(known.kernels[0]) == 3 * elements
    with pytest.raises(InputError, match="an operator of the model"):
        with_formulas(capture, {"mylib.other": 3})


@pytest.mark.parametrize("name", ["hardswish_backward", "hardsigmoid_backward", "mish_backward"])
def test_operators_that_are_elementwise_without_saying_so_pay_for_bytes_and_are_cut(name):
    """Of MobileNetV3, whose activations PyTorch does not tag as pointwise."""
    call = kernel(f"aten.{name}.default", (4, 6), (4, 6), result=(4, 6))
    assert flops_of(call) == 0
    nest = nested(call).operator
    assert {loop.name for loop in nest.loops} == {"a", "b"}
    assert all(tensor.loops == {"a", "b"} for tensor in (*nest.inputs, nest.output))
