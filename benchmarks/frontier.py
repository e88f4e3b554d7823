"""PaSE's baseline: dynamic programming over operators in breadth-first order.

One table over the whole frontier, the operators that earlier ones are still connected to. On
networks with long-lived values it outgrows any memory; then this says so.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from milp_plan.core.sharding import Integers
from milp_plan.elimination.buckets import smallest
from milp_plan.elimination.factors import FactorGraph, Scope, factor_graph, value
from milp_plan.elimination.ordering import neighbourhoods
from milp_plan.elimination.repeated import RepeatedProblem

_Part = tuple[Integers, Scope]


@dataclass(frozen=True)
class Frontier:
    """What the baseline found.

    Parameters
    ----------
    chosen, value
        An optimal choice and its cost; ``None`` if a table was too large.
    log10_largest
        Decimal logarithm of the entries of the largest table that is needed.
    """

    chosen: tuple[int, ...] | None
    value: int | None
    log10_largest: float


def plan_breadth_first(problem: RepeatedProblem, cap: int = 100_000_000) -> Frontier:
    """Minimise the total cost, unless a table would need more than ``cap`` entries.

    Only for problems without masks, as PaSE's are.
    """
    graph = factor_graph(problem)
    if graph.walled:
        raise ValueError("the breadth-first baseline knows no masks")
    around = neighbourhoods(graph)
    order = _breadth_first(around)
    scopes = _scopes(order, around)
    logs = [sum(math.log10(graph.sizes[x]) for x in scope) for scope in scopes]
    if max(logs) > math.log10(cap):
        return Frontier(None, None, max(logs))
    chosen = _sweep(graph, order, scopes)
    return Frontier(tuple(chosen), value(graph, chosen), max(logs))


def _breadth_first(around: list[set[int]]) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(around)):
        waiting = deque([start] if start not in seen else [])
        seen.add(start)
        while waiting:
            found = waiting.popleft()
            order.append(found)
            fresh = sorted(around[found] - seen)
            seen.update(fresh)
            waiting.extend(fresh)
    return order


def _scopes(order: list[int], around: list[set[int]]) -> list[Scope]:
    """Axes of each step's table: its operator, then the frontier behind it."""
    done: set[int] = set()
    frontier: set[int] = set()
    found: list[Scope] = []
    for operator in order:
        done.add(operator)
        frontier |= around[operator] - done
        frontier.discard(operator)
        found.append((operator, *sorted(frontier)))
    return found


def _sweep(graph: FactorGraph, order: list[int], scopes: list[Scope]) -> list[int]:
    position = {operator: number for number, operator in enumerate(order)}
    steps: list[list[_Part]] = [[] for _ in order]
    for factor in graph.factors:
        step = min(position[operator] for operator in factor.scope)
        steps[step].append((graph.tables[factor.table], factor.scope))
    table: Integers = np.zeros((), dtype=np.int64)
    held: Scope = ()
    for parts, scope in zip(steps, scopes, strict=True):
        parts.append((table, held))
        place = {operator: axis for axis, operator in enumerate(scope)}
        local = [(costs, tuple(place[x] for x in axes)) for costs, axes in parts]
        table = smallest(local, tuple(graph.sizes[x] for x in scope), None)
        held = scope[1:]
    chosen = [0] * len(order)
    for parts, scope in zip(reversed(steps), reversed(scopes), strict=True):
        costs = np.zeros(graph.sizes[scope[0]], dtype=np.int64)
        for part, axes in parts:
            costs += part[tuple(slice(None) if x == scope[0] else chosen[x] for x in axes)]
        chosen[scope[0]] = int(costs.argmin())
    return chosen
