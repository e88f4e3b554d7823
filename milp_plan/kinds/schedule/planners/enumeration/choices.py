"""Choices of each operator, and the least time between operators under these choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

from ...coarsen.symmetry import interchangeable_devices
from ..decoder import layout as at
from ..decoder.layout import Ints
from ..decoder.legs import reshard_units, send_units
from ..decoder.tables import Compiled, rows

ENDLESS = 1 << 59
"""Stands for 'impossible'; a few of them can be added."""

LARGEST = 1 << 20
"""Most pairs of choices over all edges: larger tables take too long."""


class Choices(NamedTuple):
    """Options on sites of all operators in topological order; times in units of the decoder.

    Parameters
    ----------
    first
        Operator -> its first choice; those of an operator are consecutive.
    site, option, ticks, bytes
        Choice -> site, option, duration, and bytes on each device while it runs, without
        persistent ones.
    least, area
        Least duration of an operator, and least product of duration and devices.
    unit
        Operator -> colocation group.
    edge_at, edge_from
        Operator -> edges that end in it, and where they begin.
    lag_at, lag
        Edge -> table by choice of its ends: row 0 and column 0 for an end that is open.
    rest
        Choice -> least time after it, over all choices of later operators.
    after
        ``after[v, w]``: whether w comes after v.
    twins
        Device -> class of interchangeable devices, or -1.
    turn
        Operators in the order in which they are placed (see :func:`_turns`).
    """

    first: Ints
    site: Ints
    option: Ints
    ticks: Ints
    bytes: Ints
    least: Ints
    area: Ints
    unit: Ints
    edge_at: Ints
    edge_from: Ints
    lag_at: Ints
    lag: Ints
    rest: Ints
    after: Ints
    twins: Ints
    turn: Ints


def choices_of(compiled: Compiled) -> Choices | None:
    """Return the choices of a problem; ``None`` where there are too many."""
    view, memory = compiled.view, compiled.memory
    ticks = memory.part(at.TICKS).reshape(-1, len(view.sites))
    owned: list[list[tuple[int, int, int, int]]] = []
    for number, operator in enumerate(compiled.order):
        able = set(view.unit_sites[view.unit[operator]])
        options = [compiled.options[number, spot.placement.option] for spot in view.spots[operator]]
        owned.append(
            [
                (spot.site, option, int(ticks[option, spot.site]), spot.working_bytes)
                for spot, option in zip(view.spots[operator], options, strict=True)
                if spot.site in able
            ]
        )
    first, flat = _flat(owned)
    gangs = np.array([len(devices) for devices in view.sites], dtype=np.int64)
    starts = first[:-1]
    before = [sorted(view.position[p] for p in view.predecessors[n]) for n in compiled.order]
    edge_at, edge_from = rows(before)
    counts = np.diff(first) + 1
    edge_to = np.repeat(np.arange(len(before)), np.diff(edge_at))
    lag_at = np.cumsum([0, *(counts[edge_from] * counts[edge_to]).tolist()], dtype=np.int64)
    if lag_at[-1] > LARGEST or not len(flat):
        return None
    site, option, units, bytes_held = (np.ascontiguousarray(flat[:, n]) for n in range(4))
    choices = Choices(
        first,
        site,
        option,
        units,
        bytes_held,
        np.minimum.reduceat(units, starts),
        np.minimum.reduceat(units * gangs[site], starts),
        np.array([view.unit[n] for n in compiled.order], dtype=np.int64),
        edge_at,
        edge_from,
        lag_at,
        np.zeros(lag_at[-1], dtype=np.int64),
        np.zeros(len(flat), dtype=np.int64),
        _reach(before),
        _twins(compiled),
        np.arange(len(before), dtype=np.int64),
    )
    choices.turn[:] = _turns(choices)
    fill_lags(memory.a, memory.t, choices)
    fill_rests(choices)
    return choices


def _flat(owned: list[list[tuple[int, int, int, int]]]) -> tuple[Ints, NDArray[np.int64]]:
    first = np.cumsum([0, *(len(row) for row in owned)], dtype=np.int64)
    if (np.diff(first) == 0).any():
        return first, np.zeros((0, 4), dtype=np.int64)
    return first, np.array([entry for row in owned for entry in row], dtype=np.int64)


def _turns(c: Choices) -> list[int]:
    """Return the operators in the order in which they are placed.

    Groups come first, the one with the most work before all others and each as a whole: where
    they lie decides most, and a bound under all of a group is tight before anything is known of
    the rest. What has no group follows in topological order.
    """
    members: dict[int, list[int]] = {}
    for operator, unit in enumerate(c.unit.tolist()):
        members.setdefault(unit, []).append(operator)
    groups = [group for group in members.values() if len(group) > 1]
    groups.sort(key=lambda group: -int(c.area[group].sum()))
    grouped = [operator for group in groups for operator in group]
    return grouped + [group[0] for group in members.values() if len(group) == 1]


def _reach(before: list[list[int]]) -> Ints:
    after = np.zeros((len(before), len(before)), dtype=np.int64)
    for number, entry in enumerate(before):
        for other in entry:
            after[:, number] |= after[:, other]
            after[other, number] = 1
    return after


def _twins(compiled: Compiled) -> Ints:
    index = compiled.view.device_index
    twins = np.full(compiled.view.num_devices, -1, dtype=np.int64)
    for number, names in enumerate(interchangeable_devices(compiled.problem)):
        twins[[index[name] for name in names]] = number
    return twins


@compiled
def supply_units(a: Ints, t: Ints, value: int, made: tuple[int, int], read: tuple[int, int]) -> int:
    """Return the units until a reader has all it needs of a value; -1 where the law allows no way.

    From (site, layout) to (site, layout), as :func:`..decoder.legs.find_legs` has it.
    """
    home, native = made
    here, wanted = read
    within = a[t[at.WITHIN] + here * t[at.SITES] + home]
    if native == wanted and (here == home or (wanted == 0 and within)):
        return 0
    if native != 0 or wanted != 0:
        return int(reshard_units(a, t, value, made, read))
    longest = 0
    for i in range(a[t[at.SITE_PTR] + here], a[t[at.SITE_PTR] + here + 1]):
        device = a[t[at.SITE_DEVICE] + i]
        if a[t[at.PLACE] + home * t[at.DEVICES] + device] < 0:
            units, _ = send_units(a, t, value, home, device)
            if units < 0:
                return -1
            longest = max(longest, units)
    return int(longest)


@compiled
def fill_lags(a: Ints, t: Ints, c: Choices) -> None:
    """Least units between the ends of each edge, for all choices of both.

    All values of an edge must arrive: the slowest counts. Between two single devices they take
    turns, but in the model ``delay``: there their sum counts.
    """
    for v in range(len(c.first) - 1):
        width = c.first[v + 1] - c.first[v] + 1
        for e in range(c.edge_at[v], c.edge_at[v + 1]):
            u = c.edge_from[e]
            height = c.first[u + 1] - c.first[u] + 1
            table = c.lag[c.lag_at[e] : c.lag_at[e + 1]].reshape(height, width)
            table[:] = ENDLESS
            for i in range(1, height):
                for j in range(1, width):
                    ends = c.first[u] + i - 1, c.first[v] + j - 1
                    units = _between(a, t, c, (u, v), ends)
                    table[i, j] = units
                    table[0, j] = min(table[0, j], units)
                    table[i, 0] = min(table[i, 0], units)
                    table[0, 0] = min(table[0, 0], units)


@compiled
def fill_rests(c: Choices) -> None:
    """Longest path to the end from each choice, where each step has the best choice ahead.

    Proof: a plan has a choice for every operator, and every path of it takes at least as long.
    """
    for v in range(len(c.first) - 2, -1, -1):
        width = c.first[v + 1] - c.first[v]
        for e in range(c.edge_at[v], c.edge_at[v + 1]):
            u = c.edge_from[e]
            height = c.first[u + 1] - c.first[u]
            table = c.lag[c.lag_at[e] : c.lag_at[e + 1]].reshape(height + 1, width + 1)
            for i in range(height):
                best = ENDLESS
                for j in range(width):
                    after = c.ticks[c.first[v] + j] + c.rest[c.first[v] + j]
                    best = min(best, table[i + 1, j + 1] + after)
                c.rest[c.first[u] + i] = max(c.rest[c.first[u] + i], best)


@compiled
def _between(a: Ints, t: Ints, c: Choices, edge: tuple[int, int], ends: tuple[int, int]) -> int:
    """Return the units of all values of one edge for one choice of each end."""
    u, v = edge
    home, here = c.site[ends[0]], c.site[ends[1]]
    if c.unit[u] == c.unit[v] and home != here:
        return ENDLESS
    lone = (
        a[t[at.SITE_PTR] + home + 1] - a[t[at.SITE_PTR] + home] == 1
        and a[t[at.SITE_PTR] + here + 1] - a[t[at.SITE_PTR] + here] == 1
        and home != here
        and t[at.COMMUNICATION] != 0
    )
    longest = total = 0
    begin = a[t[at.INPUT_PTR] + v]
    for i in range(begin, a[t[at.INPUT_PTR] + v + 1]):
        value = a[t[at.INPUT_VALUE] + i]
        if a[t[at.PRODUCER] + value] != u:
            continue
        write = a[t[at.WRITE_PTR] + c.option[ends[0]]] + a[t[at.OUTPUT_PLACE] + value]
        read = a[t[at.READ_PTR] + c.option[ends[1]]] + i - begin
        made = home, a[t[at.WRITE_LAYOUT] + write]
        units = supply_units(a, t, value, made, (here, a[t[at.READ_LAYOUT] + read]))
        if units < 0:
            return ENDLESS
        longest = max(longest, units)
        total += units
    return int(total if lone else longest)
