"""Strategies: what follows from a mapping, against figures by hand."""

import pytest

from milp_plan.core import InputError
from milp_plan.cost.collectives import all_reduce_ns
from milp_plan.cost.mesh import (
    ADAM,
    MeshOperator,
    Setting,
    convolution,
    cross_entropy,
    elementwise,
    embedding,
    fused,
    mappings,
    matmul,
    norm,
    packed_attention,
    pool,
    reshape,
    resident_bytes,
    strategies,
)
from milp_plan.cost.mesh.operators import Loop
from milp_plan.cost.roofline import roofline_ns

from .figures import ROUND, UNIT, grid, line

CONV = convolution(8, (8, 16), (8, 8), (8, 8), kernel=(3, 3))
CONV_1 = convolution(8, (8, 16), (8, 8), (8, 8), kernel=(1, 1))
FUSED = fused(8, 4, 16, heads=4, parameters=100, flops=1000, moved=0, saved=0)


def way(operator, name, *, training=None, zero=0, readers=1, mesh=None):
    """Return the strategy of that mapping."""
    setting = Setting(mesh or line(4), training, (zero,))
    (found,) = [
        row
        for row in strategies(operator, setting, readers=readers)
        if " ".join(f"{a}:{n}" for a, n in row.mapping) == name and row.zero == zero
    ]
    return found


def collectives(strategy):
    return [(c.kind, c.num_bytes, c.ticks) for c in strategy.collectives]


def test_data_parallel_gradients():
    """The weight gradient, 2 bytes each, is summed over all devices; nothing else is sent."""
    found = way(matmul(8, 3, 16, 32), "x:b", training=ADAM)
    size = 2 * 16 * 32
    assert collectives(found) == [("all_reduce", size, all_reduce_ns(UNIT, 4, size))]
    flops, touched = 2 * 2 * 3 * 16 * 32, 2 * (2 * 3 * 32 + 2 * 3 * 16 + 16 * 32)
    assert found.forward_ns == roofline_ns(ROUND, flops, touched)
    assert found.backward_ns == 2 * found.forward_ns
    assert not way(matmul(8, 3, 16, 32), "x:b").collectives


@pytest.mark.parametrize(
    ("operator", "loop", "output", "gradients", "inside"),
    [
        (matmul(8, 4, 16, 32), "b", "0:x", ["0:x"], ["all_reduce"]),
        (matmul(8, 4, 16, 32), "s", "1:x", ["1:x"], ["all_reduce"]),
        (matmul(8, 4, 16, 32), "n", "2:x", ["sum:x"], []),
        (matmul(8, 4, 16, 32), "k", "sum:x", ["2:x"], []),
        (matmul(8, 4, 16, 32, bias=True), "k", "sum:x", ["2:x"], ["all_reduce"]),
        (packed_attention(8, 16, 4, 8), "h", "2:x", ["2:x"], []),
        (packed_attention(8, 16, 4, 8), "q", "1:x", ["sum:x"], []),
        (CONV, "b", "0:x", ["0:x"], ["all_reduce"]),
        (CONV, "n", "1:x", ["sum:x"], []),
        (CONV, "c", "sum:x", ["1:x"], []),
        (CONV, "y", "2:x", ["2:x"], ["halo", "all_reduce"]),
        (CONV_1, "x", "3:x", ["3:x"], ["all_reduce"]),
        (pool(8, 16, (8, 8), (4, 4), (3, 3)), "n", "1:x", ["1:x"], []),
        (pool(8, 16, (8, 8), (4, 4), (3, 3)), "y", "2:x", ["2:x"], ["halo"]),
        (norm(8, 4, 16), "e", "2:x", ["2:x"], ["all_reduce"]),
        (norm(8, 4, 16), "b", "0:x", ["0:x"], ["all_reduce"]),
        (cross_entropy(8, 4, 16), "v", "sum:x", ["2:x"], ["all_reduce"]),
        (embedding(8, 4, 16, 64), "v", "sum:x", ["sum:x"], []),
        (embedding(8, 4, 16, 64), "e", "2:x", ["sum:x"], []),
        (embedding(8, 4, 16, 64), "b", "0:x", ["0:x"], ["all_reduce"]),
        (elementwise((8, 4)), "d1", "1:x", ["1:x"], []),
        (elementwise((8, 4), inputs=2, linear=True), "sum", "sum:x", ["full", "full"], []),
        (reshape((8, 4, 16), (8, 64)), "d1", "1:x", ["1:x"], []),
        (FUSED, "h", "sum:x", ["sum:x"], []),
    ],
)  # fmt: skip
def test_what_follows_from_a_split(operator, loop, output, gradients, inside):
    found = way(operator, f"x:{loop}", training=ADAM)
    assert found.writes.text == output
    assert [layout.text for layout in found.gradients] == gradients
    assert list(dict.fromkeys(c.kind for c in found.collectives)) == inside
    assert all(c.ticks > 0 for c in found.collectives)


def test_key_heads_limit_the_split():
    few, many = (packed_attention(2, 4, 8, 8, kv_heads=heads) for heads in (2, 4))
    assert (("x", "h"),) not in mappings(few, line(4))
    assert (("x", "h"),) in mappings(many, line(4))


