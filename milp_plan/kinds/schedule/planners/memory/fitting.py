"""Decisions until a plan fits, at the peak and cheapest bytes first; then useless ones are undone.

Peak-directed greedy: while a device is too full, look at the copies that lie idle across its
fullest instant, and have them made again or brought back before their next reader, those first that
cost the least time for each byte. A way to the host and back is free where it fits into the gap.
Every set of decisions is timed by :mod:`.timing`; then each decision is taken back if the plan
still fits and is no slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget

from .layout import AGAIN, AWAY, BASE, Base, Layout, Place, StoredCopy
from .timing import MemoryProfile, patient_starts, plan_of, starts_of

DEPTH = 40
"""Largest depth of repeated runs for inputs of repeated runs."""

BACK_SHARE = 0.4
"""Part of the time left after the first fitting plan for undoing decisions."""

LISTED = 4
"""Number of cuts of each type that are timed at each step: the cheapest by estimate."""

Choices = dict[tuple[Place, int], str]

Worth = tuple[float, int]
"""Ticks for each byte and tick of excess that goes away, and these, negated: the least is best."""

UNKNOWN: Worth = (-1.0, 0)
NONE: Worth = (float("inf"), 0)
"""Worth of cuts that were not timed yet, and of those that took no excess away when they were."""


class Cut(NamedTuple):
    """Decisions that take bytes away from an instant, and the ticks they are thought to cost."""

    ticks: float
    bytes: int
    choices: Choices

    @property
    def price(self) -> float:
        """Ticks per byte."""
        return self.ticks / self.bytes

    @property
    def name(self) -> frozenset[tuple[tuple[Place, int], str]]:
        """What is decided, to be recognised by."""
        return frozenset(self.choices.items())


@dataclass(frozen=True)
class Fitting:
    """Decisions, timed."""

    choices: Choices
    layout: Layout
    start: list[int]
    profile: MemoryProfile

    @property
    def excess(self) -> int:
        """Bytes above limits times ticks, on all devices."""
        return sum(self.profile.excess().values())

    @property
    def makespan(self) -> int:
        """Stop of the last run."""
        return self.profile.makespan

    def plan(self) -> Plan:
        """Return the plan."""
        return plan_of(self.layout, self.start)


def timed(base: Base, choices: Choices) -> Fitting:
    """Time decisions."""
    layout = Layout(base, choices)
    start = starts_of(layout.tasks)
    if AWAY in choices.values():
        layout.bring_late(start)
        start = starts_of(layout.tasks)
    return Fitting(choices, layout, start, MemoryProfile(base.problem, layout, start))


def patient(base: Base, now: Fitting) -> Fitting | None:
    """The same decisions with tasks that wait for memory; ``None`` where that does not end."""
    if not now.excess:
        return now
    start = patient_starts(base.problem, now.layout)
    if start is None:
        return None
    return Fitting(now.choices, now.layout, start, MemoryProfile(base.problem, now.layout, start))


def fit(problem: PlanningProblem, plan: Plan, budget: Budget, seed: int = 0) -> Fitting | None:
    """Make a plan fit into memory.

    Parameters
    ----------
    problem
        With hosts or recomputable operators.
    plan
        A plan with times in which each operator runs once, whatever memory it needs.
    budget
        For all of it; some is left over.
    seed
        Seed of the order in which decisions are undone.

    Returns
    -------
    Fitting or None
        ``None`` where the greedy found no way, or no time.
    """
    base = Base(problem, plan)
    result = _descend(base, budget)
    if result is None:
        return None
    rest = budget.part("take back", BACK_SHARE, of_limit=False)
    return _taken_back(base, result, rest, Random(seed))


def relieved(base: Base, budget: Budget) -> Fitting:
    """Decide until a plan fits or no single cut helps; then too much is still held at times."""
    now, worths = timed(base, {}), dict[Any, Worth]()
    while now.excess and not budget.over:
        better = _better(base, now, _cuts(base, now), budget, worths)
        if better is None:
            break
        now = better
    return now


def _descend(base: Base, budget: Budget) -> Fitting | None:
    """Add decisions until a plan fits; return the best one on the way if tasks wait for memory.

    Where no single cut helps, the cheapest is taken all the same while no plan is known: tasks
    that wait for memory may need several at once.
    """
    now, worths = timed(base, {}), dict[Any, Worth]()
    best = patient(base, now)
    while now.excess and not budget.over:
        cuts = _cuts(base, now)
        better = _better(base, now, cuts, budget, worths)
        if better is None and (best is not None or not cuts):
            break
        now = better or timed(base, now.choices | cuts[0].choices)
        waiting = patient(base, now)
        if waiting is None or now.layout.wasteful:
            continue
        if best is None or waiting.makespan < best.makespan:
            best = waiting
    return best


def _better(
    base: Base, now: Fitting, cuts: list[Cut], budget: Budget, worths: dict[Any, Worth]
) -> Fitting | None:
    """Return the best of a few cuts; of all, where none of those helps."""
    return _best(base, now, _shortlist(cuts), budget, worths) or _best(
        base, now, cuts, budget, worths
    )


def _best(
    base: Base, now: Fitting, cuts: list[Cut], budget: Budget, worths: dict[Any, Worth]
) -> Fitting | None:
    """Return what lowers the excess at the least time for each byte and tick of it.

    Cuts lose worth as others are made, as a rule. So they are timed in the order of what they were
    worth last, until none that is left was worth more than the best of those timed now (Minoux
    1978, the accelerated greedy).
    """
    best = NONE
    result: Fitting | None = None
    for cut in sorted(cuts, key=lambda cut: worths.get(cut.name, UNKNOWN)):
        if result is not None and best <= worths.get(cut.name, UNKNOWN):
            break
        if budget.over:
            return None
        after = timed(base, now.choices | cut.choices)
        gain = now.excess - after.excess
        worth = NONE
        if gain > 0 and not after.layout.wasteful:
            worth = max(0, after.makespan - now.makespan) / gain, -gain
            if worth < best:
                best, result = worth, after
        worths[cut.name] = worth
    return result


def _shortlist(cuts: list[Cut]) -> list[Cut]:
    """Return the cheapest of each way, and the largest."""
    result: dict[int, Cut] = {}
    for way in (AGAIN, AWAY):
        mine = [cut for cut in cuts if next(iter(cut.choices.values())) == way]
        few = [*mine[:LISTED], *sorted(mine, key=lambda cut: -cut.bytes)[:2]]
        result |= {id(cut): cut for cut in few}
    return list(result.values())


def _fullest(now: Fitting) -> str:
    excess = now.profile.excess()
    return max(
        excess, key=lambda name: (name not in now.layout.base.problem.cluster.hosts, excess[name])
    )


def _cuts(base: Base, now: Fitting) -> list[Cut]:
    """Return the ways to take bytes away from the fullest instant, cheapest first."""
    device = _fullest(now)
    instant, _ = now.profile.peak(device)
    cuts = []
    for copy in now.layout.copies:
        if copy.place[1] == (device,) and copy.bytes and not base.problem.cluster.hosts & {device}:
            gap = _gap(now, copy, instant)
            if gap is not None:
                cuts += _ways(base, now, copy, gap, instant)
    cuts = [cut for cut in cuts if cut.bytes > 0]
    return sorted(cuts, key=lambda cut: cut.price)


def _gap(now: Fitting, copy: StoredCopy, instant: int) -> tuple[int, int] | None:
    """Return when a copy's use before an instant ends, and the run that reads it next after."""
    profile = now.profile
    last = int(profile.stop[copy.maker])
    for reader in sorted(copy.readers, key=lambda task: int(profile.start[task])):
        if last <= instant < profile.start[reader]:
            return (last, reader) if now.layout.tasks[reader].number >= 0 else None
        last = max(last, int(profile.stop[reader]))
    return None


