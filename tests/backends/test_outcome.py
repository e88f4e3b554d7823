"""Reports."""

from __future__ import annotations

import pytest

from milp_plan.backends import SolverReport, Stop


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (10.0, 8.0, 0.2),
        (-10.0, -12.0, 0.2),
        (10.0, 10.5, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, -1.0, None),
        (None, 1.0, None),
        (1.0, None, None),
    ],
)
def test_gap(objective: float | None, bound: float | None, gap: float | None) -> None:
    report = SolverReport(Stop.TIME_LIMIT, objective=objective, bound=bound)
    assert report.gap == (gap if gap is None else pytest.approx(gap))
