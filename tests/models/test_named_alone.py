"""Each formulation, asked alone by its name, says nothing that enumeration refutes.

No false proof, no false infeasibility, no plan that the checker refuses, no dispute: whatever the
magnitudes. Where a formulation proves nothing, it says why.
"""

from __future__ import annotations

from typing import NamedTuple

from milp_plan.backends import Stop
from milp_plan.models.registry import get
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kind_of
from tests.support.named import Case

SECONDS = 60.0


class Said(NamedTuple):
    """What became of a run: in a word, what is wrong with it, and why nothing was proved."""

    what: str
    faults: list[str]
    note: str


def asked(name: str, given: Case) -> Said:
    """Ask a formulation alone; hold what it says against enumeration."""
    problem, best = given
    outcome = solve(problem, Settings(SECONDS, formulation=name, only=True, threads=1))
    faults = list(outcome.defects)
    if outcome.disputed:
        faults.append(f"disputed: {outcome.disputed_because}")
    if outcome.infeasible_because is not None and best is not None:
        faults.append(f"no plan, it says: there is one of {best}")
    if outcome.bound is not None and best is not None and outcome.bound > best:
        faults.append(f"bound {outcome.bound}, optimum {best}")
    if outcome.plan is not None:
        verdict = kind_of(problem).verify(problem, outcome.plan)
        if not verdict.ok or best is None or verdict.value < best:
            faults.append(f"plan of {verdict.value}: {verdict.violations[:1]}, optimum {best}")
    if outcome.infeasible_because is not None:
        return Said("no plan", faults, "")
    if outcome.proved:
        return Said("proved", faults, "")
    exact = get(name).formulation.card.exact
    if outcome.stop is Stop.FINISHED and exact and not outcome.unproved_because:
        faults.append("nothing is proved, and it does not say why")
    word = "bound" if outcome.bound is not None else "unproved"
    return Said(word, faults, outcome.unproved_because)
