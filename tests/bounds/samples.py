"""Small problems whose bounds can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)


def cluster(
    memory: Sequence[int | None] = (None, None),
    *,
    classes: Sequence[str] | None = None,
    latency: int = 0,
    groups: tuple[tuple[str, ...], ...] = (),
    missing: Iterable[tuple[str, str]] = (),
    communication: CommunicationModel = CommunicationModel.CHANNEL,
) -> Cluster:
    """Devices d0, d1, ... joined all to all; a byte takes a tick on the wire."""
    names = [f"d{i}" for i in range(len(memory))]
    kinds = list(classes or ["x"] * len(memory))
    return Cluster(
        tuple(DeviceClass(kind, None) for kind in dict.fromkeys(kinds)),
        tuple(Device(n, k, m) for n, k, m in zip(names, kinds, memory, strict=True)),
        tuple(
            Channel(a, b, latency, 10**9)
            for a in names
            for b in names
            if a != b and (a, b) not in set(missing)
        ),
        groups,
        communication,
    )


def operator(
    name: str, ticks: int | Mapping[str, int], group: str | None = None, **option: object
) -> Operator:
    """Operator with one option, on class ``x`` unless ``ticks`` names classes."""
    durations = {"x": ticks} if isinstance(ticks, int) else ticks
    return Operator(name, (Option("only", durations, **option),), group=group)  # type: ignore[arg-type]


def value(name: str, producer: str | None, readers: str, number: int = 0) -> Value:
    """Value of ``number`` bytes; readers are separated by spaces."""
    return Value(name, producer, tuple(readers.split()), {"full": number})


def problem(
    operators: Sequence[Operator],
    values: Sequence[Value] = (),
    machines: Cluster | None = None,
    objective: Objective = Objective.MAKESPAN,
    memory_law: MemoryLaw = MemoryLaw.INSTANT,
) -> PlanningProblem:
    """Problem on two equal devices unless told otherwise."""
    graph = ComputationGraph(tuple(operators), tuple(values))
    return PlanningProblem("sample", graph, machines or cluster(), objective, memory_law)
