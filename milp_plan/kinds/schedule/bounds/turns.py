"""Bound from colocation groups on one device: one machine with heads and tails."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from milp_plan.core.bound import Bound

from .heads import Windows


class Turn(NamedTuple):
    """Least start of an operator, ticks that must pass after it stops, and its ticks."""

    head: int
    tail: int
    ticks: int


def turns_bound(windows: Windows) -> Bound | None:
    """Return the one-machine bound of groups; ``None`` where no group has two operators.

    Proof: the operators of a group run on one site, whatever type it is of, and there one at a
    time. There each starts no earlier than its least head in states on that type, takes at least
    its least ticks in those, and its least tail passes after it stops. So the makespan is at
    least the optimum of one machine with these heads and tails, and at least its optimum where
    operators may be interrupted (:func:`interrupted`). The least over the types of sites counts.
    """
    frame = windows.frame
    best, worst = -1, -1
    for unit, members in enumerate(frame.units):
        if len(members) < 2:
            continue
        types = {state.site for state in frame.states[members[0]]}
        value = min(interrupted(_turns(windows, members, site)) for site in types)
        if value > best:
            best, worst = value, unit
    if worst < 0:
        return None
    name = frame.unit_names[worst]
    return Bound(
        "turns of a group",
        best * windows.tick,
        f"all of {name!r} on one device, after what comes before and before what comes after",
    )


def _turns(windows: Windows, members: Iterable[int], site: int) -> list[Turn]:
    """Return the members on a type of sites that all of them can use, in units of the windows."""
    turns = []
    for number in members:
        here = [
            (head, tail, state.duration // windows.tick)
            for head, tail, state in zip(
                windows.heads[number],
                windows.tails[number],
                windows.frame.states[number],
                strict=True,
            )
            if state.site == site
        ]
        turns.append(Turn(*map(min, zip(*here, strict=True))))
    return turns


def interrupted(turns: Iterable[Turn]) -> int:
    """Return the least end of all tails on one machine, if operators may be interrupted.

    Whatever is there with the longest tail runs (Jackson 1955; Carlier, European Journal of
    Operational Research 11, 1982): exchanging two pieces that are not in this order never makes
    a tail end later.
    """
    coming = sorted(turns)
    waiting: list[tuple[int, int]] = []  # minus the tail, ticks left
    time = end = at = 0
    while at < len(coming) or waiting:
        if not waiting:
            time = max(time, coming[at].head)
        while at < len(coming) and coming[at].head <= time:
            heappush(waiting, (-coming[at].tail, coming[at].ticks))
            at += 1
        tail, left = waiting[0]
        until = coming[at].head if at < len(coming) else None
        if until is None or time + left <= until:
            heappop(waiting)
            time += left
            end = max(end, time - tail)
        else:
            heapreplace(waiting, (tail, left - (until - time)))
            time = until
    return end
