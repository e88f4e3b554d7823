"""One round of a search on a cluster: request, work, answer.

The scheduler imports this module as well, so the search is imported inside functions.
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
    """Request of one round, sent to a worker.

    Parameters
    ----------
    start
        The best plan so far, if there is one.
    seed, seconds, threads
        Seed, time limit and threads of the search; by default as many threads as the worker has.
    construct
        Whether the worker first constructs starts of its own.
    sources
        Hash of the sources of the run: a worker with other sources refuses the round.
    """

    start: Plan | None
    seed: int
    seconds: float
    threads: int | None
    construct: bool
    sources: str


@dataclass(frozen=True)
class RoundAnswer:
    """Answer of one round, returned by a worker.

    Parameters
    ----------
    plan, by
        A better plan than the start, or ``None``, and its planner.
    host
        Name of the worker's machine.
    schedules, models
        Numbers of schedules and models that it tried.
    """

    plan: Plan | None
    by: str
    host: str
    schedules: int
    models: int


def work(data: bytes, request: RoundRequest) -> RoundAnswer:
    """Do one round on a worker of the cluster.

    Parameters
    ----------
    data
        The problem, pickled.
    request
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

    if request.sources != sources():
        raise RuntimeError("other sources of milp_plan than at home; install the same on all")
    budget, problem = Budget(request.seconds, began=began), _unpacked(data)
    threads = request.threads or get_worker().state.nthreads
    settings = Settings(time_limit_s=request.seconds, seed=request.seed, threads=threads)
    kind = kind_of(problem)
    ledger: Ledger[PlanningProblem, Plan] = Ledger(kind, problem, settings, budget)
    ledger.offer(request.start, "start", "start")
    start_value = ledger.value
    kind.search_round(ledger, construct=request.construct)
    better = ledger.value is not None and (start_value is None or ledger.value < start_value)
    return RoundAnswer(
        ledger.plan if better else None,
        ledger.planner,
        platform.node(),
        ledger.details.get("annealing", {}).get("schedules", 0),
        ledger.details.get("window_search", {}).get("rounds", 0),
    )


@lru_cache(maxsize=1)
def _unpacked(data: bytes) -> PlanningProblem:
    """Return the problem, with the views that earlier rounds made of it."""
    problem: PlanningProblem = pickle.loads(
        data
    )  # the sender may run any code on the worker anyway
    return problem
