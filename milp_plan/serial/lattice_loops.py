"""Loops of the search through ideals, compiled (see :mod:`.lattice`)."""

# Compiled loops call for long functions with many arguments: calls and tuples cost time.
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled


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
    """Whether a label may still lead below the limit of some number of devices."""
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
def insert(store, target, used, count, reach, width, fresh, wide, gate, bounds, dropped):
    """Keep a label of an ideal unless it is dominated, and drop those it dominates.

    ``fresh`` is its vector of times. With too many alike, the one that reaches the next gate last
    is left out. Returns whether the label was kept.
    """
    times, facts, rank, head = store
    slot, before, alike, latest, worst = head[target], -1, 0, -1, -1.0
    while slot >= 0:
        after = facts[slot, 1]
        less = facts[slot, 0] <= count
        more = count <= facts[slot, 0]
        for k in range(wide):
            if times[slot, k] > fresh[k]:
                less = False
            if fresh[k] > times[slot, k]:
                more = False
            if not (less or more):
                break
        if less:
            return False
        if more:
            if before < 0:
                head[target] = after
            else:
                facts[before, 1] = after
        else:
            if facts[slot, 0] == count:
                alike += 1
                if rank[slot] > worst:
                    worst, latest = rank[slot], slot
            before = slot
        slot = after
    if alike >= width and reach >= worst:
        note(reach, fresh[0], gate, count, bounds, dropped)
        return False
    if used >= times.shape[0]:
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
    times[used, :wide] = fresh[:wide]
    rank[used] = reach
    facts[used, 0] = count
    facts[used, 1] = head[target]
    head[target] = used
    return True


@compiled
def search(ideals, operators, values, guide, memory, limit, width, store, dropped, span, used):
    """Extend the labels of the ideals ``span[0]`` up to ``span[1]``; returns labels used.

    Times of a label: the latest end of operators nobody outside reads, then ends of live ones.
    ``limit`` is by number of devices; what labels left out could have led to is in ``dropped``.
    """
    next_ptr, next_op, next_set, live_ptr, live = ideals
    work, host_work, size = operators
    cost, source, readers, made_ptr, made, read_ptr, read = values[:7]
    gate_of, path, bounds, before_gate = guide
    times, facts, _, head = store
    devices = limit.shape[0] - 1
    count = head.shape[0]
    atoms = work.shape[0]
    stamp = np.full(count, -1, dtype=np.int64)
    where = np.full(atoms, -1, dtype=np.int64)  # position among the live ones of the ideal
    left = np.zeros(cost.shape[0], dtype=np.int64)  # readers not in the call; or see ``asked``
    inside = np.zeros(atoms, dtype=np.bool_)  # operators of the call
    asked = np.zeros(cost.shape[0], dtype=np.bool_)  # received; ``left`` is the depth that asked
    fresh = np.empty(times.shape[1])
    depth_set = np.empty(atoms + 1, dtype=np.int64)
    depth_slot = np.empty(atoms + 1, dtype=np.int64)
    depth_op = np.empty(atoms + 1, dtype=np.int64)
    load = np.zeros(atoms + 1)
    sure = np.zeros(atoms + 1)  # work and receives alone: they never shrink
    held = np.zeros(atoms + 1)
    need = np.zeros(atoms + 1, dtype=np.int64)
    last = np.zeros(atoms + 1, dtype=np.int64)  # first gate that all of the call comes before
    for here in range(span[0], min(span[1], count - 1)):
        if head[here] < 0:
            continue
        first, wide_here = live_ptr[here], live_ptr[here + 1] - live_ptr[here]
        where[:] = -1
        for k in range(wide_here):
            where[live[first + k]] = k
        depth = 0
        depth_set[0] = here
        depth_slot[0] = next_ptr[here]
        load[0], sure[0], held[0], need[0] = 0.0, 0.0, 0.0, 0
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
                        elif asked[v] and left[v] == depth:
                            asked[v] = False
                depth -= 1
                continue
            slot = depth_slot[depth]
            depth_slot[depth] += 1
            i, there = next_op[slot], next_set[slot]
            gate = gate_of[there]
            gone = live_ptr[there + 1] - live_ptr[there]
            if depth == 0 and host_work[i] < np.inf:  # on a host
                label = head[here]
                while label >= 0:
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
                    number = facts[label, 0]
                    if hopeful(reach, fresh[0], gate, number, bounds, limit) and insert(
                        store, there, used, number, reach, width, fresh, gone + 1, gate, bounds,
                        dropped,
                    ):  # fmt: skip
                        facts[used, 2] = label
                        facts[used, 3] = here
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
                    if not asked[v]:
                        asked[v] = True
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
            aim = gate if last[new] <= gate else bounds.shape[0] - 1
            label = head[here]
            while label >= 0:
                number = facts[label, 0]
                begin = 0.0
                for k in range(wide_here):
                    if need[new] >> k & 1:
                        begin = max(begin, times[label, 1 + k])
                least = begin + sure[new]
                if number >= devices or not hopeful(least, least, aim, number, bounds, limit):
                    label = facts[label, 1]
                    continue
                hopeless = False
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
                number += 1
                if hopeful(reach, max(fresh[0], end), gate, number, bounds, limit) and insert(
                    store, there, used, number, reach, width, fresh, gone + 1, gate, bounds,
                    dropped,
                ):  # fmt: skip
                    facts[used, 2] = label
                    facts[used, 3] = here
                    used += 1
                label = facts[label, 1]
            if hopeless:
                depth_slot[new] = next_ptr[there + 1]
    return used


@compiled
def drop_all(store, begin, guide, dropped):
    """Take down what the labels of all ideals from ``begin`` on could have led to."""
    times, facts, rank, head = store
    gate_of, _, bounds, _ = guide
    for ideal in range(begin, head.shape[0] - 1):
        label = head[ideal]
        while label >= 0:
            note(rank[label], times[label, 0], gate_of[ideal], facts[label, 0], bounds, dropped)
            label = facts[label, 1]
