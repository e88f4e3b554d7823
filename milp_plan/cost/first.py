"""Strategies first, places and times after: what a planner does that separates the two.

:func:`strategies_first` keeps of a planning problem the choice of an option per operator and the
changes of layout between them, and adds everything up as if it ran one after the other. It is the
problem that PaSE (IPDPS 2021) and Alpa's intra-operator pass (OSDI 2022) solve.
:func:`with_options` is what is left to plan once the options are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from milp_plan.core import FULL, Option, PlanningProblem, Value
from milp_plan.core.sharding import ShardingProblem, sharding_problem


def strategies_first(problem: PlanningProblem) -> ShardingProblem:
    """Choose an option per operator: least sum of durations and changes of layout.

    Durations are those of the fastest device class. A change of layout costs what it costs where
    the readers' devices are the producer's or some of them; journeys to other devices are not
    counted, since nothing has a place yet. Every reader pays for its own change, but of a
    colocation group only the first one, whose copy serves them all. Memory is not counted either.
    """
    graph = problem.graph
    number = {operator.name: place for place, operator in enumerate(graph.operators)}
    costs = [[min(o.duration_ticks.values()) for o in op.options] for op in graph.operators]
    edges: dict[tuple[int, int], np.ndarray] = {}
    for value, consumer, pays in _journeys(problem):
        assert value.producer is not None
        made, read = graph.operator(value.producer).options, graph.operator(consumer).options
        table = np.array([[_change(value, one, other) for other in read] for one in made])
        if not pays:
            table = np.where(np.isinf(table), table, 0.0)
        key = (number[value.producer], number[consumer])
        edges[key] = edges[key] + table if key in edges else table
    sharding = sharding_problem(
        f"{problem.name}-strategies",
        costs,
        edges={
            key: [[None if np.isinf(t) else int(t) for t in row] for row in table]
            for key, table in edges.items()
        },
    )
    labels = tuple(option.name for operator in graph.operators for option in operator.options)
    return replace(sharding, operators=tuple(number), labels=labels)


def _journeys(problem: PlanningProblem) -> Iterator[tuple[Value, str, bool]]:
    """Value, reader, and whether it is the first of its colocation group."""
    for value in problem.graph.values:
        if value.producer is None:
            continue
        served: set[str] = set()
        for consumer in value.consumers:
            group = problem.graph.operator(consumer).group or consumer
            yield value, consumer, group not in served
            served.add(group)


def _change(value: Value, made: Option, read: Option) -> float:
    before, after = made.layout_written(value.name), read.layout_read(value.name)
    if before == after and (before == FULL or made.gang == read.gang):
        return 0
    return value.reshard_ticks.get((before, after), np.inf)


def with_options(problem: PlanningProblem, chosen: Mapping[str, str]) -> PlanningProblem:
    """Return the problem in which operators have only the option chosen for them.

    Parameters
    ----------
    problem
        A problem with options.
    chosen
        Operator -> name of its option; operators that are not named keep all of theirs.
    """
    operators = tuple(
        replace(operator, options=(operator.option(chosen[operator.name]),))
        if operator.name in chosen
        else operator
        for operator in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))
