"""The interface of a kind to parts and limits of its problems, and to the reasons for a value.

Conflicts leave out parts and lift limits, what-if questions resize limits and fix places of parts,
sweeps resize limits, comparisons list moves, and ``explain`` shows reasons.
Each kind of :mod:`milp_plan.kinds` returns its :class:`Reasons`.
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

MAX_LISTED = 12
"""Maximum number of places that a message lists."""

What = Literal["memory", "host memory", "devices", "link", "added time", "price"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A limited resource of a problem.

    Parameters
    ----------
    name
        Unique name in the problem: ``"memory of gpu0"``, ``"link gpu0->gpu1"``, ``"devices"``.
    what
        The sort of the resource; resources of one sort are scaled together.
    amount
        The available amount; ``None`` without a limit.
    counts
        Whether the amount counts time, sizes or things; for links, bytes per 10^9 ticks.
    lifted
        Whether the limit can be lifted.
    users
        Names in :attr:`Why.usage` of the transfers over a link.
    """

    name: str
    what: What
    amount: int | None
    counts: Counts
    lifted: bool = True
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """One task of the critical chain, which is in order of time.

    Parameters
    ----------
    name, block
        Name of the task, and the block it belongs to, if any.
    resources
        Resources that the task occupies.
    start, stop, waited
        Start and end in ticks, and the ticks between the end of the task before (or 0) and its
        start.
    cause
        What it waited for: ``"value"``, ``"device"``, ``"channel"``, ``"memory"``, ``"release"``,
        ``"start"`` (nothing: it starts at once) or ``"unknown"`` (slack).
    behind
        Name of the task whose end it waited for; empty for none.
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
    """An amount that a plan uses, and the available amount."""

    name: str
    what: str
    amount: int
    whole: int | None
    counts: Counts

    @property
    def share(self) -> float | None:
        """Used share of the available amount; ``None`` without a limit."""
        return self.amount / self.whole if self.whole else None


@dataclass(frozen=True, slots=True)
class Block:
    """Parts of a problem that belong together: a layer, a micro-batch, a job, a stage.

    Parameters
    ----------
    name, sort
        Name and sort of the block.
    parts
        Number of parts.
    places
        Places of the parts.
    amount, on_chain
        Time or cost of all parts, and of those on the critical chain (``None`` without a chain).
    counts
        What the amounts count.
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
    """A change that would improve a value.

    Parameters
    ----------
    text
        The change in words.
    at_most
        Upper bound on the improvement, in the unit of the value; ``None`` where unknown.
    """

    text: str
    at_most: int | None = None


@dataclass(frozen=True)
class Why:
    """The reasons for the value of a valid plan.

    Parameters
    ----------
    chain
        The critical chain of tasks that ends at the value; empty where time plays no part.
    usage
        Devices, channels and other resources by how busy they are, the busiest first.
    limits
        Limits and what the plan uses of them, the fullest first.
    binding
        Names of limits that the plan uses up, or for which its chain waits.
    blocks
        Summary by block.
    remedies
        Changes that would shorten the chain or lower the cost, the most promising first.
    """

    chain: tuple[Link, ...] = ()
    usage: tuple[Usage, ...] = ()
    limits: tuple[Usage, ...] = ()
    binding: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Move:
    """Parts with the same difference between two plans.

    Parameters
    ----------
    what
        What differs: ``"device"``, ``"strategy"``, ``"start"``, ``"runs"``, ...
    before, after
        The differing property in the first plan and in the second.
    parts
        Names of the parts.
    cost
        Change of the components of the value: ``{"work": 7, "transfers": -3}``.
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
        Parts, each with what differs and its values before and after.
    cost
        Returns the cost of the changes of some parts.
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
    """Return the names of limits that are used up."""
    return tuple(entry.name for entry in limits if entry.amount == entry.whole)


def largest_first(usage: Iterable[Usage]) -> tuple[Usage, ...]:
    """Return usages by amount, then by name."""
    return tuple(sorted(usage, key=lambda entry: (-entry.amount, entry.name)))


def scaled(resources: Collection[Resource], factor: Fraction) -> dict[str, int]:
    """Return amounts of limited resources times a factor, rounded down, at least 1 unless 0."""
    return {
        entry.name: max(min(1, entry.amount), int(entry.amount * factor))
        for entry in resources
        if entry.amount is not None
    }


@dataclass(frozen=True, slots=True)
class Task:
    """A task that takes time, occupies resources, and may wait for other tasks.

    ``inputs`` are names of tasks whose ends it waits for; ``release`` is its earliest start.
    """

    name: str
    block: str | None
    resources: tuple[str, ...]
    start: int
    stop: int
    inputs: tuple[str, ...] = ()
    release: int = 0


def chain_of(tasks: Sequence[Task]) -> tuple[Link, ...]:
    """Return the chain from the last task back, each time to the latest task that it waited for."""
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
    """Parts and limits of the problems of a kind, and the reasons for values.

    Attributes
    ----------
    noun
        Noun for parts: ``"operators"``.
    members
        Attribute of a problem that lists its parts; each part has a name.
    place_noun
        Noun for a place of a part.
    partless
        Whether a problem without any part still needs a plan.
    """

    noun: ClassVar[str]
    members: ClassVar[str] = ""
    place_noun: ClassVar[str] = "place"
    partless: ClassVar[bool] = False

    def parts(self, problem: P) -> tuple[str, ...]:
        """Return the names of parts that can be left out."""
        return tuple(part.name for part in getattr(problem, self.members))

    def keep(self, problem: P, names: Collection[str]) -> P:
        """Return the problem with only some parts; every plan of the problem gives one of it.

        Raises
        ------
        InputError
            The parts do not form a valid problem.
        """
        item: Any = problem
        selected = set(names)
        parts = tuple(part for part in getattr(item, self.members) if part.name in selected)
        smaller: P = replace(item, **{self.members: parts})
        return smaller

    @abstractmethod
    def resources(self, problem: P) -> tuple[Resource, ...]:
        """Return the resources, also those without a limit."""

    @abstractmethod
    def resized(self, problem: P, amounts: Mapping[str, int | None]) -> P:
        """Return the problem with other amounts, by names of resources; ``None`` lifts a limit.

        Raises
        ------
        InputError
            A problem with these amounts is invalid.
        """

    def places(self, problem: P, part: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return the places where a part may be."""
        return ()

    def pinned(self, problem: P, part: str, place: str) -> P:  # noqa: ARG002
        """Return the problem with a part fixed in a place; its plans are plans of the problem.

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
            The message lists the places of the part.
        """
        known = self.places(problem, part)
        if place not in known:
            listed = ", ".join(known[:MAX_LISTED]) or "none"
            text = f"{part!r} has no {self.place_noun} {place!r}; it has: {listed}"
            raise UnsupportedProblemError(text)

    def carried(self, plan: S) -> S:
        """Return a plan without its claims, which refer to the problem it was made for."""
        item: Any = plan
        names = ("fingerprint", "value", "parent", "limits")
        carried: S = replace(item, **dict.fromkeys(n for n in names if hasattr(item, n)))
        return carried

    @abstractmethod
    def why(self, problem: P, plan: S, verdict: Verdict) -> Why:
        """Return the reasons for the value of a valid plan."""

    @abstractmethod
    def moves(self, problem: P, before: S, other: P, after: S) -> tuple[Move, ...]:
        """Return the differences between a plan of a problem and one of it or of a variant."""
