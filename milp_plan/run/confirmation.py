"""What a solver proves is asked again in another way before it counts: the one place for that.

A solver works in floating point, and its presolve has lost plans of models whose every number was
exact (HiGHS 1.15.1). So neither that a model has no solution nor that nothing is better than a
plan counts because one solve says so.

The proof that nothing is better than a plan is a refutation: a second model asks for a plan whose
value is lower by one, with another seed and, where it is small, without presolve; its horizon,
windows and big-M are other ones. A model in which nothing was found at all is asked again itself.
What the second solve does not confirm in the time that is left does not count, and nothing counts
of a model whose numbers are beyond a solver's tolerances (:mod:`milp_plan.lp.ranges`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from milp_plan.backends import Limits, Stop
from milp_plan.core.budget import Budget, now
from milp_plan.models.protocol import Guide

from .model_answer import ModelAnswer

LEAST_S = 0.1
"""Seconds below which nothing is asked again."""

MOST_BETTER = 20
"""Better plans that second solves may find, one after the other, before the proof is given up."""

NO_PLAN = "that there is no plan was not confirmed by a second solve"
NOTHING_BETTER = "that nothing is better was not confirmed by a second solve"

Ask = Callable[[Guide, Limits], ModelAnswer]


@dataclass
class Confirmation:
    """Asking again about one question.

    Parameters
    ----------
    ask
        Builds and solves a model, and reads its answer.
    guide, limits
        Of the question.
    budget
        Of the run.
    """

    ask: Ask
    guide: Guide
    limits: Limits
    budget: Budget

    def __post_init__(self) -> None:
        self.end = now() + self.limits.time_s

    def of(self, answer: ModelAnswer) -> ModelAnswer:
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
            return self._nothing(answer)
        if stop is not Stop.PROVED or value is None or value <= max(0, self.guide.bound or 0):
            return answer
        return self._optimum(answer, value)

    def _again(self, cutoff: int | None, *, careful: bool) -> ModelAnswer | None:
        """Ask for a plan up to a cutoff; ``None`` where no time is left."""
        left = min(self.end - now(), self.budget.left_s)
        if left < LEAST_S:
            return None
        seed = self.limits.seed + careful
        limits = replace(self.limits, time_s=left, seed=seed, careful=careful)
        return self.ask(Guide(cutoff, self.guide.bound, lazy=self.guide.lazy), limits)

    def _doubtful(self, answer: ModelAnswer) -> ModelAnswer:
        """Nothing was found where tolerances hide plans: there may be one, so look once more."""
        second = None
        if self.guide.neighbourhood is None:
            second = self._again(self.guide.cutoff, careful=True)
        if second is not None and second.value is not None:
            return second
        return _ended(answer, Stop.FINISHED).doubted(answer.doubt)

    def _failed(self, answer: ModelAnswer) -> ModelAnswer:
        """The solver failed: it is asked once in another way."""
        if self.guide.neighbourhood is not None or not self.guide.memory:
            return answer
        second = self._again(self.guide.cutoff, careful=True)
        if second is None or second.failure:
            return answer
        if second.report.stop is Stop.INFEASIBLE:
            return _ended(second, Stop.FINISHED).doubted(second.doubt or NO_PLAN)
        return self.of(second)

    def _disputed(self, answer: ModelAnswer) -> ModelAnswer:
        """The checker disagrees: with this solve alone, or with the formulation."""
        second = self._again(self.guide.cutoff, careful=True)
        if second is None or second.disputed or second.value is None:
            return answer
        if answer.value is not None and answer.value < second.value:
            return answer
        said = f"the checker disputes one solve, though not another one: {answer.disputed}"
        return self._optimum(second.doubted(said), second.value)

    def _nothing(self, answer: ModelAnswer) -> ModelAnswer:
        """Nothing up to the cutoff: the same question once more."""
        second = self._again(self.guide.cutoff, careful=True)
        if second is not None and second.report.stop in (Stop.INFEASIBLE, Stop.INTERRUPTED):
            return answer if second.report.stop is Stop.INFEASIBLE else second
        if second is not None and second.value is not None:
            return second.doubted("one solve found no plan, another one did")
        ended = Stop.TIME_LIMIT if self.limits.nodes is None else Stop.NODE_LIMIT
        return _ended(answer, ended).doubted(NO_PLAN)

    def _optimum(self, answer: ModelAnswer, value: int) -> ModelAnswer:
        """Nothing better than the plan: refuted twice, of which the first solve may be one.

        A better plan that a second solve finds is refuted in turn; the first claim is void then.
        """
        for _ in range(MOST_BETTER):
            settled, better = self._refuted(answer, value)
            if better is None or better.value is None:
                return settled
            answer, value = better, better.value
        return answer

    def _refuted(self, answer: ModelAnswer, value: int) -> tuple[ModelAnswer, ModelAnswer | None]:
        """Return what is left of a claim, and the answer with a better plan, if there is one."""
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
        if answer.doubt:  # of what went before: no solve has been believed yet
            return answer.doubted(answer.doubt), None
        kept = answer.bound if near else value - 1  # a bound that leaves room for the tolerances
        return answer.doubted(NOTHING_BETTER, bound=kept), None


def _ended(answer: ModelAnswer, stop: Stop) -> ModelAnswer:
    return replace(answer, report=replace(answer.report, stop=stop))
