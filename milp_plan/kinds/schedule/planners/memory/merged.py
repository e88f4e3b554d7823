"""One device with the memory of all: what should run again, before it is known where."""

from __future__ import annotations

from dataclasses import replace

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget

from ..portfolio import best_plan
from .fitting import fit

ALL = "all devices"
"""Name of the device that has the memory of all."""


def merged(problem: PlanningProblem) -> PlanningProblem | None:
    """Return the problem on one device with the memory of all; hosts stay.

    ``None`` where a device has no limit, or no class of devices runs every operator alone.
    """
    cluster = problem.cluster
    devices = [device for device in cluster.devices if device.name not in cluster.hosts]
    sizes = [device.memory_bytes for device in devices]
    known = [size for size in sizes if size is not None]
    able = [
        device
        for device in devices
        if all(
            any(o.gang == 1 and device.device_class in o.duration_ticks for o in operator.options)
            for operator in problem.graph.operators
        )
    ]
    if not able or len(known) < len(sizes):
        return None
    model = max(able, key=lambda device: device.memory_bytes or 0)
    away = {device.name for device in devices} - {model.name}
    renamed = {model.name: ALL}
    return replace(
        problem,
        cluster=replace(
            cluster,
            devices=tuple(
                replace(device, name=ALL, memory_bytes=sum(known)) if device is model else device
                for device in cluster.devices
                if device.name not in away
            ),
            channels=tuple(
                replace(
                    channel,
                    source=renamed.get(channel.source, channel.source),
                    target=renamed.get(channel.target, channel.target),
                )
                for channel in cluster.channels
                if not {channel.source, channel.target} & away
            ),
            groups=(),
        ),
        parent=None,
    )


def merged_plan(problem: PlanningProblem, part: float, budget: Budget, seed: int) -> Plan | None:
    """Plan the merged problem in a part of its memory; ``None`` where that was not found.

    The order is the one that needs the least memory among those of list schedulers; what runs
    again or waits on a host is decided as for any plan.
    """
    whole = merged(problem)
    if whole is None:
        return None
    free = whole.without_memory_saving
    free = free.variant(
        cluster=free.cluster.with_memory({ALL: None}), objective=Objective.PEAK_MEMORY
    )
    order, _ = best_plan(free, seed=seed, budget=budget.part("order", 0.3))
    if order is None:
        return None
    limit = int(part * (whole.cluster.device(ALL).memory_bytes or 0))
    tight = whole.variant(cluster=whole.cluster.with_memory({ALL: limit}))
    result = fit(tight, order, budget, seed)
    return None if result is None else result.plan()
