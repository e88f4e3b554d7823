"""Runs of a spine: which stretches of it fit on one device if the makespan is at most T.

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
   ``entry`` is the least time from back_j+1 to such work on another device; here and in 1. also
   with the work whose tail is at least q alone, + q;
4. h + ret + cut' + work of its ``back`` + y less one ``back_i``;
5. h + work of its ``out`` + cut less one ``out_j`` + e + cut' + home + y, because the last ``out``
   of the run still has to go through everything after it;
6. h + ret + cut' + home + y.

All this holds for each colour of the device with the durations there, and the persistent bytes of
the run's units fit beside what any of its operators needs while it runs. One way, the end of the
plan stands for every ``back``: y is 0, and e the time from out_j+1 to the end.

A side unit within the run is either on its device, then its work counts and the operators of one
micro-batch between two positions take turns, or it is not, then each micro-batch that goes through
it crosses twice. All these choices are kept, or fewer whose numbers are at most theirs.

Operators a of the run and c of the next one share no device, so c starts at least their separation
later: values that skip over the cut must cross as well. If a cut follows the run, the run behind it
has at least the h and y that follow, and e is at least what the runs behind it allow. By induction
the h, y and e of the plan are at least the least ones over all runs that pass the tests, so some
chain of runs that pass leads from u_1 to u_n. Where there is none, every plan is longer than T.
(Larger e make fewer runs pass, so this is repeated until nothing moves.) Runs may share devices,
transfers need not wait for each other: only necessary conditions are used. h + y is followed as a
sum too: both grow with the same cuts.
"""

# ruff: noqa: C901, PLR0912, PLR0915 (compiled loops over arrays)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import compiled, copy_into

from .frame import Frame
from .heads import Windows
from .run_choices import WIDTHS, thin
from .run_tables import SpineTables, tables_of
from .spine import ENDLESS, Pairs, Spine, Times
from .tight import Known, both_separations

_KEPT = 8
"""Most choices stored for one run, whatever the number of its side units."""
_SHARES = (0.02, 0.1, 0.3, 1.0)
"""Weights of the work of units in the choice of spines."""


