"""Planning the latency of one sample under the serial law.

Baselines and cuts of a line give a plan at once. Then the ideals of the graph are searched, wider
and wider, for plans and bounds, while annealing improves the best plan; the exact model comes
last, where something is left to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.bounds import Bound
from milp_plan.bounds.serial_latency import latency_bounds, proved
from milp_plan.core.budget import Budget, now
from milp_plan.planners.serial.latency import Annealing, Line, arrays, ways
from milp_plan.serial import HOST, SerialGraph, operator_tables
from milp_plan.serial.atoms import merge_idle
from milp_plan.serial.operators import Ints

from .beside import Beside
from .host import Host

LINE_SHARE = 0.03
"""Part of the time limit for random lines."""

SEARCH_SHARE = 0.6
"""Part of the time limit for the ideals, where nothing runs beside them."""

ANNEALING_SHARE = 0.1
"""Part of the time limit for one annealing."""

MODEL_SHARE = 0.3
"""Part of the time limit for the exact model of small problems."""

MOST_MODEL_OPERATORS = 60
"""Operators up to which the exact model is tried as a whole."""

HOT = (0.02, 0.006, 0.01, 0.006)
"""Temperatures that annealings begin with, in turn; the first begins at the best plan."""

TURN_S = 1.0
"""Seconds between two looks at what was found elsewhere."""

ROUNDS = 1 << 30
"""Rounds of an annealing that the clock ends."""


class LatencyRun:
    """One run on a latency problem.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    graph
        The problem by classes.
    """

    def __init__(self, host: Host, graph: SerialGraph) -> None:
        self.host, self.graph = host, graph
        self.tables = operator_tables(graph)
        self.atoms = merge_idle(self.tables)
        self.arrays = arrays(self.atoms)
        self.best: Ints | None = None
        self.value = np.inf
        self.lines = 0
        self.line = Line(self.atoms, self.arrays)

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        host = self.host
        with host.clock.phase("bounds"):
            for bound in latency_bounds(self.graph, Budget(host.clock.left_s)):
                host.raise_bound(bound)
        if host.plan is not None:
            self.consider(self.atoms.places(host.plan))
        self.ask_baselines()
        if host.value is None:
            host.look_for_obstacle()
        if host.infeasible_because is not None or host.proved:
            return
        self.try_lines()
        search = _Search(self)
        try:
            if host.settings.threads > 1:
                search.begin(1.0)
            else:
                search.begin(SEARCH_SHARE, anneal=False)
                search.wait()
            self.anneal(search)
        finally:
            search.stopped = True
        search.end()
        if not host.proved and host.infeasible_because is None:
            self.solve_whole()

    # -- plans -------------------------------------------------------------------------------

    def take(self, places: Ints, planner: str, phase: str) -> None:
        """Offer the plan of places of atoms, if it is better."""
        value = self.arrays.latency(places)
        if value < self.value * (1 - 1e-12) and self.atoms.fits(places):
            self.best, self.value = places.copy(), value
            self.host.offer(self.atoms.plan(places, planner), planner, phase)

    def consider(self, places: Ints) -> None:
        """Take note of a plan that the host has."""
        value = self.arrays.latency(places)
        if value < self.value and self.atoms.fits(places):
            self.best, self.value = places.copy(), value

    def ask_baselines(self) -> None:
        """Simple plans, each with its exact value where it is one."""
        host, tables, calls = self.host, self.atoms, self.atoms.calls
        with host.clock.phase("baselines"):
            order = self.line.order(None)
            found = {
                "greedy topological fill": self.line.greedy(order, calls),
                "all on the host": np.full(len(tables), HOST, dtype=np.int64),
                "sequential cut": self.line.cut(order)[0],
            }
            for name, places in found.items():
                runs = np.isfinite(self.arrays.latency(places)) and tables.fits(places)
                host.baselines[name] = tables.latency(places) if runs else None
        for name, places in found.items():
            if host.baselines[name] is not None:
                self.take(places, name, "baselines")

    def try_lines(self) -> None:
        """Cut random lines."""
        host = self.host
        end = now() + LINE_SHARE * host.settings.time_limit_s
        with host.clock.phase("search"):
            while now() < end and host.clock.left_s > 0:
                places = self.random_line()
                if places is not None:
                    self.take(places, "cuts of a line", "search")

    def random_line(self) -> Ints | None:
        """Places of the next random line's best cut; ``None`` where it cannot be cut to fit."""
        self.lines += 1
        order = self.line.order(1_000_000 * self.host.settings.seed + self.lines)
        places, value = self.line.cut(order)
        return places if np.isfinite(value) else None

    def anneal(self, search: _Search) -> None:
        """Anneal again and again, and hear what the search has found."""
        host, number = self.host, 0
        reserve = MODEL_SHARE if len(self.atoms) <= MOST_MODEL_OPERATORS else 0.0
        reserve *= host.settings.time_limit_s
        told = host.clock.elapsed_s

        def left() -> float:
            nonlocal told
            if host.clock.elapsed_s - told > TURN_S:
                told = host.clock.elapsed_s
                search.hear()
            return 0.0 if host.proved else host.clock.left_s

        while left() > reserve:
            if self.best is None:
                search.wait(for_plan=True)
            with host.clock.phase("search"):
                if not self.anneal_once(number, left, self._take_annealed):
                    return
            number += 2  # odd numbers belong to the search

    def _take_annealed(self, places: Ints) -> None:
        self.take(places, "annealing", "search")

    def anneal_once(
        self, number: int, left: Callable[[], float], take: Callable[[Ints], None]
    ) -> bool:
        """Anneal for a share of the time; False if there is nothing to begin with.

        Most begin elsewhere than at the best plan, which can be hard to leave.
        """
        turn = number // 2 % len(HOT)
        start = self.best if turn == 0 else self.random_line()
        if start is None:
            start = self.best
        if start is None:
            start = np.full(len(self.atoms), HOST, dtype=np.int64)
        if not np.isfinite(self.arrays.latency(start)):
            return False
        begun = now()
        budget = max(1e-3, min(ANNEALING_SHARE * self.host.settings.time_limit_s, left()))
        seed = self.host.settings.seed * 1009 + number
        run = Annealing(self.arrays, start.copy(), seed, hot=HOT[turn])

        def share() -> float:
            run.value = min(run.value, self.value)
            return 0.0 if left() <= 0 else 1.0 - (now() - begun) / budget

        run.run(ROUNDS, share, take)
        return True

    # -- the exact model ---------------------------------------------------------------------

    def solve_whole(self) -> None:
        """Ask the exact model about small problems that the ideals did not settle."""
        host, settings = self.host, self.host.settings
        if len(self.atoms) > MOST_MODEL_OPERATORS or host.clock.left_s < 1.0:
            return
        host.say("model", f"{len(self.atoms)} operators")
        limits = Limits(
            time_s=host.clock.left_s,
            nodes=settings.node_limit,
            gap=settings.gap,
            seed=settings.seed,
            threads=settings.threads,
        )
        guide = Guide(host.value, host.bound.value if host.bound else None)
        answer = host.solver.run(host.problem, guide, limits, host.clock, start=host.plan)
        host.use_answer(answer, host.value)


