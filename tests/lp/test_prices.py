"""Prices by linear programmes: the solver that makes them prints nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from highspy import Highs

from milp_plan.lp import prices


class Talking(Highs):  # type: ignore[misc]
    """A solver that prints when it is made, as the first one of a process does in HiGHS 1.16."""

    made = 0

    def __init__(self) -> None:
        if not Talking.made:
            os.write(1, b"Running HiGHS\n")
        Talking.made += 1
        super().__init__()


def test_a_banner_of_the_solver_does_not_reach_the_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Talking, "made", 0)
    monkeypatch.setattr(prices, "Highs", Talking)
    prices._print_banner_nowhere.cache_clear()
    prices.Prices(np.array([0, 0, 1]))
    os.write(1, b"{}\n")
    assert Talking.made > 1
    assert capfd.readouterr().out == "{}\n"
