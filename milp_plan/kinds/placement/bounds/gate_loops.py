"""Loops of the bound by gates, compiled (see :mod:`.gates`).

All times are integers; ``FAR`` stands for anything beyond what matters. Sums are cut off there
before a fourth term is added, so that nothing overflows.
"""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: C901, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled

FAR = 1 << 61
"""Time that no plan of interest takes."""


@compiled
def middle(inner, start, stop, inside, parts):
    """Split the operators between two ideals into parts that are not connected; returns how many.

    ``parts`` gets, by operator, the part it belongs to (by way of ``parent``); and, by part, its
    time on hosts alone, its time with any number of calls, the least load that a call has for
    operators of it, and, where it is one path, the least time of that.
    """
    work, host, made, before_ptr, before, cost, lone, after_ptr, after, cost_after = inner
    (
        home,
        parent,
        hosted,
        fastest,
        least,
        path,
        forked,
        at_host,
        at_call,
        alone,
        share,
        next_ones,
    ) = parts
    count = 0
    for v in range(work.shape[0]):
        if not inside[stop, v] or inside[start, v]:
            continue
        idle, busy, slow, received, chained = 0, 0, 0, 0, FAR
        part, fork = -1, 0
        next_ones[v] = 0
        for slot in range(before_ptr[v], before_ptr[v + 1]):
            u, paid = before[slot], cost[slot]
            if u < 0 or inside[start, u]:
                received = min(
                    received + lone[slot], FAR
                )  # others may be received for several parts
                busy = max(busy, paid)
                continue
            received = min(received + paid, FAR)
            idle = max(idle, min(at_host[u], at_call[u] + paid))
            busy = max(busy, min(at_host[u] + paid, at_call[u]))
            slow = max(slow, alone[u])
            chained = min(chained, share[u])
            next_ones[u] += 1
            if part >= 0 or next_ones[u] > 1:
                fork = 1
            root = home[u]
            while parent[root] != root:
                root = parent[root]
            if part < 0:
                part = root
            elif part != root:
                parent[root] = part
                hosted[part] = max(hosted[part], hosted[root])
                fastest[part] = max(fastest[part], fastest[root])
                least[part] = min(least[part], least[root])
                fork = 1
        if part < 0:
            part = count
            parent[part] = part
            hosted[part], fastest[part], least[part], forked[part] = 0, 0, FAR, 0
            count += 1
        home[v] = part
        forked[part] = max(forked[part], fork)
        at_host[v] = min(idle + host[v], FAR)
        at_call[v] = min(busy + work[v], FAR)
        alone[v] = min(slow + host[v], FAR)
        share[v] = min(work[v] + min(received, chained), FAR)
        hosted[part] = max(hosted[part], alone[v])
        least[part] = min(least[part], share[v] + made[v])
        done = min(at_host[v], at_call[v])
        for slot in range(after_ptr[v], after_ptr[v + 1]):
            if after[slot] < 0 or not inside[stop, after[slot]]:
                done = max(done, min(at_host[v], at_call[v] + cost_after[slot]))
        fastest[part] = max(fastest[part], done)
        path[part] = 0 if forked[part] else done
    return count


@compiled
def put(entries, many, entry):
    """Put an entry into a list in ascending order."""
    while many > 0 and entries[many - 1] > entry:
        entries[many] = entries[many - 1]
        many -= 1
    entries[many] = entry


@compiled
def by_calls(count, parts, lists, found):
    """Fill ``found``: least time of all parts by number of calls, the last for any number.

    Parts that take long on hosts get the calls, one each. Or some n parts need calls, more than
    there are; then one call has a share of them, at least, and its load is from all of these.
    """
    parent, hosted, fastest, least, path = parts[1], parts[2], parts[3], parts[4], parts[5]
    taken, loads, others = lists
    many, every = 0, 0
    for part in range(count):
        if parent[part] == part:
            back = many  # longest on hosts first
            while back > 0 and hosted[taken[back - 1]] < hosted[part]:
                taken[back] = taken[back - 1]
                back -= 1
            taken[back] = part
            many += 1
            every = max(every, fastest[part])
    last = found.shape[0] - 1
    for calls in range(last):
        found[calls] = max(every, hosted[taken[calls]]) if calls < many else every
    found[last] = every
    for needed in range(1, many + 1):
        part = taken[needed - 1]
        put(loads, needed - 1, least[part])
        put(others, needed - 1, max(0, path[part] - least[part]))
        beyond = hosted[taken[needed]] if needed < many else 0
        for calls in range(1, min(last, needed)):
            share = (needed + calls - 1) // calls
            time = others[share - 1]
            for k in range(share):
                time = min(time + loads[k], FAR)
            found[calls] = min(found[calls], max(every, beyond, time))


@compiled
def fill(inner, ideals, ends, cells, rows, most, table, parts, lists, found):
    """Take down the least times between two gates for the ideals ``rows``, as far as they end.

    ``ends`` are the times before and after what is between two ideals: of a call with the gate
    before and that ideal, of one with the next gate and all outside of it, and of a host with that
    gate. ``table[k, x, y]`` is the least time with k calls between, x and y steps of memory for the
    two calls; its last row and column stand for a gate on a host. What takes more than ``most`` is
    left out.
    """
    bits, inside = ideals
    first, second, hosting = ends
    held_first, held_second = cells
    steps = table.shape[1] - 2
    count, words = bits.shape
    for i in range(rows[0], rows[1]):
        for j in range(i, count):
            closed = True
            for word in range(words):
                if bits[i, word] & ~bits[j, word]:
                    closed = False
                    break
            if not closed:
                continue
            x, y = held_first[i], held_second[j]
            many = -1
            for kind in range(4):
                if kind & 1 and i > 0:
                    continue  # nothing is in a call with a gate on a host
                if kind & 2 and j < count - 1:
                    continue
                if (not kind & 1 and x > steps) or (not kind & 2 and y > steps):
                    continue
                row = steps + 1 if kind & 1 else x
                column = steps + 1 if kind & 2 else y
                base = (0 if kind & 1 else first[i]) + (hosting if kind & 2 else second[j])
                if base > most or base >= table[0, row, column]:
                    continue
                if many < 0:
                    many = middle(inner, i, j, inside, parts)
                    by_calls(many, parts, lists, found)
                for calls in range(table.shape[0]):
                    time = min(base + found[calls], FAR)
                    table[calls, row, column] = min(table[calls, row, column], time)


@compiled
def advance(before, table, whole, step):
    """Return the least times at the next gate, by calls made and steps of memory held.

    ``whole`` are the steps and the time of a call that holds both gates and all between them.
    """
    steps, last = before.shape[1] - 2, before.shape[0] - 1
    after = np.full(before.shape, FAR, dtype=np.int64)
    room = table[:, : steps + 1].copy()  # with at most that many steps for the first call
    for calls in range(table.shape[0]):
        for x in range(1, steps + 1):
            for y in range(steps + 2):
                room[calls, x, y] = min(room[calls, x, y], room[calls, x - 1, y])
    for made in range(last + 1):
        for held in range(steps + 2):
            time = before[made, held]
            if time >= FAR:
                continue
            if held <= steps and held + whole <= steps:
                then = min(time + step, FAR)
                after[made, held + whole] = min(after[made, held + whole], then)
            for calls in range(min(table.shape[0], last + 1 - made)):
                for y in range(steps + 2):
                    passed = table[calls, held, y] if held > steps else room[calls, steps - held, y]
                    now = made + calls + (1 if y <= steps else 0)
                    if passed < FAR and now <= last:
                        after[now, y] = min(after[now, y], time + passed)
    return after
