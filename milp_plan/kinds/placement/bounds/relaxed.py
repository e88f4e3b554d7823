"""Relaxations of problems under the serial law that the bounds for alike devices can read.

A bound on the relaxed problem holds for the problem: a plan of the problem, with every device in
its relaxed form, is a plan of the relaxed problem and costs no more there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from milp_plan.core import (
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    PlanningProblem,
    Value,
)
from milp_plan.core.view import view

from ..serial.graph import SerialGraph, read_serial

PAYER, HOST = "payer", "host"


@view
def read_relaxed(problem: PlanningProblem) -> SerialGraph | str:
    """Read a problem, or its relaxation, as a hypergraph of classes.

    In the relaxation all devices that pay are alike, each as fast and as large as the best for
    every operator, and so are all others; there is no workspace; and a persistent value that
    several colocation groups read takes memory only with the first of them.
    """
    graph = read_serial(problem)
    if not isinstance(graph, str) or problem.serial is None:
        return graph
    return read_serial(relaxed(problem))


def relaxed(problem: PlanningProblem) -> PlanningProblem:
    """Return the relaxed problem of :func:`read_relaxed`."""
    law, cluster = problem.serial, problem.cluster
    assert law is not None
    sides: dict[str, list[Device]] = {PAYER: [], HOST: []}
    for device in cluster.devices:
        sides[PAYER if device.device_class in law.payers else HOST].append(device)
    memory = {side: _largest(devices) for side, devices in sides.items()}
    alike = tuple(
        Device(device.name, side, memory[side])
        for device in cluster.devices
        for side in (PAYER if device.device_class in law.payers else HOST,)
    )
    classes = tuple(DeviceClass(side, None) for side, devices in sides.items() if devices)
    kinds = {side: {d.device_class for d in devices} for side, devices in sides.items()}
    return replace(
        problem,
        graph=ComputationGraph(
            tuple(_fastest(operator, kinds) for operator in problem.graph.operators),
            tuple(_once(problem, value) for value in problem.graph.values),
        ),
        cluster=replace(cluster, device_classes=classes, devices=alike),
        serial=replace(law, payers=(PAYER,) if sides[PAYER] else ()),
    )


def _largest(devices: Sequence[Device]) -> int | None:
    limits = [device.memory_bytes for device in devices]
    known = [limit for limit in limits if limit is not None]
    return max(known, default=0) if len(known) == len(limits) else None


def _fastest(operator: Operator, kinds: dict[str, set[str]]) -> Operator:
    """Return an operator as fast on each side as on the fastest device there, without workspace."""
    option = operator.options[0]
    ticks = {
        side: min(option.duration_ticks[kind] for kind in names & set(option.duration_ticks))
        for side, names in kinds.items()
        if names & set(option.duration_ticks)
    }
    return replace(operator, options=(replace(option, duration_ticks=ticks, workspace_bytes=0),))


def _once(problem: PlanningProblem, value: Value) -> Value:
    """Return a persistent value with the readers of the first colocation group alone."""
    if not value.persistent:
        return value
    first = problem.graph.operator(value.consumers[0])
    mates = {first.name} if first.group is None else set(problem.graph.groups[first.group])
    return replace(value, consumers=tuple(name for name in value.consumers if name in mates))
