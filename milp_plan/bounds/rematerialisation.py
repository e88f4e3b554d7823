"""Bounds on the added time of rematerialisation, and proofs that no plan exists."""

from __future__ import annotations

from milp_plan.core.rematerialisation import RematerialisationProblem


def rematerialisation_obstacle(problem: RematerialisationProblem) -> str | None:
    """Return a proof in words that no plan exists; ``None`` when none was found.

    Proof: during any run of an operator its output and all its inputs are held, and every operator
    runs. Where nothing may run again, there is one plan, and it holds what it holds.
    """
    budget = problem.budget
    if budget is None:
        return None
    worst = max(range(len(problem.floors)), key=problem.floors.__getitem__)
    name = problem.computations[worst].name
    if problem.floors[worst] > budget:
        return (
            f"operator {name!r} holds {problem.floors[worst]} bytes with its output and its "
            f"inputs, the budget is {budget}"
        )
    place = max(range(len(problem.held)), key=problem.held.__getitem__)
    if problem.held[place] > budget and not any(entry.again for entry in problem.computations):
        return (
            f"no operator may run again, and {problem.held[place]} bytes are held while "
            f"{problem.computations[place].name!r} runs; the budget is {budget}"
        )
    return None
