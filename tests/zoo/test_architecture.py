"""Layers and architectures."""

from dataclasses import replace

import pytest

from milp_plan.core import InputError
from milp_plan.zoo import Architecture, Layer

FIRST = Layer("a", "linear", (), 10, 5, 4)
SECOND = Layer("b", "elementwise", ("a",), 1, 0, 4)
LAST = Layer("c", "loss", ("a", "b"), 1, 0, 1)


def build(*layers):
    return Architecture("tiny", layers, 7, "none")


def test_sums_and_defaults():
    network = build(FIRST, SECOND, LAST)
    assert (network.flops, network.parameters) == (12, 5)
    assert network.readers == {"a": ("b", "c"), "b": ("c",), "c": ()}
    assert network.layer("b") is SECOND
    # 4 written, and 7 of the batch or 4 + 4 of the layers read
    assert [network.moved_elements(layer) for layer in network.layers] == [11, 8, 9]
    assert network.moved_elements(replace(SECOND, moved_elements=3)) == 3
    assert (FIRST.flops_with_weights, SECOND.flops_with_weights) == (10, 0)
    assert replace(FIRST, weight_flops=6).flops_with_weights == 6
    assert replace(SECOND, shares="a").has_weights


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((), "at least one"),
        ((FIRST, FIRST), "the name twice"),
        ((replace(FIRST, kind="magic"),), "'magic'"),
        ((replace(FIRST, splits=("diagonal",)),), "'diagonal'"),
        ((SECOND, FIRST), "an earlier layer"),
        ((FIRST, replace(SECOND, shares="z")), "an earlier layer"),
        ((FIRST, replace(SECOND, inputs=("a", "a"))), "a name twice"),
        ((FIRST, replace(SECOND, no_gradient=("z",))), "some of its inputs"),
        ((replace(FIRST, flops=-1),), "a negative figure"),
        ((replace(FIRST, moved_elements=-1),), "a negative figure"),
    ],
)
def test_defects(layers, words):
    with pytest.raises(InputError, match=words) as error:
        build(*layers)
    assert error.value.findings[0].file == "architecture tiny"


def test_all_defects_at_once():
    with pytest.raises(InputError) as error:
        build(replace(FIRST, kind="magic", flops=-1), FIRST)
    assert len(error.value.findings) == 3
