"""Checks a plan against all rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from milp_plan.core import Plan, PlanningProblem, Verdict, Violation
from milp_plan.core.view import view

from . import assignment, claim, colocation, exclusion, identity, memory, serial, supply
from .evaluate import components, objective_value
from .facts import Facts
from .reading import Reading
from .replay import Replay, Tape, replay_of


class Checker:
    """Checks any number of plans of one problem; tables of the problem are made once.

    Parameters
    ----------
    problem
        The problem of the plans.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.facts = Facts(problem)

    def verify(self, plan: Plan) -> Verdict:
        """Check a plan against every rule; never raises, even if the plan is broken."""
        reading = Reading(self.facts, plan)
        tape = Tape(reading)
        memories = tape.memories()
        figures = components(reading, memories)
        value = objective_value(self.problem.objective, figures)
        violations = chain(
            identity.check(reading),
            assignment.check(reading),
            colocation.check(reading),
            *self._by_law(reading),
            memory.check(tape, memories, self.problem.units),
            claim.check(self.problem, plan, value),
        )
        return Verdict(tuple(violations), self.problem.objective.value, value, figures)

    def _by_law(self, reading: Reading) -> tuple[Iterator[Violation], ...]:
        """Yield violations of the rules on transfers and times."""
        if self.problem.serial is not None:
            from . import contiguity

            return serial.check(reading), contiguity.check(reading)
        return exclusion.check(reading), supply.check(reading)

    def replay(self, plan: Plan) -> Replay:
        """Return the memory use of every device over time, as far as the plan is meaningful."""
        return replay_of(Reading(self.facts, plan))


@view
def _checker(problem: PlanningProblem) -> Checker:
    """Return the checker of a problem, which is made once."""
    return Checker(problem)


def verify(problem: PlanningProblem, plan: Plan) -> Verdict:
    """Check a plan against every law of ``docs/laws.md``.

    Parameters
    ----------
    problem, plan
        The plan may be broken in any way; nothing in it makes this function raise.

    Returns
    -------
    Verdict
        All violations in the order of the rules, and the recomputed objective.
    """
    return _checker(problem).verify(plan)


def replay(problem: PlanningProblem, plan: Plan) -> Replay:
    """Return the memory use of every device over time, as far as the plan is meaningful."""
    return _checker(problem).replay(plan)


def serial_loads(problem: PlanningProblem, plan: Plan) -> dict[serial.Place, serial.Load]:
    """Return the load of every place in use, under the serial law."""
    return serial.loads(Reading(_checker(problem).facts, plan))


def serial_timeline(problem: PlanningProblem, plan: Plan) -> serial.Timeline:
    """Return the times of calls and values, under a serial law that counts calls."""
    return serial.timeline(Reading(_checker(problem).facts, plan))
