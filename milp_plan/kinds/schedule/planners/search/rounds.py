"""How the time of a search is divided: into epochs, and these into rounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from threading import Event
from typing import NamedTuple

from milp_plan.core.budget import Budget

from .annealing import Annealing
from .sequences import Sequences

LAST_HEATS = (0.5, 0.25)
"""First heats of the last two rounds, as parts of the hottest, with which all others begin."""

HOTTER, HOTTER_MOST = 2.0, 8.0
"""Factor by which the next round begins hotter after one in vain; the largest product of these."""

FEWEST, ENOUGH, MOST = 3, 5, 16
"""Rounds of an epoch: fewest; enough for most to settle; most, also number of early epochs."""

EARLY, MOST_LAST = Fraction(3, 4), 8
"""Part of the time of all epochs but the last one; rounds of the last one at most: where more would
fit each is longer, and so hot for longer."""

ENOUGH_FOR_EPOCHS = 15
"""Number of rounds from which on there are several epochs; large graphs have not settled
by then."""

ROUND_S_EACH, ROUND_MOVES_EACH = 0.006, 60
"""Seconds of a round for each operator, and moves: what longer ones find is nearly nothing, what
another one finds is more."""

COOLEST = 0.25
"""Where there is no time for one such round, the first heat is lower in proportion, but not less
than this part of the hottest: what little can be tried is better tried near the start."""


Span = tuple[Fraction, Fraction]
"""Parts of the time of a search that are over when something begins, and when it ends."""


class Epoch(NamedTuple):
    """Some rounds of a search, after which it has settled: more of them seldom find anything.

    Another epoch begins anew, and may settle elsewhere; the last of several goes on where the best
    ones ended.
    """

    since: Fraction
    until: Fraction
    rounds: int

    @property
    def first(self) -> bool:
        """Whether there was none before."""
        return self.since == 0

    @property
    def alone(self) -> bool:
        """Whether there is no other."""
        return self.first and self.last

    @property
    def last(self) -> bool:
        """Whether no other follows."""
        return self.until == 1

    def span(self, number: int) -> Span:
        """When a round begins and ends."""
        each = (self.until - self.since) / self.rounds
        return self.since + number * each, self.since + (number + 1) * each


def epochs_for(wanted: float) -> list[Epoch]:
    """Return the epochs for a number of rounds; early ones get most of the time."""
    if wanted < ENOUGH_FOR_EPOCHS:
        return [Epoch(Fraction(0), Fraction(1), max(FEWEST, int(min(MOST, wanted))))]
    count = int(min(MOST, EARLY * wanted / ENOUGH))
    rounds = int(min(MOST, EARLY * wanted / count))
    ends = [EARLY * number / count for number in range(count + 1)]
    early = [Epoch(since, until, rounds) for since, until in pairwise(ends)]
    return [*early, Epoch(EARLY, Fraction(1), int(min(MOST_LAST, (1 - EARLY) * wanted)))]


class Clock:
    """How much of a round is over: by the clock or, repeatably, by moves.

    Parameters
    ----------
    budget, stop
        Of all rounds; what ends them early.
    span
        When the round begins and ends.
    moves
        Of each search in all rounds, if they are counted.
    """

    def __init__(self, budget: Budget, span: Span, moves: int | None, stop: Event) -> None:
        self.budget, self.stop = budget, stop
        since, until = span
        self.since, self.until = float(since), float(until)
        self.most: int | None = None
        if moves is not None:
            self.most = int(moves * until) - int(moves * since)

    def of(self, search: Annealing | Sequences) -> Callable[[], float]:
        """The clock of one search."""
        first = search.tried

        def done() -> float:
            if self.stop.is_set() or (self.most is None and self.budget.over):
                return 1.0
            if self.most is not None:
                return (search.tried - first) / self.most if self.most else 1.0
            passed = self.budget.elapsed_s / self.budget.limit_s
            return max(0.0, (passed - self.since) / (self.until - self.since))

        return done


def first_heat(left: int, in_vain: int) -> float:
    """Return the first heat of a round as a part of the hottest."""
    if left < len(LAST_HEATS):
        return LAST_HEATS[-1 - left]
    return float(min(HOTTER_MOST, HOTTER**in_vain))
