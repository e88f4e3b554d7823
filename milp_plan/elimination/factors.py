"""Cost functions of a few variables each, whose sum is to be minimal.

A problem of repeated tables read for elimination: exact 64-bit integers, every table shifted to a
minimum of 0, what is not allowed far above every sum of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from milp_plan.core import Finding, InputError
from milp_plan.core.sharding import Integers

from .repeated import CostTable, RepeatedProblem

SPAN = 2**60
"""Largest sum of the spans of all tables, with which two forbidden entries add up in 64 bits."""

Scope = tuple[int, ...]


@dataclass(frozen=True)
class Factor:
    """A cost function: its variables, one per axis, and the number of its table."""

    scope: Scope
    table: int


@dataclass
class FactorGraph:
    """Variables and cost functions.

    Parameters
    ----------
    sizes
        Number of values of each variable.
    factors
        The cost functions; equal tables have equal numbers.
    tables
        Non-negative costs.
    wall
        Smallest cost that stands for "not allowed"; the sum of all other costs is below it.
    constant
        Constant that is added to every sum.
    """

    sizes: list[int]
    factors: list[Factor]
    tables: list[Integers]
    wall: int
    constant: int

    @property
    def walled(self) -> bool:
        """Whether the tables have forbidden entries."""
        return any(table.size and int(table.max()) >= self.wall for table in self.tables)


def factor_graph(problem: RepeatedProblem) -> FactorGraph:
    """Read a problem.

    Raises
    ------
    InputError
        If sums could leave 64 bits.
    """
    own = [_shifted(table) for table in problem.own]
    pairs = [_shifted(table) for table in problem.pairs]
    used = [own[kind] for kind in problem.kinds] + [pairs[kind] for kind in problem.links]
    constant = sum(low for _, low, _ in used)
    span = sum(top for _, _, top in used)
    if span >= SPAN:
        found = f"costs that differ by {span} in all"
        raise InputError([Finding("costs", found, f"less than {SPAN}", "scale all costs down")])
    wall = span + 1
    distinct = zip((*problem.own, *problem.pairs), own + pairs, strict=True)
    tables = [_walled(table, cost, wall) for table, (cost, _, _) in distinct]
    factors = [Factor((number,), kind) for number, kind in enumerate(problem.kinds)]
    shift = len(own)
    ends = zip(problem.ends, problem.links, strict=True)
    factors += [Factor(scope, shift + kind) for scope, kind in ends]
    return FactorGraph(problem.sizes, factors, tables, wall, constant)


def _shifted(table: CostTable) -> tuple[Integers, int, int]:
    """Return a table minus its minimum, the minimum, and the span, of allowed entries."""
    seen = table.cost if table.allowed is None else table.cost[table.allowed]
    if not seen.size:
        return table.cost, 0, 0
    low = int(seen.min())
    return table.cost - low, low, int(seen.max()) - low


def _walled(table: CostTable, cost: Integers, wall: int) -> Integers:
    return cost if table.allowed is None else np.where(table.allowed, cost, wall)


def spread(table: Integers, scope: Scope, axes: Scope) -> Integers:
    """Return a view of a table along axes, with length 1 for variables that it does not have."""
    order = sorted(range(len(scope)), key=lambda place: axes.index(scope[place]))
    turned = table.transpose(order)
    shape = [1] * len(axes)
    for place, extent in zip(order, turned.shape, strict=True):
        shape[axes.index(scope[place])] = extent
    return np.ascontiguousarray(turned).reshape(shape)


def total(parts: Sequence[tuple[Integers, Scope]], axes: Scope, wall: int | None) -> Integers:
    """Return the sum of tables as one table along axes."""
    return added([spread(table, scope, axes) for table, scope in parts], wall)


def added(views: Sequence[Integers], wall: int | None) -> Integers:
    """Return the sum of broadcast tables, at most the wall."""
    summed = views[0]
    for number, view in enumerate(views[1:]):
        shape = np.broadcast_shapes(summed.shape, view.shape)
        summed = np.add(summed, view, out=summed if number and shape == summed.shape else None)
        if wall is not None:
            np.minimum(summed, wall, out=summed)
    return summed


def value(graph: FactorGraph, values: Sequence[int]) -> int:
    """Return the sum of all costs and the constant at values of the variables."""
    entries: Iterable[int] = (
        int(graph.tables[factor.table][tuple(values[x] for x in factor.scope)])
        for factor in graph.factors
    )
    return graph.constant + sum(entries)
