"""Explains infeasible problems: conflicting sets of parts and limits, and smallest relaxations.

*A conflicting set* is a set of parts (operators, buffers, jobs, ...) and limits that is proved to
have no plan even without everything else. Leaving out parts and lifting limits only adds plans, so
each step of a deletion filter (Chinneck and Dravnieks, "Locating minimal infeasible constraint sets
in linear programs", ORSA Journal on Computing 3, 1991) that is proved infeasible is final. The set
is called *smallest* only if for each of its members a checked plan exists without it: then it is
proved to be minimal by inclusion.

*A relaxation* is found by bisection: a checked plan exists with it; with one step less, either no
plan exists, which is then proved, or none was found.
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
"""Gap at which a run stops with its first plan."""

SET_SHARE = 0.6
"""Share of the time for the conflicting set; the rest is for relaxations."""

MIN_SOLVE_S = 0.2
"""Minimum seconds for a problem without a proof or a plan, as far as time is left."""

SOLVE_S = 3.0
"""Seconds for a step of a bisection."""

PERCENT = 100

MAX_PERCENT = 6_400
"""Largest percentage of a limit that is tried."""

MAX_ADDED_DEVICES = 64
"""Largest number of devices that are added."""


@dataclass(frozen=True)
class Conflict:
    """A conflicting set of parts and limits.

    Parameters
    ----------
    noun, parts
        The noun for parts, and their names.
    limits
        The limits of the set.
    because
        The proof that the set has no plan.
    smallest
        Whether, without any one member, a checked plan exists.
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
    """A limit, its amount, and an amount with which a plan exists."""

    name: str
    amount: int
    enough: int
    counts: Counts


@dataclass(frozen=True)
class Relaxation:
    """Larger limits with which a plan exists.

    Parameters
    ----------
    what
        The sort of limits that are raised, all by the same factor.
    percent
        The smallest sufficient percentage that was found, in steps of one percent.
    raised
        The limits with their amounts before and after.
    value
        Value of the checked plan with the raised limits.
    proved_below
        The largest percentage that is proved to be too small; nothing is known in between.
    """

    what: What
    percent: int
    raised: tuple[Raised, ...]
    value: int
    proved_below: int

    @property
    def least(self) -> bool:
        """Whether one percent less is proved to be too small."""
        return self.proved_below == self.percent - 1


@dataclass(frozen=True)
class Infeasibility:
    """Explanation of an infeasible problem.

    Parameters
    ----------
    because
        The proof that no plan exists.
    conflict, relaxations
        A conflicting set, and the smallest relaxations that were found.
    helpless
        Sorts of limits that did not help, even when raised to :data:`MAX_PERCENT`.
    """

    because: str
    conflict: Conflict | None
    relaxations: tuple[Relaxation, ...]
    helpless: tuple[What, ...]


@dataclass(frozen=True)
class _Status:
    """Status of a problem: a proof that it has no plan, the value of one, or neither."""

    proof: str | None = None
    value: int | None = None


class _Oracle:
    """Searches for plans and infeasibility proofs of problems of one kind."""

    def __init__(self, kind: Kind[Any, Any], settings: Settings, budget: Budget) -> None:
        self.kind, self.settings, self.budget = kind, settings, budget

    def proof(self, problem: Any) -> str | None:
        """Return a proof that no plan exists by the kind's quick tests; ``None`` without one."""
        return self.kind.obstacle(problem, self.budget.part("obstacle", 0.1, of_limit=False))

    def status(self, problem: Any, limit_s: float = SOLVE_S) -> _Status:
        """Search for a plan or a proof within some seconds."""
        proof = self.proof(problem)
        if proof is not None:
            return _Status(proof)
        left = self.budget.left_s
        if left <= 0:
            return _Status()
        settings = replace(self.settings, time_limit_s=min(limit_s, left), gap=ANY_PLAN)
        try:
            outcome = solve(problem, settings, derived=True)
        except UnsupportedProblemError:  # a strategy that needs what was left out
            return _Status()
        if outcome.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return _Status(outcome.infeasible_reason, outcome.value)


