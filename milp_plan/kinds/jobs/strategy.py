"""Jobs: proofs, greedy starts, prices, annealing of lists or of ranks, and models by time slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import count

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.run.background import run_beside
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver
from milp_plan.run.settings import MODEL_ALONE
from milp_plan.run.strategy import Step, Strategy

from .blocks import grid_of
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
from .timelines import TIMELINES, settled

IN_TURN, ALLOTMENTS, PERTURBED, SLOTS = "in turn", "least work", "perturbed ranks", "slots"

FORMULATION = "jobs_time_indexed"

FIRST_SHARE, MODEL_SHARE = 0.15, 0.6
"""Parts of the time limit for the first search, and for one model."""

FORMULATION_SHARE = 0.7
"""Part of the time left for the formulation that was named."""

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

LEVELS = (24, 48, 96, 192, 384)
"""Slots of models, coarse ones first."""

MOST_COLUMNS = 40_000
"""Larger models are not asked: they seldom end."""

STEP, LEAST_STEP, MOST_STEP = 100, 8, 10**18
"""First asked for is a plan that is better by this part: nearly all that people ask for."""

LEAST_S = 0.2
"""Seconds without which no model is asked."""

MAKESPAN = JobsObjective.MAKESPAN


class JobsStrategy(Strategy[JobsProblem, JobsPlan]):
    """The way for problems of jobs."""

    name = "jobs"
    uses = MODEL_ALONE

    def __init__(self, ledger: Ledger[JobsProblem, JobsPlan]) -> None:
        super().__init__(ledger)
        self.rounding: list[Rounding] = []
        """Of makespans that the relaxation leaves, the last one the least."""

    @classmethod
    def why_not(cls, problem: JobsProblem, repeatable: bool) -> str | None:
        """Accept every problem of the kind."""
        return None

    def steps(self) -> Iterable[Step]:
        """Proofs, jobs in turn, greedy starts, a search, models with a concurrent search."""
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
            Step("formulation", self.formulate, lambda: ledger.formulation is not None),
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

    def formulate(self) -> None:
        """Ask the formulation that was named; the best plan is its start."""
        self.solve_within_share("formulation", FORMULATION_SHARE, better=False)

    def model(self) -> None:
        """Ask models; concurrently, where there is a thread for it, the search goes on."""
        if self.ledger.threads < 2:
            self.ask()
        else:
            run_beside(self.ask, self.search)

    def ask(self) -> None:
        """Ask for plans that are better by less and less; what has no solution is a bound."""
        ledger, budget, problem = self.ledger, self.ledger.budget, self.ledger.problem
        solver = FormulationSolver(get(FORMULATION), name=ledger.settings.solver)
        limits = ledger.limits(MODEL_SHARE * budget.limit_s)
        limits = dataclasses.replace(limits, threads=1)
        sizes: list[list[int]] = ledger.details.setdefault("models", [])
        level, step = 0, STEP
        with budget.phase("models"):
            while ledger.value is not None and not ledger.done and budget.left_s > LEAST_S:
                value, low = ledger.value, ledger.lower or 0
                target = max(low, value - 1 - value // step)
                grid = grid_of(problem, LEVELS[level], target)
                if grid.columns > MOST_COLUMNS:
                    return
                asked = solver.with_options({"slots": LEVELS[level], "minimise": False})
                answer = asked.run(problem, Guide(target), limits, budget)
                sizes.append([grid.count, answer.columns, answer.rows])
                belief = ledger.accept_answer(answer, target, by=SLOTS, phase="models")
                if (ledger.lower or 0) > target:
                    step = min(step * 4, MOST_STEP)  # closer to the value
                elif belief.complete:
                    if ledger.value >= value:
                        level += 1
                        if grid.exact or level == len(LEVELS):
                            return
                elif step > LEAST_STEP and target > low:
                    step //= 2  # what is further off is refuted sooner
                else:
                    return
