"""Gates of a graph, and the segments between them.

A *gate* is an operator that every other one comes before or after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .operators import OperatorTables

Edge = tuple[int, int, int]
"""The operator at the other end, the ticks of all values between the two, and of those that
only the reader of the two reads."""


@dataclass(frozen=True)
class Segment:
    """The operators between two gates.

    Operators are numbered from 0 on, each after those it reads from; the gate before them all is
    -1, and the one after them all the last number.

    Parameters
    ----------
    members
        Operators between the two, in the numbers of the tables.
    first, last
        The gates; ``None`` at the begin and at the end of the graph.
    before, after
        Edges to the operators that each one reads from, and to its readers. ``before`` has an
        entry for the gate after them, too.
    values
        Ticks, source and readers of each value made here or by the gate before; readers beyond the
        gate after them are left out.
    """

    members: tuple[int, ...]
    first: int | None
    last: int | None
    before: tuple[tuple[Edge, ...], ...]
    after: tuple[tuple[Edge, ...], ...]
    values: tuple[tuple[int, int, tuple[int, ...]], ...]

    def __len__(self) -> int:
        return len(self.members)


def comparable(tables: OperatorTables) -> list[bool]:
    """Return whether each operator comes before or after every other one."""
    down, up = tables.closures
    everything = (1 << len(tables)) - 1
    return [up[i] | down[i] | 1 << i == everything for i in range(len(tables))]


def segments(tables: OperatorTables) -> list[Segment]:
    """Return the segments of a graph, the first one before its first gate."""
    gate = comparable(tables)
    parts: list[Segment] = []
    members: list[int] = []
    first: int | None = None
    for i in tables.order:
        if gate[i]:
            parts.append(_segment(tables, members, first, i))
            members, first = [], i
        else:
            members.append(i)
    parts.append(_segment(tables, members, first, None))
    return parts


def _segment(
    tables: OperatorTables, members: Sequence[int], first: int | None, last: int | None
) -> Segment:
    number = {i: k for k, i in enumerate(members)}
    if last is not None:
        number[last] = len(members)
    if first is not None:
        number[first] = -1
    values = []
    for i in ([] if first is None else [first]) + list(members):
        for made in tables.made_by[i]:
            value = tables.values[made]
            readers = tuple(number[reader] for reader in value.readers if reader in number)
            if readers:
                values.append((value.ticks, number[i], readers))
    ticks: dict[tuple[int, int], tuple[int, int]] = {}
    for cost, source, readers in values:
        for reader in readers:
            every, alone = ticks.get((source, reader), (0, 0))
            ticks[source, reader] = every + cost, alone + (cost if len(readers) == 1 else 0)
    before: list[list[Edge]] = [[] for _ in range(len(members) + 1)]
    after: list[list[Edge]] = [[] for _ in members]
    for (source, reader), (every, alone) in sorted(ticks.items()):
        before[reader].append((source, every, alone))
        if source >= 0:
            after[source].append((reader, every, alone))
    return Segment(
        tuple(members),
        first,
        last,
        tuple(tuple(edges) for edges in before),
        tuple(tuple(edges) for edges in after),
        tuple(values),
    )
