"""Nanoseconds and bytes as they really are: models count in coarser units, plans do not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.api import Objective, PlanningProblem, Value
from milp_plan.core import Option
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .solving import optimise

TICKS, BYTES = 10**7, 10**9


def magnified(seed: int, objective: Objective) -> PlanningProblem:
    """Return a random problem whose numbers have many digits and nothing in common."""
    rng = Random(seed)
    drawn = random_problem(seed, max_operators=4, objective=objective)

    def option(one: Option) -> Option:
        lengths = {kind: t * TICKS + rng.randint(0, 999) for kind, t in one.duration_ticks.items()}
        return replace(one, duration_ticks=lengths, workspace_bytes=one.workspace_bytes * BYTES)

    def value(one: Value) -> Value:
        sizes = {layout: b * BYTES + rng.randint(0, 999) for layout, b in one.bytes.items()}
        travels = {layout: b * BYTES for layout, b in one.transfer_bytes.items()}
        changes = {pair: ticks * TICKS for pair, ticks in one.reshard_ticks.items()}
        return replace(one, bytes=sizes, transfer_bytes=travels, reshard_ticks=changes)

    graph = replace(
        drawn.graph,
        operators=tuple(
            replace(op, options=tuple(map(option, op.options))) for op in drawn.graph.operators
        ),
        values=tuple(map(value, drawn.graph.values)),
    )
    memory = {
        device.name: device.memory_bytes * BYTES + BYTES // 2
        for device in drawn.cluster.devices
        if device.memory_bytes is not None
    }
    cluster = replace(
        drawn.cluster.with_memory(dict(memory)),
        channels=tuple(
            replace(
                c,
                latency_ticks=c.latency_ticks * TICKS,
                bandwidth_bytes_per_s=c.bandwidth_bytes_per_s * 100,
            )
            for c in drawn.cluster.channels
        ),
    )
    return replace(drawn, graph=graph, cluster=cluster)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("operator_schedule", Objective.MAKESPAN),
        ("operator_schedule", Objective.PEAK_MEMORY),
        ("resource_load", Objective.BOTTLENECK),
    ],
)
def test_plans_are_exact_and_bounds_hold(name: str, objective: Objective) -> None:
    coarse = 0
    for seed in range(12):
        problem = magnified(seed, objective)
        known = brute_force(problem)
        assert known is not None
        found = optimise(name, problem)
        unit, slack = found.scale.unit, found.scale.slack
        coarse += unit > found.scale.grain
        assert found.verdict.ok, found.verdict.violations
        assert found.verdict.value is not None
        assert known[0] <= found.verdict.value <= known[0] * (1 + 1e-4) + slack * unit
        assert found.answer.bound is not None
        assert (found.answer.bound - slack) * unit <= known[0] * (1 + 1e-6)
    assert coarse >= 6
