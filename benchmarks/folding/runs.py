"""Runs of equal blocks along a chain of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from milp_plan.core.sharding import Integers
from milp_plan.elimination.factors import FactorGraph

from .segments import Local, Segment

LONGEST = 64
"""Most segments in a block."""


@dataclass(frozen=True)
class Run:
    """Equal blocks in a row.

    Parameters
    ----------
    blocks
        Segments of each block.
    """

    blocks: tuple[tuple[Segment, ...], ...]

    @property
    def cuts(self) -> list[int]:
        """Variables between blocks, with both ends of the run."""
        return [self.blocks[0][0].left, *(block[-1].right for block in self.blocks)]

    @property
    def hubs(self) -> tuple[int, ...]:
        """Hubs that the blocks touch."""
        return tuple(dict.fromkeys(x for segment in self.blocks[0] for x in segment.hubs))

    def inner(self, number: int) -> list[int]:
        """Variables inside a block, in the same order for all blocks."""
        block = self.blocks[number]
        found: list[int] = []
        for segment in block:
            found += [*segment.inner, segment.right]
        return found[:-1]

    @property
    def factors(self) -> list[int]:
        """Numbers of all cost functions in the run."""
        return [number for block in self.blocks for segment in block for number in segment.factors]


def runs(graph: FactorGraph, chain: Sequence[Segment]) -> list[Run]:
    """Find disjoint runs of at least two equal blocks, those that save most first."""
    if len(chain) < 2:
        return []
    names: dict[tuple[Local, int, int], int] = {}
    sizes = graph.sizes
    marks = [(s.form, sizes[s.left], sizes[s.right]) for s in chain]
    row = np.array([names.setdefault(mark, len(names)) for mark in marks], dtype=np.int64)
    work = np.array([1 + len(s.inner) for s in chain], dtype=np.int64)
    return [
        Run(tuple(tuple(chain[at : at + period]) for at in range(first, stop, period)))
        for first, period, stop in _repeats(row, work, 0)
    ]


def _repeats(row: Integers, work: Integers, shift: int) -> list[tuple[int, int, int]]:
    """Repeats as (first, period, stop), from left to right."""
    best, saved = None, 0
    totals = np.concatenate([[0], np.cumsum(work)])
    for period in range(1, min(len(row) // 2, LONGEST) + 1):
        same = np.concatenate([[0], row[period:] == row[:-period], [0]]).astype(np.int64)
        edges = np.diff(same)
        starts, stops = (np.flatnonzero(edges == sign).tolist() for sign in (1, -1))
        for first, stop in zip(starts, stops, strict=True):
            copies = (stop - first) // period + 1
            last = first + copies * period
            gain = int(totals[last] - totals[first + period])
            if copies > 1 and gain > saved:
                best, saved = (first, period, last), gain
    if best is None:
        return []
    first, period, stop = best
    left = _repeats(row[:first], work[:first], shift)
    right = _repeats(row[stop:], work[stop:], shift + stop)
    return [*left, (shift + first, period, shift + stop), *right]