def test_halos():
    """One row of 8 pixels, 8 channels and 8 samples to either side, forward and backward."""
    found = way(CONV, "x:y", training=ADAM)
    size = 8 * 8 * 8 * 2
    assert collectives(found)[:2] == 2 * [("halo", size, 2 * (10 + size))]


def test_zero_memory_as_published():
    """ZeRO, figure 1: 7.5 B parameters on 64 devices take 120, 31.4, 16.6 and 1.9 GB."""
    giga = [sum(resident_bytes(7_500_000_000, 64, level, ADAM)) / 1e9 for level in range(4)]
    assert giga == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)
    assert resident_bytes(100, 4, 0, None) == (200, 0, 0)
    assert resident_bytes(100, 4, 3, None) == (50, 0, 0)


def test_zero_levels_on_the_wire():
    """Level 2 sends as much as an all-reduce and keeps less; level 3 half as much again."""
    operator = matmul(8, 3, 16, 32)
    setting = Setting(line(4), ADAM, (0, 1, 2, 3))
    rows = {row.zero: row for row in strategies(operator, setting) if row.name.startswith("x:b")}
    assert set(rows) == {2, 3}  # level 2 beats 0 and 1
    size = 2 * 16 * 32
    once = all_reduce_ns(UNIT, 4, size) // 2
    assert collectives(rows[2]) == [("reduce_scatter", size, once), ("all_gather", size, once)]
    assert collectives(rows[3]) == [("reduce_scatter", size, once)] + 2 * [
        ("all_gather", size, once)
    ]
    assert [c.backward for c in rows[3].collectives] == [True, False, True]
    assert rows[2].memory.weights == 4 * rows[3].memory.weights == size
    assert rows[2].memory.state == rows[3].memory.state == 12 * 16 * 32 // 4


def test_a_lone_output_is_summed_and_several_readers_may_ask_for_it():
    operator = matmul(8, 4, 16, 32)
    size = 8 * 4 * 16 * 2
    rows = [r for r in strategies(operator, Setting(line(4)), readers=0) if r.name == "x:k"]
    assert {r.writes.text for r in rows} == {"full", "0:x", "1:x", "2:x"}
    (full,) = [r for r in rows if r.writes.text == "full"]
    assert collectives(full) == [("reduce", size, all_reduce_ns(UNIT, 4, size))]
    several = strategies(operator, Setting(line(4)), readers=2)
    texts = {r.writes.text for r in several if r.name == "x:k"}
    assert texts == {"full", "0:x", "1:x", "2:x", "sum:x"}


def test_two_axes():
    found = way(matmul(8, 4, 16, 32), "x:b y:n", training=ADAM, mesh=grid("2x4"))
    assert (found.reads[0].text, found.writes.text) == ("0:x", "0:x 2:y")
    assert found.gradients[0].text == "0:x sum:y"
    (sync,) = found.collectives
    assert (sync.axes, sync.num_bytes) == (("x",), 2 * 32 * 16 // 4)
    assert found.memory.weights == 2 * 32 * 16 // 4
    both = way(matmul(8, 4, 16, 32), "x:n y:n", mesh=grid("2x4"))
    assert both.writes.text == "2:xy"


def test_counts_and_divisibility():
    """At most (loops + 1)^axes mappings; splits divide."""
    assert len(list(mappings(matmul(8, 8, 16, 32), grid("2x4")))) == 25
    assert len(list(mappings(matmul(1, 7, 16, 32), grid("2x4")))) == 9
    assert list(mappings(matmul(1, 7, 9, 5), line(4))) == [()]


def test_no_worse_layouts_are_lost():
    operator, setting = matmul(8, 4, 16, 32), Setting(grid("2x4"), ADAM, (0, 1, 2, 3))
    rows = strategies(operator, setting, readers=2)
    for row in rows:
        rivals = [
            other
            for other in rows
            if other is not row
            and (other.reads, other.gradients, other.writes)
            == (row.reads, row.gradients, row.writes)
        ]
        for other in rivals:
            assert other.cost_ns > row.cost_ns or other.memory.total > row.memory.total


def test_reshape_splits_leading_factors():
    merged = reshape((1, 8, 4), (1, 32))
    assert [dim.loops for dim in merged.inputs[0].dims] == [("b",), ("d1",), ()]
    assert [dim.loops for dim in merged.output.dims] == [("b",), ("d1",)]
    assert reshape((4, 1), (4,)).inputs[0].extents == (4, 1)
    assert reshape((1, 4), (4,)).loops == (Loop("b", 4),)
    with pytest.raises(ValueError, match="differ in size"):
        reshape((4,), (5,))


def test_batched():
    one = convolution(1, (8, 16), (8, 8), (8, 8), kernel=(3, 3))
    assert one.batched(8) == CONV
    assert norm(1, 4, 16).batched(3) == norm(3, 4, 16)


def test_defects_are_listed():
    good = matmul(2, 2, 2, 2)
    with pytest.raises(InputError, match=r"loop: found 'k', expected one of b"):
        MeshOperator("odd", (Loop("b", 2),), good.inputs, good.output, 1)
    with pytest.raises(InputError, match="zero_levels"):
        Setting(line(2), ADAM, (4,))
