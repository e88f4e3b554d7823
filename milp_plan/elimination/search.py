"""Sharding without a binding limit: the exact optimum by elimination, or a bound and the reason.

The relaxation without memory; a plan counts only if it respects the limit all the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from milp_plan.core.sharding import ShardingPlan, ShardingProblem

from .buckets import Buckets
from .factors import FactorGraph, factor_graph, value
from .ordering import Ordering, weigh
from .repeated import RepeatedProblem, repeated

NAME = "elimination"


@dataclass(frozen=True)
class Caps:
    """Limits of elimination; beyond them, it cuts buckets and returns only a bound.

    Parameters
    ----------
    largest
        Entries of one bucket.
    entries
        Entries of all buckets.
    stored
        Entries of all messages, eight bytes each.
    """

    largest: int = 200_000_000
    entries: int = 20_000_000_000
    stored: int = 100_000_000

    def refuse(self, plan: Ordering) -> str:
        """Return why elimination along an order exceeds the limits; empty if it does not."""
        for what, needed, cap in (
            ("a table", plan.largest, self.largest),
            ("all tables", plan.entries, self.entries),
            ("all messages", plan.stored, self.stored),
        ):
            if needed > cap * (1 + 1e-9):
                return f"{what} of {needed:.3g} entries would exceed the cap of {cap:.3g}"
        return ""


@dataclass(frozen=True)
class Eliminated:
    """The result of elimination.

    Parameters
    ----------
    chosen
        Strategy of each operator; ``None`` if the masks allow none.
    value
        Cost of ``chosen``.
    bound
        No plan costs less; ``None`` if no plan is allowed at all, or nothing was done.
    exact
        Whether ``chosen`` is optimal without the limit, or proved not to exist.
    reason
        Why it is not exact, or not a plan.
    ordering
        The order and its predicted tables.
    computed
        Entries of buckets computed; equal buckets once.
    seconds
        CPU time of this thread, tables given.
    """

    chosen: tuple[int, ...] | None
    value: int | None
    bound: int | None
    exact: bool
    reason: str
    ordering: Ordering
    computed: int
    seconds: float


def eliminate(
    problem: RepeatedProblem, caps: Caps | None = None, *, partly: bool = True
) -> Eliminated:
    """Minimise the total cost of a problem without a limit; see :class:`Eliminated`.

    Beyond the caps buckets are cut; nothing is done there unless ``partly``.
    """
    start = time.thread_time()
    graph = factor_graph(problem)
    ordering = weigh(graph)
    caps = caps or Caps()
    reason = caps.refuse(ordering)
    if reason and not partly:
        taken = time.thread_time() - start
        return Eliminated(None, None, None, False, reason, ordering, 0, taken)
    buckets = Buckets(graph, _bag_cap(caps, len(graph.sizes)) if reason else None)
    buckets.eliminate(ordering.order)
    bound = buckets.constant()
    values, reached = _values(graph, buckets)
    feasible = reached - graph.constant < graph.wall
    blocked = bound - graph.constant >= graph.wall
    if blocked:
        reason = "no plan is allowed by the masks"
    return Eliminated(
        chosen=tuple(values) if feasible else None,
        value=reached if feasible else None,
        bound=None if blocked else bound,
        exact=blocked or not buckets.lost or reached == bound,
        reason="" if feasible and reached == bound else reason,
        ordering=ordering,
        computed=buckets.computed,
        seconds=time.thread_time() - start,
    )


def _values(graph: FactorGraph, buckets: Buckets) -> tuple[list[int], int]:
    values = buckets.complete([0] * len(graph.sizes))
    return values, value(graph, values)


def _bag_cap(caps: Caps, variables: int) -> int:
    """Return the maximum entries of a mini-bucket, so that all are about within the limits."""
    return max(1, min(caps.largest, caps.entries // max(1, variables), caps.stored // 8))


@dataclass(frozen=True)
class Answer:
    """A plan that ignores the memory limit, and whether it keeps it.

    Parameters
    ----------
    plan
        A plan within masks and limit; ``None`` if elimination found none.
    bound
        No plan costs less; ``None`` if none is allowed by the masks.
    proved
        Whether ``plan`` is optimal, or proved not to exist.
    reason
        Why not proved; names the limit where it binds: another planner must take over.
    found
        The elimination itself.
    """

    plan: ShardingPlan | None
    bound: int | None
    proved: bool
    reason: str
    found: Eliminated


def plan_by_elimination(
    problem: ShardingProblem, caps: Caps | None = None, *, partly: bool = True
) -> Answer:
    """Solve a sharding problem whose limit does not bind; say so where it does."""
    found = eliminate(repeated(problem), caps, partly=partly)
    if found.chosen is None:
        proved = found.exact and found.bound is None
        return Answer(None, found.bound, proved, found.reason, found)
    peak = peak_usage(problem, found.chosen)
    if problem.limit is not None and peak > problem.limit:
        reason = f"the limit of {problem.limit} bytes binds: without it {peak} are used"
        return Answer(None, found.bound, False, reason, found)
    plan = ShardingPlan(problem.name, found.chosen, problem.fingerprint, found.value, NAME)
    return Answer(plan, found.bound, found.value == found.bound, found.reason, found)


def peak_usage(problem: ShardingProblem, chosen: Sequence[int]) -> int:
    """Return the maximum bytes in use at any instant under a choice."""
    s = problem.strategies
    used = s.usage[s.offsets[:-1] + np.array(chosen, dtype=np.int64)]
    lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
    starts, stops = problem.intervals[lasting].T
    amounts = used[lasting]
    times = np.concatenate([stops, starts])
    changes = np.concatenate([-amounts, amounts])
    if not len(times):
        return 0
    order = np.argsort(times, kind="stable")
    return max(0, int(np.cumsum(changes[order]).max()))
