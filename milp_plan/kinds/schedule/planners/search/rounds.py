"""How the time of a search is divided: into epochs, and these into rounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from threading import Event
from typing import NamedTuple

from milp_plan.core.budget import Budget

from .annealing import Annealing

LAST_TEMPERATURES = (0.5, 0.25)
"""First temperatures of the last two rounds, as parts of the hottest; other rounds begin at it."""

HOTTER, HOTTER_MOST = 2.0, 8.0
"""Factor on the first temperature after each round without improvement, and its largest power."""

FEWEST, ENOUGH, MOST = 3, 5, 16
"""Rounds of an epoch: the fewest, those after which most searches have converged, and the most.
The last is also the largest number of early epochs."""

EARLY, MOST_LAST = Fraction(3, 4), 8
"""Part of the time for all epochs but the last one, and most rounds of the last one: if more would
fit, each of them is longer."""

ENOUGH_FOR_EPOCHS = 15
"""Number of rounds from which on there are several epochs; large graphs need more rounds than
that to converge."""

ROUND_S_EACH, ROUND_MOVES_EACH = 0.006, 60
"""Seconds and moves of a round per operator: longer rounds find less than further rounds do."""

COOLEST = 0.25
"""Least first temperature, as a part of the hottest. If there is no time for one full round, the
temperature is lower in proportion to the time, so that the search stays near its start."""


Span = tuple[Fraction, Fraction]
"""Parts of a search's time at which something begins and ends."""


class Epoch(NamedTuple):
    """Rounds of a search until it has converged: further rounds seldom find anything.

    Each epoch begins anew and may converge to another plan; the last of several continues where
    the best ones ended.
    """

    since: Fraction
    until: Fraction
    rounds: int

    @property
    def first(self) -> bool:
        """Whether this is the first epoch."""
        return self.since == 0

    @property
    def alone(self) -> bool:
        """Whether this is the only epoch."""
        return self.first and self.last

    @property
    def last(self) -> bool:
        """Whether this is the last epoch."""
        return self.until == 1

    def span(self, number: int) -> Span:
        """Return when a round begins and ends."""
        each = (self.until - self.since) / self.rounds
        return self.since + number * each, self.since + (number + 1) * each


def epochs_for(rounds: float) -> list[Epoch]:
    """Return the epochs for a number of rounds; early ones get most of the time."""
    if rounds < ENOUGH_FOR_EPOCHS:
        return [Epoch(Fraction(0), Fraction(1), max(FEWEST, int(min(MOST, rounds))))]
    count = int(min(MOST, EARLY * rounds / ENOUGH))
    each = int(min(MOST, EARLY * rounds / count))
    ends = [EARLY * number / count for number in range(count + 1)]
    early = [Epoch(since, until, each) for since, until in pairwise(ends)]
    return [*early, Epoch(EARLY, Fraction(1), int(min(MOST_LAST, (1 - EARLY) * rounds)))]


class Clock:
    """Progress of a round: by time or, in a repeatable run, by moves.

    Parameters
    ----------
    budget
        The budget of all rounds.
    span
        When the round begins and ends.
    moves
        Moves of each search in all rounds, if they are counted.
    stop
        Event that ends all rounds early.
    """

    def __init__(self, budget: Budget, span: Span, moves: int | None, stop: Event) -> None:
        self.budget, self.stop = budget, stop
        since, until = span
        self.since, self.until = float(since), float(until)
        self.most: int | None = None
        if moves is not None:
            self.most = int(moves * until) - int(moves * since)

    def of(self, search: Annealing) -> Callable[[], float]:
        """Return a function that says which part of the round is over for a search."""
        first = search.tried

        def done() -> float:
            if self.stop.is_set() or (self.most is None and self.budget.over):
                return 1.0
            if self.most is not None:
                return (search.tried - first) / self.most if self.most else 1.0
            passed = self.budget.elapsed_s / self.budget.limit_s
            return max(0.0, (passed - self.since) / (self.until - self.since))

        return done


def first_temperature(left: int, failed_rounds: int) -> float:
    """Return the first temperature of a round as a part of the hottest.

    Parameters
    ----------
    left
        Rounds that follow in the epoch.
    failed_rounds
        Consecutive rounds without improvement before this one.
    """
    if left < len(LAST_TEMPERATURES):
        return LAST_TEMPERATURES[-1 - left]
    return float(min(HOTTER_MOST, HOTTER**failed_rounds))
