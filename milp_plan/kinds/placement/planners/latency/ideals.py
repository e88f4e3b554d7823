"""Plans and bounds from the ideals of a problem: exact where one search gets through.

Where a graph has many ideals, plans that group chains of operators come first: they are
found fast, and the times of their paths prune the search for others.

Where devices have several calls, these paths are a relaxation: devices for their calls are
assigned afterwards by matching. With two calls the number of calls is limited first; where that
leaves a gap, so are their bytes together (:mod:`milp_plan.kinds.placement.serial.stock`).
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...serial.atoms import merge_idle
from ...serial.chains import merge_chains
from ...serial.graph import Ints
from ...serial.lattice import LabelSearch, Lattice, lattice
from ...serial.operators import HOST, OperatorTables
from ...serial.stock import Stock, shared

MAX_IDEALS = 60_000
"""Number of ideals beyond which no search is tried."""

FEW_IDEALS = 8_000
"""Number of ideals up to which no chains are joined first."""

CHAINS = (3, 2)
"""Longest chains that are joined, from the first search to the last but one."""

FORGIVEN = 0.01
"""Share of a device's memory that is ignored for an idle operator without readers, where there
would be too many ideals otherwise."""

ROOM = 2_000_000
"""Largest number of labels of one search."""

LEARN, ALL = 0, 1 << 30

EARLY = (1, LEARN, ALL, 8, 64)
"""Labels per ideal and number of calls of successive searches, where there are few ideals;
:data:`LEARN` computes the paths from gates."""

LATE = (1, LEARN, 2, 8, 32, 128, ALL)
"""The same where there are many ideals."""

LEARNED = 100
"""Labels per ideal and number of calls for the paths from gates."""

LEARNING_SHARE = 0.3
"""Share of the time left for the paths from gates of one level, after a first narrow search."""


@dataclass(frozen=True)
class IdealLevels:
    """Searches through the ideals of one problem, the coarsest first.

    Parameters
    ----------
    tables
        Operators of plans.
    levels
        Merged tables: with chains joined, and last without. Only the last one gives bounds.
    """

    tables: OperatorTables
    levels: tuple[OperatorTables, ...]

    def run(
        self,
        value: Callable[[], float],
        left: Callable[[], float],
        take: Callable[[Ints], None],
        report: Callable[[float, int], None],
    ) -> None:
        """Search with more and more labels until the bound meets the value, or no time is left.

        Parameters
        ----------
        value
            Returns the latency of the best known plan, in the unit of the source.
        left
            Returns the seconds left.
        take
            Called with places of the operators of ``tables``, which may exceed the memory.
        report
            Called with bounds, in the unit of the source, and the number of ideals.
        """
        before: LabelSearch | None = None
        for level in self.levels:
            ideals = lattice(level, MAX_IDEALS)
            if ideals is None or left() <= 0:
                return
            search = self._level(level, ideals, before)
            solved: Stock | None = None
            for stock, width in turns(search):
                if stock is solved:
                    continue
                if width == LEARN:
                    learning = _ClockUntil(left, (1 - LEARNING_SHARE) * left())
                    search.learn(value(), LEARNED, ROOM, learning, self._hints(search, before))
                    continue
                result = search.run(value() * (1 + 1e-9), width, ROOM, left, stock)
                if result.places is not None:
                    take(self.places(level, result.places))
                if level is self.levels[-1]:
                    report(result.bound * (1 - 1e-9), len(ideals.sets))
                if result.bound >= value() * (1 - 1e-7) or left() <= 0:
                    break
                if result.bound >= result.value * (1 - 1e-7):
                    solved = stock
            before = search

    def _level(
        self, level: OperatorTables, ideals: Lattice, before: LabelSearch | None
    ) -> LabelSearch:
        """Return the search of a level, with the gates that it shares with the one before."""
        gates = None
        if before is not None:
            at = {self._end(level, i): i for i in range(len(level))}
            ends = [self._end(before.tables, gate) for gate in before.gates]
            gates = [at[end] for end in ends if end in at]
        return LabelSearch(level, ideals, must_be_hosted(level), gates)

    def _hints(self, search: LabelSearch, before: LabelSearch | None) -> NDArray[np.float64] | None:
        """Return times of known paths of the level before: joining chains only restricts."""
        if before is None:
            return None
        row = {self._end(before.tables, gate): k for k, gate in enumerate(before.gates)}
        rows = [row[self._end(search.tables, gate)] for gate in search.gates]
        return before.reached[rows]

    def _end(self, level: OperatorTables, i: int) -> int:
        """Return the number in the file of the last operator of an entry."""
        position = self._position
        return max(level.parts[i], key=position.__getitem__)

    @cached_property
    def _position(self) -> dict[int, int]:
        return {number: k for k, number in enumerate(self.tables.order)}

    def places(self, level: OperatorTables, places: Ints) -> Ints:
        """Return places of the operators of ``tables`` for places of a level's entries."""
        if level.calls > 1:
            places = paired(level, places)
        everywhere = np.full(len(self.tables), HOST)
        for part, place in zip(level.parts, places, strict=True):
            everywhere[list(part)] = place
        return everywhere.astype(np.int64)


