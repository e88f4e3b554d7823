"""Plans a pipeline of identical micro-batches.

Bounds, expert schedules, a search over words, a repeating pattern, the exact order model and its
neighbourhoods take turns until the bound is met or the time is up. Every plan goes through the
checker, every bound is on the whole problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Event

from milp_plan.backends import highs
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import now
from milp_plan.kinds.schedule.strategies.small_schedule import is_tiny, offer_best_of_all
from milp_plan.models.protocol import Guide
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step, Strategy

from ..bounds import floors
from ..experts import SEARCHES, WORDS
from ..planners.overtaking import Overtaking
from ..planners.search import PipelineSearch, one_by_one
from ..reading import read_shop
from ..shop import Shop
from ..span import best_times
from ..timing import Words, fits, value_of, words_of
from .periodic import plan_periodic
from .slot_bound import slot_bound

FIRST_SEARCH_SHARE, SEARCH_SHARE = 0.15, 0.3
"""Shares of the time limit for the search over words: before the bound by slots, and after it."""

BOUND_SHARE = 0.3
"""Share of the time limit for the bound by slots."""

EXPERT_SHARE = 0.5
"""Share of the time limit after which no further expert is run."""

SEARCHING_SHARE = 0.15
"""Share of the time limit after which experts that search end."""

PATTERN_SHARE, PATTERN_SHARE_ALONE = 0.4, 0.6
"""Shares of the time left for the repeating pattern: next to beam search, and without it."""

MANY_MICRO_BATCHES = 6
"""Micro-batches per device from which the repeating pattern comes first."""

MAX_TASKS_WHOLE = 600
"""Largest number of tasks for which the order model is solved as a whole."""

MAX_TASKS_AFRESH = 2_000
"""Largest number of tasks for which beams start from nothing; else they improve a plan."""

MAX_TASKS_BEAM = 20_000
"""Largest number of tasks for beam search: following given words takes 0.5 s per 1000."""

MODEL_SHARE = 0.5
"""Share of the time left for the whole model; the search has the rest."""

PATIENCE_S = 2.0
"""Time to wait for the stopping thread, which may still build a model, seconds."""

TURN_S = 1.5
"""Time after which the two searches alternate and look for new bounds, seconds."""

LEAST_TURNS = 2
"""Turns without a better plan, one of each search, before searches count as stalled."""


class ShopStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for problems that can be read as job shops of identical micro-batches."""

    name = "pipeline"
    own_formulation = True

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        shop = read_shop(ledger.problem)
        assert isinstance(shop, Shop), shop
        self.shop = shop
        self.searching: PipelineSearch | None = None
        self.overtaking = Overtaking(shop, ledger.settings.seed)
        self.concurrent = ledger.threads > 1
        self.check_s = 0.0

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Return the exact order model of a shop."""
        return "pipeline_order"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Reject problems that do not repeat, or that leave places open."""
        shop = read_shop(problem)
        return shop if isinstance(shop, str) else None

    def steps(self) -> Iterable[Step]:
        """Run bounds and experts, then searches, the pattern and the model in turns."""
        ledger = self.ledger
        return (
            Step("floors", self.find_floors, run_after_time_limit=True),
            Step("experts", self.run_experts, run_after_time_limit=True),
            Step("obstacle", ledger.prove_infeasible, lambda: ledger.value is None),
            Step("every plan", partial(offer_best_of_all, ledger), partial(is_tiny, ledger)),
            Step("model", lambda: self.solve_whole(1.0), lambda: ledger.repeatable),
            Step("searches", self.improve_and_prove, lambda: not ledger.repeatable),
        )

    def find_floors(self) -> None:
        """Compute bounds that only need sums."""
        for floor in floors(self.shop):
            self.ledger.prove(floor)

    def improve_and_prove(self) -> None:
        """Run everything after the experts, with bounds by slots in a second thread if allowed."""
        watch = _Watch(self.slots) if self.concurrent else None
        try:
            self.improve(watch)
        finally:
            if watch is not None:
                watch.end()
        if watch is not None:  # never in place of an interruption
            watch.thread.check()

    def improve(self, watch: _Watch | None) -> None:
        """Run searches, pattern and model."""
        ledger, limit = self.ledger, self.ledger.budget.limit_s
        per_device = max(kind.count for kind in self.shop.kinds) / self.shop.num_devices
        early = per_device >= MANY_MICRO_BATCHES
        if early:
            self.repeat()
        self.search(FIRST_SEARCH_SHARE * limit, watch, until_stalled=watch is None)
        if watch is None and not ledger.settled:
            self.bound_by_slots(BOUND_SHARE)
        if not (early or ledger.settled):
            self.repeat()
        self.search(SEARCH_SHARE * limit, watch)
        if not ledger.settled and self.shop.num_tasks <= MAX_TASKS_WHOLE:
            self.solve_whole(MODEL_SHARE)
        if ledger.infeasible_reason is not None:
            return
        self.search(self.left_s, watch)

    @property
    def left_s(self) -> float:
        """Return the seconds left of the time limit, less the time to check another plan."""
        return max(0.0, self.ledger.budget.left_s - self.check_s)

    # -- bounds ------------------------------------------------------------------------------

    def slots(self, watch: _Watch) -> None:
        """Raise the bound concurrently; runs in a thread, with the solver in a process."""
        ledger = self.ledger
        slot_bound(
            self.shop,
            ledger.value,
            ledger.budget.left_s,
            ledger.lower,
            on_progress=ledger.prove,
            session=watch.session,
            stop=watch.stopped.is_set,
        )

    def bound_by_slots(self, share: float) -> None:
        """Raise the bound while nothing else runs."""
        ledger = self.ledger
        with ledger.budget.phase("bounds"):
            slot_bound(
                self.shop,
                ledger.value,
                ledger.budget.part("slots", share).limit_s,
                ledger.lower,
                threads=ledger.threads,
                on_progress=ledger.prove,
            )

    # -- plans -------------------------------------------------------------------------------

    def take(self, words: Words, planner: str, phase: str) -> None:
        """Offer the plan of words."""
        began = now()
        self.ledger.offer(self.shop.plan(best_times(self.shop, words), planner), planner, phase)
        self.check_s = max(self.check_s, now() - began)

    def run_experts(self) -> None:
        """Run every expert that is defined here; without enough memory it has no value."""
        ledger = self.ledger
        words_by_name: dict[str, Words] = {}
        until = None
        if not ledger.repeatable:
            until = ledger.budget.began + SEARCHING_SHARE * ledger.budget.limit_s
        with ledger.budget.phase("baselines"):
            for name, expert in WORDS.items():
                if words_by_name and ledger.budget.elapsed_s > EXPERT_SHARE * ledger.budget.limit_s:
                    break
                searching = SEARCHES.get(name)
                words = searching(self.shop, until) if searching else expert(self.shop)
                if words is None:
                    continue
                ledger.baselines[name] = None
                if fits(self.shop, words):
                    ledger.baselines[name] = value_of(self.shop, best_times(self.shop, words))
                    words_by_name[name] = words
                    if ledger.plan is None:  # what ends the run now must not cost it
                        self.take(words, name, "baselines")
                    self.overtaking.add(words)
        best = min(words_by_name, key=lambda name: ledger.baselines[name] or 0, default=None)
        if best is not None:
            self.take(words_by_name[best], best, "baselines")
            return
        try:
            words = one_by_one(self.shop)
        except ValueError:  # the search, or the model, reports it too
            return
        self.overtaking.add(words)
        self.take(words, "one by one", "baselines")

    def search(self, limit_s: float, watch: _Watch | None, *, until_stalled: bool = False) -> None:
        """Alternate two searches over words, so that a new bound can end them.

        With ``until_stalled`` they end where as many turns brought no better plan as all before.
        """
        ledger = self.ledger
        end = now() + min(limit_s, self.left_s)
        turn = improved = 0
        while not ledger.settled and end - now() > 0.05:
            if until_stalled and turn - improved >= max(LEAST_TURNS, improved):
                return
            seconds, value = min(TURN_S, end - now()), ledger.value
            with ledger.budget.phase("search"):
                overtake = self.overtaking.elite and (turn % 2 == 0 or not self.beams)
                possible = self.overtake(seconds) if overtake else self.beam(seconds, end)
            if not (possible or self.overtaking.elite):
                return
            if watch is not None:
                watch.thread.check()
            turn += 1
            if ledger.value != value:
                improved = turn

    def overtake(self, seconds: float) -> bool:
        """Rebuild the best words by list schedules; return True."""
        ledger = self.ledger
        if ledger.plan is not None and ledger.value != self.overtaking.elite[0][0]:
            self.overtaking.add(words_of(self.shop, ledger.plan))
        lower = ledger.lower or 0

        def take(words: Words, _: int) -> None:
            self.take(words, "overtaking", "search")

        self.overtaking.run(seconds, take, lower=lower)
        return True

    @property
    def beams(self) -> bool:
        """Whether the shop is small enough for beams."""
        return self.shop.num_tasks <= MAX_TASKS_BEAM

    def beam(self, seconds: float, end: float) -> bool:
        """Search by beams; return False when not even one micro-batch fits."""
        ledger = self.ledger
        if self.searching is None:
            large = self.shop.num_tasks > MAX_TASKS_AFRESH and ledger.plan is not None
            start = words_of(self.shop, ledger.plan) if large and ledger.plan is not None else None
            try:
                self.searching = PipelineSearch(
                    self.shop, ledger.settings.seed, start, limit_s=end - now()
                )
            except ValueError as reason:
                ledger.say("search", str(reason))
                return False
        search = self.searching
        if ledger.bound is not None:
            search.lower = max(search.lower, ledger.bound.value)
        if ledger.plan is not None and ledger.value is not None and ledger.value < search.value:
            search.words, search.value = words_of(self.shop, ledger.plan), ledger.value
        search.run(seconds, lambda words, _: self.take(words, "pipeline search", "search"))
        self.overtaking.add(search.words)
        return True

    def repeat(self) -> None:
        """Plan with a repeating pattern that has its own warm-up and cool-down."""
        ledger = self.ledger
        with ledger.budget.phase("pattern"):
            plan_periodic(
                self.shop,
                (PATTERN_SHARE if self.beams else PATTERN_SHARE_ALONE) * self.left_s,
                ledger.settings.seed,
                ledger.threads,
                lambda found: ledger.offer(found, "repeating pattern", "pattern"),
            )

    def solve_whole(self, share: float) -> None:
        """Solve the exact model of the whole problem for a plan better than the best one.

        Often a few windows refute that, whereas a model that starts from the plan itself would have
        to close the gap by branching.
        """
        ledger = self.ledger
        part = ledger.budget.part("model", share, of_limit=False)
        ledger.say("model", f"{self.shop.num_tasks} tasks")
        while not ledger.done and not part.over:
            cutoff = None if ledger.value is None else ledger.value - 1
            limits = ledger.limits(part.left_s)
            guide = Guide(cutoff, ledger.lower)
            answer = ledger.solver.run(ledger.problem, guide, limits, ledger.budget)
            believed = ledger.accept_answer(answer, cutoff)
            if not (believed.found and believed.complete):
                return


class _Watch:
    """A background thread whose solver runs in its own process; its bounds go to the ledger.

    Attributes
    ----------
    session
        The solver's process.
    stopped
        Set when the work is to end.
    """

    def __init__(self, work: Callable[[_Watch], None]) -> None:
        self.session = highs.Session()
        self.stopped = Event()
        self.thread = BackgroundThread(lambda: self._run(work))
        self.thread.start()

    def _run(self, work: Callable[[_Watch], None]) -> None:
        with self.session:
            work(self)

    def end(self) -> None:
        """Stop the work, and wait for it briefly."""
        self.stopped.set()
        end = now() + PATIENCE_S
        while self.thread.is_alive() and now() < end:
            self.session.interrupt()  # again, in case a solve had only just begun
            self.thread.join(PATIENCE_S / 10)
