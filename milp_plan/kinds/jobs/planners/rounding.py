"""Lists of jobs by the relaxation of what fits on a device: which options a makespan asks for.

Most jobs take one option there; the others are drawn by their shares, some times.
"""

from __future__ import annotations

from random import Random

from ..timelines import Relaxed, Timelines
from .lists import JobTables, Listing, longest_first

DRAWS = 24
"""Choices of options of which the best is kept."""

WHOLE = 1 - 1e-6
"""A share from which on it is no question."""


class Rounding:
    """Lists with options by the shares of one makespan.

    Parameters
    ----------
    tables
        Of the problem.
    search, limit, found
        What was asked, for how many ticks, and the answer, with shares.
    """

    def __init__(self, tables: JobTables, search: Timelines, limit: int, found: Relaxed) -> None:
        self.tables = tables
        self.largest: list[int] = []
        self.open: dict[int, tuple[list[int], list[float]]] = {}
        for job, (choices,) in enumerate(search.sizes.kinds):
            numbers = {tuple(tables.options[:, o].tolist()): o for o in tables.of(job)}
            shares = found.shares[search.left(job, choices, limit)]
            most = max(shares, key=lambda choice: shares[choice])
            self.largest.append(numbers[most])
            if shares[most] < WHOLE:
                parts = [max(0.0, part) for part in shares.values()]
                self.open[job] = ([numbers[choice] for choice in shares], parts)

    def best(self, seed: int = 0) -> Listing:
        """Return the best of some lists, longest first; one seed takes the largest shares, too."""
        rng = Random(seed)
        first = longest_first(self.tables, self.largest)
        lists = [first] if seed == 0 or not self.open else []
        lists += [self._drawn(rng) for _ in range(DRAWS if self.open else 0)]
        return min(lists, key=self.tables.makespan)

    def _drawn(self, rng: Random) -> Listing:
        choice = list(self.largest)
        for job, (options, parts) in self.open.items():
            choice[job] = rng.choices(options, parts)[0]
        return longest_first(self.tables, choice)
