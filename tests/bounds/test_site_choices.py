"""Paths and work together, against enumeration and on an instance made for it."""

import pytest

from milp_plan.core import Objective, Operator, Option, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, frame_of
from milp_plan.kinds.schedule.bounds.site_choices import choice_bound
from tests.support.anything import optimum, random_case
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .samples import cluster, operator, problem, value

pytestmark = pytest.mark.untraced


def chosen(p: PlanningProblem) -> int | None:
    frame = frame_of(p)
    found = None if frame.obstacle else choice_bound(frame, Budget())
    return None if found is None else found.value


def test_two_devices_are_fast_for_a_chain_or_free_for_the_rest():
    # Alone: both 10. Together: 6 and 6. Beside them 16 ticks of other work: 2 x 10 in time,
    # (2 x 6 + 16 / 2) = 20, or one of each, 6 + max(10, 16) = 22.
    wide = [
        Operator(name, (Option("one", {"x": 10}), Option("two", {"x": 6}, gang=2)))
        for name in ("a", "b")
    ]
    p = problem([*wide, operator("c", 16)], [value("v", "a", "b")], cluster(groups=(("d0", "d1"),)))
    assert optimum(p) == 20
    found = {bound.name: bound.value for bound in all_bounds(p)}
    assert found.pop("paths and work") == 19
    assert max(found.values()) == 18


def test_what_shares_a_site_is_fast_or_cheap_together():
    # The path is 6 + 6 on two devices; then the update takes both of them for 9, alone it takes 9.
    first = Operator("a", (Option("one", {"x": 12}), Option("two", {"x": 6}, gang=2)), group="g")
    update = Operator("u", (Option("one", {"x": 9}), Option("two", {"x": 9}, gang=2)), group="g")
    p = problem(
        [first, update, operator("b", 9)],
        [value("v", "a", "u"), value("w", "a", "b")],
        cluster(groups=(("d0", "d1"),)),
    )
    best = chosen(p)
    assert best is not None
    assert 18 < best <= optimum(p)


def check(p: PlanningProblem) -> bool:
    found = chosen(p)
    if found is None:
        return False
    best = brute_force(p)
    assert best is None or found <= best[0], p.name
    return best is not None


def test_never_above_the_optimum_of_small_numbers():
    seeds = range(60)
    compared = sum(
        check(random_problem(seed, objective=Objective.MAKESPAN, max_operators=5)) for seed in seeds
    )
    assert compared > 15


def never_above(seeds: range) -> int:
    """Compare on problems of real magnitudes; how many were compared."""
    compared = 0
    for seed in seeds:
        p = random_case(seed)
        if p.objective is Objective.MAKESPAN and p.serial is None:
            found, best = chosen(p), optimum(p)
            if found is not None and best is not None:
                assert found <= best, seed
                compared += 1
    return compared


def test_never_above_the_optimum():
    assert never_above(range(500)) > 30


@pytest.mark.slow
def test_never_above_the_optimum_of_many():
    assert never_above(range(1000, 6000)) > 300
