"""Schedules of pipelines with local updates: 1F1B inside of chunks, nothing back across a cut.

The step time of a chain of stages, one per device, by its own recurrence. Closed forms for equal
stages (f, b, a: forward, backward, head; c: transfer; K stages, M micro-batches): 1F1B without
transfers takes (M+K-1)(f+b); with every boundary cut (greedy) the step takes (K-1)(f+c) + M(f+a+b),
since a stage does nothing but its own work once its first input is there; overlapping takes at
least (K-1)(f+c) + M(f+a+b+b_x).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..problem import LocalUpdatesPlan, LocalUpdatesProblem

Task = tuple[str, int, int]
"""Letter (F forward, A head, X pass to the block before, B backward), stage, micro-batch."""


@dataclass(frozen=True)
class Chain:
    """Stages in a line, one per device; ticks of one micro-batch.

    Parameters
    ----------
    forward, backward, head, passed
        Ticks of each stage; ``head`` is 0 for none, ``passed`` is the input gradient of a stage's
        own head alone.
    transfer
        Ticks between neighbours, during which devices are free.
    micro_batches
        Number per step.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    head: tuple[int, ...]
    passed: tuple[int, ...]
    transfer: int
    micro_batches: int


def chain_of(problem: LocalUpdatesProblem) -> Chain:
    """Return the stages of a problem; nothing passes a cut in it."""
    rows = [(s.forward, s.backward, s.head, 0) for s in problem.stages]
    forward, backward, head, passed = zip(*rows, strict=True)
    return Chain(forward, backward, head, passed, problem.transfer, problem.micro_batches)


def plan_stops(problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> dict[Task, int]:
    """Return when each task of a plan stops."""
    chain, cuts = chain_of(problem), {problem.by_name[name] for name in plan.cuts}
    return stops_of(chain, cuts, orders(chain, cuts))


def orders(
    chain: Chain, cuts: Collection[int], *, overlapping: bool = False, final_head: bool = False
) -> list[list[Task]]:
    """Return the tasks of each device, in order.

    Within a chunk 1F1B: a stage d before the chunk's last runs d forwards ahead. With
    overlapping chunks of one stage, one ahead, since a backward waits for the next stage's pass.
    """
    last, count = len(chain.forward) - 1, chain.micro_batches
    rows = []
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
        rows.append(row)
    return rows


def step_time(chain: Chain, cuts: Collection[int], rows: Sequence[Sequence[Task]]) -> int:
    """Return when the last task stops."""
    return max(stops_of(chain, cuts, rows).values())


def stops_of(
    chain: Chain, cuts: Collection[int], rows: Sequence[Sequence[Task]]
) -> dict[Task, int]:
    """Return when each task stops, as early as its device and its inputs allow."""
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
        needed = []
        if stage < last and stage not in cuts:
            needed.append((("B", stage + 1, batch), chain.transfer))
        if (passed := ("X", stage + 1, batch)) in tasks:
            needed.append((passed, chain.transfer))
        return needed

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
    return stops
