"""Loops of the search through ideals, compiled (see :mod:`.lattice`)."""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

ROUNDED = 1 + 1e-9
"""A call that holds so much more than a step or than fits does so indeed."""

PARTS = 16
"""Parts of a device's memory to which bytes of a call that reserves it are rounded down."""

HOSTED, NEW = -1, 60
"""Holder of a class: hosts, or the current call; others are numbered from 0 on."""


@compiled
def measure(ideals, member, gate_of, rest, operators, values, path):
    """Fill ``path``: least time from the end of each live operator to that of the next gate.

    ``rest[g, i]`` is the longest path of least times from ``i`` to gate ``g``, without ``i``
    itself; the last row is for the end of all.
    """
    live_ptr, live = ideals[3], ideals[4]
    work, host_work = operators[0], operators[1]
    cost, made_ptr, made, reader_ptr, reader = values[0], values[3], values[4], values[7], values[8]
    for ideal in range(member.shape[0]):
        gate = gate_of[ideal]
        for slot in range(live_ptr[ideal], live_ptr[ideal + 1]):
            i = live[slot]
            worst = 0.0 if rest[gate, i] > -np.inf else -np.inf
            for k in range(made_ptr[i], made_ptr[i + 1]):
                v = made[k]
                for q in range(reader_ptr[v], reader_ptr[v + 1]):
                    r = reader[q]
                    if not member[ideal, r]:
                        hop = min(work[r] + cost[v], host_work[r]) + rest[gate, r]
                        worst = max(worst, hop)
            path[slot] = worst


@compiled
def estimate(fresh, there, live_ptr, path):
    """Return the earliest time at which the next gate can be done, from ends of live operators."""
    found = 0.0
    first = live_ptr[there]
    for k in range(live_ptr[there + 1] - first):
        found = max(found, fresh[1 + k] + path[first + k])
    return found


@compiled
def hopeful(reach, dead, gate, count, bounds, limit):
    """Return whether a label may still lead below the limit of some number of devices."""
    for total in range(count, limit.shape[0]):
        if max(dead, reach + bounds[gate, total - count]) < limit[total]:
            return True
    return False


@compiled
def note(reach, dead, gate, count, bounds, dropped):
    """Take down what a label that is left out could have led to."""
    for total in range(count, dropped.shape[0]):
        dropped[total] = min(dropped[total], max(dead, reach + bounds[gate, total - count]))


@compiled
def in_parts(held, memory):
    """Return bytes rounded down to parts of a device's memory: that lets more labels compare."""
    if memory in (0.0, np.inf):
        return 0.0
    return np.floor(held / memory * PARTS) / PARTS * memory


@compiled
def inherit(classes, there, slot_of, store, label, base, own, held, fresh, at, owner, renamed):
    """Fill in who holds the classes that are open in an ideal; returns how many calls that are.

    A class that is not open in the ideal of ``label`` is held by ``own``, ``HOSTED`` or ``NEW``,
    with ``held`` bytes. Calls are numbered from 0 on as they come.
    """
    times, tokens = store[0], store[4]
    _, open_ptr, opened = classes
    count, holders = 0, open_ptr[there + 1] - open_ptr[there]
    if holders == 0:
        return 0
    renamed[:] = -1
    for k in range(holders):
        slot = slot_of[opened[open_ptr[there] + k]]
        if slot >= 0:
            holder, size = tokens[label, slot], times[label, base + slot]
        else:
            holder, size = own, held
        if holder == HOSTED:
            size = 0.0
        else:
            if renamed[holder] < 0:
                renamed[holder] = count
                count += 1
            holder = renamed[holder]
        owner[k] = holder
        fresh[at + k] = size
    return count


