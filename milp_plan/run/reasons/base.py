"""What a kind of problem says about its parts and limits, and about the reasons for a value.

One interface for all kinds: conflicts leave parts out and lift limits, what-if questions resize
limits and fix parts in places, sweeps resize, comparisons list moves, and ``explain`` tells why.
Each kind of :mod:`milp_plan.kinds` names its :class:`Reasons`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, TypeVar

from milp_plan.core import Counts, UnsupportedProblemError, Verdict

P = TypeVar("P")
S = TypeVar("S")

MOST_LISTED = 12
"""Places that a message lists."""

What = Literal["memory", "host memory", "devices", "link", "added time", "price"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A limited resource of a problem.

    Parameters
    ----------
    name
        Unique in the problem: ``"memory of gpu0"``, ``"link gpu0->gpu1"``, ``"devices"``.
    what
        Those of one sort are scaled together.
    amount
        How much there is; ``None`` where it has no limit.
    counts
        What the amount counts. Of links: bytes per 10^9 ticks.
    lifted
        Whether a problem without this limit can be written down.
    users
        Names among :attr:`Why.usage` of what goes over a link.
    """

    name: str
    what: What
    amount: int | None
    counts: Counts
    lifted: bool = True
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """One task of the chain that a value hangs on, in order of time.

    Parameters
    ----------
    name, block
        What runs or travels, and the block it belongs to, if any.
    resources
        What it holds.
    start, stop, waited
        Ticks; between the end of the link before it (or 0) and its start.
    cause
        What it waited for: ``"value"``, ``"device"``, ``"channel"``, ``"memory"``, ``"release"``,
        ``"start"`` (nothing: it starts at once) or ``"unknown"`` (slack).
    behind
        Name of what ended before it could start; empty for none.
    """

    name: str
    block: str | None
    resources: tuple[str, ...]
    start: int
    stop: int
    waited: int
    cause: str
    behind: str


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of something a plan uses, and of how much."""

    name: str
    what: str
    amount: int
    whole: int | None
    counts: Counts

    @property
    def share(self) -> float | None:
        """Part that is used; ``None`` without a whole."""
        return self.amount / self.whole if self.whole else None


@dataclass(frozen=True, slots=True)
class Block:
    """Parts of a problem that belong together: a layer, a micro-batch, a job, a stage.

    Parameters
    ----------
    name, sort
        Which, and of what sort.
    parts
        How many.
    places
        Where they are.
    amount, on_chain
        Time or cost of them all, and of those on the critical chain (``None`` without a chain).
    counts
        What these count.
    """

    name: str
    sort: str
    parts: int
    places: tuple[str, ...]
    amount: int
    on_chain: int | None
    counts: Counts


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make a value better.

    Parameters
    ----------
    text
        In words.
    at_most
        What it can bring at most, in the unit of the value; ``None`` where nothing says.
    """

    text: str
    at_most: int | None = None


@dataclass(frozen=True)
class Why:
    """What a valid plan's value hangs on.

    Parameters
    ----------
    chain
        The tasks that follow each other up to the value; empty where time plays no part.
    usage
        Devices, channels and other things by how busy they are, the busiest first.
    limits
        Limited amounts and what the plan uses of them, the fullest first.
    binding
        Names of limits that the plan uses up, or that its chain waits for.
    blocks
        Summary by block.
    remedies
        What would shorten the chain or lower the cost, the most promising first.
    """

    chain: tuple[Link, ...] = ()
    usage: tuple[Usage, ...] = ()
    limits: tuple[Usage, ...] = ()
    binding: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Move:
    """Parts that two plans treat differently, in the same way.

    Parameters
    ----------
    what
        What differs: ``"device"``, ``"strategy"``, ``"start"``, ``"runs"``, ...
    before, after
        How it is in the first plan and in the second.
    parts
        Which.
    cost
        What this adds (or saves, below 0), by what it counts in: ``{"work": 7, "transfers": -3}``.
    counts
        What these amounts count.
    """

    what: str
    before: str
    after: str
    parts: tuple[str, ...]
    cost: Mapping[str, int] = field(default_factory=dict)
    counts: Counts = Counts.TIME


