"""List schedulers: free placement, one priority each.

Every planner tries to plan as its source says. When memory gets in the way it tries again more
carefully: with room left on each device for the operators that are to run there, then without
using earlier gaps, and last with sites chosen for the little memory they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from milp_plan.core import Placement, Plan, PlanningProblem

from .dispatch import Rule, dispatch
from .earliest import dispatch_earliest
from .indexed import indexed
from .planner import seedless
from .priorities import (
    bottom_levels,
    descendants,
    frugal_order,
)

Priority = Sequence[str] | Mapping[str, float]

_HEADROOMS = (0, 1, 2, 4)


def careful_dispatch(
    problem: PlanningProblem,
    priority: Priority,
    *,
    insertion: bool = True,
) -> Plan | None:
    """Dispatch with more and more care for memory until a plan comes out."""
    for headroom in _HEADROOMS:
        plan = dispatch(
            problem,
            priority=priority,
            insertion=insertion,
            headroom=headroom,
        )
        if plan is not None or not indexed(problem).memory_binds:
            return plan
    for rule in (Rule.FINISH, Rule.LEAN):
        plan = dispatch(
            problem,
            priority=priority,
            rule=rule,
            insertion=False,
            headroom=1,
        )
        if plan is not None:
            return plan
    return None


@seedless
def list_critical_path(problem: PlanningProblem) -> Plan | None:
    """Longest remaining path first, transfers not counted; devices are only appended to."""
    levels = bottom_levels(problem, communication=False)
    return careful_dispatch(problem, levels, insertion=False)


@seedless
def list_most_successors(problem: PlanningProblem) -> Plan | None:
    """The operator that most others wait for first."""
    return careful_dispatch(problem, descendants(problem))


@seedless
def list_topological(problem: PlanningProblem) -> Plan | None:
    """Topological order with ties in file order."""
    return careful_dispatch(problem, problem.graph.topological_order)


@seedless
def heft(problem: PlanningProblem) -> Plan | None:
    """Heterogeneous earliest finish time (Topcuoglu, Hariri, Wu 2002): upward rank, insertion."""
    return careful_dispatch(problem, bottom_levels(problem))


@seedless
def dfs_release(problem: PlanningProblem) -> Plan | None:
    """Depth first, taking what frees memory first; the frugal one when memory is tight."""
    plan = careful_dispatch(problem, frugal_order(problem))
    return plan or careful_dispatch(problem, problem.graph.depth_first_order, insertion=False)


@seedless
def etf_memory(problem: PlanningProblem) -> Plan | None:
    """Earliest task first (Hwang, Chow, Anger, Lee 1989), within the devices' memory.

    Of all ready operators on all devices, the pair that can start earliest is taken; ties go to
    the longest remaining path.
    """
    levels = bottom_levels(problem)
    for headroom in _HEADROOMS:
        plan = dispatch_earliest(problem, priority=levels, headroom=headroom)
        if plan is not None or not indexed(problem).memory_binds:
            return plan
    return None


def _on_site(problem: PlanningProblem, site: int) -> dict[str, Placement] | None:
    """Everything on one site, fastest options; ``None`` if an operator cannot run there."""
    view = indexed(problem)
    placements: dict[str, Placement] = {}
    for name, spots in zip(view.names, view.spots, strict=True):
        here = [spot for spot in spots if spot.site == site]
        if not here:
            return None
        placements[name] = min(here, key=lambda spot: spot.duration).placement
    return placements


@seedless
def single_device(problem: PlanningProblem) -> Plan | None:
    """Everything on the one device (or process group) that is fastest, if it fits."""
    view = indexed(problem)
    orders: list[Callable[[PlanningProblem], Sequence[str]]] = [
        frugal_order,
        lambda problem: problem.graph.depth_first_order,
        lambda problem: problem.graph.topological_order,
    ]
    best: Plan | None = None
    seen = set()
    for site, names in enumerate(view.site_names):
        devices = [problem.cluster.device(name) for name in names]
        kind = tuple((device.device_class, device.memory_bytes) for device in devices)
        if kind in seen:
            continue
        seen.add(kind)
        placements = _on_site(problem, site)
        if placements is None:
            continue
        for order in orders:
            plan = dispatch(problem, priority=order(problem), placements=placements)
            if plan is not None:
                if best is None or plan.stop_ticks < best.stop_ticks:
                    best = plan
                break
    return best
