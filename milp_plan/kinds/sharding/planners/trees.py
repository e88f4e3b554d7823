"""Tree moves: optimise the labels of a random induced tree by dynamic programming.

Given all other labels and a price on memory at each row, the best labels of an induced
tree follow exactly. Prices at rows that overflow rise until the result fits or the move is dropped.
Such moves are block moves of MAP inference (tree sampling: Hamze and de Freitas, UAI 2004), with
the rows of memory relaxed within the move.
"""

# ruff: noqa: PLR0917, C901, PLR0912, PLR0915 (compiled loops over arrays)

from __future__ import annotations

import numpy as np

from milp_plan.core.compiled import compiled, copy_into

from ..labelling import Integers
from .graph import Floats, Graph

RETRIES = 7
"""Number of price rises of a move before it is dropped."""


@compiled
def pair_cost(g: Graph, e: int, first: int, second: int) -> float:
    """Return the cost of an edge."""
    b = g.ends[e, 1]
    width = g.offsets[b + 1] - g.offsets[b]
    return float(g.table[g.table_offsets[e] + first * width + second])


@compiled
def total_cost(g: Graph, labels: Integers) -> float:
    """Return the cost of a choice."""
    total = 0.0
    for i in range(len(labels)):
        total += g.cost[g.offsets[i] + labels[i]]
    for e in range(len(g.ends)):
        total += pair_cost(g, e, labels[g.ends[e, 0]], labels[g.ends[e, 1]])
    return total


@compiled
def add_usage(g: Graph, i: int, label: int, sign: float, change: Floats) -> None:
    """Add what a label uses to differences of neighbouring rows."""
    width = g.part_offsets[i + 1] - g.part_offsets[i]
    for p in range(width):
        used = sign * g.usage[g.use_offsets[i] + label * width + p]
        change[g.parts[g.part_offsets[i] + p, 0]] += used
        change[g.parts[g.part_offsets[i] + p, 1]] -= used


@compiled
def load_of(g: Graph, labels: Integers) -> Floats:
    """Return the bytes in use at each row."""
    change = np.zeros(len(g.capacity) + 1)
    for i in range(len(labels)):
        add_usage(g, i, labels[i], 1.0, change)
    for r in range(len(g.capacity)):
        change[r + 1] += change[r]
    return change[: len(g.capacity)]


@compiled
def excess_of(load: Floats, capacity: Floats) -> float:
    """Return the overflow of all rows together."""
    total = 0.0
    for r in range(len(capacity)):
        total += max(0.0, load[r] - capacity[r])
    return total


@compiled
def _grow(
    g: Graph, root: int, limit: int, seen: Integers, stamp: int, order: Integers, up: Integers,
    via: Integers, frontier: Integers,
) -> int:  # fmt: skip
    """Grow an induced tree from a root; return its size.

    ``seen`` counts chosen neighbours as ``stamp + count``; chosen operators have ``stamp + 1000``.
    """
    size, waiting = 0, 1
    frontier[0] = root
    seen[root] = stamp
    while waiting and size < limit:
        pick = np.random.randint(waiting)
        i = frontier[pick]
        waiting -= 1
        frontier[pick] = frontier[waiting]
        if seen[i] > stamp + 1:
            continue
        seen[i] = stamp + 1000
        order[size] = i
        up[i], via[i] = -1, -1
        size += 1
        for q in range(g.starts[i], g.starts[i + 1]):
            j = g.neighbours[q]
            if seen[j] >= stamp + 1000:
                up[i], via[i] = j, g.edges[q]
            elif seen[j] < stamp:
                seen[j] = stamp + 1
                frontier[waiting] = j
                waiting += 1
            else:
                seen[j] += 1
    return size


