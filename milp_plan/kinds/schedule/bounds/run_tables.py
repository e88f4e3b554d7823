"""A spine as arrays for the test of :mod:`.runs`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .run_choices import choices_of
from .spine import ENDLESS, Numbers, Spine, Times
from .view import Array

_ENDS = 8
"""Most tails that are considered."""


class SpineTables(NamedTuple):
    """Arrays of the test, in ticks; indices are positions.

    ``out[i, j]`` and ``back[i, j]`` are least times from out_i to out_j and from back_j to back_i,
    ``out_cut`` and ``back_cut`` the same when the two positions share no device, ``turn`` from out
    to back. For each colour of devices, ``work`` holds running sums of units: out, back, late, all,
    how much longer their outs and their backs last than at least, bytes. ``first`` is the work of
    a unit that depends on its own out, ``all`` what depends on the out before it. ``beside`` are
    bytes that a unit needs beside lasting ones while it runs, ``room`` is what a device has.
    ``held`` is the work of operators whose tail is at least one of ``ends``: of what depends on the
    out of the unit itself, of the one before it, and on the way back. ``choices`` are those of side
    units between ``choice_from[j]`` and j, from ``choice_at[j]`` on.
    """

    out: Array
    back: Array
    out_cut: Array
    back_cut: Array
    turn: Array
    work: Array
    first: Array
    beside: Array
    room: Array
    ends: Array
    held: Array
    longest: Array
    entry: Array
    heads: Array
    tails: Array
    choice_from: Array
    choice_at: Array
    choices: Array


def tables_of(times: Times, spine: Spine, widest: int) -> SpineTables:
    """Return the arrays of one spine, with side units of stretches up to some width."""
    size = len(spine)
    ticks = times.durations
    out = times.least(times.through, spine.out, spine.out)
    np.fill_diagonal(out, 0)
    out_cut = times.least(times.apart, spine.out, spine.out)
    if spine.one_way:
        back = back_cut = np.zeros_like(out)
        turn = (times.tails[spine.out] + ticks[spine.out]).min(axis=1)
        tails = longest_back = np.zeros(size, dtype=np.int64)
    else:
        back = times.least(times.through, spine.back, spine.back).T.copy()
        np.fill_diagonal(back, 0)
        back_cut = np.ascontiguousarray(times.least(times.apart, spine.back, spine.back).T)
        turn = times.through[spine.out, spine.back].min(axis=1)
        tails = (times.tails[spine.back] + ticks[spine.back]).min(axis=1)
        longest_back = ticks[spine.back].max(axis=1)
    work, first, entry = _loads(times, spine)
    return SpineTables(
        out,
        back,
        np.ascontiguousarray(out_cut),
        back_cut,
        turn,
        work,
        first,
        *_memory(times, spine),
        *_held(times, spine),
        np.array([ticks[spine.out].max(axis=1), longest_back]),
        entry,
        times.heads[spine.out].min(axis=1),
        tails,
        *choices_of(times, spine, (out, back), widest),
    )


def _loads(times: Times, spine: Spine) -> tuple[Array, Array, Array]:
    """Return the running sums of work by colour, work of first units, entries."""
    size = len(spine)
    behind, entry = _late(times, spine)
    roots = _after(times, spine)
    work = np.zeros((len(times.keys), 7, size + 1), dtype=np.int64)
    first = np.zeros((len(times.keys), size), dtype=np.int64)
    for kind, durations in enumerate(times.slower):
        ticks = np.minimum(durations, ENDLESS // max(1, len(durations)))
        least = np.minimum(ticks, times.durations)
        loads = np.zeros((7, size), dtype=np.int64)
        loads[0] = ticks[spine.out].sum(axis=1)
        loads[4] = (ticks - least)[spine.out].min(axis=1)
        if not spine.one_way:
            loads[1] = ticks[spine.back].sum(axis=1)
            loads[2] = [ticks[members].sum() for members in behind]
            loads[5] = (ticks - least)[spine.back].min(axis=1)
        loads[3] = [ticks[members].sum() for members in roots[1]]
        loads[6] = [times.bytes(unit) for unit in spine.units]
        work[kind, :, 1:] = np.cumsum(loads, axis=1)
        first[kind] = [ticks[members].sum() for members in roots[0]]
    return work, first, entry


def _memory(times: Times, spine: Spine) -> tuple[Array, Array]:
    """Return the bytes beside lasting ones by unit, bytes of a device by colour."""
    frame = times.frame
    beside = [max(map(frame.beside, frame.units[unit])) for unit in spine.units]
    limits = [frame.terrain.memory_bytes[key] for key in times.keys]
    scale = times.byte_unit
    room = [ENDLESS if limit is None else limit // scale for limit in limits]
    return (
        np.array([number // scale for number in beside], dtype=np.int64),
        np.array(room, dtype=np.int64),
    )


def _held(times: Times, spine: Spine) -> tuple[Array, Array]:
    """Return the tails that matter, and running sums of the work that has them."""
    roots, (behind, _) = _after(times, spine), _late(times, spine)
    ticks, tails = times.durations, times.tails
    result: dict[int, int] = {}
    for members in [*roots[0], *behind]:
        order = members[np.argsort(-tails[members], kind="stable")]
        ends = np.cumsum(ticks[order]) + tails[order]
        if len(order):
            end = int(tails[order[int(np.argmax(ends))]])
            result[end] = max(result.get(end, 0), int(ticks[members].sum()))
    heavy = sorted(result, key=lambda end: -result[end])[:_ENDS]
    ends = np.array([end for end in heavy if 0 < end < ENDLESS], dtype=np.int64)
    size = len(spine)
    held = np.zeros((len(ends), 3, size + 1), dtype=np.int64)
    for row, end in enumerate(ends.tolist()):
        for column, listed in enumerate((*roots, behind)):
            for position, members in enumerate(listed):
                held[row, column, position + 1] = ticks[members[tails[members] >= end]].sum()
        held[row, 1:] = np.cumsum(held[row, 1:], axis=1)
    return ends, held


def _after(times: Times, spine: Spine) -> tuple[list[Numbers], list[Numbers]]:
    """Return the members of each unit that depend on its own ``out``, and on the one before it."""
    result: tuple[list[Numbers], list[Numbers]] = ([], [])
    for position, unit in enumerate(spine.units):
        members = np.array(times.frame.units[unit], dtype=np.intp)
        for listed, root in zip(result, (position, max(0, position - 1)), strict=True):
            after = times.through[np.ix_(spine.out[root], members)] >= 0
            listed.append(members[after.any(axis=0)])
    return result


def _late(times: Times, spine: Spine) -> tuple[list[Numbers], Array]:
    """Return the members of each unit that depend on the way back, and entries."""
    through, size = times.through, len(spine)
    behind: list[Numbers] = []
    entry = np.zeros(size, dtype=np.int64)
    if spine.one_way:
        return behind, entry
    for position, unit in enumerate(spine.units):
        members = np.array(times.frame.units[unit], dtype=np.intp)
        before = spine.back[min(position + 1, size - 1)]
        behind.append(members[(through[np.ix_(before, members)] >= 0).any(axis=0)])
        if position + 1 < size:
            result = np.concatenate(behind)
            known = through[np.ix_(before, result)] >= 0
            ways = np.where(known, times.apart[np.ix_(before, result)], ENDLESS)
            entry[position] = ways.min(initial=ENDLESS)
    return behind, entry
