"""A plan of the original problem as a plan of a coarse one."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from milp_plan.check import verify
from milp_plan.coarsen import Coarsening
from milp_plan.core import Operator, OperatorRun, Placement, Plan, PlanningProblem
from milp_plan.planners import dispatch_order


def project(coarsening: Coarsening, plan: Plan) -> Plan | None:
    """Return the coarse problem's plan that follows a plan of the original problem.

    Each cluster runs where its longest member runs, in the order in which clusters begin there on
    average, each as early as that order allows.

    Returns
    -------
    Plan or None
        ``None`` where a cluster cannot run there, or the order does not fit into memory.
    """
    coarse = coarsening.problem
    places: dict[str, Placement] = {}
    begin: dict[str, float] = {}
    for name, members in coarsening.members.items():
        runs = [plan.run(member) for member in members]
        place = _placement(coarse, coarse.graph.operator(name), max(runs, key=_ticks))
        if place is None:
            return None
        places[name] = place
        begin[name] = _mean_start(runs)
    found = dispatch_order(coarse, places, _ordered(coarse, begin))
    return found if found is not None and verify(coarse, found).ok else None


def _ticks(run: OperatorRun) -> int:
    return (run.stop_ns or 0) - (run.start_ns or 0)


def _mean_start(runs: list[OperatorRun]) -> float:
    """Return the mean start of runs, weighted by their time."""
    work = sum(map(_ticks, runs))
    if not work:
        return float(runs[0].start_ns or 0)
    return sum((run.start_ns or 0) * _ticks(run) / work for run in runs)


def _placement(coarse: PlanningProblem, operator: Operator, run: OperatorRun) -> Placement | None:
    """Return the option of a cluster that suits a run's devices: the same name, else the first."""
    classes = {coarse.cluster.device(name).device_class for name in run.devices}
    able = [
        option
        for option in operator.options
        if option.gang == len(run.devices) and classes <= option.duration_ns.keys()
    ]
    named = [option for option in able if option.name == run.option]
    best = min(named or able, key=lambda o: max(o.duration_ns[c] for c in classes), default=None)
    return None if best is None else Placement(best.name, run.devices)


def _ordered(coarse: PlanningProblem, begin: dict[str, float]) -> list[str]:
    """Return the operators in topological order, of those that are ready the earliest first."""
    graph = coarse.graph
    rank = {name: number for number, name in enumerate(graph.topological_order)}
    waits = {name: len(set(graph.predecessors[name])) for name in rank}
    ready = [(begin[name], rank[name], name) for name in rank if not waits[name]]
    heapify(ready)
    order: list[str] = []
    while ready:
        _, _, name = heappop(ready)
        order.append(name)
        for after in set(graph.successors[name]):
            waits[after] -= 1
            if not waits[after]:
                heappush(ready, (begin[after], rank[after], after))
    return order
