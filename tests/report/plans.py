"""A small problem with a plan whose picture can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Units,
    Value,
)

MEMORY = 4 * 2**20


def two_devices(
    communication: CommunicationModel = CommunicationModel.CHANNEL,
    memory_bytes: int | None = MEMORY,
    units: Units | None = None,
) -> PlanningProblem:
    """``embed`` and its gradient on d0, ``head`` on d1; 1 MiB of weights, 2 MiB of activations."""

    def operator(name: str, kind: str, ticks: int) -> Operator:
        return Operator(name, (Option("single", {"gpu": ticks}),), kind)

    graph = ComputationGraph(
        (
            operator("embed", "forward", 2_000),
            operator("head", "forward", 3_000),
            operator("embed.dx@0", "backward-input", 4_000),
        ),
        (
            Value("weights", None, ("embed",), {"full": 2**20}),
            Value("hidden", "embed", ("head", "embed.dx@0"), {"full": 2 * 2**20}),
            Value("gradient", "head", ("embed.dx@0",), {"full": 2**20}),
        ),
    )
    names = ("d0", "d1")
    cluster = Cluster(
        (DeviceClass("gpu", memory_bytes),),
        tuple(Device(name, "gpu", memory_bytes) for name in names),
        tuple(Channel(a, b, 1_000, 2**20 * 10**6) for a in names for b in names if a != b),
        communication=communication,
    )
    return PlanningProblem("two-devices", graph, cluster, units=units or Units())


def plan_of_two_devices() -> Plan:
    """A valid plan: 2 µs of compute, 3 of transfer, 3 of compute, 2 of transfer, 4 of compute."""
    return Plan(
        "two-devices",
        (
            OperatorRun("embed", "single", ("d0",), 0, 2_000),
            OperatorRun("head", "single", ("d1",), 5_000, 8_000),
            OperatorRun("embed.dx@0", "single", ("d0",), 10_000, 14_000),
        ),
        (
            Transfer("hidden", ("d0",), ("d1",), "full", 2_000, 5_000),
            Transfer("gradient", ("d1",), ("d0",), "full", 8_000, 10_000),
        ),
        planner="hand",
    )


def chain(length: int) -> tuple[PlanningProblem, Plan]:
    """``length`` forward operators of 10 ticks each, then one update, all on one device."""
    operators = [Operator(f"f{i}", (Option("single", {"gpu": 10}),)) for i in range(length)]
    operators.append(replace(operators[0], name="u", kind="update"))
    values = [Value(f"v{a.name}", a.name, (b.name,), {"full": 1}) for a, b in pairwise(operators)]
    cluster = Cluster((DeviceClass("gpu", None),), (Device("d0", "gpu", None),))
    graph = ComputationGraph(tuple(operators), tuple(values))
    problem = PlanningProblem("chain", graph, cluster)
    runs = [
        OperatorRun(op.name, "single", ("d0",), 10 * i, 10 * i + 10)
        for i, op in enumerate(operators)
    ]
    return problem, Plan("chain", tuple(runs))


def star(num_devices: int) -> tuple[PlanningProblem, Plan]:
    """One operator on d0 whose value goes to a reader on every other device."""
    names = tuple(f"d{i}" for i in range(num_devices))
    single = (Option("single", {"gpu": 10}),)
    readers = tuple(f"r{i}" for i in range(1, num_devices))
    graph = ComputationGraph(
        (Operator("root", single), *(Operator(name, single) for name in readers)),
        (Value("v", "root", readers, {"full": 1}),),
    )
    cluster = Cluster(
        (DeviceClass("gpu", None),),
        tuple(Device(name, "gpu", None) for name in names),
        tuple(Channel("d0", name, 5, 10**9) for name in names[1:]),
    )
    runs = [OperatorRun("root", "single", ("d0",), 0, 10)]
    runs += [
        OperatorRun(reader, "single", (name,), 16, 26)
        for reader, name in zip(readers, names[1:], strict=True)
    ]
    sends = [Transfer("v", ("d0",), (name,), "full", 10, 16) for name in names[1:]]
    return PlanningProblem("star", graph, cluster), Plan("star", tuple(runs), tuple(sends))
