"""What a solver proves is asked again in another way before it counts.

A solver works in floating point, and its presolve has lost plans of models whose every number was
exact (HiGHS 1.15.1). The proof that nothing is better than a plan is a refutation: a second model
asks for a plan whose value is lower by one, with another seed and, where it is small, without
presolve; its horizon, windows and big-M are other ones. A model in which nothing was found at all
is asked again itself. What the second solve does not confirm in the time that is left does not
count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milp_plan.backends import Limits, Stop
from milp_plan.core.budget import Budget, now
from milp_plan.models.protocol import Guide

if TYPE_CHECKING:
    from .model import ModelAnswer

LEAST_S = 0.1
"""Seconds below which nothing is asked again."""

Ask = Callable[[Guide, Limits], "ModelAnswer"]


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
        value, stop = answer.value, answer.report.stop
        if not answer.proves or answer.disputed or self.guide.neighbourhood is not None:
            return answer
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
        return self.ask(Guide(cutoff, self.guide.bound), limits)

    def _nothing(self, answer: ModelAnswer) -> ModelAnswer:
        """Nothing up to the cutoff: the same question once more."""
        second = self._again(self.guide.cutoff, careful=True)
        if second is not None and second.report.stop in (Stop.INFEASIBLE, Stop.INTERRUPTED):
            return answer if second.report.stop is Stop.INFEASIBLE else second
        if second is not None and second.value is not None:
            return second.doubted("one solve found no plan, another one did")
        doubt = "that there is no plan was not confirmed by a second solve"
        ended = Stop.TIME_LIMIT if self.limits.nodes is None else Stop.NODE_LIMIT
        return replace(answer, report=replace(answer.report, stop=ended)).doubted(doubt)

    def _optimum(self, answer: ModelAnswer, value: int) -> ModelAnswer:
        """Nothing better than the plan: refuted twice, of which the first solve may be one."""
        near = answer.bound is None or answer.bound < value
        for careful in (False, True) if near else (True,):
            second = self._again(value - 1, careful=careful)
            if second is None:
                break
            if second.report.stop is Stop.INTERRUPTED:
                return replace(answer, report=second.report)
            if second.value is not None and second.value < value:
                return second.doubted("a second solve found a better plan")
            refuted = second.report.stop is Stop.INFEASIBLE and not second.doubt
            if not refuted and (second.bound is None or second.bound < value):
                break
        else:
            return replace(answer, bound=value)
        if near:
            return answer  # its bound leaves room for the tolerances
        doubt = "that nothing is better was not confirmed by a second solve"
        return answer.doubted(doubt, bound=value - 1)
