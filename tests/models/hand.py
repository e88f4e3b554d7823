"""Problems written down in a line or two, for tests of single rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from milp_plan.api import FULL, Guide, MemoryLaw, Objective, PlanningProblem, Value
from milp_plan.backends import Limits, Stop
from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
)
from milp_plan.lp.from_pyomo import compile_pyomo

from .solving import Answer, formulation, solve_here


def op(name: str, ticks: int, group: str | None = None, space: int = 0) -> Operator:
    """Return an operator with one option."""
    return Operator(name, (Option("run", {"G": ticks}, workspace_bytes=space),), group=group)


def value(name: str, producer: str | None, *readers: str, size: int = 1) -> Value:
    """Return a value without splits."""
    return Value(name, producer, readers, {FULL: size})


def problem(
    operators: list[Operator],
    values: list[Value],
    *,
    devices: str = "ab",
    memory: int | Mapping[str, int | None] | None = None,
    links: list[str] | None = None,
    groups: tuple[tuple[str, ...], ...] = (),
    model: CommunicationModel = CommunicationModel.CHANNEL,
    objective: Objective = Objective.MAKESPAN,
    law: MemoryLaw = MemoryLaw.INSTANT,
) -> PlanningProblem:
    """Return a problem on equal devices whose links take 2 ticks for anything; ``ab`` is a to b."""
    limits = memory if isinstance(memory, Mapping) else dict.fromkeys(devices, memory)
    joined = [x + y for x in devices for y in devices if x != y] if links is None else links
    return PlanningProblem(
        "hand",
        ComputationGraph(tuple(operators), tuple(values)),
        Cluster(
            (DeviceClass("G", None),),
            tuple(Device(name, "G", limits.get(name)) for name in devices),
            tuple(Channel(link[0], link[1], 1, 10**30) for link in joined),
            groups=groups,
            communication=model,
        ),
        objective,
        law,
    )


def equal_memory(drawn: PlanningProblem) -> PlanningProblem:
    """Give every device as much memory as the largest has: more of them are alike."""
    limits = [device.memory_bytes for device in drawn.cluster.devices]
    known = [limit for limit in limits if limit is not None]
    most = max(known) if len(known) == len(limits) else None
    memory = dict.fromkeys(drawn.cluster.device_names, most)
    return replace(drawn, cluster=drawn.cluster.with_memory(memory))


def fixed(
    written: PlanningProblem,
    columns: Mapping[tuple[str, Any], float],
    guide: Guide | None = None,
    name: str = "operator_schedule",
    **switches: Any,
) -> Answer:
    """Solve the model with some columns fixed, times in ticks."""
    form = formulation(name)
    options = form.Options(**switches)
    source = form.build(written, options, guide or Guide())
    for (family, index), number in columns.items():
        source.component(family)[index].fix(number)
    return solve_here(compile_pyomo(source), Limits(gap=1e-9))


def possible(
    written: PlanningProblem, columns: Mapping[tuple[str, Any], float], **switches: Any
) -> bool:
    """Whether the model has a solution with these columns fixed."""
    stop = fixed(written, columns, symmetry=False, **switches).stop
    assert stop in {Stop.PROVED, Stop.INFEASIBLE}
    return stop is Stop.PROVED


def on(**places: str) -> dict[tuple[str, Any], float]:
    """Placements to fix: operator = device."""
    return {("place", (name, f"run on {device}")): 1.0 for name, device in places.items()}


def at(**times: float) -> dict[tuple[str, Any], float]:
    """Starts to fix: operator = tick."""
    return {("start", name): ticks for name, ticks in times.items()}
