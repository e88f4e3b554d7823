"""Branches: operators that follow each other stay together, parallel branches part ways.

Linear clustering, S. J. Kim and J. C. Browne, "A general approach to mapping of parallel
computations upon multiprocessor architectures", ICPP 1988.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from milp_plan.core import Plan, PlanningProblem

from .indexed import Indexed, Spot, indexed
from .planner import seedless
from .priorities import means
from .splits import best_of
from .stages import Placements

_CLUSTERS_PER_DEVICE = 8


@seedless
def branches(problem: PlanningProblem) -> Plan | None:
    """Linear clusters (longest paths with their transfers), spread over devices by load."""
    view = indexed(problem)
    return best_of(problem, _spread(view, linear_clusters(view)))


def linear_clusters(view: Indexed) -> list[int]:
    """Cluster of each operator: longest paths, one after the other, each without its operators.

    After a number of paths that depends on the number of devices, what is left joins the cluster
    of an operator it reads from, or the last cluster.
    """
    mean = means(view)
    work, travel = mean.work, mean.travel
    cluster = [-1] * view.num_operators
    edges: list[list[tuple[int, int]]] = [[] for _ in range(view.num_operators)]
    for value, producer in enumerate(view.producer):
        if producer >= 0:
            edges[producer] += [(reader, travel[value]) for reader in view.consumers[value]]
    for number in range(_CLUSTERS_PER_DEVICE * view.num_devices):
        path = _longest_path(view, cluster, work, edges)
        if not path:
            break
        for operator in path:
            cluster[operator] = number
    for operator in view.topological:
        if cluster[operator] < 0:
            before = view.predecessors[operator]
            cluster[operator] = cluster[before[0]] if before else 0
    return cluster


def _longest_path(
    view: Indexed,
    cluster: Sequence[int],
    work: Sequence[int],
    edges: Sequence[Sequence[tuple[int, int]]],
) -> list[int]:
    level: dict[int, int] = {}
    after: dict[int, int] = {}
    for operator in reversed(view.topological):
        if cluster[operator] >= 0:
            continue
        best = 0
        for reader, ticks in edges[operator]:
            if reader in level and ticks + level[reader] > best:
                best = ticks + level[reader]
                after[operator] = reader
        level[operator] = work[operator] + best
    if not level:
        return []
    operator = max(level, key=lambda op: (level[op], -view.position[op]))
    path = [operator]
    while operator in after:
        operator = after[operator]
        path.append(operator)
    return path


def _spread(view: Indexed, cluster: Sequence[int]) -> Iterator[Placements]:
    """Yield placements that give each cluster, the heaviest first, to the least loaded site.

    A unit belongs to the cluster of its longest operator. Memory is counted as if everything
    were held at once, then as if nothing but persistent values were.
    """
    members: dict[int, list[int]] = {}
    work = means(view).work
    for unit, operators in enumerate(view.units):
        longest = max(operators, key=lambda op: work[op])
        members.setdefault(cluster[longest], []).append(unit)
    heaviest = sorted(
        members.values(), key=lambda units: -sum(work[op] for u in units for op in view.units[u])
    )
    for count_kept in (True, False) if view.memory_binds else (False,):
        for whole in (True, False):
            batches = heaviest if whole else [[unit] for units in heaviest for unit in units]
            found = _assign(view, batches, count_kept)
            if found is not None:
                yield found


def _assign(view: Indexed, batches: Sequence[Sequence[int]], count_kept: bool) -> Placements | None:
    busy = [0] * view.num_devices
    held = [0] * view.num_devices
    placements: Placements = {}
    for units in batches:
        best: tuple[int, int, list[Spot]] | None = None
        for site, devices in enumerate(view.sites):
            if not all(site in view.unit_sites[unit] for unit in units):
                continue
            spots = [spot for unit in units for spot in view.unit_spots(unit, site)]
            ticks = sum(spot.duration for spot in spots)
            extra = _bytes(spots, count_kept)
            fits = all(
                (limit := view.memory[device]) is None or held[device] + extra <= limit
                for device in devices
            )
            load = max(busy[device] for device in devices) + ticks
            if fits and (best is None or load < best[0]):
                best = (load, site, spots)
        if best is None:
            return None
        load, site, spots = best
        for device in view.sites[site]:
            busy[device] = load
            held[device] += _bytes(spots, count_kept)
        placements.update((view.names[spot.operator], spot.placement) for spot in spots)
    return placements


def _bytes(spots: Sequence[Spot], count_kept: bool) -> int:
    persists = dict.fromkeys(entry for spot in spots for entry in spot.persists)
    total = sum(amount for _, _, amount in persists)
    return total + (sum(spot.kept_bytes for spot in spots) if count_kept else 0)
