"""Planning a pipeline of identical micro-batches, where stage one of other problems has no use.

Bounds, expert schedules, a search over words, a repeating pattern, the exact order model and its
neighbourhoods take turns until the bound is met or the time is up. Every plan goes through the
checker, every bound is on the whole problem.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event

from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop, highs
from milp_plan.bounds import Bound
from milp_plan.core.budget import now
from milp_plan.pipeline import Shop, Words, best_times, fits, value_of, words_of
from milp_plan.planners.experts import SEARCHES, WORDS
from milp_plan.planners.pipelines import Overtaking, PipelineSearch, one_by_one

from .beside import Beside
from .host import Host
from .periodic import plan_periodic
from .slot_bound import slot_bound

FIRST_SEARCH_SHARE, SEARCH_SHARE = 0.15, 0.3
"""Parts of the time limit for the search over words: before the bound by slots, and after it."""

BOUND_SHARE = 0.3
"""Part of the time limit for the bound by slots."""

EXPERT_SHARE = 0.5
"""Part of the time limit after which no further expert is asked."""

SEARCHING_SHARE = 0.15
"""Part of the time limit after which experts that search end."""

PATTERN_SHARE, PATTERN_SHARE_ALONE = 0.4, 0.6
"""Parts of the time left for the repeating pattern: beside beams, and without them."""

MANY_MICRO_BATCHES = 6
"""Micro-batches per device from which the repeating pattern comes first."""

MOST_TASKS_WHOLE = 600
"""Tasks up to which the order model is tried as a whole."""

MOST_TASKS_AFRESH = 2_000
"""Tasks up to which beams start from nothing; with more they improve the best plan."""

MOST_TASKS_BEAM = 20_000
"""Tasks up to which there are beams at all: following given words costs half a second per 1000."""

MOST_TASKS_NEAR = 10_000
"""Tasks up to which neighbourhoods are searched: a model of one costs a second per 10 000."""

MODEL_SHARE = 0.5
"""Part of the time left for the whole model; neighbourhoods and the search have the rest."""

PATIENCE_S = 2.0
"""Seconds to wait for the thread that is told to stop: it may be writing rows down."""

TURN_S = 1.5
"""Seconds after which the two searches change turns, and news from elsewhere are looked at."""


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
        self.overtaking = Overtaking(shop, host.settings.seed)
        self.beside = host.settings.threads > 1
        self.check_s = 0.0

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        host = self.host
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
        watch = _Watch(self.slots) if self.beside else None
        try:
            self.improve(watch)
        finally:
            if watch is not None:
                watch.end(host)
        if watch is not None:  # never in place of an interruption
            watch.thread.check()

    def improve(self, watch: _Watch | None) -> None:
        """Everything after the experts."""
        host, limit = self.host, self.host.settings.time_limit_s
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
        if not host.proved and self.shop.num_tasks <= MOST_TASKS_NEAR:
            host.polish()
        self.search(self.left_s, watch)

    @property
    def left_s(self) -> float:
        """Seconds left of the time limit, less those that another plan would take to check."""
        return max(0.0, self.host.clock.left_s - self.check_s)

    # -- bounds ------------------------------------------------------------------------------

    def slots(self, beside: _Watch) -> None:
        """Raise the bound beside everything else; runs in a thread, the solver in a process."""
        host = self.host
        slot_bound(
            self.shop,
            host.value,
            host.clock.left_s,
            host.bound.value if host.bound else None,
            on_progress=beside.news.put,
            session=beside.session,
            stop=beside.stopped.is_set,
        )

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
        began = now()
        self.host.offer(self.shop.plan(best_times(self.shop, words), planner), planner, phase)
        self.check_s = max(self.check_s, now() - began)

    def ask_experts(self) -> None:
        """Every expert that is defined here; one whose memory does not suffice has no value."""
        host = self.host
        found: dict[str, Words] = {}
        until = None
        if host.settings.node_limit is None:
            until = now() - host.clock.elapsed_s
            until += SEARCHING_SHARE * host.settings.time_limit_s
        with host.clock.phase("baselines"):
            for name, expert in WORDS.items():
                if found and host.clock.elapsed_s > EXPERT_SHARE * host.settings.time_limit_s:
                    break
                searching = SEARCHES.get(name)
                words = searching(self.shop, until) if searching else expert(self.shop)
                if words is None:
                    continue
                host.baselines[name] = None
                if fits(self.shop, words):
                    host.baselines[name] = value_of(self.shop, best_times(self.shop, words))
                    found[name] = words
                    self.overtaking.add(words)
        best = min(found, key=lambda name: host.baselines[name] or 0, default=None)
        if best is not None:
            self.take(found[best], best, "baselines")
            return
        try:
            words = one_by_one(self.shop)
        except ValueError:  # the search, or the model, says so too
            return
        self.overtaking.add(words)
        self.take(words, "one by one", "baselines")

    def search(self, limit_s: float, watch: _Watch | None) -> None:
        """Two searches over words in turns, so that a bound found meanwhile can end them."""
        host = self.host
        end = now() + min(limit_s, self.left_s)
        turn = 0
        while not host.proved and end - now() > 0.05:
            seconds = min(TURN_S, end - now())
            with host.clock.phase("search"):
                overtake = self.overtaking.elite and (turn % 2 == 0 or not self.beams)
                found = self.overtake(seconds) if overtake else self.beam(seconds, end)
            if not (found or self.overtaking.elite):
                return
            if watch is not None:
                watch.tell(host)
                watch.thread.check()
            turn += 1

    def overtake(self, seconds: float) -> bool:
        """Schedule the best words anew."""
        host = self.host
        if host.plan is not None and host.value != self.overtaking.elite[0][0]:
            self.overtaking.add(words_of(self.shop, host.plan))
        lower = host.bound.value if host.bound else 0

        def take(words: Words, _: int) -> None:
            self.take(words, "overtaking", "search")

        self.overtaking.run(seconds, take, lower=lower)
        return True

    @property
    def beams(self) -> bool:
        """Whether the shop is small enough for beams."""
        return self.shop.num_tasks <= MOST_TASKS_BEAM

    def beam(self, seconds: float, end: float) -> bool:
        """Search by beams; False when not even one micro-batch fits."""
        host = self.host
        if self.searching is None:
            large = self.shop.num_tasks > MOST_TASKS_AFRESH and host.plan is not None
            start = words_of(self.shop, host.plan) if large and host.plan is not None else None
            try:
                self.searching = PipelineSearch(
                    self.shop, host.settings.seed, start, limit_s=end - now()
                )
            except ValueError as reason:
                host.say("search", str(reason))
                return False
        search = self.searching
        if host.bound is not None:
            search.lower = max(search.lower, host.bound.value)
        if host.plan is not None and host.value is not None and host.value < search.value:
            search.words, search.value = words_of(self.shop, host.plan), host.value
        search.run(seconds, lambda words, _: self.take(words, "pipeline search", "search"))
        self.overtaking.add(search.words)
        return True

    def repeat(self) -> None:
        """A repeating pattern with its own warm-up and cool-down."""
        host = self.host
        with host.clock.phase("pattern"):
            plan_periodic(
                self.shop,
                (PATTERN_SHARE if self.beams else PATTERN_SHARE_ALONE) * self.left_s,
                host.settings.seed,
                host.settings.threads,
                lambda found: host.offer(found, "repeating pattern", "pattern"),
            )

    def solve_whole(self, share: float) -> None:
        """Ask the exact model of the whole problem for anything better than the best plan.

        Refuting that is often a matter of windows alone, where a model that starts from the plan
        itself would have to close the gap by branching.
        """
        host, settings = self.host, self.host.settings
        end = now() + share * host.clock.left_s
        host.say("model", f"{self.shop.num_tasks} tasks")
        while not host.proved and host.infeasible_because is None:
            cutoff = None if host.value is None else host.value - 1
            limits = Limits(
                time_s=max(1.0, end - now()),
                nodes=settings.node_limit,
                gap=min(settings.gap, 1e-6),
                seed=settings.seed,
                threads=settings.threads,
            )
            guide = Guide(cutoff, host.bound.value if host.bound else None)
            answer = host.solver.run(host.problem, guide, limits, host.clock)
            host.use_answer(answer, cutoff)
            if answer.value is None or answer.report.stop is not Stop.PROVED:
                return


class _Watch:
    """Work in a thread whose bounds are told in between; its solver runs in its own process.

    Attributes
    ----------
    news
        Bounds that were not told yet.
    session
        The solver's process.
    stopped
        Set when the work is to end.
    """

    def __init__(self, work: Callable[[_Watch], None]) -> None:
        self.news: SimpleQueue[Bound] = SimpleQueue()
        self.session = highs.Session()
        self.stopped = Event()
        self.thread = Beside(lambda: self._run(work))
        self.thread.start()

    def _run(self, work: Callable[[_Watch], None]) -> None:
        with self.session:
            work(self)

    def tell(self, host: Host) -> None:
        """Pass on what was found since the last time."""
        while not self.news.empty():
            host.raise_bound(self.news.get())

    def end(self, host: Host) -> None:
        """Stop the work, wait for it shortly, and pass on what it found."""
        self.stopped.set()
        end = now() + PATIENCE_S
        while self.thread.is_alive() and now() < end:
            self.session.interrupt()  # again, in case that a solve had only just begun
            self.thread.join(PATIENCE_S / 10)
        self.tell(host)
