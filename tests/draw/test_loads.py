"""Panels of plans under the serial law: loads, calls in time, and what runs outside calls."""

from __future__ import annotations

from milp_plan.check import serial_loads, serial_timeline
from milp_plan.kinds.placement.draw import loads_panels
from milp_plan.kinds.placement.planted import planted_serial


def test_what_runs_outside_calls_is_drawn_when_it_runs() -> None:
    seen = 0
    for seed in range(12):
        problem, plan = planted_serial(seed, calls=1)
        shown = loads_panels(problem, plan)[0]
        line = serial_timeline(problem, plan)
        scale = shown.x.scale
        ends = {
            (box.name, round(box.right, 9)) for box in shown.boxes if box.kind == "outside calls"
        }
        outside = [run.operator for run in plan.runs if run.call is None]
        assert ends == {(name, round(scale(line.ready[name]), 9)) for name in outside}
        assert ("outside calls" in shown.fills) == bool(outside)
        called = [box for box in shown.boxes if box.kind != "outside calls"]
        for (device, number), (start, _) in line.calls.items():
            stated = f"call {number}, "
            parts = [b for b in called if b.row == device and b.tooltip.startswith(stated)]
            assert all(box.left >= scale(start) for box in parts)
            assert not parts or min(box.left for box in parts) == scale(start)
        assert {box.row for box in called} <= {device for device, _ in line.calls}
        seen += len(outside)
    assert seen > 5


def test_loads_begin_at_zero_and_only_what_occurs_is_in_the_legend() -> None:
    problem, plan = planted_serial(3)
    shown = loads_panels(problem, plan)[0]
    scale = shown.x.scale
    for (device, _), load in serial_loads(problem, plan).items():
        row = [box for box in shown.boxes if box.row == device]
        assert max((box.right for box in row), default=0.0) == scale(load.total)
    assert set(shown.fills) == {box.kind for box in shown.boxes}
