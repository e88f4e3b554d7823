"""One round of a search on a cluster: request, work, answer.

The scheduler reads this module as well, so it imports what searches only where that is done.
"""

from __future__ import annotations

import pickle
import platform
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget, now

if TYPE_CHECKING:
    from milp_plan.run.ledger import Ledger


@dataclass(frozen=True)
class RoundRequest:
    """What a worker is to do.

    Parameters
    ----------
    start
        The best plan so far, if there is one.
    seed, seconds, threads
        Of the search; as many threads as the worker has, unless a number is given.
    construct
        Whether to look for starts of its own first.
    sources
        Hash of the sources at home: plans of other code are not mixed with ours.
    """

    start: Plan | None
    seed: int
    seconds: float
    threads: int | None
    construct: bool
    sources: str


@dataclass(frozen=True)
class RoundAnswer:
    """What a worker returns.

    Parameters
    ----------
    plan, by
        A better plan than the start, and who made it; ``None`` where there is none.
    host
        Where it searched.
    schedules, models
        How many it tried.
    """

    plan: Plan | None
    by: str
    host: str
    schedules: int
    models: int


def work(data: bytes, asked: RoundRequest) -> RoundAnswer:
    """Do one round on a worker of the cluster.

    Parameters
    ----------
    data
        The problem, pickled.
    asked
        The round.

    Raises
    ------
    RuntimeError
        The worker runs other sources.
    """
    began = now()
    from distributed import get_worker

    from milp_plan.run.identity import sources
    from milp_plan.run.kinds import kind_of
    from milp_plan.run.ledger import Ledger
    from milp_plan.run.settings import Settings

    if asked.sources != sources():
        raise RuntimeError("other sources of milp_plan than at home; install the same on all")
    budget, problem = Budget(asked.seconds, began=began), _unpacked(data)
    threads = asked.threads or get_worker().state.nthreads
    settings = Settings(time_limit_s=asked.seconds, seed=asked.seed, threads=threads)
    kind = kind_of(problem)
    ledger: Ledger[PlanningProblem, Plan] = Ledger(kind, problem, settings, budget)
    ledger.offer(asked.start, "start", "start")
    given = ledger.value
    kind.search_round(ledger, construct=asked.construct)
    better = ledger.value is not None and (given is None or ledger.value < given)
    return RoundAnswer(
        ledger.plan if better else None,
        ledger.planner,
        platform.node(),
        ledger.details.get("annealing", {}).get("schedules", 0),
        ledger.details.get("polish", {}).get("rounds", 0),
    )


@lru_cache(maxsize=1)
def _unpacked(data: bytes) -> PlanningProblem:
    """Return the problem, with the views that earlier rounds made of it."""
    problem: PlanningProblem = pickle.loads(data)  # from whoever may run code on the worker anyway
    return problem
