"""A state of the search, and the compiled moves between states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled

from ..decoder.layout import OPERATORS, OPTION, OPTION_PTR, RANK, SITE, SITES, TICKS, Ints
from .units import Units

MOST_TOGETHER = 12
"""Most units that move together."""


class State(NamedTuple):
    """Site, option and rank of every operator, in the decoder's order, and the value in units."""

    site: Ints
    option: Ints
    rank: Ints
    value: int


class Undo(NamedTuple):
    """What a move changed: ``changed`` operators with their old values; work space for units."""

    operator: Ints
    site: Ints
    option: Ints
    rank: Ints
    changed: Ints
    chosen: Ints
    seen: NDArray[np.bool_]


def new_undo(operators: int, units: int) -> Undo:
    """Return arrays that are large enough for any move."""

    def numbers(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    most = 4 * operators
    return Undo(
        numbers(most),
        numbers(most),
        numbers(most),
        numbers(most),
        numbers(1),
        numbers(units),
        np.zeros(units, dtype=np.bool_),
    )


@compiled
def remember(a: Ints, t: Ints, undo: Undo, operator: int) -> None:
    """Save the site, option and rank of an operator before a move changes them."""
    at = undo.changed[0]
    undo.operator[at] = operator
    undo.site[at] = a[t[SITE] + operator]
    undo.option[at] = a[t[OPTION] + operator]
    undo.rank[at] = a[t[RANK] + operator]
    undo.changed[0] += 1


@compiled
def take_back(a: Ints, t: Ints, undo: Undo) -> None:
    """Undo the last move."""
    for at in range(undo.changed[0] - 1, -1, -1):
        operator = undo.operator[at]
        a[t[SITE] + operator] = undo.site[at]
        a[t[OPTION] + operator] = undo.option[at]
        a[t[RANK] + operator] = undo.rank[at]
    undo.changed[0] = 0


@compiled
def _below(count: int) -> int:
    """Return a random number from 0 to count - 1."""
    return int(np.random.random() * count)


@compiled
def _fastest(a: Ints, t: Ints, operator: int, site: int, draw: bool) -> int:
    """Return the fastest option of an operator on a site, or a random one; -1 for none."""
    best, least, seen = -1, 0, 0
    for option in range(a[t[OPTION_PTR] + operator], a[t[OPTION_PTR] + operator + 1]):
        ticks = a[t[TICKS] + option * t[SITES] + site]
        if ticks < 0:
            continue
        seen += 1
        if (draw and _below(seen) == 0) or (not draw and (best < 0 or ticks < least)):
            best, least = option, ticks
    return best


@compiled
def draw_option(a: Ints, t: Ints, undo: Undo, operator: int) -> None:
    """Give an operator a random option that can run on its site."""
    remember(a, t, undo, operator)
    a[t[OPTION] + operator] = _fastest(a, t, operator, a[t[SITE] + operator], True)


@compiled
def _may(units: Units, unit: int, site: int) -> bool:
    for i in range(units.site_ptr[unit], units.site_ptr[unit + 1]):
        if units.sites[i] == site:
            return True
    return False


@compiled
def put(a: Ints, t: Ints, units: Units, undo: Undo, unit: int, site: int) -> None:  # noqa: PLR0917 (compiled)
    """Move a unit to a site, if it can run there; options stay where they can."""
    if not _may(units, unit, site):
        return
    for i in range(units.ptr[unit], units.ptr[unit + 1]):
        operator = units.operators[i]
        if a[t[SITE] + operator] == site:
            continue
        remember(a, t, undo, operator)
        a[t[SITE] + operator] = site
        if a[t[TICKS] + a[t[OPTION] + operator] * t[SITES] + site] < 0:
            a[t[OPTION] + operator] = _fastest(a, t, operator, site, False)


@compiled
def some_site(a: Ints, t: Ints, units: Units, unit: int) -> int:
    """Return a neighbour's site other than the unit's own, or a random site."""
    here = a[t[SITE] + units.operators[units.ptr[unit]]]
    many = units.near_ptr[unit + 1] - units.near_ptr[unit]
    if many > 0 and np.random.random() < 0.75:
        for _ in range(4):
            other = units.near[units.near_ptr[unit] + _below(many)]
            site = a[t[SITE] + units.operators[units.ptr[other]]]
            if site != here and _may(units, unit, site):
                return int(site)
    first = units.site_ptr[unit]
    return int(units.sites[first + _below(units.site_ptr[unit + 1] - first)])


@compiled
def cluster(a: Ints, t: Ints, units: Units, undo: Undo, first: int, most: int) -> int:  # noqa: PLR0917 (compiled)
    """Collect connected units on the site of the first; return how many there are."""
    here = a[t[SITE] + units.operators[units.ptr[first]]]
    undo.chosen[0] = first
    undo.seen[first] = True
    count, at = 1, 0
    while at < count < most:
        unit = undo.chosen[at]
        at += 1
        first_near = units.near_ptr[unit]
        many = units.near_ptr[unit + 1] - first_near
        begin = _below(many) if many > 0 else 0
        for i in range(many):
            other = units.near[first_near + (begin + i) % many]
            if undo.seen[other] or a[t[SITE] + units.operators[units.ptr[other]]] != here:
                continue
            undo.seen[other] = True
            undo.chosen[count] = other
            count += 1
            if count == most:
                break
    for i in range(count):
        undo.seen[undo.chosen[i]] = False
    return count


@compiled
def _exchange_sites(a: Ints, t: Ints, units: Units, undo: Undo, one: int, two: int) -> None:  # noqa: PLR0917 (compiled)
    """Exchange all units of two sites."""
    for i in range(len(units.movable)):
        unit = units.movable[i]
        here = a[t[SITE] + units.operators[units.ptr[unit]]]
        if here == one:
            put(a, t, units, undo, unit, two)
        elif here == two:
            put(a, t, units, undo, unit, one)


@compiled
def _shift(a: Ints, t: Ints, units: Units, undo: Undo, width: float) -> None:
    """Change the ranks of a few operators or of a unit, or rank an operator next to another."""
    operators = t[OPERATORS]
    kind = np.random.random()
    size = int(width * 10.0 ** (-3.0 * np.random.random()))
    change = int((2.0 * np.random.random() - 1.0) * max(1, size))
    operator = _below(operators)
    if kind < 0.5:
        for _ in range(1 + _below(4)):
            remember(a, t, undo, operator)
            a[t[RANK] + operator] += change
            operator = _below(operators)
            change = int((2.0 * np.random.random() - 1.0) * max(1, size))
    elif kind < 0.8:
        unit = units.of[operator]
        for i in range(units.ptr[unit], units.ptr[unit + 1]):
            remember(a, t, undo, units.operators[i])
            a[t[RANK] + units.operators[i]] += change
    else:  # just before or behind another operator of the same site
        for _ in range(8):
            other = _below(operators)
            if other != operator and a[t[SITE] + other] == a[t[SITE] + operator]:
                remember(a, t, undo, operator)
                a[t[RANK] + operator] = a[t[RANK] + other] + (1 if change > 0 else -1)
                return


@compiled
def move(a: Ints, t: Ints, units: Units, undo: Undo, width: float) -> None:
    """Change the state at random.

    ``width`` is the range of ranks. ``undo`` gets what was changed, which may be nothing.
    """
    undo.changed[0] = 0
    many = len(units.movable)
    draw = np.random.random()
    if many == 0 or draw < 0.35:
        operator = _below(t[OPERATORS])
        first = a[t[OPTION_PTR] + operator]
        if draw < 0.1 and a[t[OPTION_PTR] + operator + 1] - first > 1:
            draw_option(a, t, undo, operator)
            return
        _shift(a, t, units, undo, width)
        return
    unit = units.movable[_below(many)]
    if draw < 0.6:
        put(a, t, units, undo, unit, some_site(a, t, units, unit))
        return
    if draw < 0.8:
        site = some_site(a, t, units, unit)
        count = cluster(a, t, units, undo, unit, 2 + _below(MOST_TOGETHER - 1))
        for i in range(count):
            put(a, t, units, undo, undo.chosen[i], site)
        return
    if draw < 0.88:
        at = _below(many)
        site = some_site(a, t, units, unit)
        for i in range(at, min(many, at + 2 + _below(6))):
            put(a, t, units, undo, units.movable[i], site)
        return
    other = units.movable[_below(many)]
    one = a[t[SITE] + units.operators[units.ptr[unit]]]
    two = a[t[SITE] + units.operators[units.ptr[other]]]
    if draw < 0.98:
        put(a, t, units, undo, unit, two)
        put(a, t, units, undo, other, one)
        return
    _exchange_sites(a, t, units, undo, one, two)
