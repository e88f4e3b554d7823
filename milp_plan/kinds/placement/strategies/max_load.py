"""Plans a bottleneck problem under the serial law whose parts need not be contiguous.

Bounds by cuts, orders cut at the best places, annealing in all threads of the run, a
bound by prices of sets where the graph has few branches, the exact model where that leaves a
gap, then annealing again until the bound is met or the time is up. Every plan
goes through the checker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType

from milp_plan.core import Contiguity, Passes, Plan, PlanningProblem, SerialLaw
from milp_plan.core.budget import now
from milp_plan.kinds.schedule.loops import LARGEST_LOAD
from milp_plan.models.protocol import Guide
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step

from ..bounds.catalogue import serial_bounds
from ..bounds.priced import priced_bounds
from ..planners.annealing import SerialAnnealing
from ..planners.resplit import Resplitting, resplitting
from .serial import SerialStrategy
from .tiny_serial import is_tiny, offer_best_of_all

BOUND_SHARE = 0.1
"""Share of the time limit for bounds by cuts."""

FIRST_SHARE, MODEL_SHARE = 0.15, 0.6
"""Shares of the time limit for the first search, and of the time then left for the model."""

MODEL_CLASSES = 128
"""Largest number of classes for which the model closes the gap of prices, if pairs can be split."""

PRICED_SHARE, APART_SHARE = 0.4, 0.1
"""Shares of the time then left for prices of sets; the second one where passes count apart, which
prices ignore. The other threads search meanwhile."""

REPEATABLE_STEPS = 64
"""Largest number of steps to better prices of each search in a repeatable run, in which nothing may
depend on the clock. The long search on 96 classes of GNMT ends after 48."""

ORDER_SHARE = 0.05
"""Share of the time limit for an order along which pairs of devices are split."""

REPEATABLE_CYCLES = 8
"""Restarts of pair splitting in a repeatable run."""

PAIRS_SHARE = 0.8
"""Share of a turn for splitting pairs, after the first search."""

PATIENCE = 24
"""Consecutive rounds without a better plan that end the first search."""

REPEATABLE_ROUNDS = 12
"""Rounds of annealing in a repeatable run."""

SETTLE_S = 2.0
"""Time limit for closing the gap that remains within the required gap, seconds."""

TURN_S = 1.0
"""Seconds after which the threads compare their results."""


class MaxLoadStrategy(SerialStrategy):
    """The strategy for bottleneck problems under the serial law without contiguity."""

    name = "largest load"
    formulation = "max_load"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.repeatable = ledger.repeatable
        self.limit_s = ledger.budget.limit_s
        threads = 1 if self.repeatable else ledger.threads
        self.taken = float("inf")
        seed = ledger.settings.seed
        self.pairs: list[Resplitting] | None = None
        self.searches = [SerialAnnealing(self.graph, seed + n) for n in range(threads)]

    @classmethod
    def suits(cls, law: SerialLaw) -> bool:
        """Accept bottleneck laws without contiguity."""
        return law.calls is None and law.contiguity is Contiguity.FREE

    def steps(self) -> Iterable[Step]:
        """Run bounds by cuts, lines, annealing, prices of sets, the model, annealing again."""
        ledger, timed = self.ledger, lambda: not self.repeatable
        return (
            Step("bounds", self.find_bounds, run_after_time_limit=True, loops=(LARGEST_LOAD,)),
            Step("lines", self.find_baselines, run_after_time_limit=True, loops=(LARGEST_LOAD,)),
            Step("obstacle", ledger.prove_infeasible, lambda: ledger.value is None),
            Step("every placement", lambda: offer_best_of_all(ledger), lambda: is_tiny(ledger)),
            Step("rounds", self.anneal_rounds, lambda: self.repeatable),
            Step("bounds near the plan", self.find_bounds),
            Step("annealing", lambda: self.anneal("first", FIRST_SHARE, PATIENCE), timed),
            Step("bounds near the better plan", self.find_bounds, timed),
            Step("priced sets", self.price_sets, lambda: ledger.value is not None),
            Step("model", self.solve_whole, self.model_may_help),
            Step("annealing to the end", lambda: self.anneal("last", 1.0), timed),
        )

    def run_steps(self) -> None:
        """Run the steps; then search briefly for a plan that closes the remaining gap."""
        super().run_steps()
        ledger = self.ledger
        if ledger.settled and ledger.gap and not self.repeatable:
            end = ledger.budget.at_most("settling", SETTLE_S).end
            while self.idle <= PATIENCE and all(s.has_time(end) for s in self.searches):
                self.turn(TURN_S / 4, end)

    def find_bounds(self) -> None:
        """Prove bounds by cuts; those by slow classes use the best plan."""
        ledger = self.ledger
        with ledger.budget.phase("bounds"):
            part = ledger.budget.part("bounds", BOUND_SHARE)
            for bound in serial_bounds(self.graph, part, ledger.value):
                ledger.prove(bound)

    def price_sets(self) -> None:
        """Prove a bound by prices of classes, while the other threads anneal."""
        ledger = self.ledger
        assert ledger.value is not None
        steps = REPEATABLE_STEPS if self.repeatable else None
        apart = self.graph.law.passes is Passes.SEPARATE
        share = APART_SHARE if apart else PRICED_SHARE
        part = ledger.budget.part("priced sets", share, of_limit=False)
        others = self.concurrent_searches()
        with ledger.budget.phase("bounds"), _Searches(others, part.end, part.end):
            for bound in priced_bounds(self.graph, ledger.lower or 0, ledger.value, part, steps):
                ledger.prove(bound)
                if ledger.settled:
                    break
            for search in others:
                search.stopped = True
        self.collect()

    # -- plans -------------------------------------------------------------------------------

    def take(self, search: SerialAnnealing, planner: str, phase: str) -> None:
        """Offer the best plan of a search."""
        if search.best is not None:
            self.ledger.offer(self.graph.plan(search.best.tolist(), planner), planner, phase)

    def find_baselines(self) -> None:
        """Offer orders cut at the best places; the user's start takes part."""
        ledger, search = self.ledger, self.searches[0]
        with ledger.budget.phase("baselines"):
            search.cut_orders()
        if search.best is not None:
            ledger.baselines["linearised"] = max(self.graph.loads(search.best.tolist()))
            self.take(search, "linearised", "baselines")
        self.share()

    def share(self) -> None:
        """Pass the best plan to every search."""
        if self.ledger.plan is not None:
            places = self.graph.places(self.ledger.plan)
            for search in (*self.searches, *(self.pairs or ())):
                search.offer(places)

    def read_pairs(self) -> list[Resplitting]:
        """Return a search of pairs for each thread; none for many branches."""
        if self.pairs is None:
            ledger, self.pairs = self.ledger, []
            part = ledger.budget.part("orders", ORDER_SHARE)
            for number in range(len(self.searches)):
                search = resplitting(self.graph, part, ledger.settings.seed + number)
                if search is None:
                    break
                self.pairs.append(search)
            self.share()
        return self.pairs

    def concurrent_searches(self) -> list[SerialAnnealing] | list[Resplitting]:
        """Return the searches that run concurrently with the bound and the model."""
        return self.read_pairs()[1:] or self.searches[1:]

    def anneal_rounds(self) -> None:
        """Run a fixed number of annealing rounds."""
        search = self.searches[0]
        with self.ledger.budget.phase("anneal"):
            for _ in range(REPEATABLE_ROUNDS):
                search.step()
        self.take(search, "annealing", "anneal")
        self.share()
        with self.ledger.budget.phase("pairs"):
            for pairs in self.read_pairs() * REPEATABLE_CYCLES if self.ledger.plan else ():
                pairs.cycle()
        self.collect()

    def anneal(self, name: str, share: float, patience: float = float("inf")) -> None:
        """Anneal in all threads until time is up or ``patience`` rounds brought no improvement."""
        ledger = self.ledger
        end = ledger.budget.part(f"annealing, {name}", share).end
        turn_s = 0.1
        self.share()
        while not ledger.settled and all(search.has_time(end) for search in self.searches):
            if self.idle > patience:
                return
            share = 0.5 if patience < float("inf") else PAIRS_SHARE
            self.turn(turn_s, end)
            self.split_pairs(turn_s * share / (1 - share), end)
            turn_s = min(TURN_S, 2.0 * turn_s)

    def turn(self, seconds: float, end: float) -> None:
        """Let all threads anneal for a while, until the end at most, and compare their results."""
        until = min(end, now() + seconds)
        with self.ledger.budget.phase("anneal"), _Searches(self.searches, until, end):
            pass
        self.collect()

    def split_pairs(self, seconds: float, end: float) -> None:
        """Let all threads split pairs of devices for a while."""
        pairs = self.read_pairs()
        if pairs and not self.ledger.settled:
            until = min(end, now() + seconds)
            with self.ledger.budget.phase("pairs"), _Searches(pairs, until, end):
                pass
            self.collect()

    @property
    def idle(self) -> int:
        """Return the rounds of each search since the last improvement of any."""
        return min(search.rounds - search.best_round for search in self.searches)

    def collect(self) -> None:
        """Offer the results of the searches, and pass the best one to all of them."""
        for search in self.searches:
            if search.value < self.taken:
                self.taken = search.value
                self.take(search, "annealing", "anneal")
        for pairs in self.pairs or ():
            if pairs.improved is not None:
                places, pairs.improved = pairs.improved.tolist(), None
                self.ledger.offer(self.graph.plan(places, "pairs split again"), "pairs", "anneal")
        self.share()

    # -- the model ---------------------------------------------------------------------------

    def model_may_help(self) -> bool:
        """Return whether there is a model, and its time is not better spent on pairs of devices."""
        if self.ledger.formulation is None:
            return False
        small = self.repeatable or len(self.graph) <= MODEL_CLASSES
        return small or not self.read_pairs()

    def solve_whole(self) -> None:
        """Solve the exact model repeatedly for a plan better than the best one.

        Plans within the required gap are left out: refuting all others is the proof.
        """
        ledger, settings = self.ledger, self.ledger.settings
        share = 1.0 if self.repeatable or self.idle > PATIENCE else MODEL_SHARE
        part = ledger.budget.part("model", share, of_limit=False)
        end = part.end
        ledger.say("model", f"{len(self.graph)} classes, {len(self.graph.nets)} nets")
        while not ledger.done and not part.over:
            cutoff = None
            if ledger.value is not None:
                cutoff = min(
                    ledger.value - 1, ledger.value - int(ledger.value * settings.gap * 0.99)
                )
            limits = ledger.limits(part.left_s)
            guide = Guide(cutoff, ledger.lower)
            others = self.concurrent_searches() if self.idle <= PATIENCE else []
            limits = dataclasses.replace(limits, threads=max(1, ledger.threads - len(others)))
            with _Searches(others, end, end):
                answer = ledger.solver.run(ledger.problem, guide, limits, ledger.budget)
                for search in others:
                    search.stopped = True
            self.collect()
            believed = ledger.accept_answer(answer, cutoff)
            if not (believed.found and believed.complete):
                return


class _Searches:
    """Searches that run in threads within a ``with`` block, which waits for them at its end."""

    def __init__(
        self, searches: Sequence[SerialAnnealing | Resplitting], until: float, end: float
    ) -> None:
        self.searches = searches
        self.threads = [BackgroundThread(partial(search.run, until, end)) for search in searches]

    def __enter__(self) -> None:
        for search in self.searches:
            search.stopped = False
        for thread in self.threads:
            thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for thread in self.threads if kind is None else ():  # an interruption does not wait
                thread.join()
                thread.check()
        finally:
            for search in self.searches:
                search.stopped = True
