"""How the time of a search is divided: into epochs, and these into rounds."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import NamedTuple

from milp_plan.core.budget import Budget

from .annealing import Annealing
from .sequences import Sequences

LAST_HEATS = (0.5, 0.25)
"""First heats of the last two rounds, as parts of the hottest, with which all others begin."""

HOTTER, HOTTER_MOST = 2.0, 8.0
"""After each round in vain the next one begins so much hotter; at most so much in all."""

FEWEST, ENOUGH, MOST = 3, 5, 16
"""Rounds of an epoch: at least; so many that with time for twice as many there are two epochs; at
most, which is the most epochs as well."""

ROUND_S_EACH, SLOW_ROUND_S_EACH, ROUND_MOVES_EACH = 0.006, 0.016, 60
"""Seconds of a round for each operator, where schedules are plain and elsewhere, and moves: what
longer ones find is nearly nothing, what another one finds is more."""

COOLEST = 0.25
"""Where there is no time for one such round, the first heat is lower in proportion, but not less
than this part of the hottest: what little can be tried is better tried near the start."""


class Epoch(NamedTuple):
    """Some rounds of a search, after which it has settled: more of them seldom find anything.

    Another epoch begins anew, and may settle elsewhere; the last of several goes on where the best
    ones ended.
    """

    number: int
    epochs: int
    rounds: int

    @property
    def last(self) -> bool:
        """Whether no other follows."""
        return self.number == self.epochs - 1

    def turn(self, number: int, *, half: int = 0) -> tuple[int, int]:
        """Number of a round among all, and of all; in halves of rounds, which ``half`` of it."""
        first, count = self.number * self.rounds + number, self.epochs * self.rounds
        return (first, count) if not half else (2 * first + half - 1, 2 * count)


def epochs_for(wanted: float) -> list[Epoch]:
    """Epochs where there is time for so many rounds."""
    epochs = max(1, int(min(MOST, wanted / ENOUGH)))
    rounds = max(FEWEST, int(min(MOST, wanted / epochs)))
    return [Epoch(number, epochs, rounds) for number in range(epochs)]


class Clock:
    """How much of a round is over: by the clock or, repeatably, by moves.

    Parameters
    ----------
    budget, stop
        Of all rounds; what ends them early.
    turn
        Number of the round, and of rounds in all.
    moves
        Of each search in all rounds, if they are counted.
    """

    def __init__(
        self, budget: Budget, turn: tuple[int, int], moves: int | None, stop: Event
    ) -> None:
        self.budget, self.stop = budget, stop
        number, count = turn
        self.since, self.until = number / count, (number + 1) / count
        self.most: int | None = None
        if moves is not None:
            self.most = moves * (number + 1) // count - moves * number // count

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


def heat(left: int, in_vain: int) -> float:
    """First heat of a round before so many others, as a part of the hottest, after some in vain."""
    if left < len(LAST_HEATS):
        return LAST_HEATS[-1 - left]
    return float(min(HOTTER_MOST, HOTTER**in_vain))
