"""Local search over words that rebuilds them by list schedules: see :mod:`.refill`.

Starts from several words at once (expert schedules, plans of other stages) and retains the best
few. Each round takes one of them, a rule, and a direction of time, and refills it: new best words
with every rule without noise first, then any of the best few by chance. A round costs one list
schedule, so the search also suits thousands of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from milp_plan.core.budget import now

from ..shop import Shop
from ..span import best_times
from ..timing import Words, fits, value_of
from .refill import Rule, refill, reverse, rules

ELITE = 9
"""Number of best words that are retained."""

GREED = 0.7
"""Factor by which the chance of being chosen falls from one of the elite to the next."""

RULES = 40
"""Number of rules that rounds choose from."""

BATCH = 4
"""Consecutive rounds of one start; starts of least value come first."""


class Overtaking:
    """Improves words from given ones.

    Parameters
    ----------
    shop
        What to schedule.
    seed
        Seed of the search; the same seed and number of rounds give the same result.
    """

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.reversed = shop, reverse(shop)
        self.rng = Random(seed)
        self.rules = rules(self.rng, RULES)
        self.plain = [rule for rule in self.rules if not rule.noise]
        self.elite: list[tuple[int, list[list[int]]]] = []
        self.due: list[tuple[int, int, int, list[list[int]], Rule, bool]] = []
        self.planned = 0

    def add(self, words: Words) -> None:
        """Add words that fit, if they are among the best."""
        self._keep([list(word) for word in words], is_start=True)

    def _plan(self, value: int, words: list[list[int]]) -> None:
        """Schedule every rule without noise, in both directions, for these words."""
        ways = [(rule, turned) for rule in self.plain for turned in (False, True)]
        for number, (rule, turned) in enumerate(ways):
            heappush(self.due, (number // BATCH, value, self.planned, words, rule, turned))
            self.planned += 1

    def _keep(self, words: list[list[int]], is_start: bool = False) -> bool:
        """Insert words into the elite; return whether they are the best."""
        value = value_of(self.shop, best_times(self.shop, words))
        if any(words == known for _, known in self.elite):
            return False
        self.elite.append((value, words))
        self.elite.sort(key=lambda entry: entry[0])
        del self.elite[ELITE:]
        best = self.elite[0][1] is words
        if best or is_start:
            self._plan(value, words)
        return best

    def run(
        self,
        limit_s: float | None,
        on_better: Callable[[Words, int], None],
        *,
        lower: int = 0,
        rounds: int | None = None,
    ) -> None:
        """Search until the bound is met, the time is out or the rounds are done.

        Parameters
        ----------
        limit_s
            Wall-clock seconds; ``None`` for rounds only.
        on_better
            Called with the best words and their value, ticks.
        lower
            A proved bound.
        rounds
            Largest number of rounds; no limit by default.
        """
        end = None if limit_s is None else now() + limit_s
        done = 0
        while self.elite and self.elite[0][0] > lower and done != rounds:
            if end is not None and now() >= end:
                return
            if self.round():
                on_better(self.elite[0][1], self.elite[0][0])
            done += 1

    def round(self) -> bool:
        """Refill one of the elite; return whether the result is better than all before."""
        rng = self.rng
        if self.due:
            *_, words, rule, turned = heappop(self.due)
        else:
            place = min(int(rng.expovariate(GREED)), len(self.elite) - 1)
            words, rule = self.elite[place][1], rng.choice(self.rules)
            turned = rng.random() < 0.5
        if turned:
            back = refill(self.reversed, [word[::-1] for word in words], rule, rng)
            forward = [word[::-1] for word in back]
        else:
            forward = refill(self.shop, words, rule, rng)
        return fits(self.shop, forward) and self._keep(forward)
