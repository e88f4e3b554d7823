"""Joining classes keeps a best plan, and moving a group together never costs anything."""

from __future__ import annotations

import pytest

from milp_plan.check import verify
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.colocation import colocated
from milp_plan.kinds.placement.serial.graph import read_serial
from tests.support.serial_brute import brute_serial, serial_plans

SEEDS = range(150)


@pytest.mark.untraced
@pytest.mark.parametrize("separate", [False, True])
def test_a_best_plan_is_left(separate):
    joined = 0
    for seed in SEEDS:
        problem, plan = planted_serial(seed, contiguous=False, separate=separate)
        graph = read_serial(problem)
        for cutoff in (None, plan.value):
            groups = colocated(graph, cutoff)
            if not groups:
                continue
            joined += 1
            _, best = brute_serial(problem)
            places = graph.places(best)
            for first, *others in groups:
                for other in others:
                    places[other] = places[first]
            verdict = verify(problem, graph.plan(places))
            assert verdict.ok
            assert verdict.value == verify(problem, best).value
    assert joined > 10


def test_no_plan_below_the_cutoff_gets_worse():
    """The claim is about every plan up to the cutoff, not about best ones alone."""
    moved = 0
    for seed in SEEDS[:90]:
        problem, planted = planted_serial(seed, contiguous=False)
        graph = read_serial(problem)
        groups = colocated(graph, planted.value)
        for plan in serial_plans(problem) if groups else ():
            verdict = verify(problem, plan)
            if not verdict.ok or verdict.value > planted.value:
                continue
            before = graph.places(plan)
            after = list(before)
            for first, *others in groups:
                for other in others:
                    after[other] = after[first]
            moved += after != before
            again = verify(problem, graph.plan(after))
            assert again.ok
            assert again.value <= verdict.value
    assert moved > 10


def test_a_cutoff_bars_hosts():
    """Some groups are there only because a class is too slow for the hosts."""
    more = 0
    for seed in SEEDS:
        problem, plan = planted_serial(seed, contiguous=False)
        graph = read_serial(problem)
        more += len(colocated(graph, plan.value)) > len(colocated(graph))
    assert more > 0
