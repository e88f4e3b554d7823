"""Words on machines: exact times, memory, and the words of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.core import MissingFacetError, Objective, OperatorRun, Plan, Transfer

from .shop import Shop

Words = Sequence[Sequence[int]]
"""Machine -> its kinds in the order in which it runs them; the n-th occurrence of a kind is its
n-th micro-batch."""

Starts = list[list[int]]
"""Kind -> start of each micro-batch, ticks."""


class Deadlock(Exception):
    """Words that wait for each other in a circle; the message names a task that cannot start."""


def times(shop: Shop, words: Words) -> Starts:
    """Return the earliest start of every task when machines follow their words.

    Memory is ignored (see :func:`memory_peaks`): it depends on the words alone.

    Returns
    -------
    list of list of int
        ``starts[kind][position]``, ticks.

    Raises
    ------
    Deadlock
        There is no such schedule, or a word does not hold every task once.
    """
    kinds, before = shop.kinds, shop.before
    durations = [kind.duration for kind in kinds]
    starts: Starts = [[] for _ in kinds]
    cursor = [0] * len(words)
    free = [0] * len(words)
    waiting: list[list[int]] = [[] for _ in kinds]  # machines that wait for a kind
    ready = list(range(len(words)))
    while ready:
        machine = ready.pop()
        word, at, now = words[machine], cursor[machine], free[machine]
        while at < len(word):
            kind = word[at]
            row = starts[kind]
            number = len(row)
            begin = now
            for a, lag in before[kind]:
                if len(starts[a]) <= number:
                    waiting[a].append(machine)
                    begin = -1
                    break
                stop = starts[a][number] + durations[a] + lag
                begin = max(begin, stop)
            if begin < 0:
                break
            row.append(begin)
            now = begin + durations[kind]
            at += 1
            if waiting[kind]:
                ready += waiting[kind]
                waiting[kind] = []
        cursor[machine], free[machine] = at, now
    for entry, row in zip(kinds, starts, strict=True):
        if len(row) != entry.count:
            raise Deadlock(f"{entry.name} runs {len(row)} of {entry.count} times")
    return starts


def value_of(shop: Shop, starts: Sequence[Sequence[int]]) -> int:
    """Return the objective of a schedule, ticks: makespan, or the longest span of a device."""
    # tasks of a kind start in micro-batch order, so each row is sorted
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for kind, row in zip(shop.kinds, starts, strict=True):
        machine = kind.machine
        if machine >= shop.num_devices or not row:
            continue
        first[machine] = min(first.get(machine, row[0]), row[0])
        last[machine] = max(last.get(machine, 0), row[-1] + kind.duration)
    if shop.objective is Objective.SPAN:
        return max(last[machine] - first[machine] for machine in last)
    return max(last.values())


def memory_peaks(shop: Shop, words: Words) -> list[int]:
    """Return the largest number of bytes of copies on each machine, over its word."""
    peaks = []
    for word in words:
        held = peak = 0
        for kind in word:
            held += shop.kinds[kind].alloc
            peak = max(peak, held)
            held -= shop.kinds[kind].free
        peaks.append(peak)
    return peaks


def fits(shop: Shop, words: Words) -> bool:
    """Return whether the words meet every memory limit."""
    return all(
        limit is None or peak <= limit
        for peak, limit in zip(memory_peaks(shop, words), shop.limits, strict=True)
    )


def words_of(shop: Shop, plan: Plan) -> list[list[int]]:
    """Return the words of a plan with a schedule; tasks of a kind count in order of their starts.

    Renamed to micro-batch order the words are at least as good as the plan (see :mod:`.shop`).
    """
    runs = {run.operator: _ends(run) for run in plan.runs}
    sent = {(t.value, "->".join([*t.source, *t.target])): t for t in plan.transfers}
    entries: list[list[tuple[int, int, int]]] = [[] for _ in shop.machines]
    for k, kind in enumerate(shop.kinds):
        for member in kind.members:
            if kind.machine < shop.num_devices:
                start, stop = runs[member]
            else:
                start, stop = _ends(sent[member, shop.machines[kind.machine]])
            entries[kind.machine].append((start, stop, k))
    return [[k for _, _, k in sorted(row)] for row in entries]


def _ends(task: OperatorRun | Transfer) -> tuple[int, int]:
    if task.start_ticks is None or task.stop_ticks is None:
        raise MissingFacetError("the plan has no schedule")
    return task.start_ticks, task.stop_ticks
