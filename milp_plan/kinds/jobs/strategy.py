"""Jobs: proofs, greedy starts, prices, annealing of lists or of ranks, and models by time slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import count
from threading import Event

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.background import BackgroundThread
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import backend
from milp_plan.run.strategy import Step, Strategy

from .bounds import Sizes
from .planners import (
    ANNEALING,
    GANGS,
    POLICIES,
    RANKS,
    STARTS,
    Chains,
    Gangs,
    JobTables,
    Rounding,
    allotments,
    arrivals,
    gangs,
    in_turn,
)
from .planners.enumeration import EVERY_ORDER, best_order, suits
from .problem import JobsObjective, JobsPlan, JobsProblem
from .time_indexed import Known, SlotAnswer, refine
from .timelines import TIMELINES, settled

IN_TURN, ALLOTMENTS, PERTURBED, SLOTS = "in turn", "least work", "perturbed ranks", "slots"

FIRST_SHARE, MODEL_SHARE = 0.15, 0.6
"""Parts of the time limit for the first search, and for one model."""

ORDERS_SHARE = 0.3
"""Part of the time limit for looking at every order of a small problem."""

TIMELINES_SHARE = 0.25
"""Part of the time limit for bounds by what fits on a device, and lists by their relaxation."""

GANGS_SHARE = 0.3
"""Part of the time limit for looking at every order and option within makespans."""

GANGS_WORK, GANGS_PASSES = 50_000_000, 2
"""Devices and options looked at by each of the first such searches; passes of a repeatable run."""

DRAWN = 100
"""Changes of a cooling that take as long as the best of some lists by shares."""

ROUNDS = 20_000
"""Changes of one cooling per job, at most a million; the first search of a repeatable run."""


MAKESPAN = JobsObjective.MAKESPAN


class JobsStrategy(Strategy[JobsProblem, JobsPlan]):
    """The way for problems of jobs."""

    name = "jobs"
    uses = frozenset({"seed", "threads", "solver", "start"})

    def __init__(self, ledger: Ledger[JobsProblem, JobsPlan]) -> None:
        super().__init__(ledger)
        self.rounding: list[Rounding] = []
        """Of makespans that the relaxation leaves, the last one the least."""

    @classmethod
    def why_not(cls, problem: JobsProblem, repeatable: bool) -> str | None:
        """Accept every problem of the kind."""
        return None

    def steps(self) -> Iterable[Step]:
        """Proofs, jobs in turn, greedy starts, a search, models with the search beside them."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("in turn", self.run_in_turn, run_after_time_limit=True),
            Step("bounds", ledger.find_bounds),
            Step("every order", self.enumerate, self._few),
            Step("starts", self.start),
            Step("timelines", self.relax, lambda: ledger.problem.objective is MAKESPAN),
            Step("gangs", self.settle, lambda: gangs.suits(ledger.problem)),
            Step("search", self.search_first),
            Step("models", self.model),
            Step("search to the end", self.search_on, lambda: not ledger.repeatable),
        )

    def _few(self) -> bool:
        """Whether chains are few enough; single units are left to a search that looks ahead."""
        return suits(self.ledger.problem) and not gangs.suits(self.ledger.problem)

    def run_in_turn(self) -> None:
        """One job after the other, unit by unit: always a plan, where there is any."""
        if self.ledger.kind.obstacle(self.ledger.problem, self.ledger.budget) is None:
            self.ledger.offer(in_turn(self.ledger.problem), IN_TURN, "starts")

    def enumerate(self) -> None:
        """Every order of a small problem."""
        ledger = self.ledger
        with ledger.budget.phase("every order"):
            part = ledger.budget.part("every order", ORDERS_SHARE)
            found = best_order(ledger.problem, part, ledger.value)
        ledger.offer(found.plan, EVERY_ORDER, "every order")
        if found.least is not None:
            ledger.prove(Bound(EVERY_ORDER, found.least, "no order and no choice is better"))

    def start(self) -> None:
        """Greedy lists of single units, or ranks of chains."""
        ledger, problem = self.ledger, self.ledger.problem
        seed = ledger.settings.seed
        with ledger.budget.phase("starts"):
            if problem.plain:
                tables = JobTables(problem)
                for name, make in STARTS.items():
                    self._baseline(name, tables.plan(make(tables, seed), name))
                for name in POLICIES if any(job.release for job in problem.jobs) else ():
                    self._baseline(name, arrivals(problem, name))
                for listing in allotments(tables, ledger.lower or 0):
                    self._baseline(ALLOTMENTS, tables.plan(listing, ALLOTMENTS))
                    if ledger.done:
                        return
            elif Chains(problem).possible:
                chains = Chains(problem)
                for name, run in RANKS.items():
                    self._baseline(name, run(chains, seed))

    def _baseline(self, name: str, plan: JobsPlan) -> None:
        self.ledger.offer(plan, name, "starts")
        self.ledger.baselines[name] = self.ledger.reached.get(name)

    def search_first(self) -> None:
        """Search for a while."""
        part = self.ledger.budget.part("search", FIRST_SHARE)
        self.search(lambda: part.over, 2)

    def relax(self) -> None:
        """Exclude makespans by what fits on a device; those that are left say which options."""
        ledger, problem = self.ledger, self.ledger.problem
        tables = JobTables(problem) if problem.plain else None
        with ledger.budget.phase("timelines"):
            part = ledger.budget.part("timelines", TIMELINES_SHARE)
            for search, limit, found in settled(
                Sizes(problem), ledger.lower or 0, ledger.value, part
            ):
                if found.excluded:
                    ledger.prove(search.bound(limit))
                elif tables is not None and found.shares:
                    self.rounding.append(Rounding(tables, search, limit, found))
                    plan = tables.plan(self.rounding[-1].best(), TIMELINES)
                    ledger.offer(plan, TIMELINES, "timelines")
                if ledger.done:
                    return

    def settle(self) -> None:
        """Halve the makespans between bound and value; what stays open is tried longer later."""
        ledger = self.ledger
        with ledger.budget.phase("gangs"):
            part, search = ledger.budget.part("gangs", GANGS_SHARE), Gangs(ledger.problem)
            sizes = ledger.problem.devices + sum(len(unit) for (unit,) in ledger.problem.fits)
            for number in count():
                if ledger.done or part.over or (ledger.repeatable and number == GANGS_PASSES):
                    return
                self.halve(search, part, GANGS_WORK * 8**number // sizes)

    def halve(self, search: Gangs, part: Budget, nodes: int) -> None:
        """Settle makespans between bound and value, each by a limited number of nodes."""
        ledger, value, low = self.ledger, self.ledger.value, self.ledger.lower
        text = ledger.kind.measure(ledger.problem).text
        while value is not None and low is not None and low < value and not ledger.done:
            limit = (low + value - 1) // 2
            answer = search.within(limit, part, nodes)
            if answer.plan is not None:
                ledger.offer(answer.plan, GANGS, "gangs")
                value = limit
            else:
                low = limit + 1
            if answer.none:
                ledger.prove(Bound(GANGS, low, f"no plan of {text(limit)} or less"))
            if part.over:
                return

    def search_on(self) -> None:
        """Go on as long as there is time."""
        self.search(lambda: False)

    def search(self, over: Callable[[], bool], most: int | None = None) -> None:
        """Improve lists, or ranks, until it is over; a repeatable run limits the rounds."""
        ledger, problem = self.ledger, self.ledger.problem
        rounds = most if ledger.repeatable else None
        number = ledger.settings.seed
        with ledger.budget.phase("search"):
            improve = self._lists(problem) if problem.plain else self._ranks(problem)
            while improve is not None and not ledger.done and not over() and rounds != 0:
                rounds = None if rounds is None else rounds - 1
                improve(number)
                number += 1

    def _lists(self, problem: JobsProblem) -> Callable[[int], None]:
        """Anneal, from the best plan or others; a call is a short cooling, so that it can end."""
        ledger, tables = self.ledger, JobTables(problem)
        jobs = len(problem.jobs)
        calls = max(200, min(ROUNDS, 4_000_000 // (problem.devices + 8 * jobs))) * 2
        draws = max(1, calls // DRAWN)

        def improve(number: int) -> None:
            if ledger.plan is None:
                return
            turn, place = number % 3, number // 3
            if turn == 1 and self.rounding:
                for draw in range(number * draws, (number + 1) * draws):
                    listing = self.rounding[-1 - draw % len(self.rounding)].best(draw)
                    if ledger.value is None or tables.makespan(listing) < ledger.value:
                        ledger.offer(tables.plan(listing, TIMELINES), TIMELINES, "search")
                return
            start = tables.listing(ledger.plan)
            if turn == 2 and self.rounding and place % 2:
                start = self.rounding[-1 - place % len(self.rounding)].best(number)
            elif turn == 2:
                start = STARTS["random"](tables, number)
            found = tables.anneal(start, calls, number)
            ledger.offer(tables.plan(found, ANNEALING), ANNEALING, "search")

        return improve

    def _ranks(self, problem: JobsProblem) -> Callable[[int], None] | None:
        chains = Chains(problem)
        if not chains.possible:
            return None

        def improve(number: int) -> None:
            self.ledger.offer(chains.perturbed(number), PERTURBED, "search")

        return improve

    def model(self) -> None:
        """Ask models; beside them, where there is a thread for it, the search goes on."""
        if self.ledger.threads < 2:
            self.ask()
            return
        stop = Event()
        beside = BackgroundThread(lambda: self.search(stop.is_set))
        beside.start()
        try:
            self.ask()
        finally:
            stop.set()
            beside.join()
        beside.check()

    def ask(self) -> None:
        """Ask for plans that are better by less and less; what has no solution is a bound."""
        ledger, budget = self.ledger, self.ledger.budget
        if ledger.value is None:
            return
        limits = ledger.limits(MODEL_SHARE * budget.limit_s, gap=0.0)
        limits = dataclasses.replace(limits, threads=1)
        sizes: list[list[int]] = []

        def known() -> Known:
            return Known(ledger.value or 0, ledger.lower or 0)

        with budget.phase("models"):
            ask = backend(ledger.settings.solver)
            for answer in refine(ledger.problem, ask, limits, budget, known):
                sizes.append([answer.slots, answer.columns, answer.rows])
                self.take(answer)
                if ledger.done:
                    break
        ledger.details["models"] = sizes

    def take(self, answer: SlotAnswer) -> None:
        """Take what a model says: a plan, or a bound."""
        ledger = self.ledger
        if answer.bound is not None:
            detail = f"no plan of {answer.target} or less by {answer.slots} slots"
            ledger.prove(Bound(SLOTS, answer.bound, detail))
        if answer.plan is not None:
            ledger.offer(answer.plan, SLOTS, "models", must_be_valid=False)