class _Search:
    """Searches through the ideals in a thread of its own; the loops run side by side.

    Where they can prove nothing and time is left, it anneals as the main thread does.
    """

    def __init__(self, run: LatencyRun) -> None:
        self.run = run
        self.stopped = False
        self.news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.thread: Beside | None = None

    def begin(self, share: float, *, anneal: bool = True) -> None:
        """Start, for a share of the time that is left; anneal in what the ideals leave of it."""
        end = now() + share * self.run.host.clock.left_s
        self.thread = Beside(lambda: self._work(end, anneal))
        self.thread.start()

    def wait(self, *, for_plan: bool = False) -> None:
        """Wait until it is done or a result settles everything, or only until there is a plan."""
        run, thread = self.run, self.thread
        while thread is not None and thread.is_alive() and not run.host.proved:
            if for_plan and run.best is not None:
                return
            thread.join(0.05)
            self.hear()
        self.hear()

    def end(self) -> None:
        """Take what it still has once it is stopped; wait shortly where that may help."""
        if self.thread is not None and not self.run.host.proved:
            self.thread.join(TURN_S)
        self.hear()

    def hear(self) -> None:
        """Take plans and bounds found since the last time, and its error if it ended with one."""
        while not self.news.empty():
            self.news.get()()
        if self.thread is not None:
            self.thread.check()

    def _work(self, end: float, anneal: bool) -> None:
        self._use_ideals(end)
        number, left = 1, self._until(end)
        while anneal and left() > 0 and self.run.anneal_once(number, left, self._take_atoms):
            number += 2

    def _use_ideals(self, end: float) -> None:
        run = self.run
        found = ways(run.tables)
        if found is None:
            text = "too many ideals for a search through them"
            self.news.put(lambda: run.host.say("ideals", text))
            return

        def tell(value: float, ideals: int) -> None:
            detail = f"fastest ways through {ideals} ideals"
            bound: Bound = proved("ideals", value, run.tables, detail)
            self.news.put(lambda: run.host.raise_bound(bound))

        found.run(lambda: run.value, self._until(end), self._take, tell)

    def _until(self, end: float) -> Callable[[], float]:
        return lambda: 0.0 if self.stopped else max(0.0, end - now())

    def _take(self, places: Ints) -> None:
        run = self.run
        plan = run.tables.plan(places, "ideals")
        atoms = run.atoms.places(plan)
        self.news.put(lambda: run.take(atoms, "ideals", "search"))

    def _take_atoms(self, places: Ints) -> None:
        atoms = places.copy()
        self.news.put(lambda: self.run.take(atoms, "annealing", "search"))
