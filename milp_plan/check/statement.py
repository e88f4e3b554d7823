"""Rules on a plan's claims, its problem and its value, for problems of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milp_plan.core import Counts, Units, Violation
from milp_plan.core.amounts import DASH
from milp_plan.core.quantity import units_of


def misattributed(problem: Any, plan: Any) -> Iterator[Violation]:
    """Yield a violation if a plan is for a problem of another name or content (rule `identity`)."""
    if plan.problem != problem.name:
        text = f"the plan is for problem {plan.problem!r}, not for {problem.name!r}; "
        text += "name that problem, or plan this one"
        yield Violation("identity", (plan.problem, problem.name), text)
    if not (is_own(problem, plan) or _is_related(problem, plan)):
        text = f"the plan was made for fingerprint {str(_made_for(plan))[:12]}, the problem has "
        text += f"{problem.fingerprint[:12]}: its contents have changed; plan it again"
        yield Violation("identity", (problem.name,), text)


def is_own(problem: Any, plan: Any) -> bool:
    """Return whether a plan may be for this problem: its fingerprint is the same, or missing."""
    return _made_for(plan) in (None, problem.fingerprint)


def _is_related(problem: Any, plan: Any) -> bool:
    """Return whether the plan is for the problem's parent, a variant, or one of the same parent."""
    family = {problem.fingerprint, getattr(problem, "parent", None)} - {None}
    return bool(family & {_made_for(plan), getattr(plan, "parent", None)})


def _made_for(plan: Any) -> Any:
    """Return the fingerprint of a plan's problem, if it has one; some formats have none."""
    return getattr(plan, "fingerprint", None)


def overclaimed(
    problem: Any, plan: Any, value: int | None, what: str, counts: Counts = Counts.THINGS
) -> Iterator[Violation]:
    """Yield a violation if a plan claims another value than it has (rule `claim`).

    A claim about a variant, such as a problem with another budget, is not checked.
    """
    if plan.value is not None and plan.value != value and is_own(problem, plan):
        units = units_of(problem)
        claimed, known = (_text(counts, amount, units) for amount in (plan.value, value))
        text = f"the plan claims {what} of {claimed}, it is {known}"
        yield Violation("claim", (problem.name,), text, plan.value, value, counts)


def _text(counts: Counts, amount: Any, units: Units) -> str:
    """Return an amount as text; a broken plan may have something else than a number."""
    if amount is None:
        return DASH
    return counts.text(amount, units) if isinstance(amount, int) else repr(amount)
