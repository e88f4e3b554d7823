"""What a plan of a placement problem decides, what is fixed, and what is not offered."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import MemoryLaw, PlanningProblem
from milp_plan.core.graph import FORWARD_KIND
from milp_plan.run.scope import HOST, RECOMPUTATION, SHARDING, NotOffered, Scope


def placement_scope(problem: PlanningProblem) -> Scope:
    """Return the scope of a problem: where there is no choice, that is fixed."""
    operators = problem.graph.operators
    movable = sum(len(problem.placements(operator.name)) > 1 for operator in operators)
    choosing = sum(len(operator.options) > 1 for operator in operators)
    sharded = any(option.gang > 1 for operator in operators for option in operator.options)
    word = SHARDING if sharded else "options"
    decided, fixed = [], []
    for what, number in (("placement", movable), (word, choosing)):
        if number == len(operators):
            decided.append(what)
        elif number:
            decided.append(f"{what} of {number:,} of {len(operators):,} operators")
        elif what != "options":
            fixed.append(what)
    if problem.serial is not None:
        fixed.append("transfers, by the serial law")
        if problem.serial.calls is not None:
            decided.append(f"calls (at most {problem.serial.calls} per device)")
    elif problem.needs_schedule:
        decided.append("order")
    if any(operator.recomputable for operator in operators):
        decided.append(RECOMPUTATION)
    if problem.cluster.hosts:
        decided.append("what waits on a host")
    return Scope(tuple(decided), tuple(fixed), tuple(_not_offered(problem, sharded=sharded)))


def _not_offered(problem: PlanningProblem, *, sharded: bool) -> Iterator[NotOffered]:
    """Yield what no plan of the problem does, with the option that would allow it."""
    operators = problem.graph.operators
    changeable = problem.memory_law is MemoryLaw.INSTANT
    if not any(operator.recomputable for operator in operators):
        forward = any(operator.kind == FORWARD_KIND for operator in operators)
        yield NotOffered(RECOMPUTATION, "--recompute" if changeable and forward else "")
    if not problem.cluster.hosts:
        yield NotOffered(HOST, "--host SIZE@RATE" if changeable else "")
    if not sharded:
        yield NotOffered(SHARDING)
