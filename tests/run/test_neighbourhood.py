"""Which operators a round of neighbourhood search frees."""

from functools import cache
from random import Random

import pytest

from milp_plan.core import Objective
from milp_plan.kinds.schedule.neighbourhood import (
    CHOOSERS,
    PlanView,
    critical_stretch,
    transfer_region,
)
from tests.check.cases import op, plan, problem, run, send, value
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.parametrize("chooser", CHOOSERS.values(), ids=CHOOSERS)

SEEDS = range(40)


@cache
def views():
    """Seeds, and views of random plans with gangs, groups and transfers."""
    made = [random_problem_with_plan(seed, objective=Objective.MAKESPAN) for seed in SEEDS]
    return tuple((seed, PlanView(*pair)) for seed, pair in zip(SEEDS, made, strict=True))


@pytest.mark.untraced
def test_sizes(chooser):
    """As many as asked for, and beyond that only the rest of groups."""
    for seed, view in views():
        graph = view.problem.graph
        for size in (1, 2, 4, 100):
            free = chooser(view, Random(seed), size)
            assert free
            assert free <= set(view.order)
            loners = [name for name in free if graph.operator(name).group is None]
            assert len(loners) <= size
            groups = {graph.operator(name).group for name in free} - {None}
            assert len(loners) + len(groups) <= size


def test_small_groups_are_whole(chooser):
    closed = 0
    for seed, view in views():
        for size in (3, 5):
            free = chooser(view, Random(seed), size)
            for members in view.problem.graph.groups.values():
                if free & set(members) and len(members) <= size:
                    assert set(members) <= free
                    closed += 1
    assert closed > 0


def test_the_seed_decides(chooser):
    found = set()
    for seed, view in views():
        again = PlanView(view.problem, view.plan)
        assert chooser(view, Random(seed), 3) == chooser(again, Random(seed), 3)
    for seed in SEEDS:
        found.add(chooser(view, Random(seed), 2))
    assert len(found) > 1


def line_of(number):
    """A view of a chain on one device, without transfers."""
    names = [f"o{n}" for n in range(number)]
    values = [value(f"v{n}", names[n], names[n + 1]) for n in range(number - 1)]
    runs = [run(name, "d0", 10 * n) for n, name in enumerate(names)]
    return PlanView(problem([op(name) for name in names], values), plan(*runs))


def test_a_plan_without_transfers(chooser):
    view = line_of(8)
    for seed in SEEDS:
        free = chooser(view, Random(seed), 3)
        assert len(free) == 3
        positions = sorted(int(name[1:]) for name in free)
        assert positions[-1] - positions[0] == 2, "neighbours in time"


def test_large_groups_stay(chooser):
    """Their members could not move one by one, and all of them would be too many."""
    names = "abcdef"
    group = [op(name, group="g") for name in names]
    runs = [run(name, "d0", 10 * n) for n, name in enumerate(names)]
    view = PlanView(problem(group), plan(*runs))
    assert len(chooser(view, Random(0), 2)) == 2
    assert chooser(view, Random(0), 6) == set(names)


def two_devices():
    """A view of a plan with a long and a short transfer, and something beside them."""
    operators = [op(name) for name in ("a", "b", "c", "d", "e")]
    values = [value("x", "a", "b", 90), value("y", "c", "d", 28)]
    a_plan = plan(
        *(run("a", "d0", 0), send("x", "d0", "d1", 10, 102), run("b", "d1", 102)),
        *(run("c", "d0", 10), send("y", "d0", "d1", 102, 132), run("d", "d1", 132)),
        run("e", "d0", 20),
    )
    return PlanView(problem(operators, values), a_plan)


def test_what_each_kind_looks_for(chooser):
    view = two_devices()
    found = [chooser(view, Random(seed), 2) for seed in SEEDS]
    if chooser is transfer_region:
        assert found.count({"a", "b"}) > found.count({"c", "d"}) > 0
        assert {frozenset("ab"), frozenset("cd")} == set(found)
    if chooser is critical_stretch:
        assert all(free & {"d", "b", "a"} for free in found)
