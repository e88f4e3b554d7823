"""Exact planner of hybrid parallelism: bisection on the slowest stage, a sweep for each value.

Source of the problem and of dynamic programming over down-sets, devices and sums of data degrees:
Tarnawski et al. (Piper, NeurIPS 2021). Here the time of a stage is a threshold, so that the state
consists of the sum of data degrees and the devices of later stages, of which a Pareto front
suffices; configurations are chosen exactly instead of by a greedy rule.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from milp_plan.core.budget import now

from ..plan import Choice, HybridPlan, Stage
from ..problem import HybridProblem
from .free_layers import without_free_layers
from .lattice import Lattice, all_down_sets, prefixes
from .sweep import CROWDED, EXHAUSTED, Front, Rule, gather, new_draft, new_front, settle, sweep
from .tables import Family, HybridTables, family, is_exact, tables

Mask = npt.NDArray[np.uint64]

MARGIN = 1e-9
"""Relative margin: a plan counts as optimal when none is better by more than this."""

ROUGH = 0.01
"""Relative gap at which the first search along one order may stop."""

MAX_DOWN_SETS = 50_000
_ROWS_PER_CALL = 64
_ROOM = 8


@dataclass(frozen=True)
class HybridAnswer:
    """Result of the exact search.

    Parameters
    ----------
    plan
        The best plan, without claims; ``None`` when there is none.
    seconds
        Its time per sample, as computed in floats.
    bound
        Lower bound on the seconds per sample.
    complete
        Whether the search ended: then either the plan is within :data:`MARGIN` of the bound, or
        there is no plan at all.
    down_sets
        Number of down-sets of the problem without free layers; ``None`` when there are too many.
    sweeps
        Number of thresholds that were tried.
    interrupted
        Whether Ctrl-C ended the search.
    trace
        Elapsed seconds, plan's seconds and bound, at each change of one of the latter.
    """

    plan: HybridPlan | None
    seconds: float
    bound: float
    complete: bool
    down_sets: int | None
    sweeps: int
    elapsed_s: float
    interrupted: bool = False
    trace: tuple[tuple[float, float, float], ...] = ()

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that no plan exists."""
        return self.complete and self.plan is None


class OutOfTimeError(Exception):
    """The time limit was reached during the search."""


@dataclass
class _ThresholdSearch:
    """Incumbent and bound, and the thresholds between them."""

    problem: HybridProblem
    """The problem without free layers."""
    deadline: float
    on_news: Callable[[float, float], None] | None
    started: float = field(default_factory=now)
    best: HybridPlan | None = None
    value: float = inf
    bound: float = 0.0
    sweeps: int = 0
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    def news(self) -> None:
        """Record and report incumbent and bound."""
        self.trace.append((now() - self.started, self.value, self.bound))
        if self.on_news is not None:
            self.on_news(self.value, self.bound)

    def attempt(
        self, entry: HybridTables, sets: Family, most: float, optimistic: bool
    ) -> bool | None:
        """Search for a plan whose stages take at most some seconds, and accept it if it fits.

        Returns whether there is one in the entry's (rounded) sizes; ``None`` when exact choices
        were given up. An optimistic attempt accepts nothing.
        """
        room, draft = _ROOM, new_draft(entry.arrays)
        total = len(sets.sizes)
        self.sweeps += 1
        while True:
            front, status = new_front(total, room), EXHAUSTED
            for begin in range(0, total - 1, _ROWS_PER_CALL):
                if now() > self.deadline:
                    raise OutOfTimeError
                span = (begin, min(begin + _ROWS_PER_CALL, total - 1))
                status = sweep(sets, front, draft, span, Rule(most, True, optimistic))
                if status != EXHAUSTED:
                    break
            if status != CROWDED:
                break
            room *= 2
        if status == EXHAUSTED:
            return None if front.unsure[0] and not optimistic else False
        if not optimistic:
            plan, value = _read_back(entry, sets, front)
            if value < self.value and _fits(self.problem, plan):
                self.best, self.value = plan, value
                self.news()
        return True

    def explore(self, entry: HybridTables, sets: Family) -> float:
        """Bisect roughly for a plan in a part of the family; return a threshold that is too low."""
        low = self.bound
        if not self.attempt(entry, sets, inf, False):
            return inf
        while self.value * (1.0 - ROUGH) > low:
            most = sqrt(low * self.value) if low > 0 else 0.5 * self.value
            if not self.attempt(entry, sets, most, False):
                low = most
        return low

    def improve(
        self, tight: HybridTables, relaxed: HybridTables, sets: Family, most: float
    ) -> bool | None:
        """Search for a plan at most that slow; ``False``: there is none, ``None``: not known.

        Tried on sizes rounded down first: their failures are proofs, and most of their plans fit.
        """
        before = self.value
        success = self.attempt(relaxed, sets._replace(arrays=relaxed.arrays), most, False)
        if success is None:
            success = self.attempt(relaxed, sets._replace(arrays=relaxed.arrays), most, True)
        if success and self.value == before:
            self.attempt(tight, sets._replace(arrays=tight.arrays), most, False)
        if self.value < before:
            return True
        if success:
            return None
        if most < inf:
            self.bound = max(self.bound, most * (1.0 - 0.5 * MARGIN))
            self.news()
        return False

    def prove(self, tight: HybridTables, relaxed: HybridTables, sets: Family, hint: float) -> bool:
        """Bisect in the family of all plans; return whether it is proved that none is better.

        ``hint`` is a threshold that is probably too low for any plan, seconds.
        """
        if self.best is None:
            success = self.improve(tight, relaxed, sets, inf)
            if not success:
                return success is False
        low, final, certain = self.bound, True, True
        while self.value * (1.0 - MARGIN) > low:
            most = self.value * (1.0 - 0.25 * MARGIN)
            if not final:
                middle = sqrt(low * self.value) if low > 0 else 0.5 * self.value
                most = min(most, hint if low < hint < self.value else middle)
                hint = 0.0
            success = self.improve(tight, relaxed, sets, most)
            if not success:
                certain = certain and success is False
                low = most * (1.0 - 0.5 * MARGIN)
            final = not final and self.value < low * (1.0 + ROUGH)
        return certain


