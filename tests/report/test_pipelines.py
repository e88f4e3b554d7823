"""Pictures of pipelines, as data."""

from __future__ import annotations

import pytest

from milp_plan import report
from milp_plan.core import MissingFacetError, Plan
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS, overlapped_dualpipe
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.timing import times

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'milp_plan[plot]'")


def panels() -> list[report.Panel]:
    problem = build(Case(Model.from_share((1, 1, 1)), 4, 8, "dualpipe", memory=5)).problem
    shop = shop_of(problem)
    assert shop is not None
    words = WORDS["dualpipe"](shop)
    assert words is not None
    atomic = overlapped_dualpipe(problem)
    assert atomic is not None
    ours = report.Panel("ours", problem, shop.plan(times(shop, words), "dualpipe"))
    return [report.Panel("atomic", *atomic), ours]


def test_every_operator_has_its_box_and_its_micro_batch() -> None:
    atomic, ours = report.schedules(panels()).axes
    assert [axes.get_title(loc="left") for axes in (atomic, ours)] == ["atomic", "ours"]
    assert len(ours.collections) == 4 * 8 * 3
    assert {text.get_text() for text in ours.texts} == {str(batch) for batch in range(8)}
    assert any("+" in text.get_text() for text in atomic.texts)
    assert atomic.get_xlim() == ours.get_xlim()


def test_the_other_direction_is_paler() -> None:
    ours = report.schedules(panels()).axes[1]
    colours = {tuple(box.get_facecolor()[0]) for box in ours.collections}
    assert len(colours) == 6  # three kinds, two directions


def legend_of(found: list[report.Panel]) -> list[str]:
    (legend,) = report.schedules(found).legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_explains_every_shade() -> None:
    said = legend_of([panels()[1]])
    assert said[:2] == ["forward", "forward, other direction"]
    assert len(said) == 6
    for placement, expert, wanted in (
        ("interleaved", "interleaved_1f1b", ["forward, chunk 1", "forward, chunk 2"]),
        ("line", "gpipe", ["forward", "backward-input"]),
    ):
        problem = build(Case(Model.from_share((1, 1, 1)), 2, 4, placement)).problem
        plan = EXPERTS[expert](problem)
        assert plan is not None
        assert legend_of([report.Panel(placement, problem, plan)])[:2] == wanted


def test_a_plan_without_times_is_refused() -> None:
    problem = build(Case(Model.from_share((1, 1, 1)), 2, 2)).problem
    shop = shop_of(problem)
    assert shop is not None
    words = WORDS["gpipe"](shop)
    assert words is not None
    timed = shop.plan(times(shop, words), "gpipe")
    runs = tuple(type(r)(r.operator, r.option, r.devices) for r in timed.runs)
    with pytest.raises(MissingFacetError):
        report.schedules([report.Panel("timeless", problem, Plan(problem.name, runs))])


def test_time_against_memory_marks_the_front() -> None:
    points = [
        report.FrontPoint("line", 2, 10, 9, on_front=True),
        report.FrontPoint("line", 3, 10, 10),
        report.FrontPoint("v", 3, 8, None, on_front=True),
    ]
    axes = report.time_and_memory(points, "title", ("memory", "time")).axes[0]
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines["front"].get_xdata()) == [2, 3]
    assert list(lines["line"].get_ydata()) == [10, 10]
    assert axes.get_xlabel() == "memory"
    stems = [line for line in axes.lines if list(line.get_ydata()) == [9, 10]]
    assert len(stems) == 1  # only where the bound is below
