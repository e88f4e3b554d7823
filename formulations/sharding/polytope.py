"""The local polytope of a sharding problem: which columns and rows it has, and what they count.

Columns are labels and pairs of labels; rows are listed in the package. With
integral labels the model is exact; without, it is the local-polytope relaxation of the labelling
(Werner, PAMI 2007), which is far tighter here than rows ``pair >= label + label - 1``.

:meth:`Polytope.compiled` writes everything as arrays at once, without an object per row: graphs of
millions of pairs are ready in seconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from milp_plan.api import CompiledModel
from milp_plan.kinds.sharding.labelling import Labelling

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_UNITS = 1e6
"""Units that the range of costs has at most: times a solver's tolerance (1e-9 for integers) that is
a thousandth of a unit."""

WHOLE_UNITS, SPLIT_UNITS = 1e7, 1e4
"""Units of a capacity, at most: where all bytes are whole multiples of the unit, and elsewhere."""

LEEWAY = 1e-6
"""Part by which a capacity is raised where bytes are split units. A plan that just fits must not
touch the row: with a tolerance of 1e-9, HiGHS 1.15.1 then proves wrong optima (the tests hold such
a problem). What overflows within the leeway is cut off by covers."""

MIDDLE_UNITS = 100.0
"""Units of a typical cost (geometric mean) where no plan's cost says what the range is."""


class ColumnNames(Sequence[tuple[str, Hashable]]):
    """Names of columns, made when asked for: ``x`` (operator, label), ``z`` (edge, label, label).

    Parameters
    ----------
    labels
        Shape (label columns, 2).
    pairs
        Shape (pair columns, 3).
    ends
        The two operators of each edge, shape (edges, 2).
    """

    def __init__(self, labels: Integers, pairs: Integers, ends: Integers) -> None:
        self.labels, self.pairs = labels.astype(np.int32), pairs.astype(np.int32)
        self.ends = ends

    def __len__(self) -> int:
        return len(self.labels) + len(self.pairs)

    @overload
    def __getitem__(self, place: int) -> tuple[str, Hashable]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, Hashable]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        if number < len(self.labels):
            return "x", tuple(self.labels[number].tolist())
        return "z", tuple(self.pairs[number - len(self.labels)].tolist())

    def __iter__(self) -> Iterator[tuple[str, Hashable]]:
        for pair in self.labels.tolist():
            yield "x", tuple(pair)
        for triple in self.pairs.tolist():
            yield "z", tuple(triple)


@dataclass(frozen=True, eq=False)
class MemoryRow:
    """One row of memory: sum of ``amounts`` over chosen ``labels`` is at most ``capacity``.

    Parameters
    ----------
    instant
        Row of the labelling.
    labels
        Numbers of the labels (over all operators) that use memory then.
    amounts, capacity
        In units of the row: the common divisor of its bytes, or more where those would be too many.
    """

    instant: int
    labels: Integers
    amounts: NDArray[np.float64]
    capacity: float


