"""Merges chains of operators: a restriction with far fewer ideals."""

from __future__ import annotations

from dataclasses import replace

from .atoms import renumbered
from .gates import comparable
from .operators import OperatorTables


def merge_chains(tables: OperatorTables, longest: int) -> OperatorTables:
    """Return the tables with operators joined that alone read from each other.

    Such operators then share a place; times and loads of plans do not change: on a host
    the operators of a chain run one after another anyway. Operators that share a class with
    others, or that are comparable with all others, stay alone: they add no ideals.

    Parameters
    ----------
    longest
        Largest number of operators of a chain.
    """
    between = comparable(tables)
    home = list(range(len(tables)))
    length = [1] * len(tables)
    work, host_work = list(tables.work), list(tables.host_work)
    size = list(tables.size)
    for v in tables.order:
        if len(tables.before[v]) != 1 or between[v]:
            continue
        source = tables.before[v][0]
        u = home[source]
        alike = (work[u] is None) == (work[v] is None)
        alike = alike and (host_work[u] is None) == (host_work[v] is None)
        alone = all(len(tables.members[tables.class_of[i]]) == 1 for i in (u, v))
        if len(tables.after[source]) != 1 or between[source] or not (alike and alone):
            continue
        if length[u] >= longest:
            continue
        home[v] = u
        length[u] += 1
        work[u] = None if work[u] is None else (work[u] or 0) + (work[v] or 0)
        host_work[u] = None if host_work[u] is None else (host_work[u] or 0) + (host_work[v] or 0)
        size[tables.class_of[u]] += size[tables.class_of[v]]
        size[tables.class_of[v]] = 0
    values = []
    for value in tables.values:
        readers = {home[r] for r in value.readers} - {home[value.source]}
        if readers:
            values.append((value.ticks, home[value.source], readers))
    joined = replace(tables, work=tuple(work), host_work=tuple(host_work), size=tuple(size))
    return renumbered(joined, values, home)
