"""A refutation counts only if integers say so."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from milp_plan.lp import CompiledModel
from milp_plan.lp.certificate import refutes


def rows(matrix: list[list[float]], sides: list[float], lower: float = -np.inf) -> CompiledModel:
    array = np.array(matrix)
    count, columns = array.shape
    return CompiledModel(
        cost=np.zeros(columns),
        offset=0.0,
        matrix=csr_array(array),
        row_lower=np.full(count, lower),
        row_upper=np.array(sides, dtype=float),
        column_lower=np.zeros(columns),
        column_upper=np.ones(columns),
        integrality=np.zeros(columns, np.uint8),
        columns=[("x", i) for i in range(columns)],
        row_families=["row"] * count,
    )


CONFLICT = rows([[1, 1], [-1, -1]], [1, -2])
"""x + y <= 1 and x + y >= 2."""


def test_the_right_multipliers_refute() -> None:
    assert refutes(CONFLICT, np.array([1.0, 1.0]), [0, 0], [9, 9])
    assert refutes(CONFLICT, np.array([0.3, 0.3 + 1e-9]), [0, 0], [9, 9])


@pytest.mark.parametrize("wrong", [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [-1.0, -1.0], [1.0, np.nan]])
def test_others_do_not(wrong: list[float]) -> None:
    assert not refutes(CONFLICT, np.array(wrong), [0, 0], [9, 9])


def test_a_gap_below_the_error_of_floats_is_seen() -> None:
    big = 2**45
    touching = rows([[1], [-1]], [big, -big])
    apart = rows([[1], [-1]], [big, -big - 1])
    assert not refutes(touching, np.ones(2), [0], [2**60])
    assert refutes(apart, np.ones(2), [0], [2**60])


@pytest.mark.parametrize("seed", range(30))
def test_nothing_that_has_a_point_is_refuted(seed: int) -> None:
    """Random multipliers never refute; those of a linear program do exactly where it is right."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-3, 4, (5, 4)).astype(float)
    point = rng.integers(0, 4, 4)
    sides = matrix @ point
    model = rows(matrix.tolist(), sides.tolist())
    for _ in range(20):
        assert not refutes(model, rng.random(5), [0] * 4, [3] * 4)
    shifted = sides - rng.integers(0, 8, 5)
    model = rows(matrix.tolist(), shifted.tolist())
    answer = linprog(
        np.append(np.zeros(4), 1.0),
        A_ub=np.hstack([matrix, -np.ones((5, 1))]),
        b_ub=shifted,
        bounds=[(0, 3)] * 4 + [(0, None)],
    )
    found = refutes(model, -answer.ineqlin.marginals, [0] * 4, [3] * 4)
    assert found == (answer.fun > 1e-6)


def test_what_it_cannot_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="lower side"):
        refutes(rows([[1]], [1], lower=0.0), np.ones(1), [0], [1])
    with pytest.raises(ValueError, match="not integers"):
        refutes(rows([[0.5]], [1]), np.ones(1), [0], [1])
    with pytest.raises(ValueError, match="not integers"):
        refutes(rows([[1]], [np.inf]), np.ones(1), [0], [1])


def test_random_multipliers_are_random() -> None:
    """The conflict above is refuted by a random draw only near the diagonal."""
    rng = Random(1)
    hits = sum(
        refutes(CONFLICT, np.array([rng.random(), rng.random()]), [0, 0], [1, 1]) for _ in range(50)
    )
    assert 0 < hits < 50
