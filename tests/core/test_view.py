"""What is kept with a problem."""

from __future__ import annotations

import copy
import pickle
import threading

from milp_plan.core.view import kept, view
from tests.check.cases import problem

made: list[object] = []
"""What :func:`reading` was asked for."""


@view
def reading(owner: object) -> list[int]:
    """Something that takes long to read."""
    made.append(owner)
    return [len(made)]


def test_a_view_is_made_once_per_problem_and_not_per_equal_problem() -> None:
    one, other = problem("a"), problem("a")
    assert one == other
    assert reading(one) is reading(one)
    assert reading(other) is not reading(one)
    assert kept(one, "key", lambda: 7) == kept(one, "key", lambda: 8) == 7


def test_views_stay_at_home() -> None:
    one = problem("a b")
    first = reading(one)
    for away in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert away == one
        assert away.fingerprint == one.fingerprint
        assert reading(away) is not first


def test_an_error_is_not_kept() -> None:
    one = problem("a")

    def fail() -> int:
        raise ArithmeticError

    for make, expected in ((fail, None), (lambda: 3, 3)):
        try:
            found = kept(one, "once", make)
        except ArithmeticError:
            found = None
        assert found == expected


def test_threads_make_it_once() -> None:
    one, count = problem("a"), []

    def make() -> int:
        count.append(1)
        return len(count)

    threads = [threading.Thread(target=lambda: kept(one, "slow", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1
