"""Runs of a spine: which stretches of it can stay on one device, if the makespan is at most T.

Proof. Take a plan of makespan at most T, a spine in which every operator takes one device
(:mod:`.spine`), and cut the spine between u_j and u_j+1 wherever the two are on different devices.
Between two cuts lies a *run* i .. j of units on one device. For it, let

- h: no out_i starts before h,
- y: no back_i starts later than T - y,
- e: back_j+1 starts at least e after out_j+1 does, in every micro-batch.

The time from one operator to a later one is at least their separation, and at least the separation
of operators that share no device where a cut lies between them. So out_j+1 starts at least
``out + cut`` after out_i, back_j+1 at least ``ret = out + cut + e`` after out_i, and back_i at
least ``cut' + home`` after back_j+1. The operators of the run take turns on one device, hence T is
at least (heads are sums from the left, tails to the right)

1. h + all work of the run that depends on out_i (``first`` for u_i, ``all`` for what follows);
2. h + work of its ``out`` and ``back`` + y less one ``back_i``;
3. h + ret + entry + all work of the run that depends on back_l+1 of some unit l of it, where
   ``entry`` is the least time from back_j+1 to such work on another device;
4. h + ret + cut' + work of its ``back`` + y less one ``back_i``;
5. h + work of its ``out`` + cut less one ``out_j`` + e + cut' + home + y, because the last ``out``
   of the run still has to go through everything after it;
6. h + ret + cut' + home + y.

A side unit within the run is either on its device, then its work counts and the operators of one
micro-batch between two positions take turns, or it is not, then each micro-batch that goes through
it crosses twice. All these choices are kept, or fewer whose numbers are at most theirs.

If a cut follows the run, the run behind it has at least the h and y that follow, and e is at least
what the runs behind it allow. By induction the h, y and e of the plan are at least the least ones
over all runs that pass the tests, so some chain of runs that pass leads from u_1 to u_n. Where
there is none, every plan is longer than T. (Larger e make fewer runs pass, so this is repeated
until nothing moves.) Runs may share devices, transfers need not wait for each other: only
necessary conditions are used. h + y is followed as a sum too: both grow with the same cuts.
"""

# ruff: noqa: C901, PLR0912, PLR0915 (compiled loops over arrays)

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled

from .frame import Frame
from .heads import Windows
from .spine import ENDLESS, Pairs, Side, Spine, Times, sides
from .tight import both_separations
from .view import Array

WIDEST = 12
"""Positions between which side units are looked at."""
_CHOICES = 8
"""Choices kept for the side units of one stretch."""
_KEPT = 8
"""Choices kept for one run, however many side units it has."""
_SHARES = (0.02, 0.1, 0.3, 1.0)
"""How much the work of units counts when a spine is chosen."""
OUT_DELAY, BACK_DELAY, OUT = range(3)


class Tables(NamedTuple):
    """What the test reads, in ticks; indices are positions.

    ``out[i, j]`` and ``back[i, j]`` are least times from out_i to out_j and from back_j to back_i,
    ``out_cut`` and ``back_cut`` the same when the two positions share no device, ``turn`` from out
    to back. ``work`` holds running sums of the work of units: out, back, late, all. ``first`` is
    the work of a unit that depends on its own out, ``all`` what depends on the out before it.
    ``choices`` are those of side units between ``choice_from[j]`` and j, from ``choice_at[j]`` on.
    """

    out: Array
    back: Array
    out_cut: Array
    back_cut: Array
    turn: Array
    work: Array
    first: Array
    longest: Array
    entry: Array
    heads: Array
    tails: Array
    choice_from: Array
    choice_at: Array
    choices: Array


