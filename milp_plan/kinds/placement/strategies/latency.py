"""Plans the latency of one sample under the serial law.

Baselines and cuts of a line give a plan at once. Then the graph is bounded from gate to gate, and
its ideals are searched with more and more labels for plans and bounds, while annealing improves
the best plan; the exact model comes last, where a gap is left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from queue import SimpleQueue

import numpy as np

from milp_plan.core import Plan, PlanningProblem, SerialLaw
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget, now
from milp_plan.kinds.schedule.loops import LATENCY
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step

from ..bounds.gates import gate_bound
from ..bounds.latency import proved, simple_bounds
from ..planners.latency.annealing import Annealing
from ..planners.latency.ideals import ideal_levels
from ..planners.latency.segments import Line
from ..planners.latency.timing import arrays
from ..serial.atoms import merge_idle
from ..serial.graph import Ints, read_serial
from ..serial.operators import HOST, operator_tables
from .serial import SerialStrategy
from .tiny_serial import is_tiny, offer_best_of_all

LINE_SHARE = 0.03
"""Share of the time limit for random lines."""

GATE_SHARE = 0.5
"""Share of the time left for the bound from gate to gate, before the ideals of the graph."""

SEARCH_SHARE = 0.6
"""Share of the time limit for the ideals, where nothing runs concurrently."""

ANNEALING_SHARE = 0.1
"""Share of the time limit for one annealing run."""

MODEL_SHARE = 0.3
"""Share of the time limit for the exact model of small problems."""

MAX_MODEL_OPERATORS = 60
"""Largest number of operators for which the exact model is solved."""

HOT = (0.02, 0.006, 0.01, 0.006)
"""First temperatures of annealing runs, in turn; the first starts at the best plan."""

TURN_S = 1.0
"""Seconds between two readings of the other thread's results."""

ROUNDS = 1 << 30
"""Rounds of an annealing run that ends by the clock."""

LINES, LOOKS, ANNEALINGS, FEW_ROUNDS = 40, 2_000, 4, 50
"""Numbers of a repeatable run, in which nothing may depend on the clock: lines, clock readings of
the search through ideals, annealing runs, and rounds of each."""


