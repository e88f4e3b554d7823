"""List scheduling: operators in the order of a priority, each at the best place by a rule.

Sources: R. L. Graham, "Bounds for certain multiprocessing anomalies", Bell System Technical
Journal 45 (1966), for list scheduling; H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE Transactions on
Parallel and Distributed Systems 13 (2002), for earliest finish with insertion.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from enum import StrEnum

from milp_plan.core import Placement, Plan, PlanningProblem

from .indexed import Indexed, Spot, indexed
from .supply import Probe
from .timetable import Timetable


class Rule(StrEnum):
    """Which of an operator's admissible placements a free dispatch takes."""

    FINISH = "finish"
    """Earliest finish."""
    START = "start"
    """Earliest start."""
    LEAN = "lean"
    """Smallest memory level left behind on the fullest device of the site, then earliest finish."""


def dispatch(
    problem: PlanningProblem,
    *,
    priority: Sequence[str] | Mapping[str, float],
    placements: Mapping[str, Placement] | None = None,
    rule: Rule = Rule.FINISH,
    insertion: bool = True,
    memory: Sequence[int | None] | None = None,
    headroom: int = 0,
) -> Plan | None:
    """Schedule by repeatedly taking the ready operator of highest priority.

    An operator that fits nowhere now (memory) waits until something else has been placed.

    Parameters
    ----------
    problem
        What to plan.
    priority
        Operator -> weight, the largest first; or operator names, the first first. Ties go by
        topological order.
    placements
        Operators whose placement is given; the rest is free.
    rule
        How a free placement is chosen.
    insertion
        Whether operators may use earlier gaps of a device. Without, each device runs its
        operators in the order in which they are taken, which frees memory more predictably.
    memory
        Bytes per device to plan with in place of the cluster's own limits.
    headroom
        A free placement may bring a colocation group to a device only if this many times the
        largest working set of its operators stays free there.

    Returns
    -------
    Plan or None
        ``None`` when operators are left that fit nowhere, or ``placements`` tears a group apart.
    """
    view = indexed(problem)
    fixed = view.spots_of(placements or {})
    if not view.colocated(fixed):
        return None
    table = Timetable(view, fixed, insertion=insertion, memory=memory, headroom=headroom)
    return _run(table, fixed, ranks_of(view, priority), rule)


def _run(
    table: Timetable, fixed: Sequence[Spot | None], ranks: Sequence[float], rule: Rule
) -> Plan | None:
    view = table.view
    missing = [len(before) for before in view.predecessors]
    ready = [
        (ranks[op], view.position[op], op) for op in range(view.num_operators) if not missing[op]
    ]
    heapq.heapify(ready)
    waiting: list[tuple[float, int, int]] = []
    while ready:
        entry = heapq.heappop(ready)
        operator = entry[2]
        best = best_probe(table, operator, fixed[operator], rule)
        if best is None:
            waiting.append(entry)
            if not ready and _unblock(table, waiting, fixed):
                ready, waiting = waiting, []
            continue
        table.commit(best)
        for successor in view.successors[operator]:
            missing[successor] -= 1
            if not missing[successor]:
                item = (ranks[successor], view.position[successor], successor)
                heapq.heappush(ready, item)
        if waiting and table.freed:
            for entry in waiting:
                heapq.heappush(ready, entry)
            waiting.clear()
    return None if waiting else table.plan()


def _unblock(
    table: Timetable, waiting: list[tuple[float, int, int]], fixed: Sequence[Spot | None]
) -> bool:
    """Make room for one of the operators that fit nowhere; leave them as a heap."""
    heapq.heapify(waiting)
    for _, _, operator in sorted(waiting):
        spot = fixed[operator]
        if spot is not None and table.push(spot.devices) and table.probe(spot) is not None:
            return True
    return False


def ranks_of(view: Indexed, priority: Sequence[str] | Mapping[str, float]) -> list[float]:
    """Rank per operator, the smallest first."""
    ranks: list[float] = [0] * view.num_operators
    if isinstance(priority, Mapping):
        for name, weight in priority.items():
            ranks[view.index[name]] = -weight
    else:
        for position, name in enumerate(priority):
            ranks[view.index[name]] = position
    return ranks


def best_probe(table: Timetable, operator: int, fixed: Spot | None, rule: Rule) -> Probe | None:
    """Return the best probe by the rule among the placements that are still possible."""
    if fixed is not None:
        return table.probe(fixed)
    view = table.view
    unit = view.unit[operator]
    site = table.unit_site[unit]
    allowed = view.unit_sites[unit] if site < 0 else (site,)
    best: tuple[tuple[int, ...], Probe] | None = None
    for spot in view.spots[operator]:
        if spot.site not in allowed:
            continue
        probe = table.probe(spot)
        if probe is not None and (view.joined or _leads_on(table, spot)):
            key = _liking(table, probe, rule)
            if best is None or key < best[0]:
                best = (key, probe)
    return None if best is None else best[1]


def _leads_on(table: Timetable, spot: Spot) -> bool:
    """Whether each reader of what is made there still has a placement all its inputs can reach."""
    view = table.view
    readers = dict.fromkeys(r for value, _, _ in spot.writes for r in view.consumers[value])
    return all(
        any(_reachable(table, spot, other) for other in view.spots[reader]) for reader in readers
    )


def _reachable(table: Timetable, made: Spot, reader: Spot) -> bool:
    view = table.view
    unit = view.unit[reader.operator]
    site = made.site if unit == view.unit[made.operator] else table.unit_site[unit]
    if site >= 0 and site != reader.site:
        return False
    for value, _ in reader.reads:
        producer = view.producer[value]
        run = table.runs[producer]
        origin = made if producer == made.operator else None if run is None else run.spot
        if origin is not None and view.legs_between(value, origin, reader) is None:
            return False
    return True


def _liking(table: Timetable, probe: Probe, rule: Rule) -> tuple[int, ...]:
    """Return the sort key of a probe, the smallest is best."""
    spot = probe.spot
    if rule is Rule.FINISH:
        return (probe.stop, probe.start, spot.order)
    if rule is Rule.START:
        return (probe.start, probe.stop, spot.order)
    return (table.level_with(probe), probe.stop, spot.order)


def dispatch_order(
    problem: PlanningProblem,
    placements: Mapping[str, Placement],
    order: Sequence[str],
    *,
    insertion: bool = True,
) -> Plan | None:
    """Schedule operators strictly in the given order, each as early as those before it allow.

    Parameters
    ----------
    problem
        What to plan.
    placements
        Placement of every operator.
    order
        Every operator, producers before consumers.
    insertion
        As for :func:`dispatch`.

    Returns
    -------
    Plan or None
        ``None`` when an operator does not fit at its turn, or ``placements`` tears a group apart.
    """
    view = indexed(problem)
    fixed = view.spots_of(placements)
    if not view.colocated(fixed):
        return None
    table = Timetable(view, fixed, insertion=insertion)
    for operator in view.numbers(order):
        spot = fixed[operator]
        assert spot is not None, f"{view.names[operator]} has no placement"
        probe = table.probe(spot)
        if probe is None and table.push(spot.devices):
            probe = table.probe(spot)
        if probe is None:
            return None
        table.commit(probe)
    return table.plan()
