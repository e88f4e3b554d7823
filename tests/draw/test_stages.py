"""Pictures of the other kinds: stages of hybrid parallelism, memory of a sharding."""

from __future__ import annotations

from fractions import Fraction

import pytest

from milp_plan.core import InputError
from milp_plan.core.sharding import ShardingPlan, sharding_problem
from milp_plan.kinds.hybrid import (
    Choice,
    Configuration,
    HybridPlan,
    HybridProblem,
    Layer,
    Limits,
    Stage,
)
from milp_plan.kinds.hybrid.draw import stages_figure
from milp_plan.kinds.sharding.draw import usage_figure

ONE = Fraction(1)


def test_a_bar_per_stage_against_the_limit() -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    way = Configuration("plain", ONE, Fraction(0), Fraction(10), ONE)
    layers = tuple(Layer(name, {1: (way,)}) for name in "ab")
    problem = HybridProblem("two", layers, (), Limits(2, Fraction(100), ONE, 4))
    stages = tuple(Stage((Choice(name, "plain"),), 1, 1) for name in "ab")
    first, second = stages_figure(problem, HybridPlan("two", stages)).axes
    assert [bar.get_width() for bar in first.patches] == [1.0, 1.0]
    assert [bar.get_width() for bar in second.patches] == [21.0, 11.0]  # two and one in flight
    assert second.lines[0].get_xdata()[0] == 100
    with pytest.raises(InputError, match="every layer in one stage"):
        stages_figure(problem, HybridPlan("two", stages[:1]))


def test_memory_at_every_instant_against_the_limit() -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    problem = sharding_problem("three", [[1], [1], [1]], usages=[[3], [4], [5]], limit=12)
    (axes,) = usage_figure(problem, ShardingPlan("three", (0, 0, 0))).axes
    held, limit = axes.lines
    assert max(held.get_ydata()) == 12
    assert held.get_ydata()[-1] == 0
    assert limit.get_ydata()[0] == 12
    with pytest.raises(InputError, match="a strategy for each of 3 operators"):
        usage_figure(problem, ShardingPlan("three", (0,)))
