"""Plans of rematerialisation that repeatedly release outputs idling across the fullest run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from milp_plan.core.view import view

from ..problem import RematerialisationPlan, RematerialisationProblem
from .loops import BITS, MASK, Integers, relieve

NAME = "peak-directed greedy"

STEPS, ROOM = 12, 6
"""Largest numbers of added runs, and of all runs, per operator in the greedy."""


class ProblemArrays(NamedTuple):
    """A problem as arrays.

    Parameters
    ----------
    rows
        Cost, bytes, and whether it may run again, of each operator.
    first, inputs
        Inputs of operator i are ``inputs[first[i]:first[i + 1]]``.
    budget
        Budget in bytes; without a limit more than any plan needs.
    """

    rows: Integers
    first: Integers
    inputs: Integers
    budget: int


@view
def tables(problem: RematerialisationProblem) -> ProblemArrays:
    """Return a problem as arrays."""
    rows = [(entry.cost, entry.size, entry.again) for entry in problem.computations]
    counts = [0, *(len(row) for row in problem.inputs)]
    return ProblemArrays(
        np.array(rows, dtype=np.int64).T.copy(),
        np.cumsum(counts, dtype=np.int64),
        np.array([place for row in problem.inputs for place in row], dtype=np.int64),
        problem.peak if problem.budget is None else min(problem.budget, problem.peak),
    )


def once(problem: RematerialisationProblem) -> Integers:
    """Return the keys of the plan in which every operator runs once."""
    count = len(problem.computations)
    return np.arange(count, dtype=np.int64) * ((1 << BITS) + 1)


def keys_of(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Integers:
    """Return the keys of a plan: in a stage each operator runs again once, in the order."""
    keys, done = set(), 0
    for name in plan.runs:
        operator = problem.numbers[name]
        keys.add((done << BITS) + operator)
        done += operator == done
    return np.array(sorted(keys), dtype=np.int64)


def plan_of(
    problem: RematerialisationProblem, keys: Integers, planner: str
) -> RematerialisationPlan:
    """Return the plan of keys, see :mod:`.loops`."""
    names = [entry.name for entry in problem.computations]
    runs = tuple(names[place] for place in (keys & MASK).tolist())
    return RematerialisationPlan(problem.name, runs, planner=planner)


def relieved(
    problem: RematerialisationProblem, keys: Integers, seed: int = 0, noise: float = 0.0
) -> Integers | None:
    """Add runs until no run exceeds the budget; ``None`` where that fails.

    Parameters
    ----------
    keys
        Keys of the plan to start from.
    seed, noise
        Seed, and relative size of the randomness in choices.
    """
    table, count = tables(problem), len(problem.computations)
    space = np.zeros(len(keys) + ROOM * count + 2, dtype=np.int64)
    space[: len(keys)] = keys
    left = relieve(
        table.rows, table.first, table.inputs, space, len(keys), table.budget,
        seed, noise, STEPS * count,
    )  # fmt: skip
    return None if left < 0 else space[:left].copy()


def greedy(problem: RematerialisationProblem, seed: int = 0) -> RematerialisationPlan | None:
    """Plan by the least time per byte of excess; ``None`` where that fails."""
    keys = relieved(problem, once(problem), seed)
    return None if keys is None else plan_of(problem, keys, NAME)
