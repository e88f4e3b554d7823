"""Annealing over places, for any problem under the serial law."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from ..serial.places import Place, PlaceTables, Score

HOT, COLD = 0.2, 0.002
"""First and last temperature, as shares of the value."""


class PlaceSearch:
    """Annealing with moves of a class, of one operator between calls, and of two classes at once.

    Parameters
    ----------
    tables
        The problem.
    seed
        Seed of the random numbers.

    Attributes
    ----------
    best, score
        Best placement so far and its score; it may still break a law (``score.broken``).
    """

    def __init__(self, tables: PlaceTables, seed: int = 0) -> None:
        self.tables, self.random = tables, Random(seed)
        self.best = self.first()
        self.score = tables.score(self.best)

    def first(self) -> list[Place]:
        """Place everything where it is fastest, in its device's first call."""
        t = self.tables
        homes = [
            min(t.homes[c], key=lambda d: sum(t.work[i][d] or 0 for i in numbers))
            for c, numbers in enumerate(t.members)
        ]
        return [(homes[c], 0) for c in t.class_of]

    def offer(self, places: list[Place]) -> None:
        """Accept a placement if it is better."""
        score = self.tables.score(places)
        if score < self.score:
            self.best, self.score = list(places), score

    def spread(self) -> list[Place]:
        """Place every class on its currently best device, those with most bytes first."""
        t, random = self.tables, self.random
        places = self.first()
        order = sorted(
            range(len(t.members)), key=lambda c: (-t.held[c] - t.workspace[c], random.random())
        )
        for c in order:
            options = []
            for device in t.homes[c]:
                for i in t.members[c]:
                    places[i] = (device, self.call(device))
                options.append(
                    (t.score(places), random.random(), [places[i] for i in t.members[c]])
                )
            for i, place in zip(t.members[c], min(options)[2], strict=True):
                places[i] = place
        return places

    def call(self, device: int) -> int:
        """Return a random call of a device."""
        return self.random.randrange(self.tables.calls(device))

    def round(self, moves: int, over: Callable[[], bool]) -> None:
        """Anneal once, from the best placement or a new one, in at most ``moves`` moves."""
        t, random = self.tables, self.random
        places = list(self.best) if random.random() < 0.5 else self.spread()
        score = t.score(places)
        for turn in range(moves):
            if over():
                return
            heat = HOT * (COLD / HOT) ** (turn / moves)
            moved = self.moved(places)
            after = t.score(moved)
            if self.accepts(score, after, heat):
                places, score = moved, after
                if score < self.score:
                    self.best, self.score = list(places), score

    def accepts(self, before: Score, after: Score, heat: float) -> bool:
        """Return whether to move: never to more violations, seldom to a much worse value."""
        if after.broken != before.broken:
            return after.broken < before.broken or self.random.random() < heat * 0.3
        worse = (after.value - before.value) / max(before.value, 1)
        return worse <= 0 or self.random.random() < math.exp(-worse / heat)

    def moved(self, places: list[Place]) -> list[Place]:
        """Return a random neighbour of a placement."""
        t, random, neighbour = self.tables, self.random, list(places)
        kind = random.random()
        if kind < 0.4 and t.latency:
            i = random.randrange(len(t))
            neighbour[i] = (neighbour[i][0], self.call(neighbour[i][0]))
            return neighbour
        chosen = random.randrange(len(t.members))
        others = [random.randrange(len(t.members))] if kind > 0.8 else []
        for c in [chosen, *others]:
            device = random.choice(t.homes[c])
            call = self.call(device)
            for i in t.members[c]:
                neighbour[i] = (device, call)
        return neighbour
