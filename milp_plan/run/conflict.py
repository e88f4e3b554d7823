"""Problems without a plan: parts and limits that cannot go together, and the least that helps.

*A conflicting set* is a set of parts (operators, buffers, jobs, ...) and limits of which a proof
says that it has no plan even without everything else. Leaving parts out and lifting limits only
ever makes more plans possible, so each step of a deletion filter (Chinneck and Dravnieks, "Locating
minimal infeasible constraint sets in linear programs", ORSA Journal on Computing 3, 1991) that is
proved infeasible may be kept for good. The set is called *smallest* only where for each of its
members a checked plan exists without it: then it is minimal by inclusion, and that is proved.

*A relaxation* is found by bisection: a checked plan exists with it; with a little less, none does,
where that is proved, or none was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from milp_plan.backends import Stop
from milp_plan.core import Counts, InputError, UnsupportedProblemError
from milp_plan.core.budget import Budget

from .kind import Kind
from .kinds import kind_of
from .reasons.base import Reasons, Resource, What, scaled
from .settings import Settings
from .solving import solve

ANY_PLAN = float("inf")
"""Gap at which a run ends with its first plan."""

SET_SHARE = 0.6
"""Part of the time for the conflicting set; the rest is for relaxations."""

LEAST_TRY_S = 0.2
TRY_S = 3.0
"""Seconds for a problem that no proof and no plan is known of: at least, where there is time left,
and for one of the steps of a bisection."""

PERCENT = 100
MOST_PERCENT = 6_400
MOST_MORE_DEVICES = 64


@dataclass(frozen=True)
class Conflict:
    """Parts and limits that no plan keeps together.

    Parameters
    ----------
    noun, parts
        What parts are called, and which.
    limits
        Which.
    because
        The proof for this set alone.
    smallest
        Whether a checked plan exists without any one member: none can be left out.
    open
        Members without which neither a plan nor a proof was found.
    """

    noun: str
    parts: tuple[str, ...]
    limits: tuple[Resource, ...]
    because: str
    smallest: bool
    open: tuple[str, ...]


@dataclass(frozen=True)
class Raised:
    """A limit, and an amount of it with which a plan exists."""

    name: str
    amount: int
    enough: int
    counts: Counts


@dataclass(frozen=True)
class Relaxation:
    """More of something with which a plan exists.

    Parameters
    ----------
    what
        Of what: all limits of this sort grow alike.
    percent
        How much, of what there is: the least that was found, in steps of one percent.
    raised
        The limits as they are, with the amounts that are enough.
    value
        Of the checked plan that exists then.
    proved_below
        The largest percentage at which no plan is proved to exist: nothing is known in between.
    """

    what: What
    percent: int
    raised: tuple[Raised, ...]
    value: int
    proved_below: int

    @property
    def least(self) -> bool:
        """Whether one percent less is proved not to be enough."""
        return self.proved_below == self.percent - 1


@dataclass(frozen=True)
class Infeasibility:
    """What is known of a problem without a plan.

    ``helpless`` are sorts of limits that were raised as far as :data:`MOST_PERCENT` in vain.
    """

    because: str
    conflict: Conflict | None
    relaxations: tuple[Relaxation, ...]
    helpless: tuple[What, ...]


@dataclass(frozen=True)
class _Seen:
    """What is known of a problem: a proof that it has no plan, the value of one, or neither."""

    proof: str | None = None
    value: int | None = None


class _Judge:
    """Proves and plans problems of one kind."""

    def __init__(self, kind: Kind[Any, Any], settings: Settings, budget: Budget) -> None:
        self.kind, self.settings, self.budget = kind, settings, budget

    def proof(self, problem: Any) -> str | None:
        """The quick proofs of the kind alone."""
        return self.kind.obstacle(problem, self.budget.part("obstacle", 0.1, of_limit=False))

    def look(self, problem: Any, most_s: float = TRY_S) -> _Seen:
        """Search for a plan or a proof, for a little while."""
        proof = self.proof(problem)
        if proof is not None:
            return _Seen(proof)
        left = self.budget.left_s
        if left <= 0:
            return _Seen()
        settings = replace(self.settings, time_limit_s=min(most_s, left), gap=ANY_PLAN)
        try:
            outcome = solve(problem, settings, derived=True)
        except UnsupportedProblemError:  # a strategy that needs what was left out
            return _Seen()
        if outcome.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return _Seen(outcome.infeasible_because, outcome.value)


class _Filter:
    """The deletion filter over parts and limits of a problem."""

    def __init__(self, problem: Any, judge: _Judge, because: str) -> None:
        self.problem, self.judge, self.because = problem, judge, because
        self.reasons: Reasons[Any, Any] = judge.kind.reasons()
        self.limits = {
            entry.name: entry
            for entry in self.reasons.resources(problem)
            if entry.lifted and entry.amount is not None
        }
        parts = [f"part {name}" for name in self.reasons.parts(problem)]
        self.members = [*parts, *(f"limit {name}" for name in self.limits)]

    def without(self, left_out: set[str]) -> Any | None:
        """The problem of what is left; ``None`` where nothing is left to plan."""
        members = [name for name in self.members if name not in left_out]
        parts = [name[5:] for name in members if name.startswith("part ")]
        lifted = [n for n in self.limits if f"limit {n}" not in members]
        try:
            rest = self.problem
            if lifted:
                rest = self.reasons.resized(rest, dict.fromkeys(lifted))
            if len(parts) < len(self.reasons.parts(self.problem)):
                some = parts or self.reasons.partless
                rest = self.reasons.keep(rest, parts) if some else None
        except InputError:  # they make no problem
            return self.problem
        return rest

    def coarse(self) -> None:
        """Leave out halves, quarters, ... as long as the quick proofs hold."""
        size = max(1, len(self.members) // 2)
        quick = self.judge.proof(self.problem) is not None
        while size >= 1 and quick and not self.judge.budget.over:
            place = 0
            while place < len(self.members) and not self.judge.budget.over:
                chunk = set(self.members[place : place + size])
                rest = self.without(chunk) if len(chunk) < len(self.members) else None
                proof = None if rest is None or rest is self.problem else self.judge.proof(rest)
                if proof is None:
                    place += size
                else:
                    self.drop(chunk, proof)
            size //= 2

    def drop(self, chunk: set[str], proof: str) -> None:
        """Leave members out for good."""
        self.members = [name for name in self.members if name not in chunk]
        self.because = proof

    def fine(self) -> list[str]:
        """Try each member by search as well; return those that nothing is known about."""
        unknown = []
        members = list(self.members)
        for number, name in enumerate(members):
            rest = self.without({name})
            if rest is None:  # nothing is left: the empty plan
                continue
            share = self.judge.budget.left_s / (len(members) - number)
            seen = self.judge.look(rest, max(LEAST_TRY_S, share))
            if seen.proof is not None:
                self.drop({name}, seen.proof)
            elif seen.value is None:
                unknown.append(name)
        return unknown

    def conflict(self) -> Conflict:
        """Filter, and say what is left."""
        self.coarse()
        unknown = self.fine()
        parts = tuple(name[5:] for name in self.members if name.startswith("part "))
        limits = tuple(self.limits[n[6:]] for n in self.members if n.startswith("limit "))
        still = tuple(n.partition(" ")[2] for n in unknown if n in self.members)
        return Conflict(self.reasons.noun, parts, limits, self.because, not still, still)


def why_infeasible(
    problem: Any, because: str, time_limit_s: float = 10.0, settings: Settings | None = None
) -> Infeasibility:
    """Find a conflicting set, and the cheapest relaxations, of a problem without a plan.

    Parameters
    ----------
    problem
        Of any kind, of which it is proved that it has no plan.
    because
        That proof.
    time_limit_s
        Seconds for everything; what is not settled by then is told as open.
    settings
        How variants are planned; limits and start are set here.
    """
    kind = kind_of(problem)
    budget = Budget(time_limit_s)
    settings = replace(settings or Settings(), start=None, hints=(), only=False)
    part = budget.part("conflict", SET_SHARE)
    conflict = _Filter(problem, _Judge(kind, settings, part), because).conflict()
    judge, found, vain = _Judge(kind, settings, budget), [], []
    reasons = kind.reasons()
    sorts = dict.fromkeys(r.what for r in reasons.resources(problem) if r.what != "link")
    for what in sorts:
        known = [r for r in reasons.resources(problem) if r.what == what and r.amount is not None]
        if not known:
            continue
        least = _least(problem, known, judge)
        if least is None:
            vain.append(what)
        else:
            found.append(least)
    return Infeasibility(because, conflict, tuple(found), tuple(vain))


def _least(problem: Any, known: list[Resource], judge: _Judge) -> Relaxation | None:
    """Bisect over the factor of some limits; ``None`` where the largest does not help."""
    reasons = judge.kind.reasons()
    amounts: dict[int, dict[str, int]] = {}

    def look(percent: int) -> _Seen:
        amounts[percent] = scaled(known, Fraction(percent, PERCENT))
        if judge.budget.over:
            return _Seen()
        return judge.look(reasons.resized(problem, dict(amounts[percent])))

    low, proved, best = PERCENT, PERCENT, None
    for percent in _growing(known):
        seen = look(percent)
        if seen.value is not None:
            best = (percent, seen.value)
            break
        low, proved = percent, percent if seen.proof is not None else proved
    if best is None:
        return None
    top = best[0]
    while top - proved > 1 and not judge.budget.over:  # proofs are quick: first as far as they go
        middle = (proved + top) // 2
        variant = reasons.resized(problem, scaled(known, Fraction(middle, PERCENT)))
        if judge.proof(variant) is None:
            top = middle
        else:
            low, proved = max(low, middle), middle
    middle = low + 1  # where they end there is a plan, most of the time
    while best[0] - low > 1 and not judge.budget.over:
        seen = look(middle)
        if seen.value is not None:
            best = (middle, seen.value)
        else:
            low = middle
            proved = middle if seen.proof is not None else proved
        middle = (low + best[0]) // 2
    percent, value = best
    return Relaxation(
        known[0].what,
        percent,
        tuple(
            Raised(entry.name, entry.amount or 0, amounts[percent][entry.name], entry.counts)
            for entry in known
        ),
        value,
        proved,
    )


def _growing(known: list[Resource]) -> Iterator[int]:
    """Percentages to try: twice as much, four times, ... within reason."""
    percent = 2 * PERCENT
    of_devices = known[0].what == "devices"
    while percent <= MOST_PERCENT:
        most = max(entry.amount or 0 for entry in known) * percent // PERCENT
        if of_devices and most > MOST_MORE_DEVICES + max(entry.amount or 0 for entry in known):
            return
        yield percent
        percent *= 2