@compiled
def partner(classes, there, slot_of, store, label, base, touched, bound_for, held, memory):
    """Return whether a call may be the second one of the device that holds the classes it touches.

    It has to hold all that is left of them, and of the others that the first call holds; and it
    may not begin a class without ending it. Their bytes have to fit together.
    """
    times, tokens = store[0], store[4]
    _, open_ptr, opened = classes
    first = -1
    for slot in range(bound_for):
        if touched >> slot & 1:
            holder = tokens[label, slot]
            if holder == HOSTED or first not in (-1, holder):
                return False
            first = holder
            if times[label, base + slot] + held > memory * ROUNDED:
                return False
    for k in range(open_ptr[there], open_ptr[there + 1]):
        slot = slot_of[opened[k]]
        if slot < 0 or tokens[label, slot] == first:
            return False
    return True


@compiled
def begins(classes, there, slot_of):
    """Return whether a class is open in an ideal that is not open in the one before."""
    _, open_ptr, opened = classes
    count = 0
    for k in range(open_ptr[there], open_ptr[there + 1]):
        count += slot_of[opened[k]] < 0
    return count > 0


@compiled
def insert(
    store, stock, target, used, state, count, reach, width, fresh, shape, owner, guide, dropped
):
    """Keep a label of an ideal unless it is dominated, and drop those it dominates.

    ``fresh`` is its vector of times and bytes, ``owner`` who holds the open classes, ``shape`` how
    long these are. With too many alike, the one that reaches the next gate last is left out.
    Returns whether the label was kept.
    """
    times, facts, rank, head, tokens = store
    covers = stock[2]
    gate, bounds = guide[0][target], guide[2]
    wide, holders = shape
    slot, before, alike, latest, worst = head[target], -1, 0, -1, -1.0
    while slot >= 0:
        after, other = facts[slot, 1], facts[slot, 0]
        less, more = covers[other, state], covers[state, other]
        for k in range(wide):
            if times[slot, k] > fresh[k]:
                less = False
            if fresh[k] > times[slot, k]:
                more = False
            if not (less or more):
                break
        if less or more:
            for k in range(holders):
                if tokens[slot, k] != owner[k]:
                    less, more = False, False
        if less:
            return False
        if more:
            if before < 0:
                head[target] = after
            else:
                facts[before, 1] = after
        else:
            if facts[slot, 4] == count:
                alike += 1
                if rank[slot] > worst:
                    worst, latest = rank[slot], slot
            before = slot
        slot = after
    if (alike >= width and reach >= worst) or used >= times.shape[0]:
        note(reach, fresh[0], gate, count, bounds, dropped)
        return False
    if alike >= width:
        note(worst, times[latest, 0], gate, count, bounds, dropped)
        slot, before = head[target], -1
        while slot != latest:
            before, slot = slot, facts[slot, 1]
        if before < 0:
            head[target] = facts[slot, 1]
        else:
            facts[before, 1] = facts[slot, 1]
    copy_into(fresh[:wide], times[used])
    copy_into(owner[:holders], tokens[used])
    rank[used] = reach
    facts[used, 0], facts[used, 1], facts[used, 4] = state, head[target], count
    head[target] = used
    return True


