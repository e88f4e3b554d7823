"""Merges operators that take no time with a neighbour: an exact reduction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .graph import SerialGraph
from .operators import OperatorTables, OperatorValue, operator_tables


def merged_tables(graph: SerialGraph) -> OperatorTables:
    """Return the operators of a latency problem, idle ones merged: the optimum is the same."""
    return merge_idle(operator_tables(graph))


def merge_idle(tables: OperatorTables, forgiven: float = 0.0) -> OperatorTables:
    """Return the tables with idle operators merged into a neighbour, or left to the host.

    Three rules, for an operator v that takes no time on any device, and a neighbour u of its
    class with the same devices, or of another class if v is alone in its own, without bytes, and
    can run wherever u can:

    1. v reads nothing and u alone reads from v;
    2. all v reads is made by u; and v makes nothing that is read, or reads one value w that
       nobody else reads while what v makes costs together no more than w, or is a class mate of u
       where devices have one call;
    3. v is alone in its class and may run on a host without limit of memory, what it makes costs
       nothing, and it reads from operators of this rule alone: it goes to the host.

    The optimum stays the same. Proof: take a best plan and let v change to the place of u, where
    it is not there already (class mates with one call are); bytes stay the same. On a host v is
    done at the start (1) or with u (2), as the merged operator is. (1) v's values now cost
    nothing, and u waited for v's call, if at all. (2) The call of u sent w and now sends at most
    what v makes; the old call of v received w and now receives at most what v makes, and sends no
    more than before; other readers of v have its values earlier, at the end of u's call. v's old
    call waits, if at all, for the same call, as its readers of v do. No load grows, and no call
    waits for one it did not wait for already, directly or by way of the call of v. (3) On the
    host v is done at the start; its readers pay nothing, and nobody waits for v's old call.

    Parameters
    ----------
    tables
        The problem.
    forgiven
        Share of a device's memory up to which the bytes of an idle operator without readers,
        alone in its class, are ignored. A relaxation unless it is 0.
    """
    if forgiven:
        tables = _forgive(tables, forgiven)
    tables = _host_free(tables)
    home = list(range(len(tables)))

    def find(i: int) -> int:
        while home[i] != i:
            i = home[i]
        return i

    changed = True
    values = [(v.ticks, v.source, set(v.readers)) for v in tables.values]
    while changed:
        changed = False
        values = _contracted(values, find)
        made: dict[int, list[int]] = {}
        reads: dict[int, list[int]] = {}
        for number, (_, source, readers) in enumerate(values):
            made.setdefault(source, []).append(number)
            for reader in readers:
                reads.setdefault(reader, []).append(number)
        touched: set[int] = set()
        for v in range(len(tables)):
            if find(v) != v or not _idle(tables, v):
                continue
            u = _neighbour(tables, v, values, made, reads)
            if u is None or {u, v} & touched or not _may_join(tables, v, u):
                continue
            home[v] = u
            touched |= {u, v}
            changed = True
    return renumbered(tables, values, [find(i) for i in range(len(tables))])


def _idle(tables: OperatorTables, v: int) -> bool:
    return not tables.work[v] and not tables.host_work[v]


def _forgive(tables: OperatorTables, part: float) -> OperatorTables:
    most = part * (tables.graph.memory or 0)
    size = list(tables.size)
    for kind, members in enumerate(tables.members):
        alone = len(members) == 1 and not tables.after[members[0]]
        if alone and _idle(tables, members[0]) and size[kind] <= most:
            size[kind] = 0
    return replace(tables, size=tuple(size))


def _host_free(tables: OperatorTables) -> OperatorTables:
    """Apply rule 3 of :func:`merge_idle`."""
    if not tables.graph.hosts or tables.graph.host_memory is not None:
        return tables
    free: set[int] = set()
    for v in tables.order:
        cost = sum(tables.values[number].ticks for number in tables.made_by[v])
        alone = len(tables.members[tables.class_of[v]]) == 1
        if alone and not cost and tables.host_work[v] == 0 and free.issuperset(tables.before[v]):
            free.add(v)
    if len(free) == len(tables):
        return tables
    rest = [i for i in range(len(tables)) if i not in free]
    number = {i: k for k, i in enumerate(rest)}
    gone = tuple(i for v in sorted(free) for i in tables.parts[v])
    return replace(
        _selected(tables, rest),
        values=tuple(
            OperatorValue(v.ticks, number[v.source], tuple(number[r] for r in v.readers))
            for v in tables.values
            if v.source not in free
        ),
        hosted=tables.hosted + gone,
    )


def _selected(tables: OperatorTables, selected: list[int]) -> OperatorTables:
    """Return the tables of some operators, with all values."""
    return replace(
        tables,
        work=tuple(tables.work[i] for i in selected),
        host_work=tuple(tables.host_work[i] for i in selected),
        class_of=tuple(tables.class_of[i] for i in selected),
        parts=tuple(tables.parts[i] for i in selected),
    )


def _contracted(
    values: list[tuple[int, int, set[int]]], find: Callable[[int], int]
) -> list[tuple[int, int, set[int]]]:
    contracted = []
    for ticks, source, readers in values:
        start = find(source)
        ends = {find(reader) for reader in readers} - {start}
        if ends:
            contracted.append((ticks, start, ends))
    return contracted


def _may_join(tables: OperatorTables, v: int, u: int) -> bool:
    """Return whether ``v`` may be wherever ``u`` is: a class mate, or alone without bytes."""
    kind = tables.class_of[v]
    if tables.class_of[u] == kind:
        return all((a[u] is None) == (a[v] is None) for a in (tables.work, tables.host_work))
    if len(tables.members[kind]) > 1 or tables.size[kind]:
        return False
    return all(a[u] is None or a[v] is not None for a in (tables.work, tables.host_work))


def _neighbour(
    tables: OperatorTables,
    v: int,
    values: list[tuple[int, int, set[int]]],
    made: dict[int, list[int]],
    reads: dict[int, list[int]],
) -> int | None:
    """Return the operator that ``v`` may join by a rule, apart from bytes and devices."""
    outgoing, incoming = made.get(v, []), reads.get(v, [])
    if not incoming:
        readers = set().union(*(values[number][2] for number in outgoing)) if outgoing else set()
        return readers.pop() if len(readers) == 1 else None
    if len({values[number][1] for number in incoming}) > 1:
        return None
    ticks, source, readers = values[incoming[0]]
    mates = tables.class_of[source] == tables.class_of[v]
    if not outgoing or (tables.calls == 1 and mates):
        return source
    cost = sum(values[number][0] for number in outgoing)
    return source if len(incoming) == 1 and readers == {v} and cost <= ticks else None


def renumbered(
    tables: OperatorTables, values: list[tuple[int, int, set[int]]], home: list[int]
) -> OperatorTables:
    """Return the tables of joined operators: ``home`` names the representative of each."""
    representatives = [i for i in range(len(tables)) if home[i] == i]
    number = {i: k for k, i in enumerate(representatives)}
    parts: list[list[int]] = [[] for _ in representatives]
    for i in range(len(tables)):
        if home[i] == i:
            parts[number[i]][:0] = tables.parts[i]
        else:
            parts[number[home[i]]] += tables.parts[i]
    return replace(
        _selected(tables, representatives),
        values=tuple(
            OperatorValue(ticks, number[source], tuple(sorted(number[r] for r in readers)))
            for ticks, source, readers in values
        ),
        parts=tuple(tuple(part) for part in parts),
    )
