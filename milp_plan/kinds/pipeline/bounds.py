"""Combinatorial lower bounds on the makespan or the span of a shop, each with its proof.

All work on a :class:`~.frames.Frame`: its heads and tails hold in every plan whose clock it is, so
one argument serves both objectives. The span is bounded by the best frame of a device.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from milp_plan.core import Objective
from milp_plan.core.bound import Bound

from .frames import Frame, frames
from .ramps import Ramps
from .shop import Shop

_NEVER = -(10**18)
"""Release (or tail) of a task that nothing constrains."""

Times = list[list[int]]
"""Kind -> ticks of each of its tasks, in the order in which they run."""

Arcs = list[list[tuple[int, int, int]]]
"""Kind -> (other kind, micro-batches back, ticks from start to start)."""


def longest_path(shop: Shop, frame: Frame) -> Bound:
    """Head, length and tail of one task.

    Proof: a task with a head starts no earlier than it, and after its stop there are at least
    ``tail`` ticks to the horizon.
    """
    best = 0, "no task"
    for k, kind in enumerate(shop.kinds):
        head, tail = frame.heads[k], frame.tails[k]
        if head is not None and tail is not None:
            best = max(best, (head + kind.duration + tail, kind.name))
    return Bound("longest path", best[0], f"through {best[1]}")


def head_work_tail(shop: Shop, frame: Frame) -> Bound:
    """Head, work and tail of one machine.

    Proof: none of the machine's kinds with head and tail starts before the least of their heads,
    the machine runs one at a time, and after the last one stops at least the least of their tails
    is left. For the bidirectional placement of p equal stages this is the known bubble of
    (p/2 - 1) F: the middle devices have no earlier head.
    """
    best = 0, "no machine"
    for machine, kinds in enumerate(shop.on_machine):
        rows = [
            (head, shop.kinds[k].duration * shop.kinds[k].count, tail)
            for k in kinds
            if (head := frame.heads[k]) is not None and (tail := frame.tails[k]) is not None
        ]
        if rows:
            heads, work, tails = zip(*rows, strict=True)
            best = max(best, (min(heads) + sum(work) + min(tails), shop.machines[machine]))
    return Bound("head, work, tail", best[0], f"of {best[1]}")


def memory_path(shop: Shop, frame: Frame) -> Bound:
    """Longest path with the order within kinds and the arcs that memory forces.

    Proof: micro-batches of a route are identical, so the tasks of a kind may be taken in the
    order in which they run; then the j-th cannot start before the one before it stops. Where
    memory is the limit, the j-th start of a kind waits for an earlier stop (:func:`memory_arcs`).
    Each is an arc between tasks in every plan, and a path of arcs cannot be shortened. With one
    stage on the device, room for L activations, and a latency R from a forward pass to the end of
    its weight gradient, the path through every L-th micro-batch has one R each: in the long run
    R / L ticks per micro-batch.
    """
    released, tails = releases(shop, frame)
    best = 0, "no task"
    for k, kind in enumerate(shop.kinds):
        for release, tail in zip(released[k], tails[k], strict=True):
            if min(release, tail) >= 0:
                best = max(best, (release + kind.duration + tail, kind.name))
    return Bound("memory path", best[0], f"through {best[1]}")


def one_machine(shop: Shop, frame: Frame) -> Bound:
    """Preemptive one-machine schedule with the releases and tails of every task (Jackson).

    Proof: on each machine tasks run one at a time, each after its release and with its tail to
    go (both hold in every plan: :func:`memory_path`). Letting tasks be interrupted only helps,
    and then running the released task with the longest tail at any time is optimal (Jackson
    1955; preemptive version of Carlier 1982).
    """
    released, tails = releases(shop, frame)
    best = 0, "no machine"
    for machine, kinds in enumerate(shop.on_machine):
        tasks = [
            (release, shop.kinds[k].duration, tail)
            for k in kinds
            for release, tail in zip(released[k], tails[k], strict=True)
            if min(release, tail) >= 0
        ]
        best = max(best, (_preemptive(tasks), shop.machines[machine]))
    return Bound("one machine", best[0], f"{best[1]}, preemptive")


def ramps(shop: Shop, frame: Frame) -> Bound:
    """Work of a machine, and its idle ticks while memory fills and while it empties.

    Proof: tasks of a kind are taken in the order in which they run, so the j-th of each kind are
    one micro-batch, and at a moment when the machine runs nothing it has done a *state* of it: a
    set of its tasks there that holds with each the ones before it. Let t be a time, K the tasks
    of the machine released at t or later (:func:`releases`), and s the first start of one in K.
    Then s >= t, and what the machine did before s are states without K that fit into the memory
    together: at most U ticks, so it stood idle for at least t - U before s. U is the linear
    relaxation of that knapsack with one state per micro-batch. From the end it is the same: let K
    be the tasks with a tail of t or more, and e the last stop of one in K. At least t ticks follow
    e, and what is left of the work are the complements of states with all of K that fit.

    Both are idle in one plan, at different times, if s <= e. Otherwise there were a moment at
    which every micro-batch is in a state with all of the second K and none of the first: where
    there is none, or the least bytes of such states do not fit, the two may be added.
    """
    released, tails = releases(shop, frame)
    best = 0, "no machine with a limit"
    for machine, kinds in enumerate(shop.on_machine):
        timed = all(min(row[0], row[-1]) >= 0 for k in kinds for row in (released[k], tails[k]))
        if kinds and timed and shop.limits[machine] is not None:
            ticks = Ramps(shop, machine, released, tails).value()
            best = max(best, (ticks, shop.machines[machine]))
    return Bound("ramps", best[0], f"of {best[1]}, memory filling and emptying")


ALL: tuple[Callable[[Shop, Frame], Bound], ...] = (
    longest_path,
    head_work_tail,
    memory_path,
    one_machine,
    ramps,
)
"""All bounds, cheap ones first."""


def floors(shop: Shop) -> tuple[Bound, ...]:
    """Return every bound on the shop's own objective; for the span, over all devices.

    Times are divided by their greatest common divisor. Proof: some best plan starts only at
    multiples of it (:attr:`~.shop.Shop.tick`), so a bound on these plans, rounded up to a multiple,
    holds.
    """
    coarse = shop.in_ticks()
    clocks = frames(coarse, shop.objective is Objective.SPAN)
    best = (
        max((bound(coarse, frame) for frame in clocks), key=lambda floor: floor.value)
        for bound in ALL
    )
    return tuple(replace(floor, value=floor.value * shop.tick) for floor in best)


def best_floor(shop: Shop) -> Bound:
    """Return the highest of :func:`floors`; of equal ones, the simplest argument."""
    return max(floors(shop), key=lambda floor: floor.value)


# -- tasks ---------------------------------------------------------------------------------------


def memory_arcs(shop: Shop) -> list[tuple[int, int, int]]:
    """Return the arcs (kind w, kind a, back): the j-th a starts after the (j - back)-th w stops.

    Kinds of one stage of one route on one device are a *group*. Where they form a chain whose
    bytes, counted along it, never fall below 0 and end at 0, a micro-batch holds at least 0 there
    at any time, and at least h between the start of a and the stop of w, with h the least sum of
    the chain in between. When the j-th a (from 0) starts, j micro-batches have started it before;
    those for which w has not stopped hold h each, and the new one adds alloc(a). If ``limit`` has
    room for ``alloc(a) + h x`` only up to x = b, at least j - b tasks w have stopped, so the one
    numbered j - b - 1 has. A device with any other group gives no arcs.
    """
    arcs: list[tuple[int, int, int]] = []
    for machine, limit in enumerate(shop.limits):
        if limit is None:
            continue
        chains = list(_chains(shop, machine))
        if any(chain is None for chain in chains):
            continue
        for chain in chains:
            arcs += _chain_arcs(shop, chain or [], limit)
    return arcs


def _chains(shop: Shop, machine: int) -> Iterable[list[int] | None]:
    """Yield the groups of a machine in order; ``None`` for one that is no balanced chain."""
    groups: dict[tuple[int, str], list[int]] = {}
    for k in shop.on_machine[machine]:
        groups.setdefault((shop.kinds[k].route, shop.kinds[k].block), []).append(k)
    for group in groups.values():
        if not any(shop.kinds[k].alloc or shop.kinds[k].free for k in group):
            continue
        linked = all(any(x == a for x, _ in shop.before[b]) for a, b in pairwise(group))
        held, least = 0, 0
        for k in group:
            held += shop.kinds[k].alloc - shop.kinds[k].free
            least = min(least, held)
        yield group if linked and held == 0 and least == 0 else None


def _chain_arcs(shop: Shop, chain: list[int], limit: int) -> Iterable[tuple[int, int, int]]:
    for i, a in enumerate(chain):
        before = sum(shop.kinds[k].alloc - shop.kinds[k].free for k in chain[:i])
        own = shop.kinds[a].alloc
        if not own:
            continue
        held = least = before + own
        for w, after in zip(chain[i:], [*chain[i + 1 :], None], strict=True):
            if least > 0 and own + before <= limit:
                yield w, a, (limit - own - before) // least + 1
            held -= shop.kinds[w].free
            least = min(least, held)
            held += shop.kinds[after].alloc if after is not None else 0


def releases(shop: Shop, frame: Frame) -> tuple[Times, Times]:
    """Return release and tail of every task: longest paths over arcs, kind order and memory.

    Both are negative for a task that nothing constrains.
    """
    kinds = shop.kinds
    into: Arcs = [[(k, 1, kind.duration)] for k, kind in enumerate(kinds)]
    out: Arcs = [[(k, 1, kind.duration)] for k, kind in enumerate(kinds)]
    for a, b, lag in shop.arcs:
        into[b].append((a, 0, kinds[a].duration + lag))
        out[a].append((b, 0, lag + kinds[b].duration))
    for w, a, back in memory_arcs(shop):
        into[a].append((w, back, kinds[w].duration))
        out[w].append((a, back, kinds[a].duration))
    order = range(len(kinds))
    counts = [kind.count for kind in kinds]
    released = _longest(counts, into, frame.heads, order)
    # From the end it is the same: arcs stay within a route, so positions count alike from there.
    tails = _longest(counts, out, frame.tails, order[::-1])
    return released, [row[::-1] for row in tails]


def _longest(
    counts: list[int], arcs: Arcs, heads: tuple[int | None, ...], order: Sequence[int]
) -> Times:
    """Return the longest path to every task; ``order`` sorts kinds by arcs that go 0 back."""
    paths: Times = [
        [_NEVER if head is None else head] * n for head, n in zip(heads, counts, strict=True)
    ]
    for j in range(max(counts)):
        for k in order:
            if j >= counts[k]:
                continue
            for a, back, delay in arcs[k]:
                if back <= j:
                    paths[k][j] = max(paths[k][j], paths[a][j - back] + delay)
    return paths


def _preemptive(tasks: list[tuple[int, int, int]]) -> int:
    """Return the length of Jackson's preemptive schedule of (release, duration, tail)."""
    waiting: list[list[int]] = []  # [-tail, ticks left]
    now = best = 0
    pending = sorted(tasks)
    for index, (release, duration, tail) in enumerate(pending):
        now = max(now, release)
        heapq.heappush(waiting, [-tail, duration])
        until = pending[index + 1][0] if index + 1 < len(pending) else None
        while waiting and (until is None or now < until):
            ticks = waiting[0][1] if until is None else min(waiting[0][1], until - now)
            now += ticks
            waiting[0][1] -= ticks
            if not waiting[0][1]:
                best = max(best, now - heapq.heappop(waiting)[0])
    return best
