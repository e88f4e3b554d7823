"""Plans from repeating patterns: planning cost hardly depends on the number of micro-batches.

First the shortest period (formulation ``pipeline_period``), for one to three micro-batches per
period. Its pattern is unrolled over a short shop, whose beginning and end are improved: list
schedules around the best words, forwards and backwards (:mod:`.refill`), and models of
``pipeline_order`` near the plan. Then periods are inserted at the cut (:mod:`.pattern`).

Source: repeating pattern and completed ends: Tessel (Lin et al. 2023, arXiv 2311.15269); the
period model, the splice and the list schedules: this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from milp_plan.core import Objective, Plan
from milp_plan.core.budget import Budget
from milp_plan.models.protocol import Guide, Neighbourhood
from milp_plan.models.registry import get
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.settings import Settings

from ..bounds import head_work_tail
from ..experts import V_WORDS, WORDS
from ..frames import frames
from ..planners.refill import refill, reverse, rules
from ..shop import Shop
from ..timing import fits, times, value_of, words_of
from .pattern import (
    Pattern,
    Shortener,
    Splice,
    route_counts,
    shortened,
    splice,
    steady,
    value_or_none,
)

ATTEMPTS = (
    (1, 1, 0.3),
    (1, 2, 0.3),
    (1, 3, 0.3),
    (2, 3, 0.6),
    (1, 0, 0.4),
    (2, 0, 0.7),
    (3, 0, 1.0),
)
"""Micro-batches per period, the symmetry, and the share of the time left for patterns."""

SEARCH_SHARE = 0.4
"""Share of the time for patterns."""

EXPERT_SHARE = 0.25
"""Share of the time after which no further expert is tried for a repeating part."""

PLANNER = "periodic"
MODELS_SHARE, UNROLL_SHARE = 0.4, 0.15
"""Shares of the time for models near the plan where the short shop is small, and for writing
the plan otherwise."""

SMALL = 600
"""Largest number of tasks of a short shop for which models of its ends are built."""

WINDOW = 60
"""Largest number of operators that such a model may move."""

MODEL_S = 4.0
MAX_STARTS, QUICK = 5, 12
"""Starts whose ends are improved briefly, and list schedules for each."""

ROUNDS, PATIENCE = 1200, 100
"""List schedules of each end at most, and consecutive ones without improvement."""


def plan_periodic(
    shop: Shop,
    limit_s: float = 60.0,
    seed: int = 0,
    threads: int = 1,
    on_better: Callable[[Plan], object] | None = None,
) -> Plan | None:
    """Plan a shop by a repeating pattern with completed ends.

    Parameters
    ----------
    shop
        The shop; with few micro-batches there is little to repeat, and all of it is improved.
    limit_s
        Wall-clock seconds, unrolling included.
    seed, threads
        Seed of the list schedules, and threads of the solver.
    on_better
        Called with each plan that is better than the previous one.

    Returns
    -------
    Plan or None
        ``None`` where no pattern was found in time.
    """
    budget, rng, least = Budget(limit_s), Random(seed), lower_bound(shop)
    ends = [Ends(start) for start in experts(shop, budget)]
    ends += [Ends(splice(shop, pattern)) for pattern in patterns(shop, budget)]
    best: tuple[int, Plan] | None = None

    def report(own: Ends) -> None:
        nonlocal best
        words = own.splice.long(own.words)
        value = value_or_none(shop, words)
        if value is not None and (best is None or value < best[0]):
            best = value, shop.plan(times(shop, words), PLANNER)
            if on_better is not None:
                on_better(best[1])

    for own in sorted(ends, key=Ends.estimate)[:MAX_STARTS]:
        own.list_schedules(rng, QUICK, budget, least)
        report(own)
    for own in sorted(ends, key=Ends.estimate)[:2]:
        own.list_schedules(rng, ROUNDS, budget, least)
        report(own)
    for own in sorted(ends, key=Ends.estimate)[:1]:
        own.models(rng, budget, seed, threads, least)
        report(own)
    return None if best is None else best[1]


def experts(shop: Shop, budget: Budget) -> list[Splice]:
    """Return expert schedules that fit and repeat themselves, without those that search.

    They may take :data:`EXPERT_SHARE` of the time.
    """
    splices, shops = [], Shortener(shop)
    for name, expert in WORDS.items():
        if name not in V_WORDS and budget.elapsed_s < EXPERT_SHARE * budget.limit_s:
            for per_period in (1, 2):
                own = steady(shops, expert, per_period)
                if own is not None:
                    splices.append(own)
                    break
    return splices


def lower_bound(shop: Shop) -> int:
    """Return the bound by head, work and tail of one machine, ticks."""
    clocks = frames(shop, shop.objective is Objective.SPAN)
    return max(head_work_tail(shop, frame).value for frame in clocks)


def patterns(shop: Shop, budget: Budget) -> list[Pattern]:
    """Return patterns of the shortest periods per micro-batch, the shortest first.

    Even patterns (every device alike, every second, every third) are tried first: their models are
    tiny. Others follow while the period is longer than the work of a machine.
    """
    counts = route_counts(shop)
    least = max(sum(shop.kinds[k].duration for k in kinds) for kinds in shop.on_machine)
    until = budget.elapsed_s + SEARCH_SHARE * budget.left_s
    small = shortened(shop, [min(count, 2 * len(shop.machines) + 4) for count in counts])
    best: list[Pattern] = []
    for per_period, even, share in ATTEMPTS:
        left = until - budget.elapsed_s
        if per_period <= min(counts) and left > 0.5 and not (best and _rate(best[0]) <= least):
            seconds = share * left / (1.5 if even else 1)  # two more patterns of even ones
            options = {"micro_batches": per_period, "even": even, "search_s": seconds}
            best = sorted([*best, *_fastest(small, options)], key=_rate)
    return [pattern for pattern in best if _rate(pattern) == _rate(best[0])][:3]


def _rate(pattern: Pattern) -> Fraction:
    return Fraction(pattern.period, pattern.per_period)


def _fastest(shop: Shop, switches: dict[str, Any]) -> list[Pattern]:
    formulation: Any = get("pipeline_period").formulation
    options = formulation.Options(**switches)
    rounds = options.micro_batches
    return [
        Pattern.of(shop, plan, period, rounds)
        for period, plan in formulation.fastest(shop.problem, options)
    ]


@dataclass
class Ends:
    """The words of a short shop, improved on either side of the cut."""

    splice: Splice

    def __post_init__(self) -> None:
        self.words = [list(word) for word in self.splice.words]
        self.value = value_of(self.short, times(self.short, self.words))
        self.backwards = reverse(self.short)

    @property
    def short(self) -> Shop:
        """The short shop."""
        return self.splice.short

    def estimate(self) -> int:
        """Estimate the value of the long shop: each period adds its ticks."""
        return self.value + self.splice.missing * self.splice.period

    def offer(self, words: list[list[int]]) -> bool:
        """Accept words that are no worse; return whether they are better."""
        value = value_of(self.short, times(self.short, words))
        better = value < self.value
        if value <= self.value and fits(self.short, words):
            self.words, self.value = words, value
        return better

    def list_schedules(self, rng: Random, rounds: int, budget: Budget, least: int) -> None:
        """Run list schedules of both ends, each around the best words so far."""
        cut = self.splice.cut if self.splice.missing else None
        reserve = MODELS_SHARE if self.short.num_tasks <= SMALL else UNROLL_SHARE
        vain = 0
        for rule in rules(rng, rounds):
            before = self.value
            for back in (False, True):
                if budget.left_s < reserve * budget.limit_s or self.estimate() <= least:
                    return
                if back:
                    turned = [word[::-1] for word in self.words]
                    rest = [len(w) - at for w, at in zip(turned, cut, strict=True)] if cut else None
                    words = refill(self.backwards, turned, rule, rng, rest)
                    self.offer([word[::-1] for word in words])
                else:
                    self.offer(refill(self.short, self.words, rule, rng, cut))
            vain = 0 if self.value < before else vain + 1
            if vain > PATIENCE:
                return

    def models(self, rng: Random, budget: Budget, seed: int, threads: int, least: int) -> None:
        """Solve small models near the plan, at the beginning and at the end in turn."""
        if self.short.num_tasks > SMALL:
            return
        formulation = get("pipeline_order")
        solver = FormulationSolver(formulation, make_options(formulation, {}))
        settings = Settings(seed=seed, threads=threads)
        failed = 0
        while budget.left_s > MODEL_S + 1 and self.estimate() > least and failed < 12:
            plan = self.short.plan(times(self.short, self.words), PLANNER)
            free = _window(plan, rng)
            guide = Guide(cutoff=self.value, neighbourhood=Neighbourhood(plan, free))
            kind = kind_of(self.short.problem)
            books = Ledger(kind, self.short.problem, settings, budget, solver=solver)
            limits = books.limits(MODEL_S)
            answer = solver.run(self.short.problem, guide, limits, budget, start=plan)
            books.accept_answer(answer, covers_all_plans=False, by=PLANNER)
            failed += 1
            if books.plan is not None:
                words = words_of(self.short, books.plan)
                if self.splice.kept_by(words) and self.offer(words):
                    failed = 0


def _window(plan: Plan, rng: Random) -> frozenset[str]:
    """Return operators that run near a moment, more often near the ends."""
    runs = sorted(plan.runs, key=lambda run: (run.start_ticks or 0, run.operator))
    most = max(0, len(runs) - WINDOW)
    at = int(most * rng.betavariate(0.5, 0.5))
    return frozenset(run.operator for run in runs[at : at + WINDOW])
