"""Pictures of many runs, from plain data."""

import math

import pytest

from milp_plan.cli.charts import _panel
from milp_plan.report.comparison import (
    Curve,
    Gap,
    Panel,
    gaps,
    performance_profile,
    profile,
    value_time,
)

pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")


def lines(axes):
    return {
        line.get_label(): list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_profile_counts_only_what_anybody_solved():
    values = {"a": [10.0, 3.0, None, 0.0], "b": [20.0, None, None, 0.0]}
    assert profile(values) == {"a": [1, 1, 1], "b": [2, math.inf, 1]}


def test_performance_profile_climbs_to_the_share_that_is_solved():
    figure = performance_profile({"a": [10.0, 3.0], "b": [20.0, None]}, "t")
    (axes,), end = figure.axes, pytest.approx(2**1.05, abs=0.01)
    assert lines(axes)["a"] == [(1, 0), (1, 0.5), (1, 1), (end, 1)]
    assert lines(axes)["b"] == [(1, 0), (2, 0.5), (end, 0.5)]
    assert axes.get_ylabel() == "fraction of 2 problems"
    assert "ratio" in axes.get_xlabel() or "over the best" in axes.get_xlabel()


def test_value_time_holds_the_last_news_to_the_end():
    curve = Curve("p", [(0.0, None, 5.0), (1.0, 9.0, 5.0), (2.0, 8.0, 7.0)], 4.0)
    figure = value_time([Panel("x", "ms", [curve]), Panel("y", "ms", [])], "t")
    first = figure.axes[0]
    assert lines(first) == {
        "p value": [(1, 9), (2, 8), (4, 8)],
        "p bound": [(0, 5), (1, 5), (2, 7), (4, 7)],
    }
    assert first.get_ylabel() == "value (ms)"
    assert first.get_ylim()[0] < 7
    dots = [line for line in first.lines if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in dots] == [[1, 2]]


def test_nanoseconds_become_readable():
    row = {"planner": "p", "unit": "ns", "time_scale": "1"}
    trace = [{"seconds": 0.0, "incumbent": 2_000_000, "bound": 0}]
    panel = _panel("x", [(row, {"trace": trace, "seconds": 1.0})])
    assert panel.unit == "ms"
    assert panel.curves[0].points == [(0.0, 2.0, 0.0)]


def test_gaps_say_what_is_proved_and_what_has_none():
    bars = [
        Gap("x", "p", 0.0, proved=True),
        Gap("y", "p", 0.25, proved=False),
        Gap("z", "p", None, proved=False, why="no plan"),
    ]
    (axes,) = gaps(bars, "t").axes
    assert [text.get_text() for text in axes.texts] == ["proved", "25 %", "no plan"]
    assert [round(patch.get_width(), 6) for patch in axes.patches] == [0, 25, 0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y", "z"]


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_an_empty_profile_says_so():
    for values in ({}, {"a": [None, None]}, {"a": []}):
        figure = performance_profile(values, "none")
        assert words(figure) == ["no run has a plan: nothing to compare"]
        assert figure.axes[0].get_legend() is None
    assert words(performance_profile({"a": [1.0]}, "one")) == []


def test_a_picture_without_gaps_says_so():
    assert words(gaps([], "none")) == ["no run has a plan and a bound"]
    proved = gaps([Gap("p", "a", 0.0, True), Gap("q", "a", None, False, "no plan")], "proved")
    assert words(proved) == ["proved", "no plan", "every gap is 0 or unknown: there are no bars"]
    assert words(gaps([Gap("p", "a", 0.5, False)], "open")) == ["50 %"]
