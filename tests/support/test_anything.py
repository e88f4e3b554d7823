"""The oracle of the random problems: what it finds is valid, and two ways to search agree."""

from __future__ import annotations

from collections import Counter

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, MemoryLaw, Objective
from milp_plan.kinds.hybrid.check import verify_hybrid
from tests.support.seeds import few

from . import hybrid
from .anything import GENERAL, KINDS, random_case, serial_case, uneven_case
from .brute import Timetable, brute_force, quietest_order, workloads
from .serial_brute import serial_plans, serial_value
from .span import least_span
from .tiny import TINY

ALWAYS = ("resharding", "chained jobs")
"""Kinds whose tiny problems all have a plan."""


@pytest.mark.parametrize("first", few(range(0, 2000, 100), 2))
def test_the_optimum_is_what_the_checker_says(first: int) -> None:
    seen = 0
    for seed in range(first, first + 100):
        problem = random_case(seed)
        found = brute_force(problem) if problem.serial is None else None
        if found is not None:
            verdict = verify(problem, found[1])
            assert verdict.violations == (), f"seed {seed}"
            assert verdict.value == found[0], f"seed {seed}"
            seen += 1
    assert seen > 50


@pytest.mark.parametrize("first", few(range(0, 2000, 100), 2))
def test_the_search_for_spans_finds_the_makespan_of_the_search_in_time(first: int) -> None:
    seen = 0
    for seed in range(first, first + 100):
        problem = random_case(seed)
        clock = problem.serial is None and problem.memory_law is MemoryLaw.INSTANT
        for load in list(workloads(problem))[:20] if clock else []:
            fits = quietest_order(load) is not None
            found = Timetable(load).search(None) if fits else None
            other = least_span(load, whole=True)
            assert (found and found[0]) == (other and other[0]), f"seed {seed}"
            seen += fits
    assert seen > 50


@pytest.mark.parametrize("first", few(range(0, 1000, 50), 1))
def test_the_checker_says_the_same_of_every_serial_plan(first: int) -> None:
    """Of those that break the law, too."""
    seen: Counter[bool] = Counter()
    for seed in range(first, first + 50):
        problem = uneven_case(seed) if seed % 2 else serial_case(seed)
        for plan in serial_plans(problem):
            verdict = verify(problem, plan)
            expected = verdict.value if verdict.ok else None
            assert serial_value(problem, plan) == expected, f"{problem.name}: {plan.runs}"
            seen[verdict.ok] += 1
    assert min(seen[True], seen[False]) > 100


@pytest.mark.parametrize("first", few(range(0, 200, 10), 1))
def test_the_checker_says_the_same_of_every_hybrid_plan(first: int) -> None:
    seen: Counter[bool] = Counter()
    for seed in range(first, first + 10):
        drawn = hybrid.random_problem(seed, 3)
        for problem in (drawn, hybrid.magnified(drawn, seed)):
            for plan in hybrid.every_plan(problem):
                verdict = verify_hybrid(problem, plan)
                expected = verdict.value if verdict.ok else None
                assert hybrid.time_per_sample(problem, plan) == expected, f"{problem.name}: {plan}"
                seen[verdict.ok] += 1
    assert min(seen[True], seen[False]) > 100


def test_the_problems_are_of_all_kinds() -> None:
    seen: Counter[object] = Counter()
    for seed in range(600):
        problem = random_case(seed)
        kind = problem.provenance["kind"]
        seen[kind] += 1
        seen["calls"] += problem.serial is not None and problem.serial.calls is not None
        if kind == GENERAL:
            seen[problem.objective, problem.memory_law] += 1
            seen[problem.cluster.communication] += 1
            options = [o for op in problem.graph.operators for o in op.options]
            seen["gang"] += any(option.gang > 1 for option in options)
            seen["group"] += bool(problem.graph.groups)
            seen["layout"] += any(option.reads or option.writes for option in options)
            seen["real"] += any(max(o.duration_ticks.values()) > 10_000 for o in options)
            seen["kept"] += any(value.kept is not None for value in problem.graph.values)
            seen["instant"] += any(0 in o.duration_ticks.values() for o in options)
    wanted = [
        *((objective, law) for objective in Objective for law in MemoryLaw),
        *(
            *KINDS,
            *CommunicationModel,
            "calls",
            "gang",
            "group",
            "layout",
            "real",
            "instant",
            "kept",
        ),
    ]
    wanted = [entry for entry in wanted if Objective.LATENCY not in entry]
    assert {entry: seen[entry] for entry in wanted if seen[entry] < 10} == {}


@pytest.mark.parametrize("name", TINY)
def test_tiny_problems_of_each_kind_are_small_large_and_without_a_plan(name: str) -> None:
    """Which is what the test of all that is said about them relies on."""
    found = [TINY[name].optimum(TINY[name].draw(seed)) for seed in range(50)]
    assert any(best is not None and best < 1000 for best in found)
    assert any(best is not None and best > 10**7 for best in found)
    assert (None in found) == (name not in ALWAYS)
