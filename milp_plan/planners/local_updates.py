"""Schedules of pipelines with local updates: 1F1B inside of chunks, nothing back across a cut.

The step time of a chain of stages, one per device, by its own recurrence; and which boundaries to
cut under a budget. Closed forms for equal stages (f, b, a: forward, backward, head; c: transfer;
K stages, M micro-batches): 1F1B without transfers takes (M+K-1)(f+b); with every boundary cut
(greedy) the step takes (K-1)(f+c) + M(f+a+b), since a stage does nothing but its own work once its
first input is there; overlapping takes at least (K-1)(f+c) + M(f+a+b+b_x).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from milp_plan.core import Plan, PlanningProblem

from .dispatch import dispatch_order

Task = tuple[str, int, int]
"""Letter (F forward, A head, X pass to the block before, B backward), stage, micro-batch."""


@dataclass(frozen=True)
class Chain:
    """Stages in a line, one per device; ticks of one micro-batch.

    Parameters
    ----------
    forward, backward, head, passed
        Of each stage; ``head`` is 0 for none, ``passed`` is the input gradient of a stage's own
        head alone.
    transfer
        Between neighbours, beside the devices.
    micro_batches
        Per step.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    head: tuple[int, ...]
    passed: tuple[int, ...]
    transfer: int
    micro_batches: int


def orders(
    chain: Chain, cuts: Collection[int], *, overlapping: bool = False, final_head: bool = False
) -> list[list[Task]]:
    """Return what each device runs, in order.

    Inside of a chunk 1F1B: a stage d before the chunk's last runs d forwards ahead. With
    overlapping chunks of one stage, one ahead, since a backward waits for the next stage's pass.
    """
    last, count = len(chain.forward) - 1, chain.micro_batches
    found = []
    for stage in range(last + 1):
        end = next((cut for cut in sorted(cuts) if cut >= stage), last)
        headed = stage in cuts or (stage == last and final_head)
        ahead = end - stage + (overlapping and stage in cuts)
        if overlapping and stage - 1 in cuts and (stage < last or final_head):
            headed = True
        front = ["F", *(["A"] if headed else [])]
        if overlapping and headed and stage - 1 in cuts:
            front.append("X")
        row: list[Task] = []
        for batch in range(count + ahead):
            row += [(letter, stage, batch) for letter in front if batch < count]
            row += [("B", stage, batch - ahead)] if batch >= ahead else []
        found.append(row)
    return found


def step_time(chain: Chain, cuts: Collection[int], rows: Sequence[Sequence[Task]]) -> int:
    """Return when the last task stops, each as early as its device and its inputs allow."""
    ticks = {"F": chain.forward, "B": chain.backward, "A": chain.head, "X": chain.passed}
    last, stops = len(chain.forward) - 1, dict[Task, int]()
    cursor, free = [0] * len(rows), [0] * len(rows)
    tasks = {task for row in rows for task in row}

    def inputs(task: Task) -> list[tuple[Task, int]]:
        letter, stage, batch = task
        if letter == "F":
            return [(("F", stage - 1, batch), chain.transfer)] if stage else []
        if letter != "B":
            return []  # right after the forward of its own stage
        found = []
        if stage < last and stage not in cuts:
            found.append((("B", stage + 1, batch), chain.transfer))
        if (passed := ("X", stage + 1, batch)) in tasks:
            found.append((passed, chain.transfer))
        return found

    moved = True
    while moved:
        moved = False
        for device, row in enumerate(rows):
            while cursor[device] < len(row):
                task = row[cursor[device]]
                needed = inputs(task)
                if any(source not in stops for source, _ in needed):
                    break
                ready = max((stops[source] + lag for source, lag in needed), default=0)
                stops[task] = free[device] = max(free[device], ready) + ticks[task[0]][task[1]]
                cursor[device] += 1
                moved = True
    assert len(stops) == len(tasks), "devices wait for each other"
    return max(stops.values())


def best_cuts(chain: Chain, budget: int, *, final_head: bool = False) -> tuple[int, frozenset[int]]:
    """Return the least step time with at most so many cuts, and the cuts.

    Every set of at most ``budget`` boundaries is tried, so it never gets worse with more budget;
    none is tried any more once a step takes what its busiest stage takes without any head.

    Raises
    ------
    ValueError
        There are more than 16 boundaries: too many sets.
    """
    boundaries = len(chain.forward) - 1
    if boundaries > 16:
        raise ValueError(f"{boundaries} boundaries, at most 16 are searched")
    work = max(f + b for f, b in zip(chain.forward, chain.backward, strict=True))
    least = work * chain.micro_batches
    found: tuple[int, frozenset[int]] | None = None
    for number in range(min(budget, boundaries) + 1):
        for chosen in combinations(range(boundaries), number):
            cuts = frozenset(chosen)
            time = step_time(chain, cuts, orders(chain, cuts, final_head=final_head))
            if found is None or time < found[0]:
                found = (time, cuts)
            if time <= least:
                return time, cuts
    assert found is not None
    return found


def chain_plan(problem: PlanningProblem, rows: Sequence[Sequence[Task]]) -> Plan | None:
    """Return the plan of a pipeline problem in which each device runs its row in order.

    Operators are those of :func:`milp_plan.pipeline.pipeline_problem` (``F3@5``), with the heads
    and passes of :func:`milp_plan.zoo.local_updates.with_local_updates`.
    """
    waiting = [list(row) for row in rows]
    done: set[str] = set()
    order: list[str] = []
    before = problem.graph.predecessors
    while any(waiting):
        moved = False
        for row in waiting:
            while row:
                letter, stage, batch = row[0]
                name = f"{letter}{stage}@{batch}"
                if not done.issuperset(before[name]):
                    break
                order.append(name)
                done.add(name)
                row.pop(0)
                moved = True
        if not moved:
            return None
    placements = {name: problem.placements(name)[0] for name in order}
    return dispatch_order(problem, placements, order, insertion=False)
