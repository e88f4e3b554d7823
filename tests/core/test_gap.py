"""One gap for every sign and size."""

import numpy as np
import pytest

from milp_plan.core.gap import proved_optimal, relative_gap, within


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (None, None, None),
        (None, 5, None),
        (5, None, None),
        (0, None, None),
        (None, 0, None),
        (0, 0, 0.0),
        (10, 0, 1.0),
        (10, 10, 0.0),
        (10, 9, 0.1),
        (10, 11, 0.0),
        (2**80, 2**79, 0.5),
        (-80, -82, 0.025),
        (-82, -82, 0.0),
        (-490, -520, 30 / 490),
        (0, -5, None),
        (5, -5, 2.0),
        (-80, 82, 0.0),
        (10.0, 9.0, 0.1),
        (10.0, float("-inf"), None),
        (0.0, -1e-9, None),
        (float("nan"), 3.0, None),
    ],
)
def test_relative_gap(value, bound, gap):
    found = relative_gap(value, bound)
    assert found == gap
    assert found is None or isinstance(found, float)


def test_numbers_too_large_for_floats_have_a_gap():
    assert relative_gap(10**400, 9 * 10**399) == pytest.approx(0.1)
    assert relative_gap(-(10**400), -11 * 10**399) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("value", "bound", "gap", "proved"),
    [
        (-80, -82, 0.0, False),
        (-80, -82, 1e-6, False),
        (-80, -82, 0.025, True),
        (-82, -82, 0.0, True),
        (0, -1, 0.5, False),
        (0, 0, 0.0, True),
        (29999580498500, 29999560498804, 1e-4, True),
        (29999580498500, 29999560498804, 0.0, False),
        (10**30 + 1, 10**30, 0.0, False),
        (10**30, 10**30 + 1, 0.0, True),
        (None, 3, 1.0, False),
        (3, None, 1.0, False),
    ],
)
def test_a_proof_needs_the_gap_that_was_asked_for(value, bound, gap, proved):
    assert within(value, bound, gap) is proved


@pytest.mark.parametrize("seed", range(20))
def test_the_gap_asked_for_is_the_gap_reported(seed):
    random = np.random.default_rng(seed)
    value, bound = sorted((int(x) for x in random.integers(-(2**40), 2**40, 2)), reverse=True)
    gap = relative_gap(value, bound)
    assert gap is not None
    assert within(value, bound, gap * (1 + 1e-12))
    assert not within(value, bound, gap * (1 - 1e-12))


def test_optimal_means_not_one_tick_less():
    assert proved_optimal(-82, -82)
    assert proved_optimal(5, 6)
    assert not proved_optimal(10**30 + 1, 10**30)
    assert not proved_optimal(-80, -82)
    assert not proved_optimal(None, 3)
    assert not proved_optimal(3, None)


def test_any_plan_is_within_a_gap_without_end():
    assert within(7, None, float("inf"))
    assert within(0, -5, float("inf"))
    assert not within(None, 3, float("inf"))
