"""Words of a shop as a model's order columns have them, and values of plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milp_plan.api import Neighbourhood, Objective, Plan
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import words_of

from .graph import ShopGraph, numbered

Line = list[tuple[tuple[int, float], int, int]]
"""(rank, kind, number) of each task of a machine."""


def decided_words(
    graph: ShopGraph,
    neighbourhood: Neighbourhood | None,
    comes_first: Callable[[int, int], bool],
    start: Callable[[int], float],
) -> list[list[int]]:
    """Words in which a task's place is the number of tasks before it.

    Parameters
    ----------
    graph, neighbourhood
        What moves, and the plan that the rest is taken from.
    comes_first
        Whether one kept task comes before another of its stretch.
    start
        Start of a kept task; decides between tasks with equally many before them (tasks that last
        no time, which may precede each other in a circle).
    """
    lines: list[Line] = [[] for _ in graph.shop.machines]
    if neighbourhood is not None:
        for line, word in zip(lines, words_of(graph.shop, neighbourhood.plan), strict=True):
            for rank, name in enumerate(numbered(word)):
                if name not in graph.number:
                    line.append(((rank, 0.0), *name))
    for stretch in graph.stretches:
        first = sum(stretch.before.values())
        for kind, row in stretch.rows.items():
            others = [u for other, tasks in stretch.rows.items() if other != kind for u in tasks]
            for place, task in enumerate(row):
                rank = first + place + sum(comes_first(u, task) for u in others)
                lines[stretch.machine].append(((rank, start(task)), *graph.names[task]))
    return [[kind for _, kind, _ in sorted(line)] for line in lines]


def ranks(words: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    """(kind, number) -> place in its machine's word."""
    return {name: rank for word in words for rank, name in enumerate(numbered(word))}


def serial_ticks(shop: Shop) -> int:
    """Ticks within which some best plan ends: everything one after the other."""
    lag = [max((wait for _, wait in after), default=0) for after in shop.after]
    return sum((k.duration + wait) * k.count for k, wait in zip(shop.kinds, lag, strict=True))


def plan_value(shop: Shop, plan: Plan) -> int:
    """Value of a plan as it is, before its tasks are renamed and moved, ticks."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for run in plan.runs:
        assert run.start_ticks is not None
        assert run.stop_ticks is not None
        place = run.devices[0]
        first[place] = min(first.get(place, run.start_ticks), run.start_ticks)
        last[place] = max(last.get(place, 0), run.stop_ticks)
    if shop.objective is Objective.SPAN:
        return max(last[place] - first[place] for place in last)
    return max(last.values())
