"""Rebuilds words by a list schedule: ready tasks may overtake, as far as memory allows.

A list schedule around given words. Each machine keeps what is left of its word in order; when it
is free it may take a later task whose predecessors are done, provided that what it overtakes still
fits into memory afterwards. So neither memory nor precedence can ever lock the schedule: what is
left, in its order, remains possible. The same on the reversed shop works from the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from ..shop import Shop
from ..template import BACKWARD, FORWARD, JOINT, WEIGHT
from ..timing import Words


@dataclass(frozen=True)
class Rule:
    """Priority rule of ready tasks.

    Parameters
    ----------
    ranks
        Rank of each role, lower first; roles that are not named have rank 0. Within a rank the
        order of the word counts.
    noise
        Positions in the word are moved by up to this much.
    patience
        How far a task may run, as a share of its duration, into the time at which one that goes
        first becomes ready: 0 waits for it, 1 never waits.
    """

    ranks: tuple[tuple[str, int], ...] = ()
    noise: float = 0.0
    patience: float = 1.0


_BACK_FIRST = ((BACKWARD, 0), (JOINT, 0), (FORWARD, 1), (WEIGHT, 1))
_ZERO_BUBBLE = ((BACKWARD, 0), (JOINT, 0), (FORWARD, 1), (WEIGHT, 2))
_FILLER = ((WEIGHT, 1),)
RANKS = ((), _FILLER, _BACK_FIRST, _ZERO_BUBBLE)


def rules(rng: Random, count: int) -> list[Rule]:
    """Return all rules without noise, then random ones."""
    fixed = [Rule(ranks, 0.0, patience) for patience in (0.0, 0.5, 1.0) for ranks in RANKS]
    while len(fixed) < count:
        fixed.append(Rule(rng.choice(RANKS), 4 * rng.random(), rng.choice((0.0, 0.5, 1.0))))
    return fixed[:count]


def reverse(shop: Shop) -> Shop:
    """Return the shop with time reversed: successors first, releases become allocations."""
    kinds = tuple(replace(kind, alloc=kind.free, free=kind.alloc) for kind in shop.kinds)
    arcs = tuple((b, a, lag) for a, b, lag in shop.arcs)
    return replace(shop, kinds=kinds, arcs=arcs)


def refill(
    shop: Shop, words: Words, rule: Rule, rng: Random, until: Sequence[int] | None = None
) -> list[list[int]]:
    """Return the words of a list schedule in which tasks overtake others by a rule.

    Parameters
    ----------
    shop, words
        The shop, and words that meet the memory limits without deadlock.
    rule, rng
        The order of ready tasks, and the generator of its noise.
    until
        Machine -> number of tasks that may change places; the others retain theirs.
    """
    return _Refill(shop, words, rule, rng, until).run()


@dataclass
class _Machine:
    """The rest of a machine's word; ``keys`` order it by the rule."""

    rest: list[int]
    keys: list[tuple[int, float]]
    limit: int | None
    loose: int
    held: int = 0
    free: int = 0
    done: list[int] = field(default_factory=list)


class _Refill:
    def __init__(
        self, shop: Shop, words: Words, rule: Rule, rng: Random, until: Sequence[int] | None
    ) -> None:
        self.shop, self.rule = shop, rule
        ranks = dict(rule.ranks)
        self.rank = [ranks.get(kind.role, 0) for kind in shop.kinds]
        self.duration = [kind.duration for kind in shop.kinds]
        self.alloc = [kind.alloc for kind in shop.kinds]
        self.net = [kind.alloc - kind.free for kind in shop.kinds]
        self.machines: list[_Machine] = []
        for machine, word in enumerate(words):
            shift = [rule.noise * rng.random() if rule.noise else 0.0 for _ in word]
            keys = [(self.rank[k], i + shift[i]) for i, k in enumerate(word)]
            loose = len(word) if until is None else until[machine]
            self.machines.append(_Machine(list(word), keys, shop.limits[machine], loose))
        self.number = [0] * len(shop.kinds)
        self.stops: list[list[int]] = [[] for _ in shop.kinds]
        self.queue = [(0, machine) for machine in range(len(words))]

    def run(self) -> list[list[int]]:
        queue = self.queue
        while queue:
            now, machine = heapq.heappop(queue)
            while queue and queue[0] == (now, machine):
                heapq.heappop(queue)
            own = self.machines[machine]
            if not own.rest:
                continue
            if own.free > now:
                heapq.heappush(queue, (own.free, machine))
                continue
            self.step(machine, own, now)
        return [own.done for own in self.machines]

    def ready(self, kind: int) -> int:
        """Return when the next task of a kind can start; -1 while that is not known."""
        number, latest = self.number[kind], 0
        for a, lag in self.shop.before[kind]:
            row = self.stops[a]
            if len(row) <= number:
                return -1
            latest = max(latest, row[number] + lag)
        return latest

    def step(self, machine: int, own: _Machine, now: int) -> None:
        """Start the task that goes first, or wait."""
        candidates: list[tuple[tuple[int, float], int, int]] = []
        seen: set[int] = set()
        peak = own.held
        held = own.held
        kinds = len(self.shop.on_machine[machine])
        for index in range(min(len(own.rest), max(1, own.loose - len(own.done)))):
            kind = own.rest[index]
            if kind not in seen:
                seen.add(kind)
                at = self.ready(kind)
                if at >= 0 and self.safe(own, kind, peak if index else None):
                    candidates.append((own.keys[index], at, index))
                if len(seen) == kinds:
                    break
            peak = max(peak, held + self.alloc[kind])
            held += self.net[kind]
        if not candidates:
            return  # a predecessor that starts will wake this machine
        candidates.sort()
        first = candidates[0][1]
        for _, at, index in candidates:
            kind = own.rest[index]
            wait = first - now - (1 - self.rule.patience) * self.duration[kind]
            if at <= now and (at == first or first <= now or wait >= 0):
                self.start(own, index, now)
                heapq.heappush(self.queue, (own.free, machine))
                return
        later = [at for _, at, _ in candidates if at > now]
        heapq.heappush(self.queue, (min(later), machine))

    def safe(self, own: _Machine, kind: int, peak: int | None) -> bool:
        """Return whether a task can start now with room left for those that it overtakes."""
        if own.limit is None or peak is None:
            return True
        if own.held + self.alloc[kind] > own.limit:
            return False
        return peak + max(0, self.net[kind]) <= own.limit

    def start(self, own: _Machine, index: int, now: int) -> None:
        kind = own.rest.pop(index)
        del own.keys[index]
        own.done.append(kind)
        own.held += self.net[kind]
        own.free = now + self.duration[kind]
        self.number[kind] += 1
        self.stops[kind].append(own.free)
        number = len(self.stops[kind]) - 1
        for b, lag in self.shop.after[kind]:
            if self.number[b] <= number:
                heapq.heappush(self.queue, (own.free + lag, self.shop.kinds[b].machine))
