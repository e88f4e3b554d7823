"""Resharding: cheapest paths of elementary steps."""

import itertools

import pytest

from milp_plan.core import FULL, InputError
from milp_plan.cost.mesh import Layout, Tiling, mesh

from .figures import ROUND, SLOW, UNIT, grid, line

FULL_2 = Layout(((), ()))
ROWS = Layout((("x",), ()))
COLUMNS = Layout(((), ("x",)))
SUM = Layout(((), ()), ("x",))
TENSOR = Tiling(line(4), (8, 16), 4)  # 512 bytes, 128 on each device when split

# n - 1 = 3 steps of 10 ticks, 3/4 of the bytes of the larger side
GATHER = 3 * 10 + 3 * 512 // 4
SCATTER = GATHER
REDUCE = 2 * GATHER
ALL_TO_ALL = 3 * 10 + 3 * 128 // 4


@pytest.mark.parametrize(
    ("before", "after", "ticks"),
    [
        (FULL_2, ROWS, 0),
        (ROWS, FULL_2, GATHER),
        (ROWS, COLUMNS, ALL_TO_ALL),
        (SUM, FULL_2, REDUCE),
        (SUM, ROWS, SCATTER),
        (SUM, COLUMNS, SCATTER),
        (FULL_2, SUM, None),
        (ROWS, SUM, None),
        *((layout, layout, 0) for layout in (FULL_2, ROWS, COLUMNS, SUM)),
    ],
)
def test_one_axis_by_hand(before, after, ticks):
    assert TENSOR.change_ns(before, after) == ticks


def states(tiling):
    """Every layout that steps reach from all sums pending; those are all there are."""
    start = Layout(tuple(() for _ in tiling.extents), tuple(a.name for a in tiling.mesh.axes))
    found, queue = {start}, [start]
    for layout in queue:
        for step in tiling.steps(layout):
            if step.layout not in found:
                found.add(step.layout)
                queue.append(step.layout)
    return queue


@pytest.mark.parametrize(
    ("text", "extents"), [("2x4", (8, 16)), ("2x3", (6, 4)), ("2x2", (4, 2, 3))]
)
def test_paths_are_shortest(text, extents):
    tiling = Tiling(grid(text), extents, 2)
    every = states(tiling)
    assert len(every) > 8
    cost = {(a, b): tiling.change_ns(a, b) for a in every for b in every}
    for layout in every:
        assert cost[layout, layout] == 0
        for step in tiling.steps(layout):
            assert cost[layout, step.layout] <= step.ticks
    for a, b, c in itertools.product(every, repeat=3):
        if cost[a, b] is not None and cost[b, c] is not None:
            assert cost[a, c] <= cost[a, b] + cost[b, c]
    for (a, b), ticks in cost.items():
        path = tiling.path(a, b)
        assert (path is None) == (ticks is None)
        if path is not None:
            assert sum(step.ticks for step in path) == ticks
            assert [a, *(step.layout for step in path)][-1] == b


def test_states_of_two_axes_are_those_of_the_formula():
    """(d + 2)^2 choices for two axes, and both orders where they share a dimension."""
    assert len(states(Tiling(grid("2x2"), (8, 8, 8), 2))) == (3 + 2) ** 2 + 3


def test_sum_over_two_axes_reduces_inside_first():
    """RS on the fast axis, AR of its part on the slow one, AG on the fast one."""
    tiling = Tiling(grid("2x4"), (8, 16), 4)
    before, after = Layout(((), ()), ("x", "y")), FULL_2
    fast = 3 * 10 + 3 * 512 // 4
    slow = 2 * (1 * 100 + 1 * 128 * 10 // 2)
    assert tiling.change_ns(before, after) == fast + slow + fast
    kinds = [(step.kind, step.axis) for step in tiling.path(before, after)]
    assert kinds == [("scatter", "y"), ("reduce", "x"), ("gather", "y")]
    assert grid("2x4").all_reduce_ns(("x", "y"), 512) == fast + slow + fast
    # where nothing can be split, both axes reduce the whole
    whole = Tiling(grid("2x4"), (3, 5), 4)
    assert whole.change_ns(before, after) == 2 * (100 + 60 * 10 // 2) + 2 * (3 * 10 + 3 * 60 // 4)


def test_only_the_innermost_split_is_gathered():
    tiling = Tiling(grid("2x4"), (8, 16), 4)
    nested = Layout((("x", "y"), ()))
    assert {(s.kind, s.axis) for s in tiling.steps(nested)} == {("gather", "y"), ("exchange", "y")}
    # the slow axis gathers while the parts are small: y makes way, and is gathered last
    path = [(s.kind, s.axis) for s in tiling.path(nested, FULL_2)]
    assert path == [("exchange", "y"), ("gather", "x"), ("gather", "y")]


def test_splits_divide():
    tiling = Tiling(line(4), (6, 8), 2)
    assert not Layout((("x",), ())).fits(tiling.mesh, tiling.extents)
    assert {s.layout for s in tiling.steps(FULL_2)} == {COLUMNS}


def test_text():
    assert FULL_2.text == FULL
    assert Layout((("x", "y"), ()), ()).text == "0:xy"
    assert Layout(((), ("y",)), ("x",)).text == "1:y sum:x"


@pytest.mark.parametrize("text", ["", "0", "2x", "1x2", "2x2x2", "two"])
def test_a_mesh_that_does_not_parse(text):
    with pytest.raises(InputError, match=r"one or two sizes of at least 2"):
        mesh(text, ROUND, (UNIT, SLOW))


def test_a_mesh_needs_a_link_per_axis():
    with pytest.raises(InputError, match="links: found 1, expected 2"):
        mesh("2x2", ROUND, (UNIT,))
    assert mesh("1", ROUND).devices == 1
    assert mesh("2x4", ROUND).devices == 8
