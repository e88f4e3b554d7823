"""Every set of cuts, for problems of local updates; shares no code with planners and bounds."""

from __future__ import annotations

from itertools import combinations

from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem


def least(problem: LocalUpdatesProblem) -> int | None:
    """Return the shortest step over all sets of cuts; ``None`` where none fits."""
    count = len(problem.stages) - 1
    sets = (set(cuts) for number in range(count + 1) for cuts in combinations(range(count), number))
    values = [step(problem, cuts) for cuts in sets]
    return min((value for value in values if value is not None), default=None)


def step(problem: LocalUpdatesProblem, cuts: set[int]) -> int | None:
    """Return the step of these cuts, by longest paths; ``None`` where budget or memory break."""
    stages, batches = problem.stages, problem.micro_batches
    last = len(stages) - 1
    if problem.budget is not None and sum(stages[k].price for k in cuts) > problem.budget:
        return None
    length: dict[tuple[str, int, int], int] = {}
    before: dict[tuple[str, int, int], list[tuple[tuple[str, int, int], int]]] = {}
    for k, stage in enumerate(stages):
        end = min(e for e in (*cuts, last) if e >= k)
        if stage.most is not None and min(batches, end - k + 1) > stage.most:
            return None
        row = []
        for turn in range(batches + end - k):
            row += [("F", k, turn), ("A", k, turn)] if turn < batches else []
            row += [("B", k, turn - end + k)] if turn >= end - k else []
        for place, task in enumerate(row):
            letter, _, i = task
            length[task] = {
                "F": stage.forward,
                "A": stage.head if k in cuts else 0,
                "B": stage.backward,
            }[letter]
            before[task] = [(row[place - 1], 0)] if place else []
            if letter == "F" and k:
                before[task].append((("F", k - 1, i), problem.transfer))
            if letter == "B" and k < last and k not in cuts:
                before[task].append((("B", k + 1, i), problem.transfer))
    stops: dict[tuple[str, int, int], int] = {}

    def stop(task: tuple[str, int, int]) -> int:
        if task not in stops:
            ready = max((stop(source) + lag for source, lag in before[task]), default=0)
            stops[task] = ready + length[task]
        return stops[task]

    return max(map(stop, length))