class _Filter:
    """The deletion filter over parts and limits of a problem."""

    def __init__(self, problem: Any, oracle: _Oracle, because: str) -> None:
        self.problem, self.oracle, self.because = problem, oracle, because
        self.reasons: Reasons[Any, Any] = oracle.kind.reasons()
        self.limits = {
            entry.name: entry
            for entry in self.reasons.resources(problem)
            if entry.lifted and entry.amount is not None
        }
        parts = [f"part {name}" for name in self.reasons.parts(problem)]
        self.members = [*parts, *(f"limit {name}" for name in self.limits)]

    def without(self, left_out: set[str]) -> Any | None:
        """Return the problem without some members; ``None`` where nothing is left to plan."""
        members = [name for name in self.members if name not in left_out]
        parts = [name[5:] for name in members if name.startswith("part ")]
        lifted = [n for n in self.limits if f"limit {n}" not in members]
        try:
            rest = self.problem
            if lifted:
                rest = self.reasons.resized(rest, dict.fromkeys(lifted))
            if len(parts) < len(self.reasons.parts(self.problem)):
                plannable = parts or self.reasons.partless
                rest = self.reasons.keep(rest, parts) if plannable else None
        except InputError:  # the rest is not a valid problem
            return self.problem
        return rest

    def coarse(self) -> None:
        """Leave out halves, quarters, ... as long as quick tests prove infeasibility."""
        size = max(1, len(self.members) // 2)
        quick = self.oracle.proof(self.problem) is not None
        while size >= 1 and quick and not self.oracle.budget.over:
            place = 0
            while place < len(self.members) and not self.oracle.budget.over:
                chunk = set(self.members[place : place + size])
                rest = self.without(chunk) if len(chunk) < len(self.members) else None
                proof = None if rest is None or rest is self.problem else self.oracle.proof(rest)
                if proof is None:
                    place += size
                else:
                    self.drop(chunk, proof)
            size //= 2

    def drop(self, chunk: set[str], proof: str) -> None:
        """Remove members from the set, with the proof that the rest has no plan."""
        self.members = [name for name in self.members if name not in chunk]
        self.because = proof

    def fine(self) -> list[str]:
        """Test each member by search as well; return those with neither a plan nor a proof."""
        unknown = []
        members = list(self.members)
        for number, name in enumerate(members):
            rest = self.without({name})
            if rest is None:  # nothing is left: the empty plan
                continue
            share = self.oracle.budget.left_s / (len(members) - number)
            status = self.oracle.status(rest, max(MIN_SOLVE_S, share))
            if status.proof is not None:
                self.drop({name}, status.proof)
            elif status.value is None:
                unknown.append(name)
        return unknown

    def conflict(self) -> Conflict:
        """Run the filter and return the conflicting set."""
        self.coarse()
        unknown = self.fine()
        parts = tuple(name[5:] for name in self.members if name.startswith("part "))
        limits = tuple(self.limits[n[6:]] for n in self.members if n.startswith("limit "))
        still = tuple(n.partition(" ")[2] for n in unknown if n in self.members)
        return Conflict(self.reasons.noun, parts, limits, self.because, not still, still)


def why_infeasible(problem: Any, because: str, time_limit_s: float = 10.0) -> Infeasibility:
    """Return a conflicting set and the smallest relaxations of an infeasible problem.

    Parameters
    ----------
    problem
        A problem of any kind that is proved to have no plan.
    because
        The proof.
    time_limit_s
        Time limit for everything; members that are not settled by then are listed as open.
    """
    kind, settings = kind_of(problem), Settings()
    budget = Budget(time_limit_s)
    part = budget.part("conflict", SET_SHARE)
    conflict = _Filter(problem, _Oracle(kind, settings, part), because).conflict()
    oracle, relaxations, helpless = _Oracle(kind, settings, budget), [], []
    reasons = kind.reasons()
    sorts = dict.fromkeys(r.what for r in reasons.resources(problem) if r.what != "link")
    for what in sorts:
        known = [r for r in reasons.resources(problem) if r.what == what and r.amount is not None]
        if not known:
            continue
        least = _least(problem, known, oracle)
        if least is None:
            helpless.append(what)
        else:
            relaxations.append(least)
    return Infeasibility(because, conflict, tuple(relaxations), tuple(helpless))


def _least(problem: Any, known: list[Resource], oracle: _Oracle) -> Relaxation | None:
    """Bisect over the factor of some limits; return ``None`` where the largest does not help."""
    reasons = oracle.kind.reasons()
    amounts: dict[int, dict[str, int]] = {}

    def status_at(percent: int) -> _Status:
        amounts[percent] = scaled(known, Fraction(percent, PERCENT))
        if oracle.budget.over:
            return _Status()
        return oracle.status(reasons.resized(problem, dict(amounts[percent])))

    low, proved, best = PERCENT, PERCENT, None
    for percent in _growing(known):
        status = status_at(percent)
        if status.value is not None:
            best = (percent, status.value)
            break
        low, proved = percent, percent if status.proof is not None else proved
    if best is None:
        return None
    top = best[0]
    while top - proved > 1 and not oracle.budget.over:  # first bisect with quick proofs only
        middle = (proved + top) // 2
        variant = reasons.resized(problem, scaled(known, Fraction(middle, PERCENT)))
        if oracle.proof(variant) is None:
            top = middle
        else:
            low, proved = max(low, middle), middle
    middle = low + 1  # just above the last proof there usually is a plan
    while best[0] - low > 1 and not oracle.budget.over:
        status = status_at(middle)
        if status.value is not None:
            best = (middle, status.value)
        else:
            low = middle
            proved = middle if status.proof is not None else proved
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
    """Yield percentages to try: 200, 400, ... up to the maximum."""
    percent = 2 * PERCENT
    of_devices = known[0].what == "devices"
    while percent <= MAX_PERCENT:
        most = max(entry.amount or 0 for entry in known) * percent // PERCENT
        if of_devices and most > MAX_ADDED_DEVICES + max(entry.amount or 0 for entry in known):
            return
        yield percent
        percent *= 2