@dataclass(frozen=True)
class _ClockUntil:
    """Returns the seconds left until ``end`` seconds are left of a longer time."""

    left: Callable[[], float]
    end: float

    def __call__(self) -> float:
        return self.left() - self.end


def ideal_levels(tables: OperatorTables) -> IdealLevels | None:
    """Return the searches of a problem (nothing merged), or ``None`` if it has too many ideals."""
    for forgiven in (0.0, FORGIVEN):
        atoms = merge_idle(tables, forgiven)
        ideals = lattice(atoms, MAX_IDEALS)
        if ideals is None:
            continue
        if len(ideals.sets) <= FEW_IDEALS:
            return IdealLevels(tables, (atoms,))
        return IdealLevels(tables, (*(merge_chains(atoms, longest) for longest in CHAINS), atoms))
    return None


def turns(search: LabelSearch) -> Iterator[tuple[Stock, int]]:
    """Yield allowed calls and number of labels of successive searches."""
    tables = search.tables
    widths = EARLY if len(search.ideals.sets) <= FEW_IDEALS else LATE
    yield from ((search.stock, width) for width in widths)
    if tables.calls == 2 and tables.graph.memory is not None:
        packed = shared(len(tables.graph.payers))
        yield from ((packed, width) for width in widths if width != LEARN)


def must_be_hosted(tables: OperatorTables) -> NDArray[np.bool_]:
    """Return operators whose class fits into no single call.

    Proof: with one call per device, a class on a device is in one call, and so is every operator
    between two of its members: otherwise its call would wait for itself. Where the classes of all
    these are larger than a device together, the class is on a host.
    """
    hosted = np.zeros(len(tables), dtype=np.bool_)
    memory = tables.graph.memory
    if tables.calls > 1 or memory is None:
        return hosted
    down, up = tables.closures
    for members in tables.members:
        if len(members) > 1:
            ahead, behind, own = 0, 0, 0
            for i in members:
                ahead, behind, own = ahead | up[i], behind | down[i], own | 1 << i
            hull = (ahead & behind) | own
            kinds = {tables.class_of[i] for i in range(len(tables)) if hull >> i & 1}
            if sum(tables.size[kind] for kind in kinds) > memory:
                hosted[list(members)] = True
    return hosted


def paired(atoms: OperatorTables, found: Ints) -> Ints:
    """Assign calls that were devices of their own to devices, in pairs where that fits.

    ``found`` numbers calls by ``device * calls`` for more devices than there are. Calls with
    operators of one class share a device. Calls of one device must not overlap in time, or one
    would wait for the other. Calls without a partner share the last devices, which may overrun
    their memory.
    """
    wide = _Wide(atoms, found)
    groups = [tuple(sorted(pair, key=wide.start.__getitem__)) for pair in wide.mates]
    settled = {c for pair in groups for c in pair}
    numbers = sorted(set(wide.calls) - settled, key=wide.start.__getitem__)
    import networkx as nx  # takes long to load

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(numbers)
    memory = atoms.graph.memory
    for at, a in enumerate(numbers):
        for b in numbers[at + 1 :]:
            fits = memory is None or wide.size[a] + wide.size[b] <= memory
            if fits and wide.end[a] <= wide.start[b] + 1e-9:
                graph.add_edge(a, b)
    partner = nx.max_weight_matching(graph, maxcardinality=True)
    devices = len(atoms.graph.payers)
    needed = max(0, len(groups) + len(numbers) - devices)
    groups += [tuple(sorted(pair, key=wide.start.__getitem__)) for pair in partner][:needed]
    together = {c for pair in groups for c in pair}
    groups += [(c,) for c in numbers if c not in together]
    groups.sort(key=lambda group: wide.start[group[0]])
    places = np.full(len(found), HOST, dtype=np.int64)
    for device, group in enumerate(groups):
        for call, number in enumerate(group):
            where = min(device, devices - 1) * atoms.calls + call
            places[found == number] = where
    return places


class _Wide:
    """Calls of a placement with more devices than there are: their times and bytes.

    ``mates`` are calls with operators of one class.
    """

    def __init__(self, atoms: OperatorTables, places: Ints) -> None:
        from .timing import arrays, scratch, sweep

        self.calls = sorted({int(place) for place in places if place != HOST})
        most = max(self.calls, default=0) + 1
        table = arrays(atoms)
        room = scratch(most, len(places))
        times = (1, most, *table.times[2:])
        sweep(times, places, *room, np.inf)
        self.start = {c: float(room[1][c]) for c in self.calls}
        self.end = {c: float(room[1][c] + room[0][c]) for c in self.calls}
        self.size = dict.fromkeys(self.calls, 0)
        self.mates: set[tuple[int, ...]] = set()
        for kind, members in enumerate(atoms.members):
            at = {int(places[i]) for i in members if places[i] != HOST}
            for c in at:
                self.size[c] += atoms.size[kind]
            if len(at) == 2:
                self.mates.add(tuple(sorted(at)))