def run_bounds(
    frame: Frame, windows: Windows, budget: Budget, known: tuple[int, int | None]
) -> Iterator[Bound]:
    """Bounds by runs along some spines, each larger than those before.

    Parameters
    ----------
    frame
        All its operators take one device, or there is no such bound.
    windows
        Heads and tails of the frame or of one that extends it.
    budget
        Gives up with :class:`OutOfTime`.
    known
        Another bound, and the value of a plan or ``None``, in ticks of the problem.
    """
    if not frame.single:
        return
    times = Times(both_separations(frame, budget)[0], windows)
    pairs = Pairs(times)
    best, top = known
    seen: set[tuple[int, ...]] = set()
    for share in _SHARES:
        budget.check()
        spine = pairs.spine(share)
        if spine is None or spine.units in seen:
            continue
        seen.add(spine.units)
        value = _refuted(tables_of(times, spine), best // times.tick, top, times.tick, budget)
        if value * times.tick > best:
            best = value * times.tick
            names = [frame.names[spine.out[end, 0]] for end in (0, -1)]
            yield Bound(
                "runs along a spine",
                best,
                f"{len(spine)} groups on the way from {names[0]!r} to {names[1]!r} and back",
            )


def _refuted(tables: Tables, known: int, top: int | None, tick: int, budget: Budget) -> int:
    """Least makespan, in ticks of the tables, that :func:`possible` does not refute."""
    low, step = known - 1, max(1, known >> 6)
    most = 8 * known if top is None else top // tick
    while low < most:
        budget.check()
        high = min(low + step, most)
        if possible(tables, high, _KEPT):
            break
        low, step = high, 2 * step
    else:
        return low + 1
    while high - low > 1:
        budget.check()
        middle = (low + high) // 2
        if possible(tables, middle, _KEPT):
            high = middle
        else:
            low = middle
    return low + 1


def tables_of(times: Times, spine: Spine) -> Tables:
    """Return the arrays of one spine."""
    size = len(spine)
    out = times.least(times.through, spine.out, spine.out)
    back = times.least(times.through, spine.back, spine.back).T.copy()
    np.fill_diagonal(out, 0)
    np.fill_diagonal(back, 0)
    ticks = times.durations
    late, entry = _late(times, spine)
    first, everything = _after(times, spine)
    loads = [ticks[spine.out].sum(axis=1), ticks[spine.back].sum(axis=1), late, everything]
    work = np.zeros((4, size + 1), dtype=np.int64)
    work[:, 1:] = np.cumsum(np.array(loads), axis=1)
    return Tables(
        out,
        back,
        np.ascontiguousarray(times.least(times.apart, spine.out, spine.out)),
        np.ascontiguousarray(times.least(times.apart, spine.back, spine.back).T),
        times.through[spine.out, spine.back].min(axis=1),
        work,
        np.array(first, dtype=np.int64),
        np.array([ticks[spine.out].max(axis=1), ticks[spine.back].max(axis=1)]),
        entry,
        times.heads[spine.out].min(axis=1),
        (times.tails[spine.back] + ticks[spine.back]).min(axis=1),
        *_choices(times, spine, out, back),
    )


def _after(times: Times, spine: Spine) -> tuple[list[int], list[int]]:
    """Work of each unit that depends on its own ``out``, and on the one before it."""
    sums: list[list[int]] = [[], []]
    for position, unit in enumerate(spine.units):
        members = np.array(times.frame.units[unit], dtype=np.intp)
        for found, root in zip(sums, (position, max(0, position - 1)), strict=True):
            after = times.through[np.ix_(spine.out[root], members)] >= 0
            found.append(int(times.durations[members[after.any(axis=0)]].sum()))
    return sums[0], sums[1]


def _late(times: Times, spine: Spine) -> tuple[list[int], Array]:
    """Work of each unit that depends on the way back, and entries."""
    through, size = times.through, len(spine)
    late: list[int] = []
    behind: list[np.ndarray] = []
    entry = np.full(size, ENDLESS, dtype=np.int64)
    for position, unit in enumerate(spine.units):
        members = np.array(times.frame.units[unit], dtype=np.intp)
        before = spine.back[min(position + 1, size - 1)]
        behind.append(members[(through[np.ix_(before, members)] >= 0).any(axis=0)])
        late.append(int(times.durations[behind[-1]].sum()))
        if position + 1 < size:
            found = np.concatenate(behind)
            known = through[np.ix_(before, found)] >= 0
            ways = np.where(known, times.apart[np.ix_(before, found)], ENDLESS)
            entry[position] = ways.min(initial=ENDLESS)
    return late, entry


def _choices(times: Times, spine: Spine, out: Array, back: Array) -> tuple[Array, Array, Array]:
    """What can be done with the side units of each stretch."""
    size = len(spine)
    rows: list[Array] = []
    ends: dict[int, tuple[int, Array]] = {}
    for first, last, group in _stretches(sides(times, spine, WIDEST)):
        ends[last] = first, _combined(times, spine, (first, last), group, (out, back))
    start = np.full(size, -1, dtype=np.int64)
    at = np.zeros(size + 1, dtype=np.int64)
    for position in range(size):
        if position in ends:
            start[position], found = ends[position]
            rows.append(found)
        at[position + 1] = sum(map(len, rows))
    empty = np.zeros((0, 6), dtype=np.int64)
    return start, at, np.concatenate([empty, *rows])


def _stretches(found: Iterable[Side]) -> list[tuple[int, int, list[Side]]]:
    """Join side units whose stretches overlap; leave out what would make one too long."""
    joined: list[tuple[int, int, list[Side]]] = []
    for side in sorted(found, key=lambda entry: (entry.last - entry.first, entry.first)):
        touching = [s for s in joined if s[0] < side.last and side.first < s[1]]
        first = min([side.first, *(s[0] for s in touching)])
        last = max([side.last, *(s[1] for s in touching)])
        if last - first <= 2 * WIDEST:
            joined = [s for s in joined if s not in touching]
            joined.append((first, last, [side, *(x for s in touching for x in s[2])]))
    return joined


def _combined(
    times: Times, spine: Spine, ends: tuple[int, int], group: list[Side], steps: tuple[Array, Array]
) -> Array:
    """Delays and work of the ways to put side units on the device of the spine or not."""
    first, last = ends
    out, back = steps
    plain = [sum(int(step[at, at + 1]) for at in range(first, last)) for step in steps]
    own = [
        int(times.durations[spine.out[first:last]].sum(axis=0).min()),
        int(times.durations[spine.back[first + 1 : last + 1]].sum(axis=0).min()),
    ]
    # Columns: longest way by a unit that is away, own work of a micro-batch, out and back; work.
    rows = np.zeros((1, 8), dtype=np.int64)
    rows[0, 1], rows[0, 3] = own
    for side in sorted(group, key=lambda entry: -entry.all):
        there, home = rows.copy(), rows.copy()
        for column, step, way in ((0, out, side.out_away), (2, back, side.back_away)):
            if way > 0:
                through = int(step[first, side.first]) + way + int(step[side.last, last])
                there[:, column] = np.maximum(there[:, column], min(through, ENDLESS))
        home[:, 1] += side.out_one
        home[:, 3] += side.back_one
        home[:, 4:] += np.array([side.out, side.back, side.late, side.all])
        both = np.concatenate([there, home])
        rows = both[: thin(both, len(both), 4 * _CHOICES)]
    found = np.zeros((len(rows), 6), dtype=np.int64)
    found[:, OUT_DELAY] = np.maximum(0, rows[:, :2].max(axis=1) - plain[0])
    found[:, BACK_DELAY] = np.maximum(0, rows[:, 2:4].max(axis=1) - plain[1])
    found[:, OUT:] = rows[:, 4:]
    return found[: thin(found, len(found), _CHOICES)]


@compiled
def thin(rows: Array, count: int, most: int) -> int:
    """Keep at most ``most`` rows of which none is at least another, in place; return how many.

    Where more are left, two become one with the smaller numbers of both.
    """
    width = rows.shape[1]
    kept = 0
    for a in range(count):
        beaten = False
        for b in range(kept):
            least = True
            for c in range(width):
                if rows[b, c] > rows[a, c]:
                    least = False
                    break
            if least:
                beaten = True
                break
        if beaten:
            continue
        left = 0
        for b in range(kept):
            least = True
            for c in range(width):
                if rows[a, c] > rows[b, c]:
                    least = False
                    break
            if not least:
                if left != b:
                    for c in range(width):
                        rows[left, c] = rows[b, c]
                left += 1
        if left != a:
            for c in range(width):
                rows[left, c] = rows[a, c]
        kept = left + 1
    while kept > most:
        best, at, other = 2**62, 0, 1
        for a in range(kept):
            for b in range(a + 1, kept):
                loss = 0
                for c in range(width):
                    loss += abs(rows[a, c] - rows[b, c]) >> 4
                if loss < best:
                    best, at, other = loss, a, b
        for c in range(width):
            rows[at, c] = min(rows[at, c], rows[other, c])
            rows[other, c] = rows[kept - 1, c]
        kept -= 1
    return kept


@compiled
def possible(t: Tables, limit: int, most: int) -> bool:
    """Whether runs can lead through the whole spine within a makespan (see above).

    Parameters
    ----------
    t
        Of one spine.
    limit
        Makespan, in ticks.
    most
        Choices kept for one run; more are slower and stronger.
    """
    size = len(t.turn)
    endless = 2**59
    inner = t.turn.copy()
    steps = np.zeros((2, size), dtype=np.int64)
    for j in range(1, size):
        steps[0, j] = steps[0, j - 1] + t.out[j - 1, j]
        steps[1, j] = steps[1, j - 1] + t.back[j - 1, j]
    widest = 1
    for j in range(size):
        widest = max(widest, t.choice_at[j + 1] - t.choice_at[j])
    rows = np.zeros((most + 1, 6), dtype=np.int64)
    wider = np.zeros((most * widest + 1, 6), dtype=np.int64)
    through = np.empty((size, size), dtype=np.int64)
    for _ in range(12):
        h = np.full(size, endless)
        y = np.full(size, endless)
        both = np.full(size, endless)
        h[0], y[0], both[0] = t.heads[0], t.tails[0], t.heads[0] + t.tails[0]
        through[:, :] = endless
        for i in range(size):
            if h[i] >= endless:
                continue
            hy = max(both[i], h[i] + y[i])
            rest = hy - t.longest[1, i]
            count = 1
            rows[0, :] = 0
            for j in range(i, size):
                if t.choice_from[j] >= i:
                    wide = 0
                    for a in range(count):
                        for b in range(t.choice_at[j], t.choice_at[j + 1]):
                            for c in range(6):
                                wider[wide, c] = rows[a, c] + t.choices[b, c]
                            if h[i] + wider[wide, 5] <= limit and hy + wider[wide, 0] <= limit:
                                wide += 1
                    count = thin(wider, wide, most)
                    rows[:count] = wider[:count]
                w_out = t.work[0, j + 1] - t.work[0, i]
                w_back = t.work[1, j + 1] - t.work[1, i]
                w_late = t.work[2, j + 1] - t.work[2, i]
                w_all = t.first[i] + t.work[3, j + 1] - t.work[3, i + 1]
                left = 0
                best_out, best_back, best = endless, endless, endless
                for a in range(count):
                    here_out, here_back = w_out + rows[a, 2], w_back + rows[a, 3]
                    if h[i] + w_all + rows[a, 5] > limit or rest + here_out + here_back > limit:
                        continue
                    out = max(t.out[i, j], steps[0, j] - steps[0, i] + rows[a, 0])
                    home = max(t.back[i, j], steps[1, j] - steps[1, i] + rows[a, 1])
                    if hy + out + t.turn[j] + home > limit:
                        continue
                    for c in range(6):
                        rows[left, c] = rows[a, c]
                    left += 1
                    late = w_late + rows[a, 4]
                    if j == size - 1:
                        if h[i] + out + t.turn[j] + late > limit:
                            continue
                        if rest + out + t.turn[j] + here_back > limit:
                            continue
                    else:
                        ret = max(out + t.out_cut[j, j + 1], t.out_cut[i, j + 1]) + inner[j + 1]
                        back = max(home + t.back_cut[j, j + 1], t.back_cut[i, j + 1])
                        gap = t.back_cut[j, j + 1]
                        if hy + ret + back > limit or h[i] + ret + t.entry[j] + late > limit:
                            continue
                        if rest + ret + gap + here_back > limit:
                            continue
                        tail = t.out_cut[j, j + 1] - t.longest[0, j] + inner[j + 1] + back
                        if hy + here_out + tail > limit:
                            continue
                    best_out, best_back = min(best_out, out), min(best_back, home)
                    best = min(best, out + home)
                count = left
                if count == 0:
                    break
                through[i, j] = best
                if best < endless and j < size - 1:
                    nh = max(h[i] + best_out + t.out_cut[j, j + 1], h[i] + t.out_cut[i, j + 1])
                    ny = max(y[i] + best_back + t.back_cut[j, j + 1], y[i] + t.back_cut[i, j + 1])
                    nh, ny = max(nh, t.heads[j + 1]), max(ny, t.tails[j + 1])
                    sums = hy + best + t.out_cut[j, j + 1] + t.back_cut[j, j + 1]
                    sums = max(sums, hy + t.out_cut[i, j + 1] + t.back_cut[i, j + 1])
                    h[j + 1], y[j + 1] = min(h[j + 1], nh), min(y[j + 1], ny)
                    both[j + 1] = min(both[j + 1], max(sums, nh + ny))
        moved = False
        for i in range(size - 1, -1, -1):
            least = endless
            if through[i, size - 1] < endless:
                least = max(t.turn[i], through[i, size - 1] + t.turn[size - 1])
            for j in range(i, size - 1):
                if through[i, j] < endless and inner[j + 1] < endless:
                    cut = t.out_cut[j, j + 1] + t.back_cut[j, j + 1]
                    far = t.out_cut[i, j + 1] + t.back_cut[i, j + 1]
                    least = min(least, max(through[i, j] + cut, far) + inner[j + 1])
            if least > inner[i]:
                inner[i] = min(least, endless)
                moved = True
        if inner[0] >= endless:
            return False
        if not moved:
            break
    return True
