"""Plans hybrid parallelism: the uniform split, then bisection on the slowest stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil, inf

from milp_plan.backends import Stop
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.run.strategy import Step, Strategy

from .loops import HYBRID
from .plan import HybridPlan
from .planners import MARGIN, HybridAnswer, plan_exactly, plan_uniformly
from .problem import HybridProblem

BOUND = "exact search"
UNIFORM = "uniform split"
INFEASIBLE = "every split with every choice of degrees and configurations was searched"


class HybridStrategy(Strategy[HybridProblem, HybridPlan]):
    """The strategy for problems of hybrid parallelism."""

    name = "hybrid"
    uses = frozenset({"start"})

    @classmethod
    def why_not(cls, problem: HybridProblem, repeatable: bool) -> str | None:
        """Accept every problem of the kind."""
        return None

    def steps(self) -> Iterable[Step]:
        """Run a baseline, and the search that proves."""
        return (
            Step("uniform split", self.split_evenly, self.unsplit, run_after_time_limit=True),
            Step("exact search", self.search, loops=(HYBRID,)),
        )

    def unsplit(self) -> bool:
        """Return whether the baseline was not run yet."""
        return UNIFORM not in self.ledger.baselines

    def offer_initial_plan(self) -> None:
        """Offer the baseline."""
        self.split_evenly()

    def split_evenly(self) -> None:
        """Offer equal numbers of layers, with one degree for all stages."""
        ledger = self.ledger
        with ledger.budget.phase("baseline"):
            baseline = plan_uniformly(ledger.problem)
        ledger.baselines[UNIFORM] = None
        if baseline is not None:
            ledger.offer(baseline[0], UNIFORM, "baseline", must_be_valid=False)
            if ledger.planner == UNIFORM:
                ledger.baselines[UNIFORM] = ledger.value

    def search(self) -> None:
        """Bisect between plan and bound."""
        ledger = self.ledger

        def tell(seconds: float, bound: float) -> None:
            value = None if seconds == inf else _ticks(ledger.problem, seconds)
            if bound > 0:
                ledger.prove(_bound(ledger.problem, bound))
            known = [v for v in (value, ledger.value) if v is not None]
            ledger.say("search", candidate_value=min(known, default=None))

        with ledger.budget.phase("search"):
            answer = plan_exactly(ledger.problem, ledger.budget.left_s, tell)
        ledger.details |= {"down_sets": answer.down_sets, "sweeps": answer.sweeps}
        if answer.infeasible:
            ledger.refute(INFEASIBLE)
        elif answer.complete:
            ledger.stop = Stop.FINISHED
        if answer.plan is not None:
            ledger.offer(answer.plan, answer.plan.planner, "search")
            ledger.dispute(_dispute(ledger.problem, answer, ledger.value))
        if answer.bound < inf:
            ledger.prove(_bound(ledger.problem, answer.bound))
        if answer.interrupted:
            raise KeyboardInterrupt


def search_bounds(problem: HybridProblem, budget: Budget) -> Iterator[Bound]:
    """Yield bounds of the exact search, the last one the best."""
    answer = plan_exactly(problem, budget.left_s)
    if answer.bound < inf:
        yield _bound(problem, answer.bound)


def _bound(problem: HybridProblem, seconds: float) -> Bound:
    text = f"no plan is faster by more than {MARGIN:g} of that"
    ticks = ceil(Fraction(seconds) * problem.units.time_scale)  # values are whole ticks
    return Bound(BOUND, ticks, text)


def _ticks(problem: HybridProblem, seconds: float) -> int:
    return int(Fraction(seconds) * problem.units.time_scale)


def _dispute(problem: HybridProblem, answer: HybridAnswer, value: int | None) -> str:
    """Explain why checker and search disagree; empty if they agree."""
    if value is None:
        return "the plan of the exact search fails the check"
    seconds = Fraction(value, problem.units.time_scale)
    if seconds > Fraction(answer.seconds) * (1 + Fraction(MARGIN)):
        return f"the planner says {answer.seconds} s, the checker {float(seconds)} s"
    if seconds < Fraction(answer.bound):
        return f"the plan takes {float(seconds)} s, below the bound of {answer.bound} s"
    return ""
