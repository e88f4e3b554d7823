"""Cuts one by one: first the cheapest that memory requires, then the best next one."""

from __future__ import annotations

from collections.abc import Collection

from ..bounds import least_price
from ..problem import LocalUpdatesPlan, LocalUpdatesProblem
from .schedules import chain_of, orders, step_time

GREEDY = "best next cut"


def greedy(problem: LocalUpdatesProblem, seed: int = 0) -> LocalUpdatesPlan | None:  # noqa: ARG001
    """Start with the cheapest cuts that memory allows; add the best next one while it helps."""
    begun = least_price(problem)
    left = None if begun is None or problem.budget is None else problem.budget - begun[0]
    if begun is None or (left is not None and left < 0):
        return None
    chain = chain_of(problem)

    def time(cuts: Collection[int]) -> int:
        return step_time(chain, cuts, orders(chain, cuts))

    cuts = begun[1]
    value = time(cuts)
    while True:
        spent = sum(problem.stages[cut].price for cut in cuts)
        trials = [
            (time(cuts | {cut}), cut)
            for cut, stage in enumerate(problem.stages[:-1])
            if cut not in cuts and (problem.budget is None or spent + stage.price <= problem.budget)
        ]
        if not trials or min(trials)[0] >= value:
            names = tuple(problem.stages[cut].name for cut in sorted(cuts))
            return LocalUpdatesPlan(problem.name, names, problem.fingerprint, value, GREEDY)
        value, best = min(trials)
        cuts = cuts | {best}