@compiled
def _own_costs(
    g: Graph, i: int, labels: Integers, seen: Integers, chosen: int, sums: Floats, factor: float,
    more: Floats, out: Floats,
) -> None:  # fmt: skip
    """Return the cost of each label given the neighbours outside of the tree, memory at its price.

    ``sums`` and ``more`` are running sums of prices; the former count ``factor`` times.
    """
    first, count = g.offsets[i], g.offsets[i + 1] - g.offsets[i]
    width = g.part_offsets[i + 1] - g.part_offsets[i]
    copy_into(g.cost[first : first + count], out[first : first + count])
    for p in range(width):
        lo, hi = g.parts[g.part_offsets[i] + p]
        price = factor * (sums[hi] - sums[lo]) + more[hi] - more[lo]
        if price != 0.0:
            for x in range(count):
                out[first + x] += price * g.usage[g.use_offsets[i] + x * width + p]
    for q in range(g.starts[i], g.starts[i + 1]):
        j, e = g.neighbours[q], g.edges[q]
        if seen[j] >= chosen:
            continue
        at = g.table_offsets[e]
        if g.ends[e, 0] == i:
            other = g.offsets[j + 1] - g.offsets[j]
            for x in range(count):
                out[first + x] += g.table[at + x * other + labels[j]]
        else:
            for x in range(count):
                out[first + x] += g.table[at + labels[j] * count + x]


@compiled
def _tree_labels(
    g: Graph, order: Integers, size: int, up: Integers, via: Integers, values: Floats,
    found: Integers,
) -> None:  # fmt: skip
    """Dynamic programming over the tree; ``values`` holds each label's cost and is used up."""
    for k in range(size - 1, 0, -1):
        i = order[k]
        j, e = up[i], via[i]
        own, other = g.offsets[i + 1] - g.offsets[i], g.offsets[j + 1] - g.offsets[j]
        at = g.table_offsets[e]
        if g.ends[e, 0] == i:
            for y in range(other):
                best = np.inf
                for x in range(own):
                    best = min(best, values[g.offsets[i] + x] + g.table[at + x * other + y])
                values[g.offsets[j] + y] += best
        else:
            for y in range(other):
                best = np.inf
                for x in range(own):
                    best = min(best, values[g.offsets[i] + x] + g.table[at + y * own + x])
                values[g.offsets[j] + y] += best
    for k in range(size):
        i = order[k]
        own = g.offsets[i + 1] - g.offsets[i]
        j, e = up[i], via[i]
        best, label = np.inf, 0
        for x in range(own):
            cost = values[g.offsets[i] + x]
            if k:
                other = g.offsets[j + 1] - g.offsets[j]
                at = x * other + found[j] if g.ends[e, 0] == i else found[j] * own + x
                cost += g.table[g.table_offsets[e] + at]
            if cost < best:
                best, label = cost, x
        found[i] = label


@compiled
def _difference(
    g: Graph, order: Integers, size: int, seen: Integers, chosen: int, labels: Integers,
    found: Integers,
) -> float:  # fmt: skip
    """Return the cost of the tree's new labels less that of the old ones."""
    total = 0.0
    for k in range(size):
        i = order[k]
        total += g.cost[g.offsets[i] + found[i]] - g.cost[g.offsets[i] + labels[i]]
        for q in range(g.starts[i], g.starts[i + 1]):
            j, e = g.neighbours[q], g.edges[q]
            inside = seen[j] >= chosen
            if inside and j < i:
                continue
            if found[i] == labels[i] and (not inside or found[j] == labels[j]):
                continue
            after = found[j] if inside else labels[j]
            if g.ends[e, 0] == i:
                total += pair_cost(g, e, found[i], after) - pair_cost(g, e, labels[i], labels[j])
            else:
                total += pair_cost(g, e, after, found[i]) - pair_cost(g, e, labels[j], labels[i])
    return total


