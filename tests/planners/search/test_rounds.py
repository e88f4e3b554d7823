"""How the time of a search is divided."""

from itertools import pairwise
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core.budget import Budget
from milp_plan.planners.search.rounds import ENOUGH, FEWEST, MOST, Clock, epochs_for, heat


@pytest.mark.parametrize(
    ("left", "in_vain", "part"),
    [(9, 0, 1), (9, 1, 2), (9, 2, 4), (9, 7, 8), (1, 3, 0.5), (0, 3, 0.25)],
)
def test_rounds_in_vain_make_the_next_hotter_but_for_the_last(left, in_vain, part):
    assert heat(left, in_vain) == part


@pytest.mark.parametrize(
    ("wanted", "epochs", "rounds"),
    [
        (0.1, 1, FEWEST),
        (2 * ENOUGH - 1, 1, 2 * ENOUGH - 1),
        (2 * ENOUGH, 2, ENOUGH),
        (1e9, MOST, MOST),
    ],
)
def test_there_are_several_epochs_where_there_is_time_for_two(wanted, epochs, rounds):
    found = epochs_for(wanted)
    assert [epoch.number for epoch in found] == list(range(epochs))
    assert all(epoch.rounds == rounds for epoch in found)
    assert [epoch.last for epoch in found] == [False] * (epochs - 1) + [True]


@given(wanted=st.floats(0.0, 1e6), moves=st.integers(0, 10**9), rival=st.booleans())
def test_rounds_share_all_the_moves_and_none_twice(wanted: float, moves: int, rival: bool):
    shares = []
    for epoch in epochs_for(wanted):
        for number in range(epoch.rounds):
            halves = (1, 2) if rival and epoch.number == number == 0 else (0,)
            turns = [epoch.turn(number, half=half) for half in halves]
            shares += [Clock(Budget(), turn, moves, Event()) for turn in turns]
    assert shares[0].since == 0.0
    assert shares[-1].until == 1.0
    assert all(one.until == pytest.approx(two.since) for one, two in pairwise(shares))
    assert sum(share.most for share in shares) == moves