class LatencyStrategy(SerialStrategy):
    """The strategy for latency problems under the serial law."""

    name = "latency"
    formulation = "latency"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.tables = operator_tables(self.graph)
        self.atoms = merge_idle(self.tables)
        self.arrays = arrays(self.atoms)
        self.best: Ints | None = None
        self.value = np.inf
        self.lines = 0
        self.line = Line(self.atoms, self.arrays)

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Reject what all these strategies do; and several hosts with limited memory."""
        graph = read_serial(problem)
        if not isinstance(graph, str) and len(graph.hosts) > 1 and graph.host_memory is not None:
            return "there are several hosts with limited memory"
        return super().why_not(problem, repeatable)

    @classmethod
    def suits(cls, law: SerialLaw) -> bool:
        """Accept laws that count calls."""
        return law.calls is not None

    def steps(self) -> Iterable[Step]:
        """Run simple plans, all plans if they are few; lines, ideals and annealing; a model."""
        ledger, repeatable = self.ledger, self.ledger.repeatable
        return (
            Step("bounds", self.find_bounds, run_after_time_limit=True),
            Step("baselines", self.run_baselines, run_after_time_limit=True, loops=(LATENCY,)),
            Step("obstacle", ledger.prove_infeasible, lambda: ledger.value is None),
            Step("every placement", lambda: offer_best_of_all(ledger), lambda: is_tiny(ledger)),
            Step("lines", self.try_lines, loops=(LATENCY,)),
            Step("ideals and annealing", self.search, lambda: not repeatable),
            Step("ideals", self.search_repeatably, lambda: repeatable),
            Step("annealing", self.anneal_repeatably, lambda: repeatable),
            Step("model", self.solve_whole, self.small_enough),
        )

    def offer_initial_plan(self) -> None:
        """Offer a greedy fill, and everything on the host."""
        tables = self.atoms
        greedy = self.line.greedy(self.line.order(None), tables.calls)
        host = np.full(len(tables), HOST, dtype=np.int64)
        for name, places in (("greedy topological fill", greedy), ("all on the host", host)):
            if tables.fits(places):
                self.ledger.offer(tables.plan(places, name), name, "first plan")

    def find_bounds(self) -> None:
        """Prove bounds by paths, and by memory that moves classes to hosts."""
        with self.ledger.budget.phase("bounds"):
            for bound in simple_bounds(self.tables):
                self.ledger.prove(bound)
        if self.ledger.plan is not None:
            self.consider(self.atoms.places(self.ledger.plan))

    def search(self) -> None:
        """Search the ideals in a thread, and anneal concurrently where there is another one."""
        search = _IdealThread(self)
        try:
            if self.ledger.threads > 1:
                search.begin(1.0)
            else:
                search.begin(SEARCH_SHARE, anneal=False)
                search.wait()
            self.anneal(search)
        finally:
            search.stopped = True
        search.end()

    def search_repeatably(self) -> None:
        """Search gates and ideals for a fixed number of clock readings."""
        search = _IdealThread(self)
        search.use_gates(lambda: self.ledger.budget.left_s)
        search.collect()
        search.use_ideals(_CountedClock(self.ledger.budget, LOOKS))

    def anneal_repeatably(self) -> None:
        """Run a fixed number of short annealing runs."""
        for number in range(0, 2 * ANNEALINGS, 2):
            if self.ledger.done:
                return
            start = self.start_of(number)
            if np.isfinite(self.arrays.latency(start)):
                seed, hot = self.ledger.settings.seed * 1009 + number, HOT[number // 2 % len(HOT)]
                run = Annealing(self.arrays, start.copy(), seed, hot=hot)
                left = _CountedClock(self.ledger.budget, FEW_ROUNDS + 2)
                run.run(FEW_ROUNDS, left.share, self._take_annealed)

    # -- plans -------------------------------------------------------------------------------

    def take(self, places: Ints, planner: str, phase: str) -> None:
        """Offer the plan of places of atoms, if it is better."""
        value = self.arrays.latency(places)
        if value < self.value * (1 - 1e-12) and self.atoms.fits(places):
            self.best, self.value = places.copy(), value
            self.ledger.offer(self.atoms.plan(places, planner), planner, phase)

    def consider(self, places: Ints) -> None:
        """Record the places of the ledger's plan."""
        value = self.arrays.latency(places)
        if value < self.value and self.atoms.fits(places):
            self.best, self.value = places.copy(), value

    def run_baselines(self) -> None:
        """Offer simple plans, each with its exact value if it is valid."""
        ledger, tables, calls = self.ledger, self.atoms, self.atoms.calls
        with ledger.budget.phase("baselines"):
            order = self.line.order(None)
            plans = {
                "greedy topological fill": self.line.greedy(order, calls),
                "all on the host": np.full(len(tables), HOST, dtype=np.int64),
                "sequential cut": self.line.cut(order)[0],
            }
            for name, places in plans.items():
                runs = np.isfinite(self.arrays.latency(places)) and tables.fits(places)
                ledger.baselines[name] = tables.latency(places) if runs else None
        for name, places in plans.items():
            if ledger.baselines[name] is not None:
                self.take(places, name, "baselines")

    def try_lines(self) -> None:
        """Offer the best cuts of random lines."""
        ledger = self.ledger
        part = ledger.budget.part("lines", LINE_SHARE)
        most = LINES if ledger.repeatable else sys.maxsize
        with ledger.budget.phase("search"):
            while not part.over and self.lines < most:
                places = self.random_line()
                if places is not None:
                    self.take(places, "cuts of a line", "search")

    def random_line(self) -> Ints | None:
        """Return places of the next random line's best cut; ``None`` where it cannot fit."""
        self.lines += 1
        order = self.line.order(1_000_000 * self.ledger.settings.seed + self.lines)
        places, value = self.line.cut(order)
        return places if np.isfinite(value) else None

    def anneal(self, search: _IdealThread) -> None:
        """Anneal again and again, and collect the results of the search."""
        ledger, number = self.ledger, 0
        reserve = MODEL_SHARE if len(self.atoms) <= MAX_MODEL_OPERATORS else 0.0
        reserve *= ledger.budget.limit_s
        heard = ledger.budget.elapsed_s

        def left() -> float:
            nonlocal heard
            if ledger.budget.elapsed_s - heard > TURN_S:
                heard = ledger.budget.elapsed_s
                search.collect()
            return 0.0 if ledger.settled else ledger.budget.left_s

        while left() > reserve:
            if self.best is None:
                search.wait(for_plan=True)
            with ledger.budget.phase("search"):
                if not self.anneal_once(number, left, self._take_annealed):
                    return
            number += 2  # odd numbers belong to the search

    def _take_annealed(self, places: Ints) -> None:
        self.take(places, "annealing", "search")

    def anneal_once(
        self, number: int, left: Callable[[], float], take: Callable[[Ints], None]
    ) -> bool:
        """Anneal for a share of the time; return False if there is no start.

        Most runs start elsewhere than at the best plan, which can be hard to leave.
        """
        start = self.start_of(number)
        if not np.isfinite(self.arrays.latency(start)):
            return False
        begun = now()
        budget = max(1e-3, min(ANNEALING_SHARE * self.ledger.budget.limit_s, left()))
        seed = self.ledger.settings.seed * 1009 + number
        run = Annealing(self.arrays, start.copy(), seed, hot=HOT[number // 2 % len(HOT)])

        def share() -> float:
            run.value = min(run.value, self.value)
            return 0.0 if left() <= 0 else 1.0 - (now() - begun) / budget

        run.run(ROUNDS, share, take)
        return True

    def start_of(self, number: int) -> Ints:
        """Return the start of an annealing run: the best plan and cut lines in turns."""
        start = self.best if number // 2 % len(HOT) == 0 else self.random_line()
        if start is None:
            start = self.best
        return np.full(len(self.atoms), HOST, dtype=np.int64) if start is None else start

    # -- the exact model ---------------------------------------------------------------------

    def small_enough(self) -> bool:
        """Return whether the exact model is solved as a whole."""
        ledger = self.ledger
        few = len(self.atoms) <= MAX_MODEL_OPERATORS
        return few and ledger.formulation is not None and ledger.budget.left_s >= 1.0

    def solve_whole(self) -> None:
        """Solve the exact model of small problems where the ideals left a gap."""
        ledger = self.ledger
        ledger.say("model", f"{len(self.atoms)} operators")
        self.solve_below(ledger.value, ledger.budget, start=ledger.plan)


class _CountedClock:
    """Replaces the clock in repeatable runs: time left is the number of readings left."""

    def __init__(self, budget: Budget, count: int) -> None:
        self.budget, self.left = budget, count

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.budget.over else max(0.0, float(self.left))

    def share(self) -> float:
        """Return the time left, as a fraction of a time that annealing never exhausts."""
        return min(1.0, self())


class _IdealThread:
    """Searches through the ideals in a background thread; the compiled loops run concurrently.

    Where they cannot prove anything and time is left, it anneals like the main thread.
    """

    def __init__(self, run: LatencyStrategy) -> None:
        self.run = run
        self.stopped = False
        self.news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.thread: BackgroundThread | None = None

    def begin(self, share: float, *, anneal: bool = True) -> None:
        """Start, for a share of the time left; anneal in the time that the ideals leave of it."""
        end = now() + share * self.run.ledger.budget.left_s
        self.thread = BackgroundThread(lambda: self._work(end, anneal))
        self.thread.start()

    def wait(self, *, for_plan: bool = False) -> None:
        """Wait until it is done or a result settles everything, or only until there is a plan."""
        run, thread = self.run, self.thread
        while thread is not None and thread.is_alive() and not run.ledger.settled:
            if for_plan and run.best is not None:
                return
            thread.join(0.05)
            self.collect()
        self.collect()

    def end(self) -> None:
        """Collect its results once it is stopped; wait briefly where that may help."""
        if self.thread is not None and not self.run.ledger.settled:
            self.thread.join(TURN_S)
        self.collect()

    def collect(self) -> None:
        """Collect new plans and bounds, and raise its error if it ended with one."""
        while not self.news.empty():
            self.news.get()()
        if self.thread is not None:
            self.thread.check()

    def _work(self, end: float, anneal: bool) -> None:
        number, left = 1, self._until(end)
        rest = (1 - GATE_SHARE) * left()
        self.use_gates(lambda: left() - rest)
        self.use_ideals(left)
        while anneal and left() > 0 and self.run.anneal_once(number, left, self._take_atoms):
            number += 2

    def use_gates(self, left: Callable[[], float]) -> None:
        """Bound from gate to gate, while ``left`` is positive."""
        run = self.run
        bound = gate_bound(run.atoms, left, run.ledger.value)
        if bound is not None:
            self.news.put(lambda: run.ledger.prove(bound))

    def use_ideals(self, left: Callable[[], float]) -> None:
        """Search the ideals for plans and bounds, while ``left`` is positive."""
        run = self.run
        levels = ideal_levels(run.tables)
        if levels is None:
            text = "too many ideals for a search through them"
            self.news.put(lambda: run.ledger.say("ideals", text))
            return

        def report(value: float, ideals: int) -> None:
            detail = f"fastest paths through {ideals} ideals"
            bound: Bound = proved("ideals", value, run.tables, detail)
            self.news.put(lambda: run.ledger.prove(bound))

        levels.run(lambda: run.value, left, self._take, report)
        if self.thread is None:
            self.collect()

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
