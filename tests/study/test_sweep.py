"""Sweeps over cases: what is listed, what starts from what, what is on the front."""

from __future__ import annotations

from fractions import Fraction

import pytest

from milp_plan.kinds.pipeline.case_sweep import Point, cases, fitting, front, plan_case
from milp_plan.kinds.pipeline.model import Model, Piece
from milp_plan.run import Settings

UNIT = Model.from_share((1, 1, 1))
SETTINGS = Settings(time_limit_s=20)


def planned(memories: list[Fraction | int | None], families: tuple[str, ...]) -> list[Point]:
    points: list[Point] = []
    brief = Settings(time_limit_s=3)  # no proof is asked for
    for case in cases(UNIT, 2, [3], families, memories):
        points.append(plan_case(case, brief, points[-1] if points else None))
    return points


def test_cases_are_all_combinations_by_rising_memory() -> None:
    found = cases(UNIT, 2, [2, 4], ("line", "wave"), [None, 2, 1], chunks=4, fixed_batch=True)
    assert [(c.family, c.micro_batches, c.memory) for c in found[:4]] == [
        ("line", 2, 1),
        ("line", 2, 2),
        ("line", 2, None),
        ("line", 4, 1),
    ]
    assert {case.batch for case in found} == {1, Fraction(1, 2)}
    assert [case.chunks for case in found] == [None] * 6 + [4] * 6


def test_points_speak_the_models_units() -> None:
    model = Model.from_share((Fraction(1, 2), 1, Fraction(1, 2)), Fraction(1, 4))
    case = cases(model, 2, [2], ("v",), [2])[0]
    point = plan_case(case, SETTINGS)
    assert point.time is not None
    assert point.bubble == point.time - 4
    assert point.bubble_rate == pytest.approx(float(point.bubble / point.time))
    assert point.peak_memory is not None
    assert point.peak_memory <= 2
    assert point.sample_time == point.time / 2
    assert point.bound == point.time


@pytest.mark.untraced
def test_the_front_holds_what_nothing_beats() -> None:
    points = planned([1, 2, 3], ("line", "v"))
    best = front(points)
    assert best
    for point in points:
        assert any(
            b.peak_memory <= point.peak_memory and b.sample_time <= point.sample_time for b in best
        )
    times = [b.sample_time for b in best]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


def test_without_a_plan_there_are_no_figures() -> None:
    point = planned([Fraction(1, 2)], ("line",))[0]
    assert point.outcome.plan is None
    figures = (point.time, point.bubble, point.bubble_rate, point.peak_memory, point.sample_time)
    assert figures == (None,) * 5
    assert front([point]) == []


def test_families_that_need_more_pieces_are_left_out() -> None:
    three = Model((Piece(1, 1, 1),) * 3)
    assert fitting(three, 2) == ["line", "dualpipe"]
    assert set(fitting(UNIT, 2)) == {"line", "interleaved", "v", "wave", "dualpipe"}


def test_free_stages_find_their_devices() -> None:
    model = Model((Piece(3, 3, 0), Piece(1, 1, 0), Piece(2, 2, 0)))
    case = cases(model, 2, [1], ("free",), [None], chunks=1)[0]
    point = plan_case(case, SETTINGS)
    assert point.outcome.proved
    assert point.outcome.plan is not None
    homes = {run.operator.split("@")[0]: run.devices for run in point.outcome.plan.runs}
    assert homes["F0"] == homes["B0"]
