"""What a window's model orders: jobs, and the fixed tasks on their resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .rows import Part, Terms
from .scope import Edge
from .tape import Key

Name = int | Key | tuple[int, int]
"""Of a job: see :class:`Job`."""

Meeting = tuple["Job", "Job", tuple[int, ...]]
"""Two jobs and the resources that both may use."""


@dataclass
class Job:
    """A free operator, or a transfer that free operators touch, in the model.

    Parameters
    ----------
    name
        Number of the operator; copy of the transfer; or (value, reader) of a transfer whose copy
        depends on where the reader is.
    head, last, ticks
        Least start, latest stop, and least length.
    length
        Its length in units.
    holds, lasts
        When it holds each resource, and the least ticks it then lasts.
    before, after
        Free operators before and after it in every plan, as bits.
    begun, done
        When it runs in the plan; an operator's stop where the plan has no such transfer.
    column
        Of its start; -1 while it has none.
    """

    name: Name
    head: int
    last: int
    ticks: int
    length: Terms
    holds: dict[int, Terms]
    lasts: dict[int, int]
    before: int
    after: int
    begun: int
    done: int
    column: int = -1

    def stop(self, factor: float = 1.0) -> tuple[Part, Part]:
        """Multiple of its stop."""
        return (factor, {self.column: 1.0}), (factor, self.length)

    @property
    def latest(self) -> int:
        """Latest start."""
        return self.last - self.ticks


class Gap(NamedTuple):
    """Where a job may stand among the kept tasks of a resource.

    After the first ``low`` of them, before those from ``high`` on.
    """

    job: Job
    resource: int
    low: int
    high: int

    def near(self, lane: Lane, far: int) -> Gap:
        """Return the positions at most ``far`` ticks from the job in the plan."""
        job, inside = self.job, range(self.low, self.high)
        open_here = [k for k in inside if apart(job, lane.begun[k], lane.done[k]) <= far]
        if open_here:
            return Gap(job, self.resource, open_here[0], open_here[-1] + 1)
        here = sum(lane.begun[k] + lane.done[k] < job.begun + job.done for k in inside)
        return Gap(job, self.resource, self.low + here, self.low + here)


def apart(job: Job, begun: int, done: int) -> int:
    """Ticks between a job and another task in the plan."""
    return max(0, begun - job.done, job.begun - done)


class Lane(NamedTuple):
    """Kept tasks on a resource, in order.

    Their earliest stops and latest starts, and when they run in the plan.
    """

    tasks: list[int]
    stops: list[int]
    latest: list[int]
    begun: list[int]
    done: list[int]


class Decided(NamedTuple):
    """Two jobs that may meet on common resources.

    ``first`` is the bit that says that ``one`` is before ``other``: :data:`~.rows.ONE` where that
    is sure, ``None`` where it is impossible.
    """

    one: Job
    other: Job
    first: int | None
    common: tuple[int, ...]


class Carried(NamedTuple):
    """A transfer, who makes its value, and when each reader needs it."""

    job: Job
    maker: int
    needs: dict[Edge, Terms]