def _ways(
    base: Base, now: Fitting, copy: StoredCopy, gap: tuple[int, int], instant: int
) -> list[Cut]:
    number = now.layout.tasks[gap[1]].number
    key = (copy.place, number)
    if key in now.choices:
        return []
    result = []
    if base.may_wait(copy.place):
        result.append(Cut(_journey(base, now, copy, gap), copy.bytes, {key: AWAY}))
    again = _Again(base, now, gap[1], instant)
    if again.make(copy.place, number, DEPTH):
        result.append(Cut(again.ticks, copy.bytes - again.extended, again.choices))
    return result


def _journey(base: Base, now: Fitting, copy: StoredCopy, gap: tuple[int, int]) -> float:
    """Return the ticks by which a journey to the host and back does not fit into a gap."""
    name, site, _ = copy.place
    source = base.natives[str(base.problem.graph.value(name).producer)][0][1][0]
    out = base.trip_ticks(name, source, str(base.host)) or 0
    back = base.trip_ticks(name, str(base.host), site[0]) or 0
    idle = int(now.profile.start[gap[1]]) - gap[0]
    return max(0, out + back - idle) + 1e-3 * (out + back)


class _Again:
    """What it takes to make a value again just before a reader.

    Attributes
    ----------
    ticks, extended, choices
        Ticks of the runs, bytes that stay across the instant for them, and the decisions.
    """

    def __init__(self, base: Base, now: Fitting, reader: int, instant: int) -> None:
        self.base, self.now, self.reader, self.instant = base, now, reader, instant
        self.ticks = self.extended = 0
        self.choices: Choices = {}

    def make(self, place: Place, number: int, depth: int) -> bool:
        """Decide that the run ``number`` has the value of a place made again, if it can be."""
        base = self.base
        if depth == 0 or not base.may_run_again(place):
            return False
        producer = str(base.problem.graph.value(place[0]).producer)
        again = base.number(producer, number)
        newest = [self._newest(needed) for needed in base.needs[producer]]
        if None in newest:
            return False
        self.ticks += base.ticks[producer]
        self.choices[place, number] = AGAIN
        for needed, copy in zip(base.needs[producer], newest, strict=True):
            assert copy is not None
            if self.now.profile.until[copy] <= self.instant:
                self._supply(needed, self.now.layout.copies[copy].bytes, again, depth)
        return True

    def _newest(self, place: Place) -> int | None:
        """Return the copy that would be read."""
        copies = self.now.layout.copies
        held = [c for c in self.now.layout.of_place[place] if copies[c].maker < self.reader]
        return held[-1] if held else None

    def _supply(self, place: Place, size: int, number: int, depth: int) -> None:
        """Bring an input that is gone by then: made again, from the host, or kept after all."""
        if self.make(place, number, depth - 1):
            return
        if self.base.may_wait(place):
            self.choices[place, number] = AWAY
        else:
            self.extended += size


