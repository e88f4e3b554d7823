"""One representative of each class of plans that differ only by equal devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from milp_plan.api import Plan, PlanningProblem, interchangeable_devices


def canonical_devices(problem: PlanningProblem, plan: Plan, order: Sequence[str]) -> Plan:
    """Rename interchangeable devices so that they are first used in device order.

    Parameters
    ----------
    problem, plan
        A valid plan stays valid and keeps its value: each renaming is an automorphism.
    order
        Operators in the order in which first use is judged.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(order):
        for device in plan.run(name).devices:
            first.setdefault(device, position)
    renamed: dict[str, str] = {}
    for members in interchangeable_devices(problem):
        by_use = sorted(members, key=lambda device: first.get(device, len(order)))
        renamed.update(dict(zip(by_use, members, strict=True)))

    def rename(devices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renamed.get(device, device) for device in devices)

    def site(devices: tuple[str, ...]) -> tuple[str, ...]:
        """Sites keep the order in which the cluster lists their devices."""
        new = rename(devices)
        known = {frozenset(group): group for group in problem.cluster.groups}
        return known.get(frozenset(new), new)

    return replace(
        plan,
        runs=tuple(replace(run, devices=site(run.devices)) for run in plan.runs),
        transfers=tuple(
            replace(t, source=site(t.source), target=site(t.target)) for t in plan.transfers
        ),
    )
