"""Variable elimination over dense tables; equal buckets are computed once.

Bertele and Brioschi, Nonserial Dynamic Programming (1972); Dechter's bucket elimination (1999).
PaSE's dynamic programme (IPDPS 2021) is the same along a minimum-degree order. A bucket that would
be too large can be cut into mini-buckets (Dechter and Rish 2003), which gives a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from milp_plan.core.sharding import Integers

from .factors import Factor, FactorGraph, Scope, added, total

SLAB = 2**17
"""Entries of the part of a bucket that is computed at a time: a megabyte, within caches."""

_Pattern = tuple[tuple[int, Scope], ...]


@dataclass
class Buckets:
    """State of an elimination.

    Parameters
    ----------
    graph
        The cost functions; tables of messages are appended to a copy of its list.
    cap
        Entries of a bucket beyond which it is cut into mini-buckets; ``None``: never.
    """

    graph: FactorGraph
    cap: int | None = None
    tables: list[Integers] = field(init=False)
    live: dict[int, Factor] = field(init=False)
    lost: bool = field(default=False, init=False)
    """Whether a bucket was cut, so that the result is a bound and not a value."""
    computed: int = field(default=0, init=False)
    """Entries of the buckets that were computed, equal ones counted once."""
    _at: list[set[int]] = field(init=False)
    _trail: list[tuple[int, tuple[Factor, ...]]] = field(default_factory=list, init=False)
    _known: dict[_Pattern, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.tables = list(self.graph.tables)
        self.live = dict(enumerate(self.graph.factors))
        self._next = len(self.live)
        self._at = [set() for _ in self.graph.sizes]
        for number, factor in self.live.items():
            for variable in factor.scope:
                self._at[variable].add(number)
        self._wall = self.graph.wall if self.graph.walled else None

    def eliminate(self, order: Iterable[int]) -> None:
        """Eliminate variables in order."""
        for variable in order:
            numbers = self._at[variable]
            bucket = [self.live.pop(number) for number in sorted(numbers)]
            for number, factor in zip(sorted(numbers), bucket, strict=True):
                for other in factor.scope:
                    if other != variable:
                        self._at[other].discard(number)
            self._trail.append((variable, tuple(bucket)))
            parts = self._cut(variable, bucket)
            self.lost |= len(parts) > 1
            for part in parts:
                self._send(variable, part)

    def left(self) -> list[Factor]:
        """Return the remaining cost functions, with or without variables."""
        return list(self.live.values())

    def constant(self) -> int:
        """Return the sum of the remaining constant cost functions and the graph's constant."""
        known = (int(self.tables[f.table]) for f in self.live.values() if not f.scope)
        return self.graph.constant + sum(known)

    def complete(self, values: list[int]) -> list[int]:
        """Set the best values of the eliminated variables, given those of the others."""
        for variable, bucket in reversed(self._trail):
            costs = np.zeros(self.graph.sizes[variable], dtype=np.int64)
            for factor in bucket:
                index = tuple(slice(None) if x == variable else values[x] for x in factor.scope)
                costs += self.tables[factor.table][index]
                if self._wall is not None:
                    np.minimum(costs, self._wall, out=costs)
            values[variable] = int(costs.argmin())
        return values

    def _cut(self, variable: int, bucket: list[Factor]) -> list[list[Factor]]:
        """Return the bucket, or mini-buckets of at most ``cap`` entries or one factor."""
        sizes = self.graph.sizes
        joint = {x for factor in bucket for x in factor.scope} | {variable}
        if self.cap is None or math.prod(sizes[x] for x in joint) <= self.cap:
            return [bucket]
        parts: list[tuple[set[int], list[Factor]]] = []
        for factor in sorted(bucket, key=lambda f: -math.prod(sizes[x] for x in f.scope)):
            for scope, members in parts:
                if math.prod(sizes[x] for x in scope.union(factor.scope)) <= self.cap:
                    scope.update(factor.scope)
                    members.append(factor)
                    break
            else:
                parts.append((set(factor.scope), [factor]))
        return [members for _, members in parts]

    def _send(self, variable: int, bucket: list[Factor]) -> None:
        """Replace a bucket by its minimum over the variable."""
        bucket = sorted(bucket, key=lambda f: (f.table, f.scope.index(variable), f.scope))
        scope: Scope = tuple(
            dict.fromkeys(x for factor in bucket for x in factor.scope if x != variable)
        )
        place = {x: number for number, x in enumerate((variable, *scope))}
        pattern = tuple((f.table, tuple(place[x] for x in f.scope)) for f in bucket)
        message = self._known.get(pattern)
        if message is None:
            parts = [(self.tables[table], axes) for table, axes in pattern]
            size = self.graph.sizes[variable]
            shape = (size, *(self.graph.sizes[x] for x in scope))
            self.computed += math.prod(shape)
            self.tables.append(smallest(parts, shape, self._wall))
            message = self._known[pattern] = len(self.tables) - 1
        self.live[self._next] = Factor(scope, message)
        for other in scope:
            self._at[other].add(self._next)
        self._next += 1


