"""Proofs of infeasibility by memory under the serial law: memory is static, inputs are streamed.

A device holds the persistent values its operators read, the values they make and the largest of
their workspaces; values made elsewhere take nothing (``docs/laws.md``, the serial law). A
colocation group, like an operator without one, is on one device.
"""

from __future__ import annotations

from milp_plan.core import PlanningProblem
from milp_plan.core.amounts import needed_and_available
from milp_plan.core.bound import Infeasible
from milp_plan.kinds.schedule.bounds.holdings import Holdings
from milp_plan.kinds.schedule.bounds.memory import packing_obstacle


def serial_obstacle(problem: PlanningProblem) -> Infeasible | None:
    """Return a proof that the devices cannot hold what must be on them, or ``None``."""
    units: dict[tuple[bool, str], list[str]] = {}
    for operator in problem.graph.operators:
        key = (operator.group is not None, operator.group or operator.name)
        units.setdefault(key, []).append(operator.name)
    names = [name for _, name in units]
    holdings = Holdings(problem, tuple(tuple(unit) for unit in units.values()))
    beside = [max(holdings.beside(name) for name in unit) for unit in units.values()]
    for number, unit in enumerate(units.values()):
        need = holdings.lasting(number) + beside[number]
        obstacle = _homeless(problem, names[number], unit, need)
        if obstacle is not None:
            return obstacle
    return packing_obstacle(problem, names, holdings.packed, beside)


def _homeless(problem: PlanningProblem, name: str, unit: list[str], need: int) -> Infeasible | None:
    """Explain why no device can run a unit; return ``None`` where one can."""
    able = [
        device
        for device in problem.cluster.devices
        if all(
            device.device_class in problem.graph.operator(operator).options[0].duration_ticks
            for operator in unit
        )
    ]
    limits = [device.memory_bytes for device in able]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or need <= max(known):
        return None
    needs, there = needed_and_available(problem.units, need, max(known))
    return Infeasible(
        f"{name!r} needs at least {needs} on its device (persistent values, what it makes, "
        f"the largest workspace), and no device it can run on has more than {there}",
        tuple(unit),
        need,
        max(known),
    )
