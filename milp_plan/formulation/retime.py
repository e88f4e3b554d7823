"""Exact times for decided plans: longest paths over integer arcs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from milp_plan.core import FormulationError, OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost import Route

from .sets import ScheduleSets, needed_routes


@dataclass(frozen=True, slots=True)
class Arc:
    """``start[after] >= start[before] + lag``, plus the length of ``before`` if ``from_stop``."""

    before: str
    after: str
    from_stop: bool = True
    lag_ns: int = 0


def retime(
    sets: ScheduleSets,
    placements: Mapping[str, Placement],
    arcs: Iterable[Arc],
) -> Plan:
    """Give every task its earliest start that respects precedence and the decided arcs.

    Arcs that name a transfer these placements do not call for are ignored.

    Raises
    ------
    FormulationError
        The arcs contradict each other.
    """
    transfers = needed_routes(sets, placements)
    length = {name: sets.duration[name, placements[name]] for name in sets.operators}
    length.update({name: route.duration_ns for name, (route, _) in transfers.items()})
    network: dict[str, list[tuple[str, int]]] = {name: [] for name in length}
    for before, after in sets.values_between:
        network[before].append((after, length[before]))
    for name, (route, readers) in transfers.items():
        producer = sets.graph.value(route.value).producer
        assert producer is not None
        network[producer].append((name, length[producer]))
        for reader in readers:
            network[name].append((reader, route.duration_ns))
    for arc in arcs:
        if arc.before in length and arc.after in length:
            lag = arc.lag_ns + (length[arc.before] if arc.from_stop else 0)
            network[arc.before].append((arc.after, lag))
    start = _longest_paths(network)
    return _plan(sets.problem, placements, transfers, start, length)


def _longest_paths(network: Mapping[str, list[tuple[str, int]]]) -> dict[str, int]:
    """Label-correcting, since arcs of length zero may form harmless cycles."""
    start = dict.fromkeys(network, 0)
    queue = deque(network)
    waiting = set(network)
    rounds = dict.fromkeys(network, 0)
    while queue:
        name = queue.popleft()
        waiting.discard(name)
        rounds[name] += 1
        if rounds[name] > len(network) + 1:
            raise FormulationError(
                f"decided order of {name!r}: found a cycle, expected an order; the solver's "
                "answer is outside its tolerances"
            )
        for after, lag in network[name]:
            if start[name] + lag > start[after]:
                start[after] = start[name] + lag
                if after not in waiting:
                    waiting.add(after)
                    queue.append(after)
    return start


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
            start[name] + route.duration_ns,
        )
        for name, (route, _) in transfers.items()
    )  # fmt: skip
    return Plan(problem.name, runs, journeys, fingerprint=problem.fingerprint)