@compiled
def tree_search(
    g: Graph,
    labels: Integers,
    best_labels: Integers,
    prices: Floats,
    moves: int,
    largest: int,
    slack: float,
    noise: float,
    unit: float,
    seed: int,
) -> tuple[float, float, float, int]:
    """Make tree moves; ``labels`` ends as the current choice, ``best_labels`` as the best.

    Parameters
    ----------
    g
        The problem.
    labels, best_labels
        Current and best choice; both are overwritten.
    prices
        Cost per byte at each row from which moves start.
    moves, largest
        Number of moves, and largest number of operators of one.
    slack
        A move is accepted if it ends at most this far above the best.
    noise
        Mean of the random costs (exponential) added to labels within a move.
    unit
        Least rise of a price, cost per byte.
    seed
        Seed of the random numbers.

    Returns
    -------
    tuple
        Cost and excess of the best choice, cost of the current one, and moves accepted.
    """
    np.random.seed(seed)
    count, rows = len(labels), len(g.capacity)
    seen = np.zeros(count, dtype=np.int64)
    order = np.empty(count, dtype=np.int64)
    up, via = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    frontier = np.empty(count + 1, dtype=np.int64)
    found = labels.copy()
    values = np.empty(len(g.cost))
    change, extra = np.zeros(rows + 1), np.zeros(rows)
    sums, more = np.zeros(rows + 1), np.zeros(rows + 1)
    for r in range(rows):
        sums[r + 1] = sums[r] + prices[r]
    load = load_of(g, labels)
    cost, excess = total_cost(g, labels), excess_of(load, g.capacity)
    best = total_cost(g, best_labels)
    best_excess = excess_of(load_of(g, best_labels), g.capacity)
    if excess < best_excess or (excess == best_excess and cost < best):
        best, best_excess = cost, excess
        copy_into(labels, best_labels)
    accepted, stamp = 0, 1
    for _ in range(moves):
        stamp += 2000
        limit = max(2, int(np.exp(np.random.random() * np.log(max(3, largest)))))
        root = np.random.randint(count)
        size = _grow(g, root, limit, seen, stamp, order, up, via, frontier)
        factor = 0.0 if np.random.random() < 0.25 else np.exp(0.6 * np.random.randn())
        push, raised = 1.0, False
        loud = noise * np.random.random() ** 2 if np.random.random() < 0.5 else 0.0
        for _retry in range(RETRIES):
            for k in range(size):
                i = order[k]
                _own_costs(g, i, labels, seen, stamp + 1000, sums, factor, more, values)
                if loud > 0.0:
                    for x in range(g.offsets[i], g.offsets[i + 1]):
                        values[x] -= loud * np.log(1.0 - np.random.random())
            _tree_labels(g, order, size, up, via, values, found)
            moved = False
            # Rows outside of these do not change; where some overflow, all of them matter.
            first, last = (rows, 0) if excess == 0.0 else (0, rows)
            for k in range(size):
                i = order[k]
                if found[i] != labels[i]:
                    moved = True
                    add_usage(g, i, labels[i], -1.0, change)
                    add_usage(g, i, found[i], 1.0, change)
                    if g.part_offsets[i] < g.part_offsets[i + 1]:
                        first = min(first, g.parts[g.part_offsets[i], 0])
                        last = max(last, g.parts[g.part_offsets[i + 1] - 1, 1])
            if not moved and excess == 0.0:
                break
            held, spill, worst, full = 0.0, 0.0, 0.0, 0
            for r in range(first, last):
                held += change[r]
                change[r] = held
                over = load[r] + held - g.capacity[r]
                if over > 0.0:
                    spill += over
                    worst = max(worst, over)
                    full += 1
            step = _difference(g, order, size, seen, stamp + 1000, labels, found)
            better = spill < excess or (spill == excess and cost + step <= best + slack)
            if moved and better:
                for r in range(first, last):
                    load[r] += change[r]
                    change[r] = 0.0
                change[last] = 0.0
                for k in range(size):
                    labels[order[k]] = found[order[k]]
                cost, excess = cost + step, spill
                accepted += 1
                if excess < best_excess or (excess == best_excess and cost < best):
                    best, best_excess = cost, excess
                    copy_into(labels, best_labels)
                break
            hopeless = excess == 0.0 and (spill == 0.0 or cost + step >= best + slack)
            # Rows that overflow together mostly hold the same operators: they share the rise.
            rise = 0.0 if hopeless else push / (worst * np.sqrt(full))
            for r in range(first, last):
                over = load[r] + change[r] - g.capacity[r]
                if over > 0.0:
                    extra[r] += rise * over * max(unit, factor * prices[r])
                change[r] = 0.0
            change[last] = 0.0
            if hopeless:
                break
            raised = True
            for r in range(rows):
                more[r + 1] = more[r] + extra[r]
            push *= 2.0
        if raised:
            extra[:] = 0.0
            more[:] = 0.0
        for k in range(size):
            found[order[k]] = labels[order[k]]
    return best, best_excess, cost, accepted
