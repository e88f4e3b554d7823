"""Pictures of pipelines, as data."""

from __future__ import annotations

import pytest

from milp_plan.core import MissingFacetError, Plan
from milp_plan.draw.tradeoff import Mark, tradeoff_figure
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.draw import TitledPlan, schedules
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS, overlapped_dualpipe
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.timing import times

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'milp_plan[plot]'")


def titled() -> list[TitledPlan]:
    problem = build(Case(Model.from_share((1, 1, 1)), 4, 8, "dualpipe", memory=5)).problem
    shop = shop_of(problem)
    assert shop is not None
    words = WORDS["dualpipe"](shop)
    assert words is not None
    atomic = overlapped_dualpipe(problem)
    assert atomic is not None
    ours = TitledPlan("ours", problem, shop.plan(times(shop, words), "dualpipe"))
    return [TitledPlan("atomic", *atomic), ours]


def test_every_operator_has_its_micro_batch() -> None:
    atomic, ours = schedules(titled()).axes
    assert [axes.get_title(loc="left") for axes in (atomic, ours)] == ["atomic", "ours"]
    assert {text.get_text() for text in ours.texts} >= {str(batch) for batch in range(8)}
    assert any("+" in text.get_text() for text in atomic.texts)
    assert atomic.get_xlim() == ours.get_xlim()


def legend_of(found: list[TitledPlan]) -> list[str]:
    (legend,) = schedules(found).legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_explains_every_shade() -> None:
    chunks = [f"{kind}, chunk {n}" for kind in ("forward", "backward-input") for n in (1, 2)]
    assert legend_of([titled()[1]])[:4] == chunks
    for placement, expert, wanted in (
        ("interleaved", "interleaved_1f1b", chunks[:2]),
        ("line", "gpipe", ["forward", "backward-input"]),
    ):
        problem = build(Case(Model.from_share((1, 1, 1)), 2, 4, placement)).problem
        plan = EXPERTS[expert](problem)
        assert plan is not None
        assert legend_of([TitledPlan(placement, problem, plan)])[:2] == wanted


def test_a_plan_without_times_is_refused() -> None:
    problem = build(Case(Model.from_share((1, 1, 1)), 2, 2)).problem
    shop = shop_of(problem)
    assert shop is not None
    words = WORDS["gpipe"](shop)
    assert words is not None
    timed = shop.plan(times(shop, words), "gpipe")
    runs = tuple(type(r)(r.operator, r.option, r.devices) for r in timed.runs)
    with pytest.raises(MissingFacetError):
        schedules([TitledPlan("timeless", problem, Plan(problem.name, runs))])


def test_values_against_what_they_take() -> None:
    marks = [
        Mark("line", 2, 10, 9, best=True),
        Mark("line", 3, 10, 10),
        Mark("v", 3, 8, None, best=True),
        Mark("v", 1, None, infeasible=True),
    ]
    for joined in (False, True):
        axes = tradeoff_figure(marks, "title", ("memory", "time"), joined=joined).axes[0]
        lines = {str(line.get_label()): line for line in axes.lines}
        assert ("front" in lines) is not joined
        assert list(lines["line"].get_ydata()) == [10, 10]
        assert axes.get_xlabel() == "memory"
        stems = [line for line in axes.lines if list(line.get_ydata()) == [9, 10]]
        assert len(stems) == 1  # only where the bound is below
        (legend,) = axes.figure.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert names[-3:] == ["none better with as much", "its bound", "no plan exists"]
