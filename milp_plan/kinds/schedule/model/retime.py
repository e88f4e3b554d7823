"""Exact times for decided plans: longest paths over integer arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from milp_plan.core import Objective, OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost.routes import Route

from .sets import Key, ScheduleSets, needed_routes

Network = Mapping[str, list[tuple[str, int]]]
"""Task -> (task that follows, least time between their starts)."""


@dataclass(frozen=True, slots=True)
class Arc:
    """``start[after] >= start[before] + lag``, plus the length of ``before`` if ``from_stop``."""

    before: str
    after: str
    from_stop: bool = True
    lag_ticks: int = 0


def retime(
    sets: ScheduleSets,
    placements: Mapping[str, Placement],
    arcs: Iterable[Arc],
    hint: Mapping[Any, float],
    sources: Mapping[Key, tuple[str, ...]] | None = None,
) -> Plan:
    """Give every task its earliest start that respects precedence and the decided arcs.

    Under the objective ``span``: its earliest start among those with the least span.

    Parameters
    ----------
    sets, placements
        Sets of the problem, and a placement of each operator; transfers follow from these.
    arcs
        Decided order. Arcs that name a transfer the placements do not call for are ignored.
    hint
        Start of each task as the solver has it, in any unit. It decides only where arcs contradict
        each other or precedence (tasks closer together than the solver's tolerances): those
        against it are dropped.
    sources
        Where copies leave from, as for :func:`needed_routes`.
    """
    transfers = needed_routes(sets, placements, sources)
    length = {name: sets.duration[name, placements[name]] for name in sets.operators}
    length.update({name: route.duration_ticks for name, (route, _) in transfers.items()})
    network: dict[str, list[tuple[str, int]]] = {name: [] for name in length}
    for before, after in sets.values_between:
        network[before].append((after, length[before]))
    for name, (route, readers) in transfers.items():
        producer = sets.graph.value(route.value).producer
        assert producer is not None
        network[producer].append((name, length[producer]))
        for reader in readers:
            network[name].append((reader, route.duration_ticks))
    decided = [arc for arc in arcs if arc.before in length and arc.after in length]
    rank = _ranks(network, decided, hint)
    level: list[tuple[str, str]] = []
    for arc in decided:
        lag = arc.lag_ticks + (length[arc.before] if arc.from_stop else 0)
        if rank[arc.before] < rank[arc.after]:
            network[arc.before].append((arc.after, lag))
        elif not lag:
            level.append((arc.before, arc.after))
    if sets.problem.objective is Objective.SPAN:
        sites: dict[str, list[str]] = {}
        for name, placement in placements.items():
            for device in placement.devices:
                sites.setdefault(device, []).append(name)
        start = _narrowest(network, rank, level, list(sites.values()), length)
    else:
        start = _longest_paths(network, rank, level, {})
    return _plan(sets.problem, placements, transfers, start, length)


def _ranks(network: Network, decided: list[Arc], hint: Mapping[Any, float]) -> dict[str, int]:
    """Order of all tasks: precedence first, decided arcs where they allow it, then the hint."""
    missing = Counter(after for follows in network.values() for after, _ in follows)
    waiting = Counter(arc.after for arc in decided)
    later: dict[str, list[str]] = {name: [] for name in network}
    for arc in decided:
        later[arc.before].append(arc.after)
    position = {name: number for number, name in enumerate(network)}
    ready: list[tuple[bool, float, int, str]] = []

    def offer(name: str) -> None:
        if not missing[name]:
            heappush(ready, (waiting[name] > 0, hint.get(name, 0.0), position[name], name))

    for name in network:
        offer(name)
    rank: dict[str, int] = {}
    while ready:
        name = heappop(ready)[3]
        if name in rank:
            continue  # offered again when it had nothing left to wait for
        rank[name] = len(rank)
        for after, _ in network[name]:
            missing[after] -= 1
            if not missing[after]:
                offer(after)
        for after in later[name]:
            waiting[after] -= 1
            if not waiting[after]:
                offer(after)
    return rank


def _longest_paths(
    network: Network,
    rank: Mapping[str, int],
    level: Sequence[tuple[str, str]],
    release: Mapping[str, int],
) -> dict[str, int]:
    """Earliest starts, none before its release; every arc of the network goes up in rank.

    Pairs in ``level`` go down: the second starts no earlier than the first, to which a path of
    tasks without length leads from it. All of them start at one instant then; what shares it holds
    no memory. A path visits no task twice, so as many rounds as there are pairs raise all starts;
    after them only a circle that takes time goes on, and the pairs are dropped.
    """
    raised = dict(release)
    for _ in range(len(level) + 1):
        start = _sweep(network, rank, raised)
        late = [(before, after) for before, after in level if start[after] < start[before]]
        if not late:
            return start
        for before, after in late:
            raised[after] = max(raised.get(after, 0), start[before])
    return _sweep(network, rank, release)


def _sweep(network: Network, rank: Mapping[str, int], release: Mapping[str, int]) -> dict[str, int]:
    """Return the earliest starts by the arcs that go up in rank."""
    start = {name: release.get(name, 0) for name in network}
    for name in sorted(rank, key=rank.__getitem__):
        for after, lag in network[name]:
            start[after] = max(start[after], start[name] + lag)
    return start


def _narrowest(
    network: Network,
    rank: Mapping[str, int],
    level: Sequence[tuple[str, str]],
    sites: list[list[str]],
    length: Mapping[str, int],
) -> dict[str, int]:
    """Return the earliest starts with the least span of any device, by bisection.

    A span S is possible where ``start >= last stop - S`` on each device leads to no circle. A path
    without one uses each device's rule at most once, so as many rounds as there are devices tell.
    """

    def within(span: int) -> dict[str, int] | None:
        release: dict[str, int] = {}
        for _ in range(len(sites) + 1):
            start = _longest_paths(network, rank, level, release)
            known = len(release), sum(release.values())
            for names in sites:
                earliest = max(start[name] + length[name] for name in names) - span
                release.update((name, earliest) for name in names if start[name] < earliest)
            if known == (len(release), sum(release.values())):
                return start
        return None

    first = _longest_paths(network, rank, level, {})
    low = max(sum(length[name] for name in names) for names in sites)
    high = max(
        max(first[name] + length[name] for name in names) - min(first[name] for name in names)
        for names in sites
    )
    while low < high:
        middle = (low + high) // 2
        if within(middle) is None:
            low = middle + 1
        else:
            high = middle
    result = within(high)
    assert result is not None, "earliest starts have this span"
    return result


def _plan(
    problem: PlanningProblem,
    placements: Mapping[str, Placement],
    transfers: Mapping[str, tuple[Route, tuple[str, ...]]],
    start: Mapping[str, int],
    length: Mapping[str, int],
) -> Plan:
    runs = tuple(
        OperatorRun(
            operator.name,
            placements[operator.name].option,
            placements[operator.name].devices,
            start[operator.name],
            start[operator.name] + length[operator.name],
        )
        for operator in problem.graph.operators
    )
    journeys = tuple(
        Transfer(
            route.value, route.source, route.target, route.layout, start[name],
            start[name] + route.duration_ticks,
        )
        for name, (route, _) in transfers.items()
    )  # fmt: skip
    return Plan(problem.name, runs, journeys, fingerprint=problem.fingerprint)
