"""Jobs that a window's model orders, and the fixed tasks on their resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .rows import Part, Terms
from .scope import Edge
from .timeline import Key

Name = int | Key | tuple[int, int]
"""Name of a job: see :class:`Job`."""

Meeting = tuple["Job", "Job", tuple[int, ...]]
"""Two jobs and the resources that both may use."""


@dataclass
class Job:
    """A free operator in the model, or a transfer that free operators make or read.

    Parameters
    ----------
    name
        Number of the operator; copy of the transfer; or (value, reader) of a transfer whose copy
        depends on where the reader is.
    head, last, ticks
        Earliest start, latest stop, and least duration, in ticks.
    length
        Terms of its duration in units.
    holds, lasts
        Resource -> terms that are 1 where it holds it, and its least duration there in ticks.
    before, after
        Free operators before and after it in every plan, as bits.
    begun, done
        Start and stop in the plan; the maker's stop where the plan has no such transfer.
    column
        Column of its start; -1 while it has none.
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
        """Return a multiple of its stop as parts of a row."""
        return (factor, {self.column: 1.0}), (factor, self.length)

    @property
    def latest(self) -> int:
        """Latest start."""
        return self.last - self.ticks


class Gap(NamedTuple):
    """Positions of a job among the fixed tasks of a resource.

    It comes after the first ``low`` of them and before those from ``high`` on.
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
    """Return the ticks between a job and another task in the plan."""
    return max(0, begun - job.done, job.begun - done)


class Lane(NamedTuple):
    """The fixed tasks on a resource, in order.

    ``stops`` are their earliest stops, ``latest`` their latest starts; ``begun`` and ``done`` say
    when they run in the plan.
    """

    tasks: list[int]
    stops: list[int]
    latest: list[int]
    begun: list[int]
    done: list[int]


class Decided(NamedTuple):
    """Two jobs that may meet on common resources.

    ``first`` is the bit that is 1 where ``one`` is before ``other``: :data:`~.rows.ONE` where that
    is certain, ``None`` where it is impossible.
    """

    one: Job
    other: Job
    first: int | None
    common: tuple[int, ...]


class Carried(NamedTuple):
    """A transfer, the maker of its value, and terms that are 1 where a reader needs it."""

    job: Job
    maker: int
    needs: dict[Edge, Terms]
