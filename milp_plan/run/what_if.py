"""Other limits, other places: a problem that is changed a little and planned again, from a plan.

Nothing is guessed: a changed problem is planned for the seconds that are given, its plan is
checked, and where no better one was found in that time the answer says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any, Generic, TypeVar

from milp_plan.backends import Stop
from milp_plan.core import Amount, Finding, InputError, UnsupportedProblemError, Verdict
from milp_plan.core.amounts import size_text
from milp_plan.core.quantity import plain, units_of

from .kind import Measure
from .kinds import kind_of
from .reasons.base import Resource, Why
from .settings import ProgressHook, Settings
from .solving import solve

P = TypeVar("P")
S = TypeVar("S")

MORE_LINK = 2
"""A link more beside one that there is: so many times the bandwidth."""


@dataclass(frozen=True)
class Found(Generic[P, S]):
    """What planning a variant gave.

    Parameters
    ----------
    problem, plan, verdict
        The variant, its plan, checked on it; ``None`` without one.
    value, bound
        Of the variant; ``None`` for what is not known.
    stop, proved
        Why the search stopped; whether no plan of the variant is better.
    infeasible_because
        A proof in words that the variant has no plan.
    seconds
        What it took.
    started
        Whether the search began with a plan that is valid in the variant.
    """

    problem: P
    plan: S | None
    verdict: Verdict | None
    value: int | None
    bound: int | None
    stop: Stop
    proved: bool
    infeasible_because: str | None
    seconds: float
    started: bool


def plan_variant(
    problem: P,
    settings: Settings,
    starts: Sequence[Any] = (),
    on_progress: ProgressHook | None = None,
) -> Found[P, Any]:
    """Plan a problem from plans of its neighbours; never worse than one that is valid here.

    Parameters
    ----------
    problem
        The variant.
    settings
        How, and for how long. ``start`` and ``hints`` are set here.
    starts
        Plans of similar problems.
    on_progress
        As in :func:`~.solving.solve`.
    """
    kind = kind_of(problem)
    carried = [kind.reasons().carried(plan) for plan in starts]
    verdicts = [(kind.verify(problem, plan), plan) for plan in carried]
    valid = [(v.value, n) for n, (v, _) in enumerate(verdicts) if v.ok and v.value is not None]
    verdict, start = verdicts[min(valid)[1]] if valid else (None, None)
    settings = replace(settings, start=start, hints=tuple(carried))
    outcome = solve(problem, settings, on_progress, derived=True)
    value, plan, checked = outcome.value, outcome.plan, outcome.verdict
    known = None if verdict is None else verdict.value
    if known is not None and (value is None or known < value):  # a strategy that takes no start
        value, checked = known, verdict
        plan = kind.claimed(problem, start, known, getattr(start, "planner", "") or "start")
    return Found(
        problem,
        plan,
        checked,
        value,
        outcome.bound,
        outcome.stop,
        value is not None and value == outcome.bound,
        None if plan is not None else outcome.infeasible_because,
        outcome.seconds,
        verdict is not None,
    )


@dataclass(frozen=True)
class Question:
    """A change that a user asks about.

    Parameters
    ----------
    text
        In words: ``"memory +1 GiB"``.
    asked
        The problem that it is asked about.
    problem
        The variant.
    kept
        Whether every plan of the problem is one of the variant too.
    within
        Whether every plan of the variant is one of the problem too.
    """

    text: str
    asked: Any
    problem: Any
    kept: bool
    within: bool


@dataclass(frozen=True)
class Effect:
    """What a change does to the value.

    Parameters
    ----------
    question
        What was asked.
    found
        What planning it gave.
    before
        Value of the plan without the change.
    """

    question: Question
    found: Found[Any, Any]
    before: int | None

    @property
    def asked(self) -> Measure:
        """What values count without the change."""
        return kind_of(self.question.asked).measure(self.question.asked)

    @property
    def measure(self) -> Measure:
        """What values of the changed problem count; its ticks may be others."""
        return kind_of(self.found.problem).measure(self.found.problem)

    @property
    def change(self) -> Fraction | None:
        """Value with it less value without it; ``None`` where one of them is not known.

        In ticks of the problem without the change.
        """
        found = self.measure.amount(self.found.value)
        if found is None or self.before is None:
            return None
        return found * self.asked.per_unit - self.before


def more_memory(problem: Any, amount: Amount, *, less: bool = False) -> Question:
    """Ask for so much more (or less) of every memory that has a limit.

    Raises
    ------
    InputError
        The problem names no unit that the amount could be converted to.
    UnsupportedProblemError
        No memory has a limit.
    """
    reasons = kind_of(problem).reasons()
    known = [r for r in reasons.resources(problem) if r.what == "memory" and r.amount is not None]
    if not known:
        raise UnsupportedProblemError(f"{problem.name}: memory: no limit that could be changed")
    units, sign = units_of(problem), "-" if less else "+"
    try:
        counts = units.counts(amount) * (-1 if less else 1)
    except ValueError as error:
        found, form = f"memory{sign}{amount}", f"memory{sign}{plain(amount.number)}"
        remedy = f"ask {form}, which counts as the file does"
        raise InputError([Finding("what if", found, f"{form} ({error})", remedy)]) from None
    amounts = {r.name: max(0, floor((r.amount or 0) + counts)) for r in known}
    text = f"memory {sign}{size_text(units, abs(counts))} each"
    variant = reasons.resized(problem, amounts)
    return Question(text, problem, variant, not less, less)


def more_devices(problem: Any, count: int) -> Question:
    """Ask for so many devices more (or less, below 0), of each sort that is counted.

    Raises
    ------
    UnsupportedProblemError
        Devices are no part of such problems.
    """
    reasons = kind_of(problem).reasons()
    known = [r for r in reasons.resources(problem) if r.what == "devices"]
    if not known:
        raise UnsupportedProblemError(f"{problem.name}: devices: none that are counted")
    variant = reasons.resized(problem, {r.name: (r.amount or 0) + count for r in known})
    return Question(f"devices {count:+d}", problem, variant, count >= 0, count <= 0)


def more_link(problem: Any, link: str) -> Question:
    """Ask for one link more beside one that there is, which then carries twice as much.

    Raises
    ------
    UnsupportedProblemError
        There is no such link.
    """
    reasons = kind_of(problem).reasons()
    known = {r.name: r for r in reasons.resources(problem) if r.what == "link"}
    if link not in known:
        names = ", ".join(known) or "none"
        text = f"{problem.name}: link: {link!r} is none of its links: {names}"
        raise UnsupportedProblemError(text)
    amount = known[link].amount or 0
    variant = reasons.resized(problem, {link: amount * MORE_LINK})
    text = f"one {link} more, as fast as that there is"
    return Question(text, problem, variant, kept=False, within=False)


def links(problem: Any) -> tuple[Resource, ...]:
    """What a problem knows of bandwidths."""
    known = kind_of(problem).reasons().resources(problem)
    return tuple(entry for entry in known if entry.what == "link")


def moved(problem: Any, part: str, place: str) -> Question:
    """Ask for a part in a place: an operator on a device, with a strategy, by a sender.

    Raises
    ------
    UnsupportedProblemError
        There is no such part, or no such place for it.
    """
    reasons = kind_of(problem).reasons()
    if part not in reasons.parts(problem):
        text = f"{problem.name}: {part!r} is none of its {reasons.noun}"
        raise UnsupportedProblemError(text)
    variant = reasons.pinned(problem, part, place)
    return Question(f"{part} on {place}", problem, variant, kept=False, within=True)


DEFAULTS = ("memory+1GiB", "devices+1", "link")
"""What is asked where nothing is named: each that means something for the problem."""


def questions(problem: Any, texts: Sequence[str], why: Why) -> list[Question]:
    """Read questions of users.

    Parameters
    ----------
    problem
        Of any kind.
    texts
        ``usual``, ``memory+1GiB``, ``memory-512MiB``, ``devices+1``, ``devices-1``, ``link`` (one
        more beside the busiest), ``link:NAME``, ``move:PART=PLACE``.
    why
        Of the plan without the change: it says which link is the busiest.

    Raises
    ------
    InputError
        A text is none of these.
    UnsupportedProblemError
        It means nothing for the problem.
    """
    found = []
    for text in texts:
        if text != "usual":
            found.append(_question(problem, text, why))
            continue
        for usual in DEFAULTS:
            with suppress(UnsupportedProblemError):
                found.append(_question(problem, usual, why))
    return found


def _question(problem: Any, text: str, why: Why) -> Question:
    memory = re.fullmatch(r"memory([+-])(.+)", text)
    devices = re.fullmatch(r"devices([+-]\d+)", text)
    part, equals, place = text.removeprefix("move:").rpartition("=")
    try:
        if memory is not None:
            return more_memory(problem, Amount.read(memory[2]), less=memory[1] == "-")
    except ValueError as error:
        raise InputError([Finding("what if", str(error), "a size", "correct it")]) from None
    if devices is not None:
        return more_devices(problem, int(devices[1]))
    if text == "link" or text.startswith("link:"):
        name = text.removeprefix("link").removeprefix(":")
        names = [entry.name for entry in links(problem)]
        wanted = name or _busiest(problem, why)
        return more_link(problem, f"link {wanted}" if f"link {wanted}" in names else wanted)
    if text.startswith("move:") and equals:
        return moved(problem, part, place)
    expected = "memory+1GiB, devices+1, link, link:NAME, move:PART=PLACE or usual"
    raise InputError([Finding("what if", repr(text), expected, "ask one of these")])


def _busiest(problem: Any, why: Why) -> str:
    """Name of the link that the plan uses most; the first one where it says nothing of links."""
    known = links(problem)
    if not known:
        raise UnsupportedProblemError(f"{problem.name}: link: it has none")
    for entry in why.usage:
        for link in known:
            if entry.name in link.users:
                return link.name
    return known[0].name


def ask(
    question: Question,
    plan: Any,
    before: int | None,
    settings: Settings,
    on_progress: ProgressHook | None = None,
) -> Effect:
    """Plan what a question asks for, from a plan without the change."""
    found = plan_variant(question.problem, settings, [plan], on_progress)
    return Effect(question, found, before)