def moves_of(
    changes: Iterable[tuple[str, tuple[str, str, str]]],
    cost: Callable[[Sequence[str]], Mapping[str, int]],
    counts: Counts = Counts.TIME,
) -> tuple[Move, ...]:
    """Return one move for all parts that change alike, the most frequent change first.

    Parameters
    ----------
    changes
        Parts, each with what differs and how it is before and after.
    cost
        What the changes of some parts add.
    counts
        What these amounts count.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for part, change in changes:
        groups.setdefault(change, []).append(part)
    return tuple(
        Move(*change, tuple(parts), cost(parts), counts)
        for change, parts in sorted(groups.items(), key=lambda entry: -len(entry[1]))
    )


def used_up(limits: Iterable[Usage]) -> tuple[str, ...]:
    """Return the names of limits of which nothing is left."""
    return tuple(entry.name for entry in limits if entry.amount == entry.whole)


def largest_first(usage: Iterable[Usage]) -> tuple[Usage, ...]:
    """Return usages by amount, then by name."""
    return tuple(sorted(usage, key=lambda entry: (-entry.amount, entry.name)))


def scaled(resources: Collection[Resource], factor: Fraction) -> dict[str, int]:
    """Amounts of limited resources times a factor, rounded down, at least 1 where there is any."""
    return {
        entry.name: max(min(1, entry.amount), int(entry.amount * factor))
        for entry in resources
        if entry.amount is not None
    }


@dataclass(frozen=True, slots=True)
class Task:
    """Something that takes time, holds things, and may have to wait for other tasks.

    ``inputs`` are names of tasks whose ends it waits for; ``release`` is its earliest instant.
    """

    name: str
    block: str | None
    resources: tuple[str, ...]
    start: int
    stop: int
    inputs: tuple[str, ...] = ()
    release: int = 0


def chain_of(tasks: Sequence[Task]) -> tuple[Link, ...]:
    """Walk back from the last task, each time to the latest that it had to wait for."""
    by_name = {task.name: task for task in tasks}
    users: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.resources:
            users.setdefault(name, []).append(task)
    current = max(tasks, key=lambda task: task.stop, default=None)
    links: list[Link] = []
    seen: set[str] = set()
    while current is not None:
        task = current
        seen.add(task.name)
        inputs = [by_name[name] for name in task.inputs if name in by_name]
        others = [entry for name in task.resources for entry in users[name]]
        earlier = [t for t in (*inputs, *others) if t.name not in seen and t.stop <= task.start]
        current = max(earlier, key=lambda entry: entry.stop, default=None)
        ended = 0 if current is None else current.stop
        cause = "start" if current is None else "value" if current in inputs else "device"
        if task.release and task.start == task.release > ended:
            cause = "release"
        elif task.start > ended:
            cause = "unknown"
        behind = "" if current is None else current.name
        waited = task.start - ended
        where = (task.name, task.block, task.resources)
        links.append(Link(*where, task.start, task.stop, waited, cause, behind))
    return tuple(reversed(links))


class Reasons(ABC, Generic[P, S]):
    """What a kind knows of the parts and limits of its problems.

    Attributes
    ----------
    noun
        What parts are called: ``"operators"``.
    members
        Member of a problem that lists its parts; each part has a name.
    place_noun
        What a place of a part is called.
    partless
        Whether a problem without any part still asks for a plan.
    """

    noun: ClassVar[str]
    members: ClassVar[str] = ""
    place_noun: ClassVar[str] = "place"
    partless: ClassVar[bool] = False

    def parts(self, problem: P) -> tuple[str, ...]:
        """Names of parts that can be left out."""
        return tuple(part.name for part in getattr(problem, self.members))

    def keep(self, problem: P, names: Collection[str]) -> P:
        """Return the problem of some parts alone: every plan of the whole gives one of it.

        Raises
        ------
        InputError
            They make no problem.
        """
        item: Any = problem
        wanted = set(names)
        parts = tuple(part for part in getattr(item, self.members) if part.name in wanted)
        smaller: P = replace(item, **{self.members: parts})
        return smaller

    @abstractmethod
    def resources(self, problem: P) -> tuple[Resource, ...]:
        """What there is so much of; also what has no limit."""

    @abstractmethod
    def resized(self, problem: P, amounts: Mapping[str, int | None]) -> P:
        """Return the problem with other amounts, by names of resources; ``None`` lifts a limit.

        Raises
        ------
        InputError
            There can be no such problem.
        """

    def places(self, problem: P, part: str) -> tuple[str, ...]:  # noqa: ARG002
        """Where a part may be."""
        return ()

    def pinned(self, problem: P, part: str, place: str) -> P:  # noqa: ARG002
        """Return the problem whose part is in a place; its plans are plans of the problem.

        Raises
        ------
        UnsupportedProblemError
            Parts of this kind have no places.
        """
        raise UnsupportedProblemError(f"{self.noun} of this kind of problem cannot be moved")

    def require_place(self, problem: P, part: str, place: str) -> None:
        """Refuse a place where a part cannot be.

        Raises
        ------
        UnsupportedProblemError
            With the places of the part.
        """
        known = self.places(problem, part)
        if place not in known:
            listed = ", ".join(known[:MOST_LISTED]) or "none"
            text = f"{part!r} has no {self.place_noun} {place!r}; it has: {listed}"
            raise UnsupportedProblemError(text)

    def carried(self, plan: S) -> S:
        """Return a plan without its claims, which are about the problem it was made for."""
        item: Any = plan
        names = ("fingerprint", "value", "parent", "limits")
        carried: S = replace(item, **dict.fromkeys(n for n in names if hasattr(item, n)))
        return carried

    @abstractmethod
    def why(self, problem: P, plan: S, verdict: Verdict) -> Why:
        """Say what a valid plan's value hangs on."""

    @abstractmethod
    def moves(self, problem: P, before: S, other: P, after: S) -> tuple[Move, ...]:
        """List what differs between a plan of a problem and one of it or a variant."""
