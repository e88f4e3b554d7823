"""What is said about the value of a plan, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.shown import Shown

if TYPE_CHECKING:
    from milp_plan.run.conflict import Infeasibility
    from milp_plan.run.reasons.base import Why
    from milp_plan.run.trial import Effect


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What a plan's value hangs on; shows itself as lines of text.

    Parameters
    ----------
    problem, plan, verdict
        What is explained; the last two are ``None`` where there is no plan.
    why
        Critical chain, usage, limits and blocks; ``None`` without a valid plan.
    effects
        Answers to the questions, each from planning again.
    infeasibility
        A smallest conflicting set and what would be enough, where it is proved that no plan exists.
    lines
        The same for people.
    """

    problem: Any
    plan: Any
    verdict: Verdict | None
    why: Why | None
    effects: tuple[Effect, ...]
    infeasibility: Infeasibility | None
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Explanation of {self.problem.name}: {len(self.lines)} lines>"
