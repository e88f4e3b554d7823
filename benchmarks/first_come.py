"""Overlapping local updates without planned orders: devices take what came first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from milp_plan.kinds.local_updates.planners.schedules import Chain, Task

RANK = "FABX"
"""Letters of what came at the same instant, the first one first."""


def first_come(chain: Chain, in_flight: int) -> list[list[Task]]:
    """Return what each device runs where every boundary is cut and every stage has a head.

    Each time a device is free, it takes the task whose inputs came first; of equal ones a forward
    before a head, a head before a backward, and the pass to the block before at last.

    Parameters
    ----------
    chain
        Stages in a line.
    in_flight
        Micro-batches at a stage whose forward has begun and whose backward has not.
    """
    return _Dispatch(chain, in_flight).rows


class _Dispatch:
    """Rows of devices in the making.

    It ends: the last stage's backwards wait for its own heads alone, so it always has something to
    run or gets a forward; and where a stage goes on, the one before it gets the passes it needs.
    """

    def __init__(self, chain: Chain, in_flight: int) -> None:
        self.chain, self.last = chain, len(chain.forward) - 1
        self.ticks = {"F": chain.forward, "A": chain.head, "X": chain.passed, "B": chain.backward}
        self.rows: list[list[Task]] = [[] for _ in chain.forward]
        self.waiting: list[list[tuple[int, int, int]]] = [[] for _ in chain.forward]
        """Of each device: since when, rank of the letter, micro-batch."""
        self.headed: dict[tuple[int, int], int] = {}
        """Stage and micro-batch whose backward has one of its two inputs, and since when."""
        self.waiting[0] = [(0, RANK.index("F"), batch) for batch in range(chain.micro_batches)]
        held, free, instants = [0] * (self.last + 1), [0] * (self.last + 1), [0]
        while instants:
            now = heapq.heappop(instants)
            for stage, row in enumerate(self.waiting):
                ready = [
                    entry
                    for entry in row
                    if entry[0] <= now and (RANK[entry[1]] != "F" or held[stage] < in_flight)
                ]
                if free[stage] > now or not ready:
                    continue
                chosen = min(ready)
                row.remove(chosen)
                letter, batch = RANK[chosen[1]], chosen[2]
                self.rows[stage].append((letter, stage, batch))
                held[stage] += (letter == "F") - (letter == "B")
                free[stage] = now + self.ticks[letter][stage]
                for task, since in self.follow(letter, stage, batch, free[stage]):
                    self.waiting[task[1]].append((since, RANK.index(task[0]), batch))
                    heapq.heappush(instants, since)
                heapq.heappush(instants, free[stage])

    def follow(self, letter: str, stage: int, batch: int, stop: int) -> Iterator[tuple[Task, int]]:
        """What has all its inputs when a task stops, and since when."""
        lag = self.chain.transfer
        if letter == "F":
            yield ("A", stage, batch), stop
            if stage < self.last:
                yield ("F", stage + 1, batch), stop + lag
        elif letter == "A":
            if stage > 0:
                yield ("X", stage, batch), stop
            yield from self.input_of_backward(stage, batch, stop)
        elif letter == "X":
            yield from self.input_of_backward(stage - 1, batch, stop + lag)

    def input_of_backward(self, stage: int, batch: int, since: int) -> Iterator[tuple[Task, int]]:
        """One of the inputs of a backward: its own head, or the pass of the next stage."""
        if stage == self.last:
            yield ("B", stage, batch), since
        elif (stage, batch) in self.headed:
            yield ("B", stage, batch), max(since, self.headed[stage, batch])
        else:
            self.headed[stage, batch] = since
