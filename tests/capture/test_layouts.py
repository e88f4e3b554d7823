"""Placements in PyTorch's words, and the collectives of their changes."""

from __future__ import annotations

from itertools import product

import pytest

from milp_plan.capture.layouts import collectives, in_order, placement_of, resting
from milp_plan.cost.devices import device_spec
from milp_plan.cost.mesh import Layout, mesh

GRID = mesh("2x4", device_spec("A100"))


def test_placements_name_the_dimension_each_axis_cuts():
    assert placement_of(Layout(((), ("x", "y"))), GRID) == "S(1)S(1)"
    assert placement_of(Layout((("y",), ()), ("x",)), GRID) == "PS(0)"
    assert placement_of(Layout(()), GRID) == "RR"
    assert in_order(Layout((("x", "y"),)), GRID)
    assert not in_order(Layout((("y", "x"),)), GRID)


def test_tensors_rest_in_every_layout_that_divides():
    found = {placement_of(layout, GRID) for layout in resting((4, 8), GRID)}
    entries = ("R", "S(0)", "S(1)")
    every = {one + two for one, two in product(entries, repeat=2)} - {"S(0)S(0)"}  # 4 into 8
    assert found == every
    assert [placement_of(layout, GRID) for layout in resting((), GRID)] == ["RR"]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("R", "S(0)", {}),
        ("P", "R", {"all_reduce": 1}),
        ("P", "S(1)", {"reduce_scatter": 1}),
        ("S(0)", "S(1)", {"all_gather": 1}),
        ("S(0)S(0)", "RR", {"all_gather": 2}),
        ("S(0)S(0)", "RS(0)", {"all_gather": 2}),
        ("RS(0)", "S(0)S(0)", {"all_gather": 1}),
        ("S(0)P", "RS(0)", {"all_reduce": 1, "all_gather": 1}),
        ("PP", "S(0)S(0)", {"reduce_scatter": 2}),
    ],
)
def test_collectives_of_a_change(before, after, kinds):
    assert dict(collectives(before, after)) == kinds
