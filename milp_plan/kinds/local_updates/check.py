"""The checker of local updates: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation
from milp_plan.core.verdict import Counts

from .problem import LocalUpdatesPlan, LocalUpdatesProblem

OBJECTIVE = "makespan"


def verify_local_updates(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Verdict:
    """Check a plan against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: ticks of a step; ``None`` if gradients stop where there is no boundary. Components:
        ticks that each device works.
    """
    broken = [*misattributed(problem, plan), *_boundaries(problem, plan), *_budget(problem, plan)]
    known = sorted({problem.by_name[n] for n in plan.cuts if n in problem.boundaries})
    broken += _memory(problem, known)
    whole = set(plan.cuts) <= set(problem.boundaries)
    value = max(task_stops(problem, known).values()) if whole else None
    broken += overclaimed(problem, plan, value, "a makespan", Counts.TIME)
    busy = {
        stage.name: problem.micro_batches
        * (stage.forward + stage.backward + (stage.head if place in known else 0))
        for place, stage in enumerate(problem.stages)
    }
    return Verdict(tuple(broken), OBJECTIVE, value, busy)


def task_stops(
    problem: LocalUpdatesProblem, cuts: Sequence[int]
) -> dict[tuple[str, int, int], int]:
    """Return when each task stops, by ``forward``, ``head`` or ``backward``, stage and micro-batch.

    Every device runs the next task of its row as soon as it can.

    Devices are visited in turn until no row is left: the inputs of a chunk come from the stage
    before, or from a later one of the chunk that runs fewer forwards ahead, so some row advances.
    """
    last, batches, lag = len(problem.stages) - 1, problem.micro_batches, problem.transfer
    rows: list[list[tuple[str, int]]] = []
    for place in range(last + 1):
        ahead = min(cut for cut in (*cuts, last) if cut >= place) - place
        row = [("forward", batch) for batch in range(min(ahead, batches))]
        for batch in range(batches):
            if batch + ahead < batches:
                row.append(("forward", batch + ahead))
            row.append(("backward", batch))
        rows.append(row[::-1])  # the next one is at the end
    free = [0] * (last + 1)
    stops: dict[tuple[str, int, int], int] = {}
    while any(rows):
        for place, row in enumerate(rows):
            stage = problem.stages[place]
            while row:
                task, batch = row[-1]
                ready = 0
                first = place == 0 if task == "forward" else place in cuts or place == last
                if not first:
                    source = (task, place + (-1 if task == "forward" else 1), batch)
                    if source not in stops:
                        break
                    ready = stops[source] + lag
                row.pop()
                free[place] = max(free[place], ready) + getattr(stage, task)
                stops[task, place, batch] = free[place]
                if task == "forward" and place in cuts:
                    free[place] += stage.head
                    stops["head", place, batch] = free[place]
    return stops


def _boundaries(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Iterator[Violation]:
    for name, count in Counter(plan.cuts).items():
        if name not in problem.boundaries:
            text = f"gradients stop behind {name!r}, which is no stage with one behind it"
            yield Violation("boundary", (name,), text)
        elif count > 1:
            text = f"gradients stop behind {name!r} {count} times"
            yield Violation("boundary", (name,), text, 1, count)


def _budget(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Iterator[Violation]:
    spent = sum(stage.price for stage in problem.stages[:-1] if stage.name in plan.cuts)
    if problem.budget is not None and spent > problem.budget:
        text = f"the cuts cost {spent}, the budget is {problem.budget}"
        yield Violation("budget", (problem.name,), text, problem.budget, spent)


def _memory(problem: LocalUpdatesProblem, cuts: list[int]) -> Iterator[Violation]:
    last = len(problem.stages) - 1
    for place, stage in enumerate(problem.stages):
        behind = min(cut for cut in (*cuts, last) if cut >= place) - place
        held = min(problem.micro_batches, behind + 1)
        if stage.most is not None and held > stage.most:
            text = f"stage {stage.name!r} holds {held} micro-batches, it can hold {stage.most}"
            yield Violation("memory", (stage.name,), text, stage.most, held)