def _taken_back(base: Base, found: Fitting, budget: Budget, rng: Random) -> Fitting:
    """Undo decisions that are not needed, from the deepest run on."""
    changed = True
    while changed and not budget.over:
        changed = False
        keys = list(found.choices)
        rng.shuffle(keys)
        for key in keys:
            if budget.over:
                break
            for other in (None, AGAIN, AWAY):
                if key not in found.choices or other == found.choices[key]:
                    continue
                if other == AGAIN and not base.may_run_again(key[0]):
                    continue
                if other == AWAY and not base.may_wait(key[0]):
                    continue
                choices = {k: way for k, way in found.choices.items() if k != key}
                if other is not None:
                    choices[key] = other
                after = patient(base, timed(base, _rooted(base, choices)))
                if after is None or after.layout.wasteful:
                    continue
                better = after.makespan < found.makespan or (
                    after.makespan == found.makespan and len(after.choices) < len(found.choices)
                )
                if better:
                    found, changed = after, True
                    break
    return found


def _rooted(base: Base, choices: Choices) -> Choices:
    """Return the decisions of runs that still take place."""
    again = {
        base.number(str(base.problem.graph.value(place[0]).producer), number)
        for (place, number), way in choices.items()
        if way == AGAIN
    }
    kept = {
        key: way
        for key, way in choices.items()
        if base.parents[key[1]][1] == BASE or key[1] in again
    }
    return kept if len(kept) == len(choices) else _rooted(base, kept)
