"""Panels of every kind of problem, and what those of a schedule hold."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from milp_plan.kinds.schedule.draw import schedule_panels
from milp_plan.run import Outcome, Settings, kind_of, solve
from tests.face.kinds import PROBLEMS
from tests.report.plans import MEMORY, plan_of_two_devices, two_devices


@cache
def solved(name: str) -> Outcome[Any, Any]:
    return solve(PROBLEMS[name], Settings(time_limit_s=100, gap=0.5))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_kind_has_panels_with_finite_numbers_and_a_legend(name: str) -> None:
    outcome = solved(name)
    panels = kind_of(outcome.problem).panels(outcome.problem, outcome.plan)
    assert panels
    for panel in panels:
        assert panel.boxes or panel.curves
        numbers = [n for box in panel.boxes for n in (box.left, box.right, box.low, box.high)]
        numbers += [n for curve in panel.curves for point in curve.points for n in point]
        assert all(map(math.isfinite, numbers))
        assert {box.kind for box in panel.boxes} <= set(panel.fills)
        assert all(box.left <= box.right and box.low <= box.high for box in panel.boxes)
        assert (panel.y is None) == bool(panel.rows)
        if panel.rows:
            assert all(-0.5 < box.low < box.high < len(panel.rows) - 0.5 for box in panel.boxes)


def test_timeline_memory_and_utilisation() -> None:
    timeline, memory, busy = schedule_panels(two_devices(), plan_of_two_devices())
    assert timeline.rows == ["d0", "d1", "d0->d1", "d1->d0"]
    reported = [(box.name, box.row, box.left, box.right, box.critical) for box in timeline.boxes]
    assert reported == [
        ("embed", "d0", 0, 2, True),
        ("embed.dx@0", "d0", 10, 14, True),
        ("head", "d1", 5, 8, True),
        ("hidden to d1", "d0->d1", 2, 5, True),
        ("gradient to d0", "d1->d0", 8, 10, True),
    ]
    assert memory.ends == ["100 % of 4 MiB", "75 % of 4 MiB"]
    first = [(b.left, b.right, b.tooltip) for b in memory.boxes if b.row == "d0"]
    assert first == [(0, 8, "3 MiB, limit 4 MiB"), (8, 14, "4 MiB, limit 4 MiB")]
    assert busy.ends[:2] == timeline.ends[:2] == ["43 % busy", "21 % busy"]
    assert [round(box.right - box.left, 6) for box in busy.boxes if box.row == "d0"] == [
        round(100 * part / 14, 6) for part in (2, 4)
    ]


def test_memory_above_the_limit_has_a_colour_of_its_own() -> None:
    memory = schedule_panels(two_devices(memory_bytes=MEMORY - 1), plan_of_two_devices())[1]
    assert {box.kind for box in memory.boxes if box.row == "d0"} == {"memory", "above the limit"}


def test_memory_far_below_the_limit_is_drawn_larger_and_says_so() -> None:
    memory = schedule_panels(two_devices(memory_bytes=100 * MEMORY), plan_of_two_devices())[1]
    assert max(box.high - box.low for box in memory.boxes) == pytest.approx(0.84)
    assert memory.notes[0].startswith("The height of a row is 1 % of the limit")


def test_devices_that_run_nothing_have_no_row_and_a_note() -> None:
    problem = two_devices()
    third = replace(problem.cluster.devices[0], name="spare")
    wider = replace(problem.cluster, devices=(*problem.cluster.devices, third))
    timeline = schedule_panels(replace(problem, cluster=wider), plan_of_two_devices())[0]
    assert "spare" not in timeline.rows
    assert timeline.notes == ("1 device runs nothing and has no lane: spare.",)
