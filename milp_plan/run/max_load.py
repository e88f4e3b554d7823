"""Planning a bottleneck problem under the serial law whose parts need not be contiguous.

Bounds by cuts, orders cut at the best places, annealing in as many threads as the run may use, the
exact model asked for anything better, then annealing again until the bound is met or the time is
up. Every plan goes through the checker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.bounds.serial_catalogue import serial_bounds
from milp_plan.core.budget import Budget, now
from milp_plan.planners.serial.annealing import SerialAnnealing
from milp_plan.serial import SerialGraph

from .beside import Beside
from .host import Host

BOUND_SHARE = 0.1
"""Part of the time limit for bounds by cuts."""

FIRST_SHARE, MODEL_SHARE = 0.15, 0.6
"""Parts of the time limit for the first search, and of the time then left for the whole model."""

PATIENCE = 24
"""Rounds without a better plan that end the first search."""

REPEATABLE_ROUNDS = 12
"""Rounds of annealing where nothing may depend on the clock."""

SETTLE_S = 2.0
"""Seconds at most for the gap that a proof to the gap asked for leaves."""

TURN_S = 1.0
"""Seconds after which the threads compare what they have."""


class MaxLoadRun:
    """One run.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    graph
        The problem as a hypergraph of classes.
    """

    def __init__(self, host: Host, graph: SerialGraph) -> None:
        self.host, self.graph = host, graph
        self.repeatable, self.limit_s = (
            host.settings.node_limit is not None,
            host.settings.time_limit_s,
        )
        threads = 1 if self.repeatable else max(1, host.settings.threads)
        self.taken = float("inf")
        self.searches = [SerialAnnealing(graph, host.settings.seed + n) for n in range(threads)]

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        self.search_and_prove()
        host = self.host
        if host.proved and not self.repeatable and host.gap:
            end = now() + min(SETTLE_S, host.clock.left_s)
            while self.idle <= PATIENCE and all(s.worth_while(end) for s in self.searches):
                self.turn(TURN_S / 4, end)

    def search_and_prove(self) -> None:
        """Every stage but the last look for what a proof to a gap leaves."""
        host = self.host
        self.find_bounds()
        self.find_baselines()
        if host.value is None:
            host.look_for_obstacle()
        if host.infeasible_because is not None or host.proved:
            return
        if self.repeatable:
            self.anneal_rounds(REPEATABLE_ROUNDS)
            self.find_bounds()
            self.solve_whole(1.0)
            return
        self.find_bounds()
        self.anneal(FIRST_SHARE * self.limit_s, PATIENCE)
        if not host.proved:
            self.find_bounds()
        self.solve_whole(1.0 if self.idle > PATIENCE else MODEL_SHARE)
        if host.infeasible_because is None and host.stop is not Stop.INTERRUPTED:
            self.anneal(host.clock.left_s)

    def find_bounds(self) -> None:
        """Bounds by cuts; those that look at slow classes know the best plan."""
        host = self.host
        with host.clock.phase("bounds"):
            deadline = Budget(None if self.repeatable else BOUND_SHARE * self.limit_s)
            for bound in serial_bounds(self.graph, deadline, host.value):
                host.raise_bound(bound)

    # -- plans -------------------------------------------------------------------------------

    def take(self, search: SerialAnnealing, planner: str, phase: str) -> None:
        """Offer the best plan of a search."""
        if search.best is not None:
            self.host.offer(self.graph.plan(search.best.tolist(), planner), planner, phase)

    def find_baselines(self) -> None:
        """Orders cut at the best places; the user's start takes part."""
        host, search = self.host, self.searches[0]
        with host.clock.phase("baselines"):
            search.cut_orders()
        if search.best is not None:
            host.baselines["linearised"] = max(self.graph.loads(search.best.tolist()))
            self.take(search, "linearised", "baselines")
        self.share()

    def share(self) -> None:
        """Give every search the best plan."""
        if self.host.plan is not None:
            places = self.graph.places(self.host.plan)
            for search in self.searches:
                search.offer(places)

    def anneal_rounds(self, rounds: int) -> None:
        """A fixed number of coolings."""
        search = self.searches[0]
        with self.host.clock.phase("anneal"):
            for _ in range(rounds):
                search.step()
        self.take(search, "annealing", "anneal")

    def anneal(self, limit_s: float, patience: float = float("inf")) -> None:
        """Cool again and again in all threads; enough after so many rounds without a better one."""
        host = self.host
        end = now() + min(limit_s, host.clock.left_s)
        turn_s = 0.1
        self.share()
        while not host.proved and all(search.worth_while(end) for search in self.searches):
            if self.idle > patience:
                return
            self.turn(turn_s, end)
            turn_s = min(TURN_S, 2.0 * turn_s)

    def turn(self, seconds: float, end: float) -> None:
        """Let all threads cool for a while, until the end at most, and compare what they have."""
        until = min(end, now() + seconds)
        with self.host.clock.phase("anneal"), _Searches(self.searches, until, end):
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
        self.share()

    # -- the model ---------------------------------------------------------------------------

    def solve_whole(self, share: float) -> None:
        """Ask the exact model for anything better than the best plan, until there is nothing.

        Plans within the gap asked for are not looked for: refuting the rest is the proof.
        """
        host, settings = self.host, self.host.settings
        end = now() + share * host.clock.left_s
        host.say("model", f"{len(self.graph)} classes, {len(self.graph.nets)} nets")
        while not host.proved and host.infeasible_because is None:
            cutoff = None
            if host.value is not None:
                cutoff = min(host.value - 1, host.value - int(host.value * settings.gap * 0.99))
            left = host.clock.left_s if self.repeatable else end - now()
            limits = Limits(
                time_s=max(1.0, left),
                nodes=settings.node_limit,
                gap=min(settings.gap, 1e-6),
                seed=settings.seed,
                threads=settings.threads,
            )
            guide = Guide(cutoff, host.bound.value if host.bound else None)
            beside = self.searches[1:] if self.idle <= PATIENCE else []
            limits = dataclasses.replace(limits, threads=max(1, settings.threads - len(beside)))
            with _Searches(beside, end, end):
                answer = host.solver.run(host.problem, guide, limits, host.clock)
                for search in beside:
                    search.stopped = True
            self.collect()
            host.use_answer(answer, cutoff)
            if answer.value is None or answer.report.stop is not Stop.PROVED:
                return


class _Searches:
    """Searches that run in threads while something else happens; left when they are done."""

    def __init__(self, searches: Sequence[SerialAnnealing], until: float, end: float) -> None:
        self.searches = searches
        self.threads = [Beside(partial(search.run, until, end)) for search in searches]

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
