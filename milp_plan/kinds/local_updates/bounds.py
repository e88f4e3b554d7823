"""Lower bounds on the step time with local updates, and a proof that no cuts fit."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core.bound import Bound

from .problem import LocalUpdatesProblem


def work_bound(problem: LocalUpdatesProblem) -> Bound:
    """Work of the busiest stage after the arrival of the first micro-batch.

    Proof: the first forward of a stage comes through all stages before it, and its device then runs
    every forward and backward, one at a time.
    """
    way, best = 0, Bound("work", 0, "")
    for stage in problem.stages:
        value = way + problem.micro_batches * (stage.forward + stage.backward)
        if value > best.value:
            text = f"{stage.name!r} works without a pause once the first micro-batch has come"
            best = Bound("work", value, text)
        way += stage.forward + problem.transfer
    return best


def kept_bound(problem: LocalUpdatesProblem) -> Bound:
    """Time of gradients that must pass boundaries that the budget cannot cut.

    Proof: let the budget pay for no cut in some run of boundaries. So stages around them are in one
    chunk, and each stage's last backward continues to the first of them, after all forwards and
    backwards of that stage.
    """
    best = Bound("kept", 0, "the budget pays for a cut anywhere")
    last = len(problem.stages) - 1
    free = [problem.budget is not None and stage.price > problem.budget for stage in problem.stages]
    for place in range(1, last + 1):
        way = sum(s.forward + problem.transfer for s in problem.stages[:place])
        back, first = 0, place
        while first and free[first - 1]:
            first -= 1
            back += problem.transfer + problem.stages[first].backward
        stage = problem.stages[place]
        value = way + problem.micro_batches * (stage.forward + stage.backward) + back
        if back and value > best.value:
            text = f"no cut between {problem.stages[first].name!r} and {stage.name!r} is paid for"
            best = Bound("kept", value, text)
    return best


def local_updates_bounds(problem: LocalUpdatesProblem) -> Iterator[Bound]:
    """Yield bounds that every plan obeys."""
    yield work_bound(problem)
    yield kept_bound(problem)


def least_price(problem: LocalUpdatesProblem) -> tuple[int, frozenset[int]] | None:
    """Return the cheapest cuts with which every stage has enough memory; ``None`` if none.

    Exact: chunks are independent in price and memory, so it is a shortest path over their ends.
    """
    last = len(problem.stages) - 1
    best: list[tuple[int, frozenset[int]] | None] = [(0, frozenset()), *[None] * (last + 1)]
    for first in range(last + 1):
        known = best[first]
        if known is None:
            continue
        for end in range(first, last + 1):
            if not all(problem.fits(place, end) for place in range(first, end + 1)):
                continue
            cuts = known[1] | ({end} if end < last else frozenset())
            price = known[0] + (problem.stages[end].price if end < last else 0)
            there = best[end + 1]
            if there is None or price < there[0]:
                best[end + 1] = (price, cuts)
    return best[-1]


def local_updates_obstacle(problem: LocalUpdatesProblem) -> str | None:
    """Return a proof in words that there is no plan; ``None`` where there is one."""
    least = least_price(problem)
    if least is None or problem.budget is None or least[0] <= problem.budget:
        return None  # with a cut behind every stage, each holds one micro-batch
    limited = sum(stage.most is not None for stage in problem.stages)
    reason = f"what {limited} stages can hold asks for cuts of {least[0]}"
    return f"{reason}, the budget is {problem.budget}"
