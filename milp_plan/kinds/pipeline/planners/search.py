"""Anytime search for words: generations of beams whose tunings evolve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from milp_plan.core import Objective
from milp_plan.core.budget import now

from ..shop import Shop
from ..span import best_times
from ..timing import Words, fits, times, value_of
from .arrays import halved, whole
from .beam import Beam
from .states import BeamResult, Start, root
from .tuning import Tuning

OnBetter = Callable[[list[list[int]], int], None]
"""Called with words and their value whenever they are better than all before."""

ANY = 1 << 60
"""Target that drops no state."""

ARMS = ((24, 5), (12, 16), (6, 48))
"""(groups, width) of generations in turn; widths double after some without improvement."""

PROVEN = (
    Tuning((3.0, 3.0), (1.0, 1.0, 1.0, 1.0, 1.0)),
    Tuning((1.0, 1.0), (1.0, 1.0, 1.0, 1.0, 1.0)),
    Tuning((3.0, 3.0), (5.0, 1.0, 1.0, 1.0, 1.0)),
    Tuning((3.0, 2.2), (9.0, 0.3, 0.5, 0.5, 1.0)),
    Tuning((1.0, 1.0), (0.1, 1.0, 1.0, 1.0, 1.0)),
    Tuning((2.3, 2.4), (10.0, 2.7, 0.9, 0.1, 1.7)),
)
"""Tunings to begin with."""

ELITE = 12
"""Number of schedules that are retained."""

WINDOW = (8, 10)
"""Groups and width of the search in a window."""

OVERHEAD = 60
"""Overhead of a level, as a number of states."""

SHARE = 8
"""A generation should take at most 1/``SHARE`` of the time."""


@dataclass(frozen=True)
class _Elite:
    """A schedule; of two with equal values that with the smaller sum of starts is better."""

    value: int
    sum: int
    words: list[list[int]]
    tuning: Tuning
    result: BeamResult


@dataclass
class _Pool:
    """A beam, its best schedules, (states, seconds) of full runs, their number, and work spent."""

    beam: Beam
    elite: list[_Elite] = field(default_factory=list)
    pace: list[tuple[int, float]] = field(default_factory=list)
    done: int = 0
    full_work: int = 0
    window_work: int = 0


class PipelineSearch:
    """Words of least makespan or span, as far as time allows.

    Every generation runs several beams at once. The first ones sample tunings; later ones change
    tunings of the best schedules so far a little, from the start or from the middle of such a
    schedule. In half of the beams, states that cannot become better than the best are dropped.
    Where directions are mirror images, mostly half of the shop is searched.

    Parameters
    ----------
    shop
        The shop to schedule.
    seed
        Seed of the search; the same seed and generations without a clock give the same result.
    start_words
        A first incumbent, which must fit; some beams begin in the middle of it. By default one
        micro-batch runs after the other.
    lower
        A proved bound: the search ends when it is met.
    limit_s
        Time limit for following ``start_words``, seconds; the rest is left out.

    Raises
    ------
    ValueError
        Memory is too small for one micro-batch.
    """

    def __init__(
        self,
        shop: Shop,
        seed: int,
        start_words: Words | None = None,
        lower: int | None = None,
        limit_s: float | None = None,
    ) -> None:
        end = None if limit_s is None else now() + limit_s
        self.shop = shop
        self.rng = np.random.default_rng(seed)
        half = halved(shop)
        self.pools = [_Pool(Beam(arrays)) for arrays in (half, whole(shop)) if arrays is not None]
        self.lower = lower or 0
        if shop.objective is Objective.MAKESPAN:
            self.lower = max(self.lower, self.pools[-1].beam.tables.least)
        self.patient = start_words is None
        self.words = [list(word) for word in start_words or one_by_one(shop)]
        self.value = value_of(shop, best_times(shop, self.words))
        self.idle = 0
        self.done = 0
        if start_words is not None:
            for pool in self.pools:
                result = pool.beam.follow(self.words, lambda: end is not None and now() >= end)
                if result is not None:
                    self.keep(pool, result, PROVEN[0], None)

    def run(
        self,
        limit_s: float | None = None,
        on_better: OnBetter | None = None,
        *,
        generations: int | None = None,
    ) -> tuple[list[list[int]], int]:
        """Search until the bound is met, the time is out or the generations are done.

        May be called again to go on. Without start words the first generation (a list scheduler)
        always completes.

        Returns
        -------
        words, value
            The best so far.
        """
        end = None if limit_s is None else now() + limit_s

        def late() -> bool:
            wait = self.patient and not self.done
            return end is not None and not wait and now() >= end

        last = None if generations is None else self.done + generations
        while self.value > self.lower and not late() and self.done != last:
            pool = self.pools[0]
            if self.done and (not pool.elite or (self.idle > 2 * len(ARMS) and self.done % 4 == 3)):
                pool = self.pools[-1]
            before = self.value
            if pool.elite and pool.window_work <= self.share() * pool.full_work:
                self.window(pool, late, on_better)
            else:
                self.generation(pool, limit_s, late, on_better)
                pool.done += 1
                self.idle += 1
            self.idle = 0 if self.value < before else self.idle
            self.done += 1
        return self.words, self.value

    def generation(
        self,
        pool: _Pool,
        limit_s: float | None,
        late: Callable[[], bool],
        on_better: OnBetter | None,
    ) -> None:
        """Run the beams of one generation."""
        groups, width = self.size(pool, limit_s)
        stations = pool.beam.stations
        starts: list[Start] = []
        if pool.done < 2 or not pool.elite:
            tunings = [self.sample(pool, index, groups) for index in range(groups)]
        elif pool.done % 2 or not stations:
            tunings = [self.child(pool, self.pick(pool)) for _ in range(groups)]
        else:
            level = int(self.rng.choice(stations))
            parents = [self.pick(pool) for _ in range(groups)]
            starts = [parent.result.start(level) for parent in parents]
            tunings = [self.child(pool, parent) for parent in parents]
        level = len(starts[0].order) if starts else 0
        pool.full_work += (pool.beam.tables.total - level) * (groups * width + OVERHEAD)
        begin = now()
        targets = [self.target(index) for index in range(groups)]
        run = pool.beam.run(tunings, width, targets, self.rng, starts=starts, stop=late)
        if run and not starts:
            pool.pace.append((groups * width, now() - begin))
        for result in run:
            self.keep(pool, result, tunings[result.group], on_better)

    def share(self) -> float:
        """Return the work for windows, as a multiple of the work for whole searches.

        They improve given words; alone, whole searches are better until they stop improving.
        """
        if not self.patient:
            return 1.0
        return 0.3 if self.idle > 2 * len(ARMS) else -1.0

    def size(self, pool: _Pool, limit_s: float | None) -> tuple[int, int]:
        """Return groups and width: few states at first, then as many as the time allows."""
        if not self.done:
            return 12, 1
        groups, width = ARMS[self.done % len(ARMS)]
        width <<= min(self.idle // (2 * len(ARMS)), 4)
        if limit_s is None or not pool.pace:
            return groups, width
        states, seconds = max(pool.pace[-3:])
        room = limit_s / SHARE / max(seconds, 1e-3) * states
        while groups * width > max(room, 12):
            groups, width = (groups, (width + 1) // 2) if width > 1 else (groups // 2, 1)
        return groups, width

    def target(self, index: int) -> int:
        """Return the bound above which states are dropped: half of the groups must improve."""
        if index % 2 or self.shop.objective is Objective.SPAN:
            return ANY
        return self.value - 1

    def judge(self, words: list[list[int]], on_better: OnBetter | None) -> tuple[int, int]:
        """Return value and sum of starts of words; retain the best so far."""
        starts = times(self.shop, words)
        total = sum(map(sum, starts))
        if self.shop.objective is Objective.SPAN:
            starts = best_times(self.shop, words)
        value = value_of(self.shop, starts)
        if value < self.value:
            self.words, self.value = words, value
            if on_better is not None:
                on_better(words, value)
        return value, total

    def keep(
        self, pool: _Pool, result: BeamResult, tuning: Tuning, on_better: OnBetter | None
    ) -> None:
        """Add a schedule to the pool."""
        words = pool.beam.words(result.order)
        value, total = self.judge(words, on_better)
        if any(entry.words == words for entry in pool.elite):
            return
        pool.elite.append(_Elite(value, total, words, tuning, result))
        pool.elite.sort(key=lambda entry: (entry.value, entry.sum))
        del pool.elite[ELITE:]

    def window(self, pool: _Pool, late: Callable[[], bool], on_better: OnBetter | None) -> None:
        """Search between two levels of a good schedule and go on as it did."""
        beam, parent = pool.beam, self.pick(pool)
        level = int(self.rng.choice([0, *beam.stations]))
        starts = [parent.result.start(level) if level else root(beam.tables)] * WINDOW[0]
        until = min(level + beam.tables.kinds * int(self.rng.integers(1, 6)), beam.tables.total)
        pool.window_work += (until - level) * (WINDOW[0] * WINDOW[1] + OVERHEAD)
        tunings = [self.child(pool, parent) for _ in starts]
        targets = [ANY if self.shop.objective is Objective.SPAN else parent.value] * len(starts)
        run = beam.run(tunings, WINDOW[1], targets, self.rng, starts=starts, until=until, stop=late)
        best = parent.value, parent.sum
        choice: tuple[list[list[int]], Tuning] | None = None
        for result in run:
            words = splice(beam.words(result.order), parent.words)
            if fits(self.shop, words):
                judged = self.judge(words, on_better)
                if judged < best:
                    best, choice = judged, (words, tunings[result.group])
        if choice is not None:
            made = beam.follow(choice[0], late)
            if made is not None:
                self.keep(pool, made, choice[1], None)

    # -- tunings -----------------------------------------------------------------------------

    def pick(self, pool: _Pool) -> _Elite:
        """Return a good schedule: the better of two random ones."""
        return pool.elite[int(self.rng.integers(len(pool.elite), size=2).min())]

    def sample(self, pool: _Pool, index: int, groups: int) -> Tuning:
        """Return a random tuning; the limits in flight spread over the groups."""
        rng = self.rng
        flight = most = pool.beam.tables.most
        guards = pool.beam.arrays.guards
        if guards:
            part = rng.permutation(groups)[index] / groups
            flight = tuple(max(1, round(m * (1 - part * 0.7))) for m in most)
        if index % 2 == self.done % 2:
            proven = PROVEN[index // 2 % len(PROVEN)]
            return replace(proven, in_flight=flight, patience=self.patience())
        sharpness = np.exp(rng.uniform(-0.5, 2.5, size=2))
        weights = np.exp(rng.normal(0, 0.7, size=5))
        tuning = _tuning(sharpness, weights, flight, self.noise(), self.patience())
        return replace(tuning, guarded=index % 4 != 3)

    def noise(self) -> float:
        """Return no noise, some, or much, at random."""
        return float(self.rng.choice([0.0, 0.05, 0.3]))

    def patience(self) -> float:
        """Return a random patience, mostly none."""
        return float(self.rng.choice([0.0, 0.0, 1.0, 3.0]))

    def child(self, pool: _Pool, parent: _Elite) -> Tuning:
        """Change a good tuning, or cross it with another."""
        rng = self.rng
        one = parent.tuning
        two = self.pick(pool).tuning if rng.random() < 0.3 else one
        scale = float(rng.choice([0.1, 0.4, 1.0]))
        sharpness = np.array(one.sharpness) * np.exp(rng.normal(0, scale / 2, size=2))
        mixed = np.where(rng.random(5) < 0.5, one.weights, two.weights)
        weights = mixed * np.exp(rng.normal(0, scale, size=5))
        most = pool.beam.tables.most
        flight = np.array(one.in_flight or most)
        if rng.random() < 0.2:
            flight += rng.integers(-1, 2)
        elif rng.random() < 0.3:
            flight += rng.integers(-1, 2, size=len(most))
        tuning = _tuning(
            np.clip(sharpness, 0.2, 50),
            np.clip(weights, 1e-3, 1e3),
            tuple(int(n) for n in np.clip(flight, 1, most)),
            one.noise if rng.random() < 0.7 else self.noise(),
            one.patience if rng.random() < 0.7 else self.patience(),
        )
        return replace(tuning, guarded=one.guarded)


def _tuning(
    sharpness: NDArray[np.float64],
    weights: NDArray[np.float64],
    in_flight: tuple[int, ...],
    noise: float,
    patience: float,
) -> Tuning:
    one, two = (float(value) for value in sharpness)
    a, b, c, d, e = (float(value) for value in weights)
    return Tuning((one, two), (a, b, c, d, e), in_flight, noise, patience)


def one_by_one(shop: Shop) -> list[list[int]]:
    """Return words that run one micro-batch after the other.

    Raises
    ------
    ValueError
        They do not fit, so no words do.
    """
    words: list[list[int]] = [[] for _ in shop.machines]
    for route in sorted({kind.route for kind in shop.kinds}):
        kinds = [k for k, kind in enumerate(shop.kinds) if kind.route == route]
        for _ in range(shop.kinds[kinds[0]].count):
            for k in kinds:
                words[shop.kinds[k].machine].append(k)
    if not fits(shop, words):
        raise ValueError("memory is too small for one micro-batch")
    return words


def splice(begun: Words, words: Words) -> list[list[int]]:
    """Complete the beginning of some words with the other tasks in the order of other words."""
    rows = []
    for first, word in zip(begun, words, strict=True):
        left = Counter(first)
        rest = []
        for k in word:
            if left[k]:
                left[k] -= 1
            else:
                rest.append(k)
        rows.append([*first, *rest])
    return rows