@compiled
def search(
    ideals,
    operators,
    values,
    classes,
    guide,
    memory,
    stock,
    limit,
    width,
    store,
    dropped,
    span,
    used,
):
    """Extend the labels of the ideals ``span[0]`` up to ``span[1]``; returns labels used.

    Times of a label: the latest end of operators nobody outside reads, then ends of live ones;
    behind them the bytes of the calls that hold its open classes. ``limit`` is by calls made; what
    labels left out could have led to is in ``dropped``.
    """
    next_ptr, next_op, next_set, live_ptr, live = ideals
    work, host_work, size = operators
    cost, source, readers, made_ptr, made, read_ptr, read = values[:7]
    kind, open_ptr, opened = classes
    gate_of, path, bounds, before_gate = guide
    times, facts, _, head, tokens = store
    made_calls, after, _ = stock
    steps = after.shape[1] - 1
    count = head.shape[0]
    atoms = work.shape[0]
    stamp = np.full(count, -1, dtype=np.int64)
    where = np.full(atoms, -1, dtype=np.int64)  # position among the live ones of the ideal
    slot_of = np.full(atoms, -1, dtype=np.int64)  # of classes among the open ones of the ideal
    owner, renamed = np.empty(NEW, dtype=np.int64), np.empty(NEW + 1, dtype=np.int64)
    left = np.zeros(cost.shape[0], dtype=np.int64)  # readers not in the call, or the depth
    inside = np.zeros(atoms, dtype=np.bool_)  # operators of the call
    received = np.zeros(cost.shape[0], dtype=np.bool_)  # received; ``left`` is then the depth
    fresh = np.empty(times.shape[1])
    depth_set = np.empty(atoms + 1, dtype=np.int64)
    depth_slot = np.empty(atoms + 1, dtype=np.int64)
    depth_op = np.empty(atoms + 1, dtype=np.int64)
    load = np.zeros(atoms + 1)
    sure = np.zeros(atoms + 1)  # work and receives alone: they never shrink
    held = np.zeros(atoms + 1)
    need = np.zeros(atoms + 1, dtype=np.int64)
    touched = np.zeros(atoms + 1, dtype=np.int64)  # open classes with operators in the call
    last = np.zeros(atoms + 1, dtype=np.int64)  # first gate that all of the call comes before
    for here in range(span[0], min(span[1], count - 1)):
        if head[here] < 0:
            continue
        first, wide_here = live_ptr[here], live_ptr[here + 1] - live_ptr[here]
        where[:] = -1
        for k in range(wide_here):
            where[live[first + k]] = k
        base, open_here = 1 + wide_here, open_ptr[here + 1] - open_ptr[here]
        slot_of[:] = -1
        for k in range(open_here):
            slot_of[opened[open_ptr[here] + k]] = k
        depth = 0
        depth_set[0] = here
        depth_slot[0] = next_ptr[here]
        load[0], sure[0], held[0], need[0], touched[0] = 0.0, 0.0, 0.0, 0, 0
        while depth >= 0:
            now = depth_set[depth]
            if depth_slot[depth] == next_ptr[now + 1]:
                if depth > 0:  # take the operator out again
                    i = depth_op[depth]
                    inside[i] = False
                    for slot in range(read_ptr[i], read_ptr[i + 1]):
                        v = read[slot]
                        if inside[source[v]]:
                            left[v] += 1
                        elif received[v] and left[v] == depth:
                            received[v] = False
                depth -= 1
                continue
            slot = depth_slot[depth]
            depth_slot[depth] += 1
            i, there = next_op[slot], next_set[slot]
            gate = gate_of[there]
            gone = live_ptr[there + 1] - live_ptr[there]
            holders = open_ptr[there + 1] - open_ptr[there]
            shape = 1 + gone + holders, holders
            mine = slot_of[kind[i]] if kind[i] >= 0 else -1
            if depth == 0 and host_work[i] < np.inf:  # on a host
                label = head[here]
                while label >= 0:
                    if mine >= 0 and tokens[label, mine] != HOSTED:
                        label = facts[label, 1]
                        continue
                    begin = 0.0
                    for k in range(read_ptr[i], read_ptr[i + 1]):
                        begin = max(begin, times[label, 1 + where[source[read[k]]]])
                    end = begin + host_work[i]
                    fresh[0] = times[label, 0] if gone else max(times[label, 0], end)
                    known = False
                    for k in range(gone):
                        j = live[live_ptr[there] + k]
                        fresh[1 + k] = end if j == i else times[label, 1 + where[j]]
                        known = known or j == i
                    if not known:
                        fresh[0] = max(fresh[0], end)
                    reach = estimate(fresh, there, live_ptr, path)
                    waiting = inherit(
                        classes, there, slot_of, store, label, base, HOSTED, 0.0, fresh, 1 + gone,
                        owner, renamed,
                    )  # fmt: skip
                    state = facts[label, 0]
                    number = made_calls[state] - waiting
                    if hopeful(reach, fresh[0], gate, number, bounds, limit) and insert(
                        store, stock, there, used, state, number, reach, width, fresh, shape, owner,
                        guide, dropped,
                    ):  # fmt: skip
                        facts[used, 2], facts[used, 3], facts[used, 5] = label, here, 0
                        used += 1
                    label = facts[label, 1]
            if stamp[there] == here or held[depth] + size[i] > memory or not work[i] < np.inf:
                continue
            stamp[there] = here
            new = depth + 1
            load[new] = load[depth] + work[i]
            sure[new] = sure[depth] + work[i]
            held[new] = held[depth] + size[i]
            need[new] = need[depth]
            touched[new] = touched[depth] | (1 << mine if mine >= 0 else 0)
            last[new] = max(last[depth], before_gate[i])
            inside[i] = True
            depth_set[new] = there
            depth_slot[new] = next_ptr[there]
            depth_op[new] = i
            for k in range(read_ptr[i], read_ptr[i + 1]):
                v = read[k]
                if inside[source[v]]:
                    left[v] -= 1
                    if left[v] == 0:
                        load[new] -= cost[v]
                else:
                    if not received[v]:
                        received[v] = True
                        left[v] = new
                        load[new] += cost[v]
                        sure[new] += cost[v]
                    need[new] |= 1 << where[source[v]]
            for k in range(made_ptr[i], made_ptr[i + 1]):
                v = made[k]
                left[v] = readers[v]
                load[new] += cost[v]
            depth = new
            hopeless = True
            step = 0  # of the next smaller one where rounding may be at work
            while step < steps - 1 and held[new] * steps > (step + 1) * memory * ROUNDED:
                step += 1
            kept = in_parts(held[new], memory)
            taken = steps if begins(classes, there, slot_of) else step
            aim = gate if last[new] <= gate else bounds.shape[0] - 1
            label = head[here]
            while label >= 0:
                state, number = facts[label, 0], facts[label, 4]
                begin = 0.0
                for k in range(wide_here):
                    if need[new] >> k & 1:
                        begin = max(begin, times[label, 1 + k])
                least = begin + sure[new]
                if (open_here == 0 and after[state, step] < 0) or not hopeful(
                    least, least, aim, number, bounds, limit
                ):
                    label = facts[label, 1]
                    continue
                hopeless = False
                if touched[new]:
                    fits = partner(
                        classes, there, slot_of, store, label, base, touched[new], open_here,
                        held[new], memory,
                    )  # fmt: skip
                    then = state if fits else -1
                else:
                    then = after[state, taken]
                if then < 0:
                    label = facts[label, 1]
                    continue
                end = begin + load[new]
                fresh[0] = max(times[label, 0], end)  # the call's last operators may be final
                live_inside = False
                for k in range(gone):
                    j = live[live_ptr[there] + k]
                    fresh[1 + k] = end if inside[j] else times[label, 1 + where[j]]
                    live_inside = live_inside or inside[j]
                if live_inside:  # whoever reads that is done later
                    fresh[0] = times[label, 0]
                reach = estimate(fresh, there, live_ptr, path)
                waiting = inherit(
                    classes, there, slot_of, store, label, base, NEW, kept, fresh, 1 + gone,
                    owner, renamed,
                )  # fmt: skip
                number = made_calls[then] - waiting
                if hopeful(reach, max(fresh[0], end), gate, number, bounds, limit) and insert(
                    store, stock, there, used, then, number, reach, width, fresh, shape, owner,
                    guide, dropped,
                ):  # fmt: skip
                    facts[used, 2], facts[used, 3], facts[used, 5] = label, here, 1
                    used += 1
                label = facts[label, 1]
            if hopeless:
                depth_slot[new] = next_ptr[there + 1]
    return used


@compiled
def drop_all(store, begin, guide, dropped):
    """Take down what the labels of all ideals from ``begin`` on could have led to."""
    times, facts, rank, head, _ = store
    gate_of, _, bounds, _ = guide
    for ideal in range(begin, head.shape[0] - 1):
        label = head[ideal]
        while label >= 0:
            note(rank[label], times[label, 0], gate_of[ideal], facts[label, 4], bounds, dropped)
            label = facts[label, 1]
