"""Placements of training graphs by construction: families with a few parameters each.

* *stages*: layers in the order of depth cut into consecutive stages, straight, interleaved
  (Narayanan et al., SC 2021) or as a V (Qi et al., 2024), on all devices or some of them;
* *stages apart*: the same with the last layers (the loss) on the site of another stage;
* *spread*: earliest finish plus load over all sites (compare HEFT, Topcuoglu et al. 2002);
* *branches*: stages of several devices, inside of which branches are spread;
* *solved*: regions of parallel branches as a search over them found best (:mod:`.solved`).

Memory is part of each: stages hold persistent bytes and what the micro-batches in flight keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Protocol

import numpy as np

from milp_plan.core import PlanningProblem

from .assignment import NUM_ORDERS, Regions
from .base import WEIGHTS, Base, Layout
from .cuts import Balance, cut
from .shapes import Shape, folded, regions
from .solved import Solved

BALANCES = (
    Balance(),
    Balance(doublings=5, crossing=0.0),
    Balance(waiting=0.5),
    Balance(doublings=5, waiting=1.0, crossing=0.0),
    Balance(crossing=0.0),
    Balance(doublings=5, waiting=0.5),
)
"""Costs of stages that are tried."""

ROUNDS = (1, 2, 4)
"""How often the regions of a placement of branches are gone through."""


class Family(Protocol):
    """Placements with parameters; of each, the most promising choice has number 0."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        ...

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice; ``None`` if there is none."""
        ...


def families(problem: PlanningProblem, window: int | None = None) -> list[Family]:
    """All families of a problem; ``window`` limits the micro-batches at once."""
    base = Base(problem, window)
    return [Stages(base), Solved(base), Spread(base), Branches(base), StagesApart(base)]


def choices(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """All choices of a family, those that are promising in every parameter first."""
    return sorted(product(*map(range, sizes)), key=sum)


def layouts(problem: PlanningProblem) -> Iterator[Layout]:
    """Yield all placements, each once, families in turn."""
    seen = set()
    turns = [(family, iter(choices(family.sizes))) for family in families(problem)]
    while turns:
        for turn in list(turns):
            family, left = turn
            choice = next(left, None)
            if choice is None:
                turns.remove(turn)
                continue
            layout = family.make(choice)
            if layout is not None and layout.key not in seen:
                seen.add(layout.key)
                yield layout


class Stages:
    """Consecutive stages: sites, folding, balance, memory."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._shapes = [list(folded(line)) for line in base.lines]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        most = max(map(len, self._shapes), default=0)
        return len(self._shapes), most, len(BALANCES), self._base.num_memories

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice."""
        line, fold, balance, way = choice
        if fold >= len(self._shapes[line]):
            return None
        shape = self._shapes[line][fold]
        memory = self._base.memory(len(shape.sites), way)
        bounds = cut(self._base.loads, shape.sites, memory, BALANCES[balance])
        name = f"stages on {shape.name}, balance {balance}, memory {way}"
        return self._base.expanded(name, shape.sites, bounds)


class StagesApart:
    """Consecutive stages, the last layers elsewhere: where, how many, sites, balance."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._lines: list[Shape] = [line for line in base.lines if len(line.sites) > 1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        most = max((len(line.sites) for line in self._lines), default=0)
        return most, 2, len(self._lines), len(BALANCES)

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice."""
        other, fewer, line, balance = choice
        base, sites = self._base, self._lines[line].sites
        count = base.num_layers - 1 - fewer
        if other >= len(sites) or count < len(sites):
            return None
        extra = [0.0] * len(sites)
        extra[other] = float(base.loads.rows(sites[other]).work[count:].sum())
        if not np.isfinite(extra[other]):
            return None
        memory = base.memory(len(sites), 0)
        bounds = cut(base.loads, sites, memory, BALANCES[balance], extra=extra, count=count)
        name = f"stages on {self._lines[line].name}, last {1 + fewer} with stage {other}"
        ends = None if bounds is None else [*bounds, base.num_layers]
        return base.expanded(f"{name}, balance {balance}", (*sites, sites[other]), ends)


class Spread:
    """Earliest finish plus load everywhere: devices, weight, care, groups, order."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._rows = list(dict.fromkeys(tuple(sorted(line.sites)) for line in base.lines))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        wide = any(len(self._base.loads.view.sites[site]) > 1 for site in self._base.used)
        return len(self._rows), len(WEIGHTS), self._base.num_cares, 1 + wide, NUM_ORDERS

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice."""
        row, weight, care, whole, order = choice
        sites = self._base.inside(self._rows[row]) if whole else list(self._rows[row])
        where = Regions([sites], [0] * self._base.num_layers, self._base.at_once)
        return self._base.placed(f"spread over {len(sites)} sites", where, weight, care, order)


class Branches:
    """Stages of several devices, branches inside: devices, weight, rounds, care, memory, order."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._parts = [
            (f"{line.name}, {name}", entry)
            for line in base.lines
            for name, entry in regions(base.loads, line.sites)
            if len(entry) > 1
        ]
        self._stages: dict[tuple[int, int, int], list[int] | None] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many choices each parameter has."""
        base = self._base
        ways = (base.num_cares, base.num_memories, NUM_ORDERS)
        return len(self._parts), len(WEIGHTS), len(ROUNDS), *ways

    def make(self, choice: tuple[int, ...]) -> Layout | None:
        """Return the placement of a choice."""
        part, weight, rounds, care, way, order = choice
        name, found = self._parts[part]
        key = (part, rounds, way)
        if key not in self._stages:
            self._stages[key] = self._stage_of(found, ROUNDS[rounds], way)
        of_layer = self._stages[key]
        if of_layer is None:
            return None
        sites = [self._base.inside(region) for region in found]
        where = Regions(sites, of_layer, self._base.at_once)
        name = f"branches on {name}, {ROUNDS[rounds]} rounds, memory {way}"
        return self._base.placed(name, where, weight, care, order)

    def _stage_of(self, found: Sequence[Sequence[int]], rounds: int, way: int) -> list[int] | None:
        """Return layer -> region, by a cut over the sites of all regions in turn."""
        base = self._base
        sites = [site for region in found for site in region] * rounds
        bounds = cut(base.loads, sites, base.memory(len(sites), way), BALANCES[0])
        if bounds is None:
            return None
        width = len(found[0])
        ends = bounds[width::width]
        stage = np.searchsorted(ends, np.arange(base.num_layers), side="right")
        return [int(number) for number in stage.clip(0, len(ends) - 1) % len(found)]
