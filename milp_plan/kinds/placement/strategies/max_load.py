"""Planning a bottleneck problem under the serial law whose parts need not be contiguous.

Bounds by cuts, orders cut at the best places, annealing in as many threads as the run may use, a
bound by prices of sets where the graph has few branches, the exact model asked for anything better
where that leaves a gap, then annealing again until the bound is met or the time is up. Every plan
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
"""Part of the time limit for bounds by cuts."""

FIRST_SHARE, MODEL_SHARE = 0.15, 0.6
"""Parts of the time limit for the first search, and of the time then left for the whole model."""

MODEL_CLASSES = 128
"""Classes up to which the model is asked for what prices leave open, where pairs can be split."""

PRICED_SHARE, APART_SHARE = 0.4, 0.1
"""Parts of the time left then for prices of sets, and where passes count apart, which they do not
see; the other threads search meanwhile."""

REPEATABLE_STEPS = 24
"""Steps to better prices where nothing may depend on the clock."""

ORDER_SHARE = 0.05
"""Part of the time limit for an order along which pairs of devices are split."""

REPEATABLE_CYCLES = 8
"""Times that pairs are split from the best plan on where the clock does not count."""

PAIRS_SHARE = 0.8
"""Part of a turn for splitting pairs, after the first search."""

PATIENCE = 24
"""Rounds without a better plan that end the first search."""

REPEATABLE_ROUNDS = 12
"""Rounds of annealing where nothing may depend on the clock."""

SETTLE_S = 2.0
"""Seconds at most for the gap that a proof to the gap asked for leaves."""

TURN_S = 1.0
"""Seconds after which the threads compare what they have."""


class MaxLoadStrategy(SerialStrategy):
    """The way for bottleneck problems under the serial law whose parts may lie anywhere."""

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
        """Bottleneck without contiguity."""
        return law.calls is None and law.contiguity is Contiguity.FREE

    def steps(self) -> Iterable[Step]:
        """Bounds by cuts, lines, annealing, prices of sets, the model, annealing again."""
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
        """Take the steps; then look shortly for what a proof to a gap leaves."""
        super().run_steps()
        ledger = self.ledger
        if ledger.settled and ledger.gap and not self.repeatable:
            end = ledger.budget.at_most("settling", SETTLE_S).end
            while self.idle <= PATIENCE and all(s.worth_while(end) for s in self.searches):
                self.turn(TURN_S / 4, end)

    def find_bounds(self) -> None:
        """Bounds by cuts; those that look at slow classes know the best plan."""
        ledger = self.ledger
        with ledger.budget.phase("bounds"):
            part = ledger.budget.part("bounds", BOUND_SHARE)
            for bound in serial_bounds(self.graph, part, ledger.value):
                ledger.prove(bound)

    def price_sets(self) -> None:
        """A bound by prices of classes, while the other threads cool."""
        ledger = self.ledger
        assert ledger.value is not None
        steps = REPEATABLE_STEPS if self.repeatable else None
        apart = self.graph.law.passes is Passes.SEPARATE
        share = APART_SHARE if apart else PRICED_SHARE
        part = ledger.budget.part("priced sets", share, of_limit=False)
        beside = self.beside()
        with ledger.budget.phase("bounds"), _Searches(beside, part.end, part.end):
            for bound in priced_bounds(self.graph, ledger.lower or 0, ledger.value, part, steps):
                ledger.prove(bound)
                if ledger.settled:
                    break
            for search in beside:
                search.stopped = True
        self.collect()

    # -- plans -------------------------------------------------------------------------------

    def take(self, search: SerialAnnealing, planner: str, phase: str) -> None:
        """Offer the best plan of a search."""
        if search.best is not None:
            self.ledger.offer(self.graph.plan(search.best.tolist(), planner), planner, phase)

    def find_baselines(self) -> None:
        """Orders cut at the best places; the user's start takes part."""
        ledger, search = self.ledger, self.searches[0]
        with ledger.budget.phase("baselines"):
            search.cut_orders()
        if search.best is not None:
            ledger.baselines["linearised"] = max(self.graph.loads(search.best.tolist()))
            self.take(search, "linearised", "baselines")
        self.share()

    def share(self) -> None:
        """Give every search the best plan."""
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

    def beside(self) -> list[SerialAnnealing] | list[Resplitting]:
        """Searches for the threads that the bound and the model leave."""
        return self.read_pairs()[1:] or self.searches[1:]

    def anneal_rounds(self) -> None:
        """A fixed number of coolings."""
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
        """Cool in all threads until time is up or ``patience`` rounds brought nothing better."""
        ledger = self.ledger
        end = ledger.budget.part(f"annealing, {name}", share).end
        turn_s = 0.1
        self.share()
        while not ledger.settled and all(search.worth_while(end) for search in self.searches):
            if self.idle > patience:
                return
            share = 0.5 if patience < float("inf") else PAIRS_SHARE
            self.turn(turn_s, end)
            self.split_pairs(turn_s * share / (1 - share), end)
            turn_s = min(TURN_S, 2.0 * turn_s)

    def turn(self, seconds: float, end: float) -> None:
        """Let all threads cool for a while, until the end at most, and compare what they have."""
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
        """Rounds of each search since one of them found something better."""
        return min(search.rounds - search.lucky for search in self.searches)

    def collect(self) -> None:
        """Take what the searches found, and give it to all of them."""
        for search in self.searches:
            if search.value < self.taken:
                self.taken = search.value
                self.take(search, "annealing", "anneal")
        for pairs in self.pairs or ():
            if pairs.found is not None:
                places, pairs.found = pairs.found.tolist(), None
                self.ledger.offer(self.graph.plan(places, "pairs split anew"), "pairs", "anneal")
        self.share()

    # -- the model ---------------------------------------------------------------------------

    def model_may_help(self) -> bool:
        """Whether there is a model, and its time would not be better spent on pairs of devices."""
        if self.ledger.formulation is None:
            return False
        small = self.repeatable or len(self.graph) <= MODEL_CLASSES
        return small or not self.read_pairs()

    def solve_whole(self) -> None:
        """Ask the exact model for anything better than the best plan, until there is nothing.

        Plans within the gap asked for are not looked for: refuting the rest is the proof.
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
            beside = self.beside() if self.idle <= PATIENCE else []
            limits = dataclasses.replace(limits, threads=max(1, ledger.threads - len(beside)))
            with _Searches(beside, end, end):
                answer = ledger.solver.run(ledger.problem, guide, limits, ledger.budget)
                for search in beside:
                    search.stopped = True
            self.collect()
            believed = ledger.accept_answer(answer, cutoff)
            if not (believed.found and believed.complete):
                return


class _Searches:
    """Searches that run in threads while something else happens; left when they are done."""

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
            for thread in self.threads if kind is None else ():  # an interruption waits for none
                thread.join()
                thread.check()
        finally:
            for search in self.searches:
                search.stopped = True
