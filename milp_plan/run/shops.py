"""Planning a pipeline of identical micro-batches, where stage one of other problems has no use.

Bounds, expert schedules, a search over words, a repeating pattern, the exact order model and its
neighbourhoods take turns until the bound is met or the time is up. Every plan goes through the
checker, every bound is on the whole problem.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from milp_plan.api import Guide, Plan, PlanningProblem
from milp_plan.backends import Limits, Stop
from milp_plan.bounds import Bound
from milp_plan.pipeline import Shop, Words, best_times, fits, value_of, words_of
from milp_plan.planners.experts import WORDS
from milp_plan.planners.pipelines import PipelineSearch

from .model import ModelAnswer, Solver
from .settings import Clock, Settings
from .slot_bound import slot_bound

FIRST_SEARCH_SHARE, SEARCH_SHARE = 0.1, 0.3
"""Parts of the time limit for the search over words: before the bound by slots, and after it."""

BOUND_SHARE = 0.3
"""Part of the time limit for the bound by slots."""

EXPERT_SHARE = 0.5
"""Part of the time limit after which no further expert is asked."""

PATTERN_SHARE = 0.4
"""Part of the time left for the repeating pattern."""

MANY_MICRO_BATCHES = 6
"""Micro-batches per device from which the repeating pattern comes first."""

MOST_TASKS_WHOLE = 600
"""Tasks up to which the order model is tried as a whole."""

MODEL_SHARE = 0.5
"""Part of the time left for the whole model; neighbourhoods and the search have the rest."""

TURN_S = 4.0
"""Seconds after which news from elsewhere are looked at."""


class Host(Protocol):
    """The run that a shop is planned for: it keeps plan and bound."""

    problem: PlanningProblem
    settings: Settings
    clock: Clock
    solver: Solver
    plan: Plan | None
    value: int | None
    bound: Bound | None
    baselines: dict[str, int | None]
    answer: ModelAnswer | None
    infeasible_because: str | None
    stop: Stop

    @property
    def proved(self) -> bool:
        """Whether the gap asked for is reached."""
        ...

    def offer(self, plan: Plan | None, planner: str, phase: str) -> bool:
        """Take a plan if the checker accepts it and it is better."""
        ...

    def raise_bound(self, bound: Bound) -> None:
        """Take a bound on the whole problem."""
        ...

    def look_for_obstacle(self) -> None:
        """Look for a proof that there is no plan."""
        ...

    def use_answer(self, answer: ModelAnswer, planner: str) -> None:
        """Take plan and bound of the exact model."""
        ...

    def polish(self) -> None:
        """Search neighbourhoods by the model."""
        ...

    def say(self, phase: str, note: str = "") -> None:
        """Report progress."""
        ...


class ShopRun:
    """One run on a shop.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    shop
        The problem as a shop.
    """

    def __init__(self, host: Host, shop: Shop) -> None:
        self.host, self.shop = host, shop
        self.searching: PipelineSearch | None = None
        self.beside = host.settings.threads > 1

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        host, limit = self.host, self.host.settings.time_limit_s
        self.ask_experts()
        if host.value is None:
            host.look_for_obstacle()
        if host.infeasible_because is not None:
            return
        if host.settings.node_limit is not None:
            self.solve_whole(1.0)
            return
        if host.proved:
            return
        watch = _Beside(self.slots) if self.beside else None
        per_device = max(kind.count for kind in self.shop.kinds) / self.shop.num_devices
        early = per_device >= MANY_MICRO_BATCHES
        if early:
            self.repeat()
        self.search(FIRST_SEARCH_SHARE * limit, watch)
        if watch is None and not host.proved:
            self.bound_by_slots(BOUND_SHARE * limit)
        if not (early or host.proved):
            self.repeat()
        self.search(SEARCH_SHARE * limit, watch)
        if not host.proved and self.shop.num_tasks <= MOST_TASKS_WHOLE:
            self.solve_whole(MODEL_SHARE)
        if host.infeasible_because is not None:
            return
        if not host.proved:
            host.polish()
        self.search(host.clock.left_s, watch)
        if watch is not None:
            watch.tell(host)

    # -- bounds ------------------------------------------------------------------------------

    def slots(self, tell: Callable[[Bound], None]) -> None:
        """Raise the bound beside everything else; runs in a thread, the solver in a process."""
        host = self.host
        lower = host.bound.value if host.bound else None
        slot_bound(self.shop, host.value, host.clock.left_s, lower, on_progress=tell)

    def bound_by_slots(self, limit_s: float) -> None:
        """Raise the bound while nothing else runs."""
        host = self.host
        lower = host.bound.value if host.bound else None
        with host.clock.phase("bounds"):
            slot_bound(
                self.shop,
                host.value,
                min(limit_s, host.clock.left_s),
                lower,
                threads=host.settings.threads,
                on_progress=host.raise_bound,
            )

    # -- plans -------------------------------------------------------------------------------

    def take(self, words: Words, planner: str, phase: str) -> None:
        """Offer the plan of words."""
        self.host.offer(self.shop.plan(best_times(self.shop, words), planner), planner, phase)

    def ask_experts(self) -> None:
        """Every expert that is defined here; one whose memory does not suffice has no value."""
        host = self.host
        found: dict[str, Words] = {}
        with host.clock.phase("baselines"):
            for name, expert in WORDS.items():
                if found and host.clock.elapsed_s > EXPERT_SHARE * host.settings.time_limit_s:
                    break
                words = expert(self.shop)
                if words is None:
                    continue
                host.baselines[name] = None
                if fits(self.shop, words):
                    host.baselines[name] = value_of(self.shop, best_times(self.shop, words))
                    found[name] = words
        best = min(found, key=lambda name: host.baselines[name] or 0, default=None)
        if best is not None:
            self.take(found[best], best, "baselines")

    def search(self, limit_s: float, watch: _Beside | None) -> None:
        """Search over words, in turns, so that a bound found meanwhile can end it."""
        host = self.host
        end = time.monotonic() + min(limit_s, host.clock.left_s)
        while not host.proved and end - time.monotonic() > 0.05:
            search = self.seeded()
            with host.clock.phase("search"):
                try:
                    search.run(
                        min(TURN_S, end - time.monotonic()),
                        lambda words, _: self.take(words, "pipeline search", "search"),
                    )
                except LookupError:
                    host.say("search", "no schedule found")
                    return
            if watch is not None:
                watch.tell(host)

    def seeded(self) -> PipelineSearch:
        """The search, which knows the best plan and bound of all stages."""
        host = self.host
        if self.searching is None:
            self.searching = PipelineSearch(self.shop, host.settings.seed)
        if host.bound is not None:
            self.searching.lower = max(self.searching.lower, host.bound.value)
        if host.plan is not None and host.value is not None and host.value < self.searching.value:
            words = words_of(self.shop, host.plan)
            self.searching.words, self.searching.value = words, host.value
        return self.searching

    def repeat(self) -> None:
        """A repeating pattern with its own warm-up and cool-down."""
        host = self.host
        try:
            from .periodic import plan_periodic
        except ImportError:
            return
        with host.clock.phase("pattern"):
            plan = plan_periodic(
                self.shop,
                PATTERN_SHARE * host.clock.left_s,
                host.settings.seed,
                host.settings.threads,
                lambda found: host.offer(found, "repeating pattern", "pattern"),
            )
        host.offer(plan, "repeating pattern", "pattern")

    def solve_whole(self, share: float) -> None:
        """The exact model of the whole problem, from the best plan."""
        host, settings = self.host, self.host.settings
        left = host.clock.left_s
        guide = Guide(host.value, host.bound.value if host.bound else None)
        limits = Limits(
            time_s=max(1.0, share * left),
            nodes=settings.node_limit,
            gap=min(settings.gap, 1e-6),
            seed=settings.seed,
            threads=settings.threads,
        )
        host.say("model", f"{self.shop.num_tasks} tasks")
        answer = host.solver.run(host.problem, guide, limits, host.clock, start=host.plan)
        host.use_answer(answer, "pipeline_order")


class _Beside:
    """Work in a thread whose bounds are told in between; its solver runs in its own process."""

    def __init__(self, work: Callable[[Callable[[Bound], None]], None]) -> None:
        self.news: SimpleQueue[Bound] = SimpleQueue()
        self.thread = Thread(target=work, args=(self.news.put,), daemon=True)
        self.thread.start()

    def tell(self, host: Host) -> None:
        """Pass on what was found since the last time."""
        while not self.news.empty():
            host.raise_bound(self.news.get())
