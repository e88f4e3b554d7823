"""Planted tiny problems of rematerialisation: each has a plan that nearly fills its budget."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.kinds.rematerialisation.stages import Staged


def planted_remat(seed: int) -> tuple[RematerialisationProblem, RematerialisationPlan]:
    """Return the instance of a seed and a plan of it, which claims nothing.

    Parameters
    ----------
    seed
        Equal seeds give equal instances: a training step of five to seven operators whose second
        half reads the first one backwards, ticks up to 10^9, bytes up to 10^10.
    """
    rng = Random(seed)
    count = rng.randint(5, 7)
    ticks, most = rng.choice((3, 50, 10**9)), rng.choice((2, 40, 10**10))
    rows = []
    for number in range(count):
        mirror = count - 1 - number
        near = {number - 1, mirror, rng.randrange(count)}
        names = tuple(f"o{place}" for place in sorted(near) if 0 <= place < number)
        cost, size = rng.randint(1, ticks), rng.randint(1, most)
        rows.append(Computation(f"o{number}", cost, size, names, rng.random() < 0.9))
    problem = RematerialisationProblem(f"planted-remat-{seed}", tuple(rows))
    pairs = [(t, i) for t in range(count) for i in range(t) if rows[i].again]
    found = []
    for _ in range(20):
        plan = Staged.of(problem, [pair for pair in pairs if rng.random() < 0.25])
        found.append((plan.peak, len(plan.runs), plan))
    peak, _, best = min(found, key=lambda entry: entry[:2])
    problem = replace(problem, budget=peak + peak // 1000)
    return problem, replace(best.plan("planted"), fingerprint=problem.fingerprint)
