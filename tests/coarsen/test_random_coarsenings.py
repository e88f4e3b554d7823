"""Random coarsenings of random problems: each plan comes back, within what it needs as it is."""

from __future__ import annotations

import random

import pytest

from milp_plan.check import replay, verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.coarsen.contraction import contract
from tests.support.magnitudes import magnified, some_take_no_time
from tests.support.memory_saving import planted_memory_saving, serial_plan
from tests.support.plans import planted
from tests.support.problems import random_problem
from tests.support.training_graphs import random_training

from .drafts import random_clusters, random_plan, unlimited

FEW, MANY = 400, 4600
"""Coarsenings of the default run, and of the slow one beside it."""


def drawn(seed: int) -> PlanningProblem:
    """A problem with gangs, layouts, groups, kept values, micro-batches, hosts or runs again."""
    rng = random.Random(f"kind {seed}")
    sort = rng.choice(["planted", "tiny", "training", "ways"])
    if sort == "planted":
        problem = planted(seed).problem
    elif sort == "tiny":
        problem = random_problem(seed, max_operators=8)
    elif sort == "training":
        batches = rng.randint(1, 3)
        problem = random_training(seed, rng.randint(2, 4), batches=batches, branches=seed % 3)
    else:
        problem = planted_memory_saving(seed).problem
    return unlimited(magnified(some_take_no_time(problem, seed), seed))


def coarse_plan(problem: PlanningProblem, rng: random.Random) -> Plan | None:
    """A valid plan of clusters; ``None`` where none was drawn."""
    if not problem.allows_memory_saving:
        return random_plan(problem, rng)
    try:
        plan = serial_plan(problem, rng)
    except KeyError:  # it wants what a later run has replaced
        return None
    return plan if verify(problem, plan).ok else None


def comes_back(seed: int) -> bool:
    """Check one coarsening; whether there was a plan and anything had been merged."""
    rng = random.Random(f"coarsening {seed}")
    problem = drawn(seed)
    reduction = contract(problem, random_clusters(problem, rng), name="test")
    plan = coarse_plan(reduction.after, rng)
    if plan is None:
        return False
    coarse = verify(reduction.after, plan)
    assert coarse.ok, (seed, coarse.violations)
    room = {name: used.peak_bytes for name, used in replay(reduction.after, plan).devices.items()}
    tight = problem.variant(cluster=problem.cluster.with_memory(dict(room)))
    fine = verify(tight, reduction.undo(plan))
    assert fine.ok, (seed, [str(v) for v in fine.violations])
    assert fine.value is not None
    assert coarse.value is not None
    assert fine.value <= coarse.value, seed
    return len(reduction.after.graph.operators) < len(problem.graph.operators)


@pytest.mark.parametrize("block", range(4))
def test_plans_come_back_within_the_memory_of_the_coarse_plan(block: int) -> None:
    size = FEW // 4
    done = sum(comes_back(seed) for seed in range(block * size, (block + 1) * size))
    assert done > size // 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(46))
def test_many_plans_come_back(block: int) -> None:
    size = MANY // 46
    first = FEW + block * size
    assert sum(comes_back(seed) for seed in range(first, first + size)) > size // 2
