"""A pipeline of three groups of operators whose least makespan is known without a search."""

from __future__ import annotations

from milp_plan.core import (
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    PlanningProblem,
    Value,
)

BATCHES, LIGHT, HEAVY, LATENCY = 5, 19_000_000, 20_000_000, 1_000_000

OPTIMUM = 2 * (LIGHT + LATENCY) + 3 * BATCHES * HEAVY
"""The last stage never waits once its first input is there, and works until the end.

Two stages on one device take ``3 * BATCHES * 2 * LIGHT`` or more, which is longer. So each stage
has a device of its own, and the last one works all its time after two forward passes and two
transfers.
"""


def pipeline_of_groups() -> PlanningProblem:
    """Return the problem: three stages, forward, input and weight gradient, five micro-batches."""
    operators, values = [], []
    for stage, ticks in enumerate((LIGHT, LIGHT, HEAVY)):
        option = Option("only", {"gpu": ticks})
        operators += [Operator(f"s{stage}.{kind}", (option,), group=f"s{stage}") for kind in "FBW"]
        backward = [f"s{stage}.B", f"s{stage}.W"]
        ahead = [f"s{stage + 1}.F"] if stage < 2 else []
        values.append(Value(f"s{stage}.y", f"s{stage}.F", (*ahead, *backward), {"full": 0}))
        if stage:
            before = (f"s{stage - 1}.B", f"s{stage - 1}.W")
            values.append(Value(f"s{stage}.dy", f"s{stage}.B", before, {"full": 0}))
    names = ["d0", "d1", "d2"]
    cluster = Cluster(
        (DeviceClass("gpu", None),),
        tuple(Device(name, "gpu", None) for name in names),
        tuple(
            Channel(a, b, LATENCY, 1_000_000 * TICKS_PER_SECOND)
            for a in names
            for b in names
            if a != b
        ),
    )
    graph = ComputationGraph(tuple(operators), tuple(values)).unroll(BATCHES)
    return PlanningProblem("pipeline-of-groups", graph, cluster)
