"""A model whose numbers are beyond a solver's tolerances proves nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from milp_plan.lp import CompiledModel
from milp_plan.lp.ranges import LARGEST, doubt_of


def model(entry: float, side: float) -> CompiledModel:
    return CompiledModel(
        cost=np.ones(2),
        offset=0.0,
        matrix=csr_array(np.array([[1.0, entry]])),
        row_lower=np.array([-np.inf]),
        row_upper=np.array([side]),
        column_lower=np.zeros(2),
        column_upper=np.ones(2),
        integrality=np.ones(2, dtype=np.uint8),
        columns=[("x", 0), ("x", 1)],
        row_families=["row"],
    )


@pytest.mark.parametrize(("entry", "side"), [(1e6, 5.0), (-1e6, np.inf), (1e-9, 4e6)])
def test_numbers_that_tolerances_hold(entry: float, side: float) -> None:
    assert doubt_of(model(entry, side)) == ""


@pytest.mark.parametrize(("entry", "side"), [(5e9, 5.0), (-5e9, 5.0), (1.0, 2 * LARGEST)])
def test_numbers_that_they_do_not_hold_are_named(entry: float, side: float) -> None:
    worst = max(abs(entry), abs(side))
    assert doubt_of(model(entry, side)).startswith(f"the model holds numbers up to {worst:.3g}")


def test_whole_columns_that_they_do_not_hold_are_named() -> None:
    fine = replace(model(1.0, 5.0), column_upper=np.array([1.0, 4e6]))
    assert doubt_of(fine) == ""
    wide = replace(fine, column_upper=np.array([1.0, 5.24e6]))
    assert doubt_of(wide).startswith("the model holds whole columns up to 5.24e+06")
    assert doubt_of(wide.relaxed()) == ""
