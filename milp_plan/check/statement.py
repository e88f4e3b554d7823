"""What a plan says of itself, whose it is and what it reaches; for problems of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milp_plan.core import Counts, Violation


def misnamed(problem: Any, plan: Any) -> Iterator[Violation]:
    """Yield that a plan is for a problem of another name (rule `identity`)."""
    if plan.problem != problem.name:
        text = f"the plan is for {plan.problem!r}, not for {problem.name!r}"
        yield Violation("identity", (plan.problem, problem.name), text)


def overclaimed(
    problem: Any, plan: Any, value: int | None, what: str, counts: Counts = Counts.THINGS
) -> Iterator[Violation]:
    """Yield that a plan claims another value than it has (rule `claim`).

    What is claimed of a problem of other contents, say of another budget, is no claim about this.
    """
    made_for = getattr(plan, "fingerprint", None)
    strange = made_for is not None and made_for != problem.fingerprint
    if plan.value is not None and plan.value != value and not strange:
        text = f"the plan claims {what} of {plan.value}, it is {value}"
        yield Violation("claim", (problem.name,), text, plan.value, value, counts)
