"""What-if questions: plans a problem again with other limits or places, starting from a plan.

A changed problem is planned within a time limit, its plan is checked, and the answer says so if no
better plan was found in that time.
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

SECOND_LINK_FACTOR = 2
"""Factor of the bandwidth of a link to which an equal one is added."""


@dataclass(frozen=True)
class VariantResult(Generic[P, S]):
    """The result of planning a variant of a problem.

    Parameters
    ----------
    problem, plan, verdict
        The variant, its plan, and the checker's verdict; ``None`` without a plan.
    value, bound
        Value and bound on the variant; ``None`` where not known.
    stop, proved
        Why the search stopped; whether no plan of the variant is better.
    infeasible_reason
        A proof in words that the variant has no plan.
    seconds
        Time of the run.
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
    infeasible_reason: str | None
    seconds: float
    started: bool


def plan_variant(
    problem: P,
    settings: Settings,
    starts: Sequence[Any] = (),
    on_progress: ProgressHook | None = None,
) -> VariantResult[P, Any]:
    """Plan a problem from plans of similar ones; the result is never worse than a valid start.

    Parameters
    ----------
    problem
        The variant.
    settings
        Settings of the run; ``start`` and ``hints`` are replaced.
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
    if known is not None and (value is None or known < value):  # the strategy takes no start
        value, checked = known, verdict
        plan = kind.claimed(problem, start, known, getattr(start, "planner", "") or "start")
    return VariantResult(
        problem,
        plan,
        checked,
        value,
        outcome.bound,
        outcome.stop,
        value is not None and value == outcome.bound,
        None if plan is not None else outcome.infeasible_reason,
        outcome.seconds,
        verdict is not None,
    )


@dataclass(frozen=True)
class WhatIf:
    """A change of a problem that a user asks about.

    Parameters
    ----------
    text
        The change in words: ``"memory +1 GiB"``.
    original
        The problem without the change.
    problem
        The problem with the change.
    is_relaxation
        Whether every plan of the original is also a plan of the changed problem.
    """

    text: str
    original: Any
    problem: Any
    is_relaxation: bool


@dataclass(frozen=True)
class Effect:
    """The effect of a change on the value.

    Parameters
    ----------
    question
        The change.
    result
        The result of planning the changed problem.
    before
        Value of the plan without the change.
    """

    question: WhatIf
    result: VariantResult[Any, Any]
    before: int | None

    @property
    def original_measure(self) -> Measure:
        """Name and unit of the objective without the change."""
        return kind_of(self.question.original).measure(self.question.original)

    @property
    def measure(self) -> Measure:
        """Name and unit of the objective with the change; its ticks may be others."""
        return kind_of(self.result.problem).measure(self.result.problem)

    @property
    def change(self) -> Fraction | None:
        """Value with the change minus value without it, in ticks of the original problem.

        ``None`` where one of them is not known.
        """
        after = self.measure.amount(self.result.value)
        if after is None or self.before is None:
            return None
        return after * self.original_measure.per_unit - self.before


def more_memory(problem: Any, amount: Amount, *, less: bool = False) -> WhatIf:
    """Return the change that adds (or removes) an amount of every limited memory.

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
    return WhatIf(text, problem, variant, is_relaxation=not less)


def more_devices(problem: Any, count: int) -> WhatIf:
    """Return the change that adds devices (removes them, if negative) of each counted sort.

    Raises
    ------
    UnsupportedProblemError
        Problems of this kind do not count devices.
    """
    reasons = kind_of(problem).reasons()
    known = [r for r in reasons.resources(problem) if r.what == "devices"]
    if not known:
        raise UnsupportedProblemError(f"{problem.name}: devices: none that are counted")
    variant = reasons.resized(problem, {r.name: (r.amount or 0) + count for r in known})
    return WhatIf(f"devices {count:+d}", problem, variant, count >= 0)


def more_link(problem: Any, link: str) -> WhatIf:
    """Return the change that adds an equal link to a link, which doubles its bandwidth.

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
    variant = reasons.resized(problem, {link: amount * SECOND_LINK_FACTOR})
    text = f"one {link} more, as fast as that there is"
    return WhatIf(text, problem, variant, is_relaxation=False)


def links(problem: Any) -> tuple[Resource, ...]:
    """Return the links of a problem, with their bandwidths."""
    known = kind_of(problem).reasons().resources(problem)
    return tuple(entry for entry in known if entry.what == "link")


def moved(problem: Any, part: str, place: str) -> WhatIf:
    """Return the change that fixes the place of a part: a device, a sharding, a sender.

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
    return WhatIf(f"{part} on {place}", problem, variant, is_relaxation=False)


DEFAULTS = ("memory+1GiB", "devices+1", "link")
"""Changes that ``usual`` stands for, as far as the problem supports them."""


def questions(problem: Any, texts: Sequence[str], why: Why) -> list[WhatIf]:
    """Read changes that a user asks about.

    Parameters
    ----------
    problem
        A problem of any kind.
    texts
        ``usual``, ``memory+1GiB``, ``memory-512MiB``, ``devices+1``, ``devices-1``, ``link`` (a
        second link like the busiest one), ``link:NAME``, ``move:PART=PLACE``.
    why
        Reasons for the value without the change, which name the busiest link.

    Raises
    ------
    InputError
        A text has none of these forms.
    UnsupportedProblemError
        The problem does not support a change.
    """
    changes = []
    for text in texts:
        if text != "usual":
            changes.append(_what_if(problem, text, why))
            continue
        for usual in DEFAULTS:
            with suppress(UnsupportedProblemError):
                changes.append(_what_if(problem, usual, why))
    return changes


def _what_if(problem: Any, text: str, why: Why) -> WhatIf:
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
        link = name or _busiest(problem, why)
        return more_link(problem, f"link {link}" if f"link {link}" in names else link)
    if text.startswith("move:") and equals:
        return moved(problem, part, place)
    expected = "memory+1GiB, devices+1, link, link:NAME, move:PART=PLACE or usual"
    raise InputError([Finding("what if", repr(text), expected, "ask one of these")])


def _busiest(problem: Any, why: Why) -> str:
    """Return the link that the plan uses most; the first one where the plan uses none."""
    known = links(problem)
    if not known:
        raise UnsupportedProblemError(f"{problem.name}: link: it has none")
    for entry in why.usage:
        for link in known:
            if entry.name in link.users:
                return link.name
    return known[0].name


def ask(
    question: WhatIf,
    plan: Any,
    before: int | None,
    settings: Settings,
    on_progress: ProgressHook | None = None,
) -> Effect:
    """Plan the changed problem, starting from a plan without the change."""
    result = plan_variant(question.problem, settings, [plan], on_progress)
    return Effect(question, result, before)