class Polytope:
    """The model of a labelling, before it is written down.

    Parameters
    ----------
    labelling
        The problem; its memory rows are taken as they are.
    cutoff
        Cost of a known plan: labels and pairs that no plan as good can have get no column.

    Attributes
    ----------
    floor
        Every plan costs at least this: the smallest entries of all tables.
    label, pair
        Which labels, and which entries of tables, have columns.
    dearer, pair_dearer
        What each costs beyond the smallest entry of its table.
    unit
        Costs per unit of the objective.
    """

    def __init__(self, labelling: Labelling, cutoff: int | None = None) -> None:
        self.labelling = b = labelling
        self.label, self.pair = b.allowed
        self.dearer, least = _beyond(b.cost, b.offsets, self.label)
        self.pair_dearer, least_pair = _beyond(b.table, b.table_offsets, self.pair)
        self.floor = b.constant + least + least_pair
        room = None if cutoff is None else cutoff - self.floor
        if room is not None:
            self.label &= self.dearer <= room
        first, second = self.ends_of(np.arange(len(b.table)))
        self.pair &= self.label[first] & self.label[second]
        if room is not None:
            total = self.pair_dearer + self.dearer[first] + self.dearer[second]
            self.pair &= np.where(self.pair, total, 0) <= room
        self.unit = self._unit(room)

    def ends_of(self, entries: Integers) -> tuple[Integers, Integers]:
        """Return the numbers of the two labels (over all operators) of entries of tables."""
        b = self.labelling
        edge = np.searchsorted(b.table_offsets, entries, side="right") - 1
        first, second = b.ends[edge].T
        place = entries - b.table_offsets[edge]
        width = b.counts[second]
        return b.offsets[first] + place // width, b.offsets[second] + place % width

    def _unit(self, room: int | None) -> float:
        """Costs per unit; see :data:`MOST_UNITS` and :data:`MIDDLE_UNITS`."""
        if room is not None:
            return max(1.0, room / MOST_UNITS)
        costs = np.concatenate([self.dearer[self.label], self.pair_dearer[self.pair]])
        costs = costs[costs > 0].astype(float)
        if not len(costs):
            return 1.0
        return max(1.0, float(np.exp(np.log(costs).mean())) / MIDDLE_UNITS)

    @cached_property
    def owner(self) -> Integers:
        """Operator of each label."""
        b = self.labelling
        return np.repeat(np.arange(len(b)), b.counts)

    @cached_property
    def names(self) -> ColumnNames:
        """Names of the columns, labels first."""
        b = self.labelling
        labels = np.flatnonzero(self.label)
        owner = self.owner[labels]
        entries = np.flatnonzero(self.pair)
        edge = np.searchsorted(b.table_offsets, entries, side="right") - 1
        first, second = self.ends_of(entries)
        ends = b.ends[edge]
        pairs = (edge, first - b.offsets[ends[:, 0]], second - b.offsets[ends[:, 1]])
        return ColumnNames(
            np.stack([owner, labels - b.offsets[owner]], axis=1), np.stack(pairs, axis=1), b.ends
        )

    def memory(self) -> list[MemoryRow]:
        """Rows of memory that something could break."""
        usage = self._usage()
        found = []
        for instant, capacity in enumerate(self.labelling.capacity.tolist()):
            part = slice(usage.indptr[instant], usage.indptr[instant + 1])
            bytes_, labels = usage.data[part], usage.indices[part].astype(np.int64)
            if not len(bytes_) and capacity >= 0:
                continue
            step = int(np.gcd.reduce(bytes_)) if len(bytes_) else 1
            size: float = capacity // step
            unit = float(step)
            if size > WHOLE_UNITS:
                size, unit = SPLIT_UNITS * (1.0 + LEEWAY), capacity / SPLIT_UNITS
            found.append(MemoryRow(instant, labels, bytes_ / unit, float(size)))
        return found

    def _usage(self) -> csr_array[Any, tuple[int, int]]:
        """Bytes by row and label; labels without a column use nothing."""
        b = self.labelling
        widths = np.diff(b.part_offsets)
        sizes = np.diff(b.use_offsets)
        operator = np.repeat(np.arange(len(b)), sizes)
        place = np.arange(len(b.usage)) - b.use_offsets[operator]
        label = b.offsets[operator] + place // widths[operator]
        part = b.part_offsets[operator] + place % widths[operator]
        used = np.flatnonzero((b.usage > 0) & self.label[label])
        start, stop = b.parts[part[used]].T
        row = _ranges(start, stop - start)
        again = np.repeat(used, stop - start)
        shape = (len(b.capacity), len(b.cost))
        return csr_array(coo_array((b.usage[again], (row, label[again])), shape=shape))

    def compiled(self) -> CompiledModel:
        """Write the model as arrays."""
        operators, labels = len(self.labelling), np.flatnonzero(self.label)
        count, pairs = len(labels), int(self.pair.sum())
        rows = _Rows()
        rows.add("choose", operators, self.owner[labels], np.arange(count), np.ones(count))
        for side, family in enumerate(("left", "right")):
            self._edge_rows(rows, family, side)
        right = np.zeros(rows.count)
        right[:operators] = 1.0
        memory = self.memory()
        number = np.cumsum(self.label) - 1
        sizes = [len(line.labels) for line in memory]
        rows.add(
            "memory",
            len(memory),
            np.repeat(np.arange(len(memory)), sizes),
            number[_joined([line.labels for line in memory], np.int64)],
            _joined([line.amounts for line in memory], np.float64),
        )
        capacity = [line.capacity for line in memory]
        cost = np.concatenate([self.dearer[self.label], self.pair_dearer[self.pair]])
        return CompiledModel(
            cost=cost / self.unit,
            offset=self.floor / self.unit,
            matrix=rows.matrix(count + pairs),
            row_lower=np.concatenate([right, np.full(len(memory), -np.inf)]),
            row_upper=np.concatenate([right, capacity]),
            column_lower=np.zeros(len(cost)),
            column_upper=np.ones(len(cost)),
            integrality=(np.arange(len(cost)) < count).astype(np.uint8),
            columns=self.names,
            row_families=rows.families,
        )

    def _edge_rows(self, rows: _Rows, family: str, side: int) -> None:
        """Add a row per edge and strategy at this end: its pairs less the strategy are 0."""
        b = self.labelling
        kept = np.bincount(self.owner[self.label], minlength=len(b))
        begin = np.cumsum(kept) - kept  # first column of each operator
        end = b.ends[:, side]
        first = np.cumsum(kept[end]) - kept[end]  # first row of each edge
        entries = np.flatnonzero(self.pair)
        edge = np.searchsorted(b.table_offsets, entries, side="right") - 1
        number = np.cumsum(self.label) - 1
        own = number[self.ends_of(entries)[side]]
        columns = len(self.names.labels) + np.arange(len(entries))
        labels = _ranges(begin[end], kept[end])
        rows.add(
            family,
            len(labels),
            np.concatenate([first[edge] + own - begin[end[edge]], np.arange(len(labels))]),
            np.concatenate([columns, labels]),
            np.concatenate([np.ones(len(entries)), -np.ones(len(labels))]),
        )


class _Rows:
    """Entries of a matrix, family after family."""

    def __init__(self) -> None:
        self.count = 0
        self.families: list[str] = []
        self._parts: list[tuple[Integers, Integers, NDArray[np.float64]]] = []

    def add(
        self, family: str, count: int, row: Integers, column: Integers, factor: NDArray[np.float64]
    ) -> None:
        """Add rows; their numbers count from 0 within the family."""
        self._parts.append((self.count + row, column, factor))
        self.families += [family] * count
        self.count += count

    def matrix(self, columns: int) -> csr_array[Any, tuple[int, int]]:
        row, column, factor = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return csr_array(coo_array((factor, (row, column)), shape=(self.count, columns)))


def _beyond(cost: Integers, offsets: Integers, allowed: Flags) -> tuple[Integers, int]:
    """Return each entry less the smallest of its table, and the sum of those smallest ones."""
    if not len(cost):
        return cost, 0
    least = np.minimum.reduceat(cost, offsets[:-1])
    total = sum(least[np.logical_or.reduceat(allowed, offsets[:-1])].tolist())
    return cost - np.repeat(least, np.diff(offsets)), total


def _ranges(starts: Integers, sizes: Integers) -> Integers:
    """Numbers from each start on, as many as its size, one range after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=kind), *parts])
