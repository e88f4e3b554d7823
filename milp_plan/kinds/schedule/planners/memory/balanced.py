"""Stages that fill all devices to the same share, where only repeated runs save memory.

Where all devices together hold too little for any plan without runs again, the fastest schedules
are of no use: what lies in memory from beginning to end, weights above all, must be spread before
anything else is decided. Layers are cut into consecutive stages that leave room for a part of what
their forward passes leave behind; for the rest of it operators will have to run again. Each cut is
scheduled without limits, in an order that holds few bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, zip_longest

from milp_plan.core import Placement, Plan, PlanningProblem
from milp_plan.core.budget import Budget

from ..constructions.base import Base as Stages
from ..constructions.base import Layout
from ..constructions.cuts import Balance, Memory, cut
from ..constructions.shapes import Shape, folded
from ..dispatch import dispatch_order
from ..priorities import frugal_order
from .fitting import relieved
from .layout import Base

STASH_SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
"""Parts of the values that forward passes leave for which stages reserve memory."""

BALANCES = (Balance(crossing=0.0), Balance(doublings=5, waiting=1.0, crossing=0.0))
"""Cost weights of stages that are tried."""

MAX_PLACEMENTS = 16
"""Most placements that are made to fit."""


@dataclass(frozen=True)
class Near:
    """A plan made to fit as far as a greedy gets: what it is, and bytes times ticks too many."""

    plan: Plan
    excess: int
    makespan: int


def balanced(problem: PlanningProblem, budget: Budget) -> list[Near]:
    """Return plans on such stages that fit, the fastest first; then those that nearly do.

    Parameters
    ----------
    problem
        With operators that may run again, or hosts.
    budget
        For all of it; candidates not tried by then are left out.
    """
    free = problem.without_memory_saving
    free = free.variant(cluster=free.cluster.with_memory(dict.fromkeys(free.cluster.device_names)))
    order = frugal_order(free)
    near: list[Near] = []
    for placements in _placements(problem.without_memory_saving):
        if near and (budget.over or len(near) == MAX_PLACEMENTS):
            break
        plan = dispatch_order(free, placements, order)
        if plan is not None:
            fitting = relieved(Base(problem, plan), budget)
            near.append(Near(fitting.plan(), fitting.excess, fitting.makespan))
    return sorted(near, key=lambda one: (one.excess, one.makespan))


def _placements(problem: PlanningProblem) -> Iterator[dict[str, Placement]]:
    """Yield the placements on stages of all devices, shapes in turn, each once."""
    stages, seen = Stages(problem), set()
    most = max((len(line.sites) for line in stages.lines), default=0)
    shapes = [s for line in stages.lines if len(line.sites) == most for s in folded(line)]
    for turn in zip_longest(*(_cuts(stages, shape) for shape in shapes)):
        for layout in turn:
            if layout is not None and layout.key not in seen:
                seen.add(layout.key)
                yield _placed(stages, layout)


def _cuts(stages: Stages, shape: Shape) -> Iterator[Layout]:
    """Yield the cuts into the stages of a shape, those that leave the most room first."""
    for kept, balance, parted in product(STASH_SHARES, BALANCES, (True, False)):
        bounds = cut(stages.loads, shape.sites, Memory([kept] * len(shape.sites), parted), balance)
        layout = stages.expanded(shape.name, shape.sites, bounds)
        if layout is not None:
            yield layout


def _placed(stages: Stages, layout: Layout) -> dict[str, Placement]:
    """Placement of every operator of a layout."""
    view, (sites, options) = stages.loads.view, layout.assigned
    return {
        operator.name: Placement(
            operator.options[options[number]].name, view.site_names[sites[view.unit[number]]]
        )
        for number, operator in enumerate(stages.loads.view.problem.graph.operators)
    }
