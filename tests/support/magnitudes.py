"""Tiny schedules with numbers as they are met in practice, and with operators that take no time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.core import Option, PlanningProblem, Value


def some_take_no_time(problem: PlanningProblem, seed: int) -> PlanningProblem:
    """Let some operators take no time: everywhere, or by one option on one class of devices."""
    rng = Random(f"no time {seed}")
    if rng.random() < 0.5:
        return problem

    def option(one: Option) -> Option:
        ticks = {kind: 0 if rng.random() < 0.3 else t for kind, t in one.duration_ticks.items()}
        return replace(one, duration_ticks=ticks)

    operators = tuple(
        replace(op, options=tuple(map(option, op.options))) for op in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))


def magnified(problem: PlanningProblem, seed: int) -> PlanningProblem:
    """Multiply ticks, and bytes, of a problem of small numbers: what they share stays shared."""
    rng = Random(f"magnified {seed}")
    ticks = rng.choice((1, 1000, 123_457, 10**8 + 7))
    size = rng.choice((1, 4096, 10**9 + 7))

    def option(one: Option) -> Option:
        lengths = {kind: t * ticks for kind, t in one.duration_ticks.items()}
        return replace(one, duration_ticks=lengths, workspace_bytes=one.workspace_bytes * size)

    def value(one: Value) -> Value:
        return replace(
            one,
            bytes={layout: b * size for layout, b in one.bytes.items()},
            transfer_bytes={layout: b * size for layout, b in one.transfer_bytes.items()},
        )

    graph, cluster = problem.graph, problem.cluster
    operators = [replace(op, options=tuple(map(option, op.options))) for op in graph.operators]
    values = tuple(map(value, graph.values))
    memory = {d.name: d.memory_bytes and d.memory_bytes * size for d in cluster.devices}
    channels = tuple(
        replace(
            c,
            latency_ticks=c.latency_ticks * ticks,
            bandwidth_bytes_per_s=max(1, c.bandwidth_bytes_per_s * size // ticks),
        )
        for c in cluster.channels
    )
    cluster = replace(cluster.with_memory(memory), channels=channels)
    return replace(
        problem, graph=replace(graph, operators=tuple(operators), values=values), cluster=cluster
    )
