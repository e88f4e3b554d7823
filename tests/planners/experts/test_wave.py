"""Hanayo against the bubble of its slots and against optima of its placement."""

from __future__ import annotations

from itertools import product

import pytest

from milp_plan.check import verify
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform

from .figures import Figures, Times


def figures(p: int, waves: int, m: int, fbw: Times, joint: bool = True) -> Figures:
    template, activation = uniform(p, m, fbw, chunks=2 * waves, joint_backward=joint)
    shop = shop_of(pipeline_problem("case", template, place("wave", p, 2 * waves)))
    assert shop is not None
    words = WORDS["hanayo"](shop)
    assert words is not None
    return Figures(shop, words, template.units.time_scale, activation)


@pytest.mark.parametrize("waves", [1, 2, 3])
def test_equal_passes(waves: int) -> None:
    """Bubble (p−1)F/w for F = B+W, which one wave makes half of 1F1B's (2(p−1)F).

    Derived from the slots: the last of p micro-batches enters 2(p−1) chunks after the first.
    The inner end holds p activations of a share, as in 1F1B.
    """
    for p, units in product((1, 2, 4), (1, 2)):
        found = figures(p, waves, units * p, (6, 6, 0))
        assert found.bubble * waves == (p - 1) * 6
        assert max(found.peaks) == found.peaks[-1] == p
        split = figures(p, waves, units * p, (6, 5, 1), joint=False)
        assert split.bubble <= found.bubble


@pytest.mark.parametrize(("waves", "makespan"), [(1, 36), (2, 60)])
def test_optimal_for_one_unit_with_a_backward_twice_as_long(waves: int, makespan: int) -> None:
    """Four devices, four micro-batches, F = 1 and B+W = 2 per chunk: proved with a constraint
    solver to be the optimum of the placement."""
    found = figures(4, waves, 4, (2 * waves, 4 * waves, 0))
    assert found.makespan == makespan


@pytest.mark.parametrize(("p", "waves", "m"), [(1, 1, 3), (3, 1, 5), (4, 2, 3), (2, 3, 7)])
def test_any_sizes_and_times(p: int, waves: int, m: int) -> None:
    for joint in (True, False):
        template, _ = uniform(p, m, (5, 3, 4), transfer=2, chunks=2 * waves, joint_backward=joint)
        problem = pipeline_problem("case", template, place("wave", p, 2 * waves))
        plan = EXPERTS["hanayo"](problem)
        assert plan is not None
        assert verify(problem, plan).ok


def test_not_defined_elsewhere() -> None:
    for family, chunks in (("wave", 3), ("line", 1), ("interleaved", 2), ("dualpipe", 1)):
        template, _ = uniform(4, 4, chunks=chunks)
        routes = place(family, 4, chunks if family in {"wave", "interleaved"} else None)
        assert EXPERTS["hanayo"](pipeline_problem("case", template, routes)) is None