def smallest(parts: Sequence[tuple[Integers, Scope]], shape: Scope, wall: int | None) -> Integers:
    """Return the sum of tables, minimised over axis 0, without the whole sum in memory."""
    if not parts:
        return np.zeros(shape[1:], dtype=np.int64)
    views = _merged(list(parts), shape, wall)
    if len(views) == 1 or len(shape) == 1:
        whole = views[0] if len(views) == 1 else added(views, wall)
        return np.asarray(np.broadcast_to(whole, shape).min(axis=0)).reshape(shape[1:])
    message = np.empty(shape[1:], dtype=np.int64)
    rest = math.prod(shape) // shape[1]
    step = max(1, SLAB // rest)
    inner = _steps(shape, rest)
    for start in range(0, shape[1], step):
        rows = slice(start, start + step)
        for more in inner:
            index = (slice(None), rows, more)[: len(shape)]
            cut = [view[_clip(index, view.shape)] for view in views]
            message[index[1:]] = added(cut, wall).min(axis=0)
    return message


def _steps(shape: Scope, rest: int) -> list[slice]:
    """Return parts of axis 2, where one row of axis 1 is already more than a slab."""
    if len(shape) < 3 or rest <= 2 * SLAB:
        return [slice(None)]
    step = max(1, SLAB * shape[2] // rest)
    return [slice(start, start + step) for start in range(0, shape[2], step)]


def _clip(index: tuple[slice, ...], shape: Scope) -> tuple[slice, ...]:
    """Return a slice of an axis; axes of length 1 stay whole, since they are broadcast."""
    return tuple(part if shape[axis] > 1 else slice(None) for axis, part in enumerate(index))


def _merged(parts: list[tuple[Integers, Scope]], shape: Scope, wall: int | None) -> list[Integers]:
    """Return fewer tables with the same sum; small joins come first."""
    axes = tuple(range(len(shape)))
    whole = math.prod(shape)
    groups: dict[frozenset[int], list[tuple[Integers, Scope]]] = {}
    for table, scope in parts:
        groups.setdefault(frozenset(scope), []).append((table, scope))
    joined = {scope: total(members, axes, wall) for scope, members in groups.items()}
    while len(joined) > 2:
        pairs = [(a, b) for a in joined for b in joined if _rank(a) < _rank(b)]
        first, second = min(pairs, key=lambda p: (_size(p[0] | p[1], shape), _rank(p[0] | p[1])))
        joint = first | second
        if 8 * _size(joint, shape) > whole and joint not in (first, second):
            break
        both = [joined.pop(first), joined.pop(second)]
        if joint in joined:
            both.append(joined.pop(joint))
        joined[joint] = added(both, wall)
    return [joined[scope] for scope in sorted(joined, key=lambda s: -_size(s, shape))]


def _rank(scope: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(scope))


def _size(scope: frozenset[int], shape: Scope) -> int:
    return math.prod(shape[axis] for axis in scope)
