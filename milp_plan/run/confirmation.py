"""Confirms a solver's proofs by a second, different solve before they count.

A solver works in floating point, and its presolve has lost plans of models whose every number was
exact (HiGHS 1.15.1). So one solve alone proves neither that a model has no solution nor that no
plan is better than a given one.

That no plan is better is confirmed by a refutation: a second model asks for a plan whose value is
lower by one, with another seed and, where it is small, without presolve; its horizon, windows and
big-M values differ from the first. A model without a solution is solved again itself.
A claim that the second solve does not confirm in the time left does not count, and no claim counts
of a model whose numbers are beyond a solver's tolerances (:mod:`milp_plan.lp.ranges`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from milp_plan.backends import Limits, Stop
from milp_plan.core.budget import Budget, now
from milp_plan.models.protocol import Guide

from .model_answer import SAFETY, ModelAnswer

MIN_SOLVE_S = 0.1
"""Minimum seconds left for a second solve."""

MAX_BETTER_PLANS = 20
"""Better plans that second solves may find, one after the other, before the proof is given up."""

NO_PLAN = "that there is no plan was not confirmed by a second solve"
NOTHING_BETTER = "that nothing is better was not confirmed by a second solve"

Ask = Callable[[Guide, Limits], ModelAnswer]


@dataclass
class Confirmation:
    """Confirmation of the answer to one solve.

    Parameters
    ----------
    ask
        Builds and solves a model, and returns its answer.
    guide, limits
        Guide and limits of the first solve.
    budget
        The run's budget.
    """

    ask: Ask
    guide: Guide
    limits: Limits
    budget: Budget

    def __post_init__(self) -> None:
        self.end = now() + self.limits.time_s

    def confirm(self, answer: ModelAnswer) -> ModelAnswer:
        """Return the answer as far as it is confirmed."""
        value = answer.value if answer.claim is None else answer.claim
        stop = answer.report.stop
        if stop is Stop.INFEASIBLE and answer.doubt:
            return self._doubtful(answer)
        if stop is Stop.ERROR and not answer.failed:
            return self._failed(answer)
        if not answer.proves or answer.doubt or self.guide.neighbourhood is not None:
            return answer
        if answer.disputed:
            return self._disputed(answer)
        if stop is Stop.INFEASIBLE:
            return self._infeasible(answer)
        if stop is not Stop.PROVED or value is None or value <= max(0, self.guide.bound or 0):
            return answer
        if self.limits.gap > SAFETY and answer.bound is not None and answer.bound < value:
            return answer  # a gap was asked for: that nothing is better is not claimed
        return self._optimum(answer, value)

    def _again(self, cutoff: int | None, *, careful: bool) -> ModelAnswer | None:
        """Solve again for a plan up to a cutoff; return ``None`` where no time is left."""
        left = min(self.end - now(), self.budget.left_s)
        if left < MIN_SOLVE_S:
            return None
        seed = self.limits.seed + careful
        limits = replace(self.limits, time_s=left, seed=seed, careful=careful)
        return self.ask(Guide(cutoff, self.guide.bound, lazy=self.guide.lazy), limits)

    def _doubtful(self, answer: ModelAnswer) -> ModelAnswer:
        """Confirm infeasibility where tolerances may hide plans: search once more."""
        second = None
        if self.guide.neighbourhood is None:
            second = self._again(self.guide.cutoff, careful=True)
        if second is not None and second.value is not None:
            return second
        return _ended(answer, Stop.FINISHED).doubted(answer.doubt)

    def _failed(self, answer: ModelAnswer) -> ModelAnswer:
        """Solve once more, in another way, after the solver failed."""
        if self.guide.neighbourhood is not None or not self.guide.memory:
            return answer
        second = self._again(self.guide.cutoff, careful=True)
        if second is None or second.failure:
            return answer
        if second.report.stop is Stop.INFEASIBLE:
            return _ended(second, Stop.FINISHED).doubted(second.doubt or NO_PLAN)
        return self.confirm(second)

    def _disputed(self, answer: ModelAnswer) -> ModelAnswer:
        """Find out whether the checker disputes this solve only, or the formulation."""
        second = self._again(self.guide.cutoff, careful=True)
        if second is None or second.disputed or second.value is None:
            return answer
        if answer.value is not None and answer.value < second.value:
            return answer
        doubt = f"the checker disputes one solve, though not another one: {answer.disputed}"
        return self._optimum(second.doubted(doubt), second.value)

    def _infeasible(self, answer: ModelAnswer) -> ModelAnswer:
        """Confirm that no plan is within the cutoff: solve the same model once more."""
        second = self._again(self.guide.cutoff, careful=True)
        if second is not None and second.report.stop in (Stop.INFEASIBLE, Stop.INTERRUPTED):
            return answer if second.report.stop is Stop.INFEASIBLE else second
        if second is not None and second.value is not None:
            return second.doubted("one solve found no plan, another one did")
        ended = Stop.TIME_LIMIT if self.limits.nodes is None else Stop.NODE_LIMIT
        return _ended(answer, ended).doubted(NO_PLAN)

    def _optimum(self, answer: ModelAnswer, value: int) -> ModelAnswer:
        """Confirm that no plan is better by two refutations; the first solve may be one of them.

        If a second solve finds a better plan, that plan takes the place of the first.
        """
        for _ in range(MAX_BETTER_PLANS):
            settled, better = self._refuted(answer, value)
            if better is None or better.value is None:
                return settled
            answer, value = better, better.value
        return answer

    def _refuted(self, answer: ModelAnswer, value: int) -> tuple[ModelAnswer, ModelAnswer | None]:
        """Return the answer as far as it is confirmed, and an answer with a better plan, if any."""
        near = answer.bound is None or answer.bound < value
        for careful in (False, True) if near else (True,):
            second = self._again(value - 1, careful=careful)
            if second is None:
                break
            if second.report.stop is Stop.INTERRUPTED:
                return replace(answer, report=second.report), None
            if second.value is not None and second.value < value:
                return answer, second.doubted("a second solve found a better plan")
            refuted = second.report.stop is Stop.INFEASIBLE and not second.doubt
            if not refuted and (second.bound is None or second.bound < value):
                break
        else:
            return answer.doubted("", bound=value), None
        if answer.doubt:  # from earlier solves: none of them counts yet
            return answer.doubted(answer.doubt), None
        safe = answer.bound if near else value - 1  # a bound that leaves room for the tolerances
        return answer.doubted(NOTHING_BETTER, bound=safe), None


def _ended(answer: ModelAnswer, stop: Stop) -> ModelAnswer:
    return replace(answer, report=replace(answer.report, stop=stop))
