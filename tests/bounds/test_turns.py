"""Groups that take turns, with what comes before and after."""

import random
from itertools import combinations

from milp_plan.core import Objective
from milp_plan.kinds.schedule.bounds.catalogue import critical_path, frame_of
from milp_plan.kinds.schedule.bounds.heads import simple_windows
from milp_plan.kinds.schedule.bounds.load import load_bound, packing_bound
from milp_plan.kinds.schedule.bounds.turns import Turn, interrupted, turns_bound
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .samples import cluster, operator, problem, value


def _by_subsets(turns):
    """The optimum by its formula: least head, all work, least tail of the worst subset."""
    return max(
        min(t.head for t in some) + sum(t.ticks for t in some) + min(t.tail for t in some)
        for count in range(1, len(turns) + 1)
        for some in combinations(turns, count)
    )


def test_interrupted_turns_meet_the_worst_subset():
    rng = random.Random(5)
    for _ in range(300):
        largest = rng.choice((3, 50, 10**9, 10**26))
        turns = [
            Turn(rng.randrange(largest), rng.randrange(largest), rng.randrange(largest))
            for _ in range(rng.randrange(1, 8))
        ]
        assert interrupted(turns) == _by_subsets(turns)


def test_a_group_between_two_passes_is_worth_more_than_path_and_work():
    p = problem(
        [
            entry
            for m in "12"
            for entry in (operator(f"a{m}", 3), operator(f"g{m}", 4, "g"), operator(f"z{m}", 5))
        ],
        [value(f"{x}{y}{m}", f"{x}{m}", f"{y}{m}") for m in "12" for x, y in ("ag", "gz")],
        cluster((None, None)),
    )
    windows, frame = simple_windows(frame_of(p)), frame_of(p)
    found = turns_bound(windows)
    assert found is not None
    others = (critical_path(windows), load_bound(frame), packing_bound(frame))
    optimum = brute_force(p)
    assert optimum is not None
    assert max(bound.value for bound in others) == 12 < found.value == 16 == optimum[0]


def test_without_groups_there_are_no_turns():
    p = problem([operator("a", 3), operator("b", 3)], [value("ab", "a", "b")])
    assert turns_bound(simple_windows(frame_of(p))) is None


def test_turns_never_exceed_the_optimum_of_tiny_problems():
    seen = 0
    for seed in range(60):
        p = random_problem(seed, max_operators=5, objective=Objective.MAKESPAN)
        frame = frame_of(p)
        bound, optimum = turns_bound(simple_windows(frame)), brute_force(p)
        if bound is not None and optimum is not None:
            seen += 1
            assert bound.value <= optimum[0]
    assert seen > 20
