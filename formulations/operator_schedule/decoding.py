"""From the variables of a solution to a plan: decisions are rounded, times are recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from milp_plan.api import Arc, Placement, Plan, ScheduleSets, Values, needed_routes, retime

from .columns import Columns, Copy
from .goals import tick_of


def decoded(sets: ScheduleSets, unit: float, values: Values) -> Plan:
    """Return the plan of a solution, every task at its earliest start under its decisions.

    Under the objective ``span`` devices start as late as makes their spans least.

    Parameters
    ----------
    sets
        Of the problem, in ticks.
    unit
        Ticks per unit of ``values["start"]``.
    values
        Variable values by family and index.
    """
    columns = Columns(sets, sets.transfers)
    placements = columns.decided_placements(values.get("place", {}))
    sources = columns.decided_sources(values.get("use", {}))
    arcs = [Arc(*pair) for pair in _orders(sets, unit, values, (placements, sources))]
    arcs += [Arc(*pair) for pair, bit in values.get("ended", {}).items() if bit > 0.5]
    later = [pair for pair, bit in values.get("later", {}).items() if bit > 0.5]
    arcs += [Arc(event, maker, False, tick_of(sets)) for event, maker in later]
    return retime(sets, placements, arcs, values["start"], sources)


def _orders(
    sets: ScheduleSets,
    unit: float,
    values: Values,
    decided: tuple[Mapping[str, Placement], Mapping[Copy, tuple[str, ...]]],
) -> Iterator[tuple[str, str]]:
    """Yield pairs of tasks that share a resource, the first before the second.

    By their bit; pairs that time windows decide have none, and follow the starts.
    """
    placements, sources = decided
    start, bits = values["start"], values.get("before", {})
    routes = needed_routes(sets, placements, sources)
    held = {name: set(placements[name].devices) for name in sets.operators}
    held |= {name: set(route.resources) for name, (route, _) in routes.items()}
    length = {name: sets.duration[name, placements[name]] for name in sets.operators}
    length |= {name: route.duration_ticks for name, (route, _) in routes.items()}
    for (first, second), bit in bits.items():
        if not held.get(first, set()).isdisjoint(held.get(second, ())):
            yield (first, second) if bit > 0.5 else (second, first)
    lines: dict[str, list[str]] = {}
    for name in (name for name in held if name in start):
        for resource in held[name]:
            lines.setdefault(resource, []).append(name)
    for line in lines.values():
        line.sort(key=lambda name: (start[name], start[name] + length[name] / unit))
        for first, second in combinations(line, 2):
            if (first, second) not in bits and (second, first) not in bits:
                yield first, second