def plan_exactly(
    problem: HybridProblem,
    time_limit_s: float = 60.0,
    on_news: Callable[[float, float], None] | None = None,
) -> HybridAnswer:
    """Plan for the least time per sample.

    Parameters
    ----------
    problem
        The problem.
    time_limit_s
        Time limit in wall-clock seconds; the best plan and bound until then are returned.
    on_news
        Called with the seconds per sample of the plan (infinite for none) and the bound.
    """
    reduction = without_free_layers(problem)
    smaller = reduction.problem
    search = _ThresholdSearch(smaller, now() + time_limit_s, on_news)
    lattice = all_down_sets(smaller, MAX_DOWN_SETS)
    complete = interrupted = False
    with suppress(OutOfTimeError):
        try:
            complete = _run(search, smaller, lattice)
        except KeyboardInterrupt:
            interrupted = True
    plan = None if search.best is None else reduction.restore(search.best)
    return HybridAnswer(
        plan,
        search.value,
        search.bound,
        complete,
        None if lattice is None else len(lattice.sets),
        search.sweeps,
        now() - search.started,
        interrupted,
        tuple(search.trace),
    )


def _run(search: _ThresholdSearch, problem: HybridProblem, lattice: Lattice | None) -> bool:
    """Plan along one order first, then over all down-sets; return whether it is decided."""
    tight = tables(problem)
    chain = family(tight.arrays, prefixes(problem))
    search.bound = float(chain.effort[0]) / problem.limits.devices * (1.0 - MARGIN)
    hint = search.explore(tight, chain)
    if lattice is None:
        return False
    relaxed = tight if is_exact(problem) else tables(problem, relaxed=True)
    return search.prove(tight, relaxed, family(tight.arrays, lattice), hint)


def _read_back(entry: HybridTables, sets: Family, front: Front) -> tuple[HybridPlan, float]:
    """Return the plan behind the empty set's entry with the fewest devices, and its seconds."""
    at = len(sets.sizes) - 1
    slot = int(np.argmin(front.entries[at, : front.size[at], 1]))
    stages: list[Stage] = []
    slowest = 0.0
    while at > 0:
        data, _, origin, before, j, degree = (int(number) for number in front.entries[at, slot])
        masks = (sets.words[origin], sets.words[at])
        stage, seconds = best_stage(entry, masks, j, (degree, data))
        stages.append(stage)
        slowest = max(slowest, seconds)
        at, slot = origin, before
    return HybridPlan(entry.problem.name, tuple(stages), planner="hybrid exact"), slowest


def _fits(problem: HybridProblem, plan: HybridPlan) -> bool:
    """Return whether a plan meets the memory exactly (the arrays may be rounded)."""
    for i, stage in enumerate(plan.stages):
        flight = -(-sum(later.data for later in plan.stages[i:]) // stage.data)
        need = Fraction(0)
        for choice in stage.choices:
            entry = problem.by_name[choice.layer].configuration(stage.tensor, choice.configuration)
            assert entry is not None
            need += flight * entry.flight_bytes + entry.fixed_bytes
        if need > problem.limits.memory_bytes:
            return False
    return True


def best_stage(
    entry: HybridTables, masks: tuple[Mask, Mask], j: int, degrees: tuple[int, int]
) -> tuple[Stage, float]:
    """Return a stage with its best configurations, and its seconds per sample.

    Parameters
    ----------
    masks
        Masks: the stage's layers are in the first and not in the second.
    j
        Number of its tensor degree.
    degrees
        Its data degree, and the sum of it and those of later stages.
    """
    arrays = entry.arrays
    draft = new_draft(arrays)
    items = gather(arrays, *masks, j, draft)
    _, seconds = settle(arrays, draft, items, degrees, Rule(inf, False, False))
    names = entry.problem.order
    inside = [v for v in range(len(names)) if _has(masks[0], v) and not _has(masks[1], v)]
    choices = tuple(
        Choice(names[v], entry.configurations[draft.source[place]].name)
        for v, place in zip(inside, draft.pick[:items], strict=True)
    )
    return Stage(choices, degrees[0], int(arrays.degrees[j])), seconds


def _has(mask: Mask, v: int) -> bool:
    return bool(int(mask[v >> 6]) >> (v & 63) & 1)
