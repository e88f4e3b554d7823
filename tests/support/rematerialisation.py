"""Rematerialisation by hand and by chance, and its optimum from the law alone."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from scipy.optimize import Bounds, LinearConstraint, milp

from milp_plan.backends import Limits, SolverReport, Stop
from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    Host,
    RematerialisationObjective,
    RematerialisationProblem,
)
from milp_plan.lp import CompiledModel


def drawn(seed: int, count: int | None = None, *, once: float = 0.0) -> RematerialisationProblem:
    """Return a small random problem with ticks up to 10^9 and bytes up to 10^10, and a budget.

    Parameters
    ----------
    count
        Operators; a few unless given.
    once
        Share of operators that may not run again.
    """
    rng = random.Random(seed)
    count = rng.randint(3, 7) if count is None else count
    ticks, most = rng.choice((3, 50, 10**9)), rng.choice((2, 40, 10**10))
    training = rng.random() < 0.6
    rows = []
    for number in range(count):
        near = [place for place in range(number) if _read(rng, place, number, count, training)]
        cost, size = rng.randint(0, ticks), rng.randint(0 if rng.random() < 0.1 else 1, most)
        names = tuple(f"o{place}" for place in near)
        rows.append(Computation(f"o{number}", cost, size, names, rng.random() >= once))
    problem = RematerialisationProblem(f"drawn{seed}", tuple(rows))
    low, high = max(problem.floors), problem.peak
    budget = rng.choice((low, (low + high) // 2, *(rng.randint(low, high) for _ in range(4)), high))
    return replace(problem, budget=max(0, budget - (rng.random() < 0.1)))


def _read(rng: random.Random, place: int, number: int, count: int, training: bool) -> bool:
    """Whether one reads another: nearly all do the one before; in training also their mirror."""
    mirror = training and number >= count // 2 and place == count - 1 - number
    return mirror or rng.random() < (0.9 if place == number - 1 else 0.1 if training else 0.3)


def least(problem: RematerialisationProblem) -> int | None:
    """Return the least added time by trying everything, or ``None`` where there is no plan.

    The cheapest way through states (how many operators have run, which outputs are held): run any
    operator whose inputs are held, then forget any of what is held.
    """
    computations, inputs = problem.computations, problem.inputs
    budget = problem.peak if problem.budget is None else problem.budget
    done: set[tuple[int, frozenset[int]]] = set()
    queue: list[tuple[int, int, list[int]]] = [(0, 0, [])]
    while queue:
        cost, ran, row = heapq.heappop(queue)
        held = frozenset(row)
        if ran == len(computations):
            return cost - problem.total_cost
        if (ran, held) in done:
            continue
        done.add((ran, held))
        for place in range(ran + 1):
            again = place < ran
            if (again and not computations[place].again) or not held.issuperset(inputs[place]):
                continue
            now = held | {place}
            if sum(computations[entry].size for entry in now) > budget:
                continue
            later = cost + computations[place].cost
            for kept in chain.from_iterable(combinations(now, k) for k in range(len(now) + 1)):
                state = (ran + (not again), frozenset(kept))
                if state not in done:
                    heapq.heappush(queue, (later, state[0], sorted(kept)))
    return None


def least_peak(problem: RematerialisationProblem) -> int | None:
    """Return the least peak by bisecting budgets, each tried by everything; ``None`` without one.

    The added time is monotone in the budget, whatever planned it.
    """
    limit = problem.added_limit
    plain = replace(problem, objective=RematerialisationObjective.ADDED_TIME, added_limit=None)

    def enough(budget: int) -> bool:
        added = least(replace(plain, budget=budget))
        return added is not None and (limit is None or added <= limit)

    low = max(problem.floors)
    high = min(problem.peak, problem.budget if problem.budget is not None else problem.peak)
    if high < low or not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def powered(
    problem: RematerialisationProblem, seed: int, *, energy: bool = True
) -> RematerialisationProblem:
    """Return the problem with a host; where energy is minimised, also with a limit of time."""
    rng = random.Random(seed)
    most = max(1, *(entry.size for entry in problem.computations))
    pace = max(1, *(entry.cost for entry in problem.computations))
    every = sum(entry.size for entry in problem.computations)
    host = Host(
        rng.choice((None, 0, most, every)),
        rng.choice((0, 1)),
        most,
        rng.randint(1, 2 * pace),
        rng.randint(1, 50),
    )
    rows = tuple(replace(entry, energy=rng.randint(0, 10**6)) for entry in problem.computations)
    if not energy:
        return replace(problem, host=host)
    limit = rng.choice((None, 2 * problem.total_cost))
    goal = RematerialisationObjective.ADDED_ENERGY
    return replace(problem, computations=rows, host=host, objective=goal, added_limit=limit)


def least_paged(problem: RematerialisationProblem) -> int | None:
    """Return the least value by trying everything, hosts, energy and limits of time included.

    States are how many operators have run, which outputs are held and which are on the host; one
    is reached again only by what is dearer, and of use only if it is faster.
    """
    computations, host, limit = problem.computations, problem.host, problem.added_limit
    room = problem.peak if problem.budget is None else problem.budget
    once = sum(run for run, _ in problem.prices)
    queue: list[tuple[int, int, list[int], list[int], int]] = [(0, 0, [], [], 0)]
    fastest: dict[tuple[int, frozenset[int], frozenset[int]], int] = {}
    while queue:
        price, ran, row, gone, ticks = heapq.heappop(queue)
        held, away = frozenset(row), frozenset(gone)
        if ran == len(computations):
            return price - once
        state = (ran, held, away)
        gone_at_best = fastest.get(state)
        if gone_at_best is not None and (limit is None or gone_at_best <= ticks):
            continue  # what came before is no dearer
        fastest[state] = ticks
        steps = []
        for place in range(ran + 1):
            run, transfer = problem.prices[place]
            allowed = place == ran or computations[place].again
            if allowed and held.issuperset(problem.inputs[place]):
                steps.append((place, place == ran, run, computations[place].cost, away))
            if host is not None and place < ran:
                ways = 1 + (place not in away)
                there = away | {place}
                full = sum(computations[entry].size for entry in there)
                if host.memory is None or full <= host.memory:
                    back = problem.transfers[place]
                    steps.append((place, False, ways * transfer, ways * back, there))
        for place, new, more, longer, there in steps:
            now, later = held | {place}, ticks + longer
            if sum(computations[entry].size for entry in now) > room:
                continue
            if limit is not None and later > problem.total_cost + limit:
                continue
            for kept in chain.from_iterable(combinations(now, k) for k in range(len(now) + 1)):
                entry = (price + more, ran + new, sorted(kept), sorted(there), later)
                heapq.heappush(queue, entry)
    return None


def diamond(budget_bytes: int | None = None, again: bool = True) -> RematerialisationProblem:
    """A wide input that is read at both ends of a chain: 24 bytes are enough with one more run."""
    rows = (
        Computation("wide", 5, 10, (), again),
        Computation("b", 3, 4, ("wide",)),
        Computation("c", 2, 12, ("b",)),
        Computation("d", 7, 2, ("c",)),
        Computation("end", 1, 0, ("wide", "d")),
    )
    return RematerialisationProblem("diamond", rows, budget_bytes)


def ask_scipy(
    model: CompiledModel, limits: Limits, _start: Any = None, on_progress: Any = None
) -> SolverReport:
    """Solve in this process: nothing has to be started."""
    if not model.num_columns:
        fits = (model.row_lower <= 0).all() and (model.row_upper >= 0).all()
        return (
            SolverReport(Stop.PROVED, model.cost, 0.0, 0.0)
            if fits
            else SolverReport(Stop.INFEASIBLE)
        )
    found = milp(
        model.cost,
        integrality=model.integrality,
        bounds=Bounds(model.column_lower, model.column_upper),
        constraints=LinearConstraint(model.matrix, model.row_lower, model.row_upper),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return SolverReport(Stop.INFEASIBLE)
    return SolverReport(Stop.PROVED, found.x, found.fun, found.mip_dual_bound)
