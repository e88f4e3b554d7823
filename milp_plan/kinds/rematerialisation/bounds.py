"""Bounds on the added time of rematerialisation, and proofs that no plan exists."""

from __future__ import annotations

from fractions import Fraction

from milp_plan.core.bound import Bound

from .problem import RematerialisationProblem


def rematerialisation_obstacle(problem: RematerialisationProblem) -> str | None:
    """Return a proof in words that no plan exists; ``None`` without one.

    Proof: during any run of an operator its output and all its inputs are held, and every operator
    runs. Where nothing may run again or wait on a host, there is a single plan with known memory.
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
    if problem.host is not None:
        return None
    if problem.held[place] > budget and not any(entry.again for entry in problem.computations):
        return (
            f"no operator may run again, and {problem.held[place]} bytes are allocated while "
            f"{problem.computations[place].name!r} runs; the budget is {budget}"
        )
    return None


def absent_bound(problem: RematerialisationProblem) -> Bound:
    """Return the least price of bringing back results that are absent during one first run.

    Proof: where every operator runs once, the first run of t holds t's output, its inputs, and the
    results that were made before and are read after it by first runs. A plan lacks at least as many
    bytes of these others as the sum exceeds the budget by; each one that it lacks is read later, so
    it is run again or reloaded after t, in addition to its first run before t. A run again adds its
    price, and a reload, with the way there, two transfers; no two results share these. So the sum
    is at least the cheapest way to lack that many bytes, even where parts of results would do, and
    that of one whole result. All of it counts in the objective, whose other parts are not negative.
    """
    best, where = 0, ""
    for place, held in enumerate(problem.held):
        excess = 0 if problem.budget is None else held - problem.budget
        price = _cheapest(problem, place, excess) if excess > 0 else 0
        if price > best:
            best, where = price, problem.computations[place].name
    return Bound("absent results", best, f"what is brought back after {where}" if where else "none")


def _cheapest(problem: RematerialisationProblem, place: int, excess: int) -> int:
    """Return the price of bringing back bytes that idle across a first run; 0 if impossible."""
    idle, whole = [], []
    for operator in range(place):
        entry, (run, transfer) = problem.computations[operator], problem.prices[operator]
        crosses = problem.readers[operator][-1:] > (place,)
        if not crosses or operator in problem.inputs[place] or not entry.size:
            continue
        ways = [run] if entry.again else []
        ways += [2 * transfer] if problem.host is not None else []
        if ways:
            idle.append((Fraction(min(ways), entry.size), entry.size))
            whole.append(min(ways))
    total = Fraction(0)
    for rate, size in sorted(idle):
        total += rate * min(size, excess)
        excess -= min(size, excess)
    return 0 if excess else max(min(whole), -(-total.numerator // total.denominator))
