"""How the time of a search is divided."""

from itertools import pairwise
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.search.rounds import (
    EARLY,
    ENOUGH,
    ENOUGH_FOR_EPOCHS,
    FEWEST,
    MOST,
    MOST_LAST,
    Clock,
    epochs_for,
    first_temperature,
)


@pytest.mark.parametrize(
    ("left", "failed_rounds", "part"),
    [(9, 0, 1), (9, 1, 2), (9, 2, 4), (9, 7, 8), (1, 3, 0.5), (0, 3, 0.25)],
)
def test_rounds_without_improvement_make_the_next_hotter_but_for_the_last(
    left, failed_rounds, part
):
    assert first_temperature(left, failed_rounds) == part


@pytest.mark.parametrize(
    ("wanted", "rounds"),
    [(0.1, FEWEST), (9.9, 9), (ENOUGH_FOR_EPOCHS - 0.1, ENOUGH_FOR_EPOCHS - 1)],
)
def test_there_is_one_epoch_where_there_is_no_time_for_more(wanted, rounds):
    (epoch,) = epochs_for(wanted)
    assert (epoch.first, epoch.last, epoch.rounds) == (True, True, rounds)


@pytest.mark.parametrize(
    ("wanted", "early", "rounds"),
    [(ENOUGH_FOR_EPOCHS, 2, ENOUGH), (6 * ENOUGH, 4, ENOUGH), (1e9, MOST, MOST)],
)
def test_the_last_of_several_epochs_has_a_quarter_of_the_time(wanted, early, rounds):
    *before, last = epochs_for(wanted)
    assert len(before) == early
    assert all(epoch.rounds == rounds for epoch in before)
    assert [epoch.first for epoch in before] == [True] + [False] * (early - 1)
    assert not any(epoch.last for epoch in before)
    assert last.last
    assert (last.since, last.rounds) == (EARLY, min(MOST_LAST, int((1 - EARLY) * wanted)))


@given(wanted=st.floats(0.0, 1e6), moves=st.integers(0, 10**9))
def test_rounds_share_all_the_moves_and_none_twice(wanted: float, moves: int):
    spans = [epoch.span(number) for epoch in epochs_for(wanted) for number in range(epoch.rounds)]
    assert (spans[0][0], spans[-1][1]) == (0, 1)
    assert all(one[1] == two[0] for one, two in pairwise(spans))
    shares = [Clock(Budget(), span, moves, Event()) for span in spans]
    assert sum(share.most for share in shares) == moves