def run_bounds(
    frame: Frame,
    windows: Windows,
    budget: Budget,
    known: tuple[int, int | None],
    regions: Known | None = None,
) -> Iterator[Bound]:
    """Yield the bounds by runs along some spines, each larger than those before.

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
    regions
        Least times between operators of the frame.
    """
    if not frame.single:
        return
    times = Times(both_separations(frame, budget, regions)[0], windows)
    best, top = known
    for spine, tables in _tables(times, budget):
        value = _refuted(tables, best // times.tick, top, times.tick, budget)
        if value * times.tick > best:
            best = value * times.tick
            names = [frame.names[spine.out[end, 0]] for end in (0, -1)]
            yield Bound(
                "runs along a spine",
                best,
                f"{len(spine)} groups on the way from {names[0]!r} to {names[1]!r}"
                + (" and back" if not spine.one_way else ""),
            )


def _tables(times: Times, budget: Budget) -> Iterator[tuple[Spine, SpineTables]]:
    """Yield spines with narrow and, where they differ, with wide stretches of side units."""
    for spine in _spines(times, budget):
        before: SpineTables | None = None
        for width in WIDTHS:
            tables = tables_of(times, spine, width)
            if before is None or not np.array_equal(tables.choices, before.choices):
                yield spine, tables
            before = tables


def _spines(times: Times, budget: Budget) -> Iterator[Spine]:
    """Yield the different spines, there and back first."""
    for one_way in (False, True):
        pairs = Pairs(times, one_way)
        seen: set[tuple[int, ...]] = set()
        for share in _SHARES:
            budget.check()
            spine = pairs.spine(share)
            if spine is not None and spine.units not in seen:
                seen.add(spine.units)
                yield spine


def _refuted(tables: SpineTables, known: int, top: int | None, tick: int, budget: Budget) -> int:
    """Return the least makespan, in ticks of the tables, that :func:`possible` does not refute."""
    low, step = known - 1, max(1, known >> 6)
    most = ENDLESS // 8 if top is None else top // tick
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


@compiled
def possible(t: SpineTables, limit: int, most: int) -> bool:
    """Return whether runs can lead through the whole spine within a makespan (see above).

    Parameters
    ----------
    t
        Arrays of one spine.
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
    rows = np.zeros((most + 1, 7), dtype=np.int64)
    wider = np.zeros((most * widest + 1, 7), dtype=np.int64)
    through = np.empty((size, size), dtype=np.int64)
    reach = 16
    later = np.empty((2, size, reach), dtype=np.int64)
    at = np.empty((2, size), dtype=np.int64)
    for _ in range(12):
        h = np.full(size, endless)
        y = np.full(size, endless)
        both = np.full(size, endless)
        h[0], y[0], both[0] = t.heads[0], t.tails[0], t.heads[0] + t.tails[0]
        through[:, :] = endless
        later[:, :, :] = endless
        later[:, 0, :] = 0
        for i in range(size):
            if h[i] >= endless:
                continue
            hy = max(both[i], h[i] + y[i])
            rest = hy - t.longest[1, i]
            for kind in range(len(t.room)):
                count, beside = 1, 0
                at_out, at_back = h[i], y[i]
                rows[0, :] = 0
                for j in range(i, size):
                    if t.choice_from[j] >= i:
                        wide = 0
                        for a in range(count):
                            for b in range(t.choice_at[j], t.choice_at[j + 1]):
                                for c in range(7):
                                    wider[wide, c] = rows[a, c] + t.choices[b, c]
                                if h[i] + wider[wide, 5] <= limit and hy + wider[wide, 0] <= limit:
                                    wide += 1
                        count = thin(wider, wide, most)
                        for a in range(count):
                            copy_into(wider[a], rows[a])
                    w_out = t.work[kind, 0, j + 1] - t.work[kind, 0, i]
                    w_back = t.work[kind, 1, j + 1] - t.work[kind, 1, i]
                    w_late = t.work[kind, 2, j + 1] - t.work[kind, 2, i]
                    slow_out = t.work[kind, 4, j] - t.work[kind, 4, i]
                    slow_out += steps[0, j] - steps[0, i]
                    slow_back = t.work[kind, 5, j + 1] - t.work[kind, 5, i + 1]
                    slow_back += steps[1, j] - steps[1, i]
                    if j > i:
                        at_out += t.out[j - 1, j] + t.work[kind, 4, j] - t.work[kind, 4, j - 1]
                        at_back += t.back[j - 1, j] + t.work[kind, 5, j + 1] - t.work[kind, 5, j]
                    if j - i < reach:
                        at_out = max(at_out, later[0, i, j - i])
                        at_back = max(at_back, later[1, i, j - i])
                    beside = max(beside, t.beside[j])
                    room = t.room[kind] - beside + t.work[kind, 6, i] - t.work[kind, 6, j + 1]
                    w_all = t.first[kind, i] + t.work[kind, 3, j + 1] - t.work[kind, 3, i + 1]
                    too_long = False
                    for k in range(len(t.ends)):
                        load = t.held[k, 0, i + 1] + t.held[k, 1, j + 1] - t.held[k, 1, i + 1]
                        if load > 0 and h[i] + load + t.ends[k] > limit:
                            too_long = True
                    if too_long:
                        break
                    left = 0
                    best_out, best_back, best = endless, endless, endless
                    kept_out, kept_back = endless, endless
                    for a in range(count):
                        here_out, here_back = w_out + rows[a, 2], w_back + rows[a, 3]
                        if h[i] + w_all + rows[a, 5] > limit or rest + here_out + here_back > limit:
                            continue
                        if rows[a, 6] > room:
                            continue
                        out = max(t.out[i, j], steps[0, j] - steps[0, i] + rows[a, 0])
                        home = max(t.back[i, j], steps[1, j] - steps[1, i] + rows[a, 1])
                        out, home = max(out, slow_out), max(home, slow_back)
                        start, stop = max(h[i] + out, at_out), max(y[i] + home, at_back)
                        if max(hy + out + home, start + stop) + t.turn[j] > limit:
                            continue
                        kept_out, kept_back = min(kept_out, start), min(kept_back, stop)
                        for c in range(7):
                            rows[left, c] = rows[a, c]
                        left += 1
                        late = w_late + rows[a, 4]
                        if j == size - 1:
                            first = start + t.turn[j]
                            if first + late > limit:
                                continue
                            if rest + out + t.turn[j] + here_back > limit:
                                continue
                            if start + t.turn[j] + here_back + y[i] - t.longest[1, i] > limit:
                                continue
                        else:
                            ret = max(out + t.out_cut[j, j + 1], t.out_cut[i, j + 1]) + inner[j + 1]
                            back = max(home + t.back_cut[j, j + 1], t.back_cut[i, j + 1])
                            gap = t.back_cut[j, j + 1]
                            # When the first comes back, and what is left of the plan then.
                            first = max(start + t.out_cut[j, j + 1] + inner[j + 1], h[i] + ret)
                            end = max(stop + gap, y[i] + back)
                            if max(hy + ret + back, first + end) > limit:
                                continue
                            if first + t.entry[j] + late > limit:
                                continue
                            if rest + ret + gap + here_back > limit:
                                continue
                            if first + gap + here_back + y[i] - t.longest[1, i] > limit:
                                continue
                            tail = t.out_cut[j, j + 1] - t.longest[0, j] + inner[j + 1]
                            if max(hy + back, h[i] + end) + here_out + tail > limit:
                                continue
                        if j < size - 1:
                            first += t.entry[j]
                        too_long = False
                        for k in range(len(t.ends)):
                            load = t.held[k, 2, j + 1] - t.held[k, 2, i]
                            if load > 0 and first + load + t.ends[k] > limit:
                                too_long = True
                        if too_long:
                            continue
                        best_out, best_back = min(best_out, start), min(best_back, stop)
                        best = min(best, out + home)
                    count = left
                    if count == 0:
                        break
                    at[0, j], at[1, j] = kept_out, kept_back
                    through[i, j] = min(through[i, j], best)
                    if best < endless and j < size - 1:
                        nh = max(best_out + t.out_cut[j, j + 1], h[i] + t.out_cut[i, j + 1])
                        ny = max(best_back + t.back_cut[j, j + 1], y[i] + t.back_cut[i, j + 1])
                        nh, ny = max(nh, t.heads[j + 1]), max(ny, t.tails[j + 1])
                        for b in range(j + 1, min(size, j + 1 + reach)):
                            far_out, far_back = nh, ny
                            for a in range(max(i, j - reach), j + 1):
                                far_out = max(far_out, at[0, a] + t.out_cut[a, b])
                                far_back = max(far_back, at[1, a] + t.back_cut[a, b])
                            c = b - j - 1
                            later[0, j + 1, c] = min(later[0, j + 1, c], far_out)
                            later[1, j + 1, c] = min(later[1, j + 1, c], far_back)
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
